/** Reports on a damaged database: the result of SQLite's own check, and which lists are still readable. */
import { Lists } from "@payments/core"
import type { DatabaseSync } from "node:sqlite"
import { tableOf } from "../plan/Columns.ts"
import { readText, type Row } from "../store/StoredRows.ts"
import { damageOf } from "./SqliteErrors.ts"

const maxLines = 100

/** Returns the lines of `PRAGMA integrity_check`. They name tables and indexes, and pages and rows by number. */
export const integrityOf = (db: { readonly all: (sql: string) => ReadonlyArray<Row> }): ReadonlyArray<string> => {
  try {
    return db.all(`PRAGMA integrity_check(${maxLines})`)
      .flatMap((row) => readText(row, "integrity_check").split("\n"))
      .filter((line) => line !== "ok")
  } catch (error) {
    const damage = damageOf(error)
    if (damage === undefined) throw error
    return [damage]
  }
}

/** Returns the lists that are still completely readable, and the advice to recover the rest. */
export const adviceFor = (db: DatabaseSync): string => {
  const readable: Array<string> = []
  const lost: Array<string> = []
  for (const list of Lists.all) {
    const rows = rowsIn(db, tableOf(list))
    if (rows === undefined) lost.push(list.label)
    else readable.push(`${list.label} (${rows.toLocaleString("en-US")})`)
  }
  const state = lost.length === 0
    ? `All rows can still be read: ${readable.join(", ")}.`
    : readable.length === 0
    ? "No list can be read completely."
    : `All rows can still be read of ${readable.join(", ")}, but not of ${lost.join(", ")}.`
  return `${state} To restore data that only this file has, such as its changes, try \`sqlite3 FILE .recover\`.`
}

/** Returns the number of rows of the table, or undefined if a row cannot be read. */
const rowsIn = (db: DatabaseSync, table: string): number | undefined => {
  try {
    // This statement reads every page of every row, and no index.
    const found = db.prepare(`SELECT count(*) AS n, max(length(raw) + length(hash)) FROM ${table} NOT INDEXED`).get()
    return Number(found?.["n"])
  } catch {
    return undefined
  }
}
