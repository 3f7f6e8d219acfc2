/** A damaged database: what SQLite's own check finds, and what can still be read. */
import { Lists } from "@payments/core"
import type { DatabaseSync } from "node:sqlite"
import { tableOf } from "../engine/Columns.ts"
import { text } from "../engine/Rows.ts"
import type { Database } from "./SqliteClient.ts"
import { damageOf } from "./SqliteErrors.ts"

const mostLines = 100

/** What `PRAGMA integrity_check` finds, a line each. It names tables and indexes, and pages and rows by number. */
export const integrityOf = (db: Database): ReadonlyArray<string> => {
  try {
    return db.all(`PRAGMA integrity_check(${mostLines})`)
      .flatMap((row) => text(row, "integrity_check").split("\n"))
      .filter((line) => line !== "ok")
  } catch (error) {
    const damage = damageOf(error)
    if (damage === undefined) throw error
    return [damage]
  }
}

const count = new Intl.NumberFormat("en-US")

/** Which lists can still be read whole, and what to do with the file. */
export const adviceFor = (db: DatabaseSync): string => {
  const readable: Array<string> = []
  const lost: Array<string> = []
  for (const list of Lists.all) {
    const rows = rowsIn(db, tableOf(list))
    if (rows === undefined) lost.push(list.label)
    else readable.push(`${list.label} (${count.format(rows)})`)
  }
  const both = lost.length === 0
    ? `All rows can still be read: ${readable.join(", ")}.`
    : readable.length === 0
    ? "The rows of no list can be read whole."
    : `All rows can still be read of ${readable.join(", ")}; not of ${lost.join(", ")}.`
  return `${both} What the file alone has, such as its changes, \`sqlite3 FILE .recover\` may restore.`
}

/** How many rows the table has; undefined where some cannot be read. */
const rowsIn = (db: DatabaseSync, table: string): number | undefined => {
  try {
    // Reads every page of every row, and no index.
    const found = db.prepare(`SELECT count(*) AS n, max(length(raw) + length(hash)) FROM ${table} NOT INDEXED`).get()
    return Number(found?.["n"])
  } catch {
    return undefined
  }
}
