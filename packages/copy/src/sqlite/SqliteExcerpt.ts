/**
 * A private database with some columns of a destination. A statement over it cannot read any other column: the values
 * are not in it, and the destination is detached before the statement is prepared. It is a temporary file without a
 * name, so it disappears with its process.
 *
 * Views with SQLite's authorizer would not be enough. A NATURAL JOIN or a USING compares columns without a call of the
 * authorizer, so a statement could confirm a guess of a hidden value.
 */
import type { Redacted } from "effect"
import { realpathSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import { pseudonymOnce } from "../rule/Pseudonym.ts"
import type { ExcerptColumn, ExcerptTable } from "../statement/QueryMessages.ts"
import type { Cell } from "../text/Cell.ts"

const sqlTypes = { text: "TEXT", integer: "INTEGER", boolean: "INTEGER", time: "TEXT", json: "TEXT" } as const

export const create = (tables: ReadonlyArray<ExcerptTable>): DatabaseSync => {
  const db = new DatabaseSync("")
  for (const { columns, table } of tables) {
    db.exec(`CREATE TABLE ${table} (${columns.map(({ kind, name }) => `${name} ${sqlTypes[kind]}`).join(", ")}) STRICT`)
  }
  return db
}

/**
 * Copies the columns from the file of an SQLite destination, as it is at one moment. `key` is that of the pseudonyms.
 * The function that makes them returns null afterwards: a statement that could call it would confirm a guess of a
 * hidden value.
 */
export const fillFromFile = (
  db: DatabaseSync,
  file: string,
  tables: ReadonlyArray<ExcerptTable>,
  key: Redacted.Redacted<Uint8Array> | undefined
): void => {
  let isFilling = true
  db.function(
    "payments_pseudonym",
    (value) => isFilling && key !== undefined && typeof value === "string" ? pseudonymOnce(key, value) : null
  )
  const url = pathToFileURL(realpathSync(file))
  url.search = "?mode=ro"
  db.prepare("ATTACH ? AS destination").run(url.href)
  try {
    db.exec("BEGIN")
    for (const table of tables) {
      db.exec(
        `INSERT INTO ${table.table} SELECT ${
          table.columns.map(({ isPseudonym, name }) => isPseudonym === true ? `payments_pseudonym(${name})` : name)
            .join(", ")
        } FROM destination.${table.table}`
      )
    }
    db.exec("COMMIT")
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK")
    throw error
  } finally {
    isFilling = false
    db.exec("DETACH destination")
  }
}

export const insert = (db: DatabaseSync, table: ExcerptTable, rows: ReadonlyArray<ReadonlyArray<Cell>>): void => {
  const statement = db.prepare(
    `INSERT INTO ${table.table} VALUES (${table.columns.map(() => "?").join(", ")})`
  )
  db.exec("BEGIN")
  for (const row of rows) statement.run(...table.columns.map((column, index) => valueOf(column, row[index] ?? null)))
  db.exec("COMMIT")
}

const valueOf = ({ kind }: ExcerptColumn, cell: Cell): string | bigint | null => {
  if (cell === null || typeof cell === "string") return cell
  return kind === "boolean" ? BigInt(cell.json === "true") : BigInt(cell.json)
}
