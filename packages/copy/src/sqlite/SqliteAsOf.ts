/**
 * The tables of a file as they were after a change, as views of a private database with the same names. The file is
 * attached to it, so no statement reaches a table of the file by its name in SQL, `main.invoices`. All reads are of one
 * transaction.
 *
 * A temporary table has the values of the rows that have changed since, but only those of the columns that the statement
 * mentions. It is in a file without a name, and disappears with its process.
 */
import { Lists } from "@payments/core"
import { randomBytes } from "node:crypto"
import { realpathSync } from "node:fs"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import { layoutOf, recordIn, valueOf } from "../plan/Columns.ts"
import { contentHash } from "../plan/Plan.ts"
import { RowSet } from "../plan/RowSet.ts"
import {
  changesIntact,
  changesThen,
  columnsThen,
  laterChanges,
  laterTable,
  markOf,
  rowsIntact,
  rowsThen,
  textThen
} from "../sql/SqlAsOf.ts"
import { quoted, raw, render, type Statement } from "../sql/SqlStatement.ts"
import { type AsOf, type ListAsOf, plainTexts, removedMeanwhile, withoutHistory } from "../statement/AsOf.ts"
import { mentionsOf } from "../statement/Mentions.ts"
import { rowsOf } from "./SqliteRows.ts"

/** No statement can know the name, and reach the tables of the file by it. */
const schema = `copy_${randomBytes(16).toString("hex")}`

const sqlTypes = { text: "TEXT", integer: "INTEGER", boolean: "INTEGER" } as const

/** The name of no table. A message that has it names a table without a history after it. */
export const historyless = "payments_without_history_"

/** Throws a `QueryError` if the rows can no longer be reconstructed. */
export const openAsOf = (file: string, sql: string, asOf: AsOf): DatabaseSync => {
  const db = new DatabaseSync("")
  const url = pathToFileURL(realpathSync(file))
  url.search = "?mode=ro"
  db.prepare(`ATTACH ? AS ${schema}`).run(url.href)
  // The private database needs no rollback. The transaction of the file lasts until the process ends.
  db.exec(`PRAGMA main.journal_mode = OFF; BEGIN; SELECT 1 FROM ${schema}.sqlite_schema`)
  const names = db.prepare(`SELECT name FROM ${schema}.sqlite_schema WHERE type IN ('table', 'view')`).all()
    .map(({ name }) => String(name))
  const isIntact = (statement: Statement) => db.prepare(textOf(statement)).all().length > 0
  if (!isIntact(changesIntact(asOf)) || (names.includes("rows_pruned") && !isIntact(rowsIntact(asOf)))) {
    throw removedMeanwhile()
  }
  const reserved = names.find((name) => isReserved(name) && sql.toLowerCase().includes(name.toLowerCase()))
  if (reserved !== undefined) throw withoutHistory([reserved])
  const mentions = mentionsOf(sql)
  const lists = Lists.all.filter(({ label }) => asOf.lists.some(({ list }) => list === label))
  for (const list of lists) {
    const found = asOf.lists.find((one) => one.list === list.label)
    if (found !== undefined) addList(db, list, found, { asOf, hasColumn: mentions.hasColumn })
  }
  db.exec(`CREATE TEMP VIEW changes AS ${textOf(changesThen(asOf))}`)
  const own = new Set(["changes", ...lists.map((list) => layoutOf(list).table)])
  // A name that no view hides would reach the table of the file.
  for (const name of names) {
    if (own.has(name) || isReserved(name)) continue
    db.exec(`CREATE TEMP VIEW ${quoted(name)} AS SELECT * FROM ${quoted(historyless + name)}`)
  }
  return db
}

/** Whether SQLite lets nobody create a view with this name. */
const isReserved = (name: string): boolean => name.toLowerCase().startsWith("sqlite_")

const textOf = (statement: Statement): string =>
  render(statement, {
    dialect: "sqlite",
    schema,
    parameter: () => {
      throw new Error("a view has no parameters")
    }
  }).text

const addList = (
  db: DatabaseSync,
  list: Lists.AnyList,
  listAsOf: ListAsOf,
  { asOf, hasColumn }: { readonly asOf: AsOf; readonly hasColumn: (name: string) => boolean }
): void => {
  const { seq } = asOf
  const layout = layoutOf(list)
  const known = columnsThen(list)
  const columns = db.prepare(`SELECT name FROM pragma_table_info(?, ?)`).all(layout.table, schema)
    .map(({ name }) => String(name))
    .filter((name) => known.has(name) && (name === "row" || name === "id" || hasColumn(name)))
  const typed = layout.columns.filter(({ name }) => name !== "id" && columns.includes(name))
  const hasHash = columns.includes("hash")
  const stored = [
    ...typed.map(({ kind, name }) => ({ name, type: sqlTypes[kind] })),
    ...hasHash ? [{ name: "hash", type: "TEXT" }] : []
  ]
  const later = `main.${laterTable(layout.table)}`
  db.exec(
    `CREATE TABLE ${later} ("row" INTEGER PRIMARY KEY, is_later INTEGER, mark INTEGER, text_seq INTEGER${
      stored.map(({ name, type }) => `, ${quoted(name)} ${type}`).join("")
    })`
  )
  const noValues = stored.map(() => null)
  const texts = plainTexts(asOf)
  const valuesIn = (text: string): ReadonlyArray<SQLInputValue> => {
    if (texts !== undefined && !text.includes("\\u") && !texts.some((one) => text.includes(one))) return noValues
    const record = typed.length === 0 ? undefined : recordIn(layout, text)
    return [...typed.map((column) => valueOf(column, record)), ...hasHash ? [contentHash(text)] : []]
  }
  const insert = db.prepare(
    `INSERT INTO ${later} VALUES (?, 1, ?, ?${", ?".repeat(stored.length)}) ON CONFLICT ("row") DO UPDATE SET
      mark = coalesce(mark, excluded.mark), text_seq = coalesce(text_seq, excluded.text_seq)${
      stored.map(({ name }) => {
        const column = quoted(name)
        return `, ${column} = CASE WHEN text_seq IS NULL THEN excluded.${column} ELSE ${column} END`
      }).join("")
    }`
  )
  const [marked, withText] = [new RowSet(), new RowSet()]
  let count = 0
  for (const found of rowsOf(changesIn(db, list, seq), [])) {
    const [row, mark, textSeq, before] = found as unknown as LaterChange // by setReturnArrays
    // The sets list what was added since the last call.
    if (++count % rowsPerMark === 0) { for (const set of [marked, withText]) set.mark() }
    const isFirstMark = mark !== null && marked.add(row)
    const isFirstText = before !== null && withText.add(row)
    if (isFirstMark || isFirstText) {
      insert.run(row, isFirstMark ? mark : null, ...isFirstText ? [textSeq, ...valuesIn(before)] : [null, ...noValues])
    }
  }
  const types = new Map(stored.map(({ name, type }) => [name, type]))
  const rows = rowsThen(list, listAsOf, {
    seq,
    columns,
    later,
    valueThen: (name) => {
      if (name === "raw") return { type: "TEXT", value: textThen }
      const type = types.get(name)
      return type === undefined ? undefined : { type, value: raw(`c.${quoted(name)}`) }
    }
  })
  db.exec(`CREATE TEMP VIEW ${layout.table} AS ${textOf(rows)}`)
}

/** Reads the changes after the point once, in their order. */
const changesIn = (db: DatabaseSync, list: Lists.AnyList, seq: number): StatementSync => {
  // CROSS JOIN prevents SQLite from reading all rows first.
  const changes = db.prepare(
    `SELECT t."row", l.mark, l.seq, l.before FROM (
      SELECT id, seq, ${textOf(markOf)} AS mark, before FROM ${textOf(laterChanges(list, seq))}
    ) AS l CROSS JOIN ${schema}.${layoutOf(list).table} AS t WHERE t.id = l.id ORDER BY l.seq`
  )
  changes.setReturnArrays(true)
  return changes
}

const rowsPerMark = 10_000

type LaterChange = readonly [row: number, mark: number | null, seq: number, before: string | null]
