/**
 * The least that an export into PostgreSQL does: a durable transaction per page over the `pg` package. It writes by
 * `unnest`, or by COPY into a temporary table.
 */
import { once } from "node:events"
import { Client } from "pg"
import { from } from "pg-copy-streams"
import { addRecord, emptyResult } from "../harness/WorkloadResult.ts"
import { reader } from "./bareLoop.ts"
import { cellsOf, columns, exactCellsOf, exactColumns, isAmount } from "./bareSqlite.ts"

const typeOf = (name: string) => isAmount(name) ? "bigint" : "text"

const statementsOf = (stored: ReadonlyArray<string>) => {
  const names = stored.join(", ")
  const updates = stored.slice(1).map((name) => `${name} = excluded.${name}`).join(", ")
  return {
    create: `CREATE TABLE payout_requests (${
      stored.map((name) => `${name} ${typeOf(name)}${name === "id" ? " PRIMARY KEY" : ""}`).join(", ")
    })`,
    byUnnest: `INSERT INTO payout_requests (${names})
      SELECT * FROM unnest(${stored.map((name, index) => `$${index + 1}::${typeOf(name)}[]`).join(", ")})
      ON CONFLICT (id) DO UPDATE SET ${updates}`,
    copy: `COPY incoming (${names}) FROM STDIN`,
    fromTemporaryTable:
      `INSERT INTO payout_requests (${names}) SELECT ${names} FROM incoming ON CONFLICT (id) DO UPDATE SET ${updates}`
  }
}

/** PostgreSQL cannot store NUL characters. */
const storable = (cell: string | number | null) =>
  typeof cell === "string" && cell.includes("\0") ? cell.replaceAll("\0", "\ufffd") : cell

/** Formats a cell for COPY: `\N` is null. Escapes backslashes, tabs and line breaks. */
const copyCell = (cell: string | number | null): string =>
  cell === null ? "\\N" : String(cell).replaceAll(/[\\\t\n\r]/g, (character) => escapes[character] ?? character)

const escapes: Readonly<Record<string, string>> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" }

export interface BarePostgresOptions {
  readonly url: string
  readonly database: string
  readonly schema: string
  readonly by: "unnest" | "copy"
  /** Whether to store a text and a hash of each record too, as an export does. */
  readonly isExact: boolean
}

/** Copies into a new schema. Checks no records. */
export const barePostgres = async ({ by, database, isExact, schema, url }: BarePostgresOptions) => {
  const stored = isExact ? exactColumns : columns
  const cells = isExact ? exactCellsOf : cellsOf
  const statements = statementsOf(stored)
  const read = reader(url)
  const total = emptyResult()
  const client = new Client({ connectionString: database })
  await client.connect()
  await client.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema};
    ${statements.create};
    CREATE TEMP TABLE incoming (LIKE payout_requests)`)
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await read(cursor)
    const rows = page.items.map((record) => cells(record).map(storable))
    await client.query("BEGIN")
    if (by === "unnest") {
      await client.query({
        name: "upsert",
        text: statements.byUnnest,
        values: stored.map((_, index) => rows.map((row) => row[index]))
      })
    } else {
      const stream = client.query(from(statements.copy))
      stream.end(rows.map((row) => `${row.map(copyCell).join("\t")}\n`).join(""))
      await once(stream, "finish")
      await client.query(statements.fromTemporaryTable)
      await client.query("TRUNCATE incoming")
    }
    await client.query("COMMIT")
    for (const record of page.items) addRecord(total, record)
    cursor = page.cursor
  }
  await client.end()
  return total
}
