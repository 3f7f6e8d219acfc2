import { assert, it } from "@effect/vitest"
import { DatabaseSync } from "node:sqlite"
import { functionOptions } from "../../src/sqlite/SqliteClient.ts"
import { begin, type Connection } from "../../src/sqlite/SqliteQuery.ts"
import { sqliteDialect } from "../../src/statement/Dialect.ts"

it("adds exactly for a question without calling JavaScript for each row, because Node keeps the values until the end", () => {
  const db = new DatabaseSync(":memory:")
  let calls = 0
  const connection: Connection = {
    run: (sql) => db.exec(sql),
    prepare: (sql) => db.prepare(sql),
    aggregate: (name, options) => db.aggregate(name, { ...options, step: (sum) => (calls++, sum) }),
    function: (name, call) =>
      db.function(name, { ...functionOptions, varargs: true }, (...values) => (calls++, call(...values)))
  }
  const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n]
  const groups = [[most, most, -1n], [least, least, 5n, null], [null], [-5n, 2n ** 32n, -(2n ** 32n) - 1n], [0n]]
  // SQLite has no literal for the least integer.
  const literal = (value: bigint | null) => value === least ? `${least + 1n} - 1` : String(value)
  const rows = groups.flatMap((values, group) => values.map((value) => `(${group}, ${literal(value)})`))
  const sql = `SELECT ${sqliteDialect.exactSum("column2")} FROM (VALUES ${
    rows.join(", ")
  }) GROUP BY column1 ORDER BY column1`
  const cells = begin(connection, sql).next().map(([cell]) => cell)
  const sums = groups.map((values) =>
    values.every((value) => value === null)
      ? null
      : { json: String(values.reduce<bigint>((sum, value) => sum + (value ?? 0n), 0n)) }
  )
  assert.deepStrictEqual(cells, sums)
  assert.strictEqual(calls, groups.length)
  db.close()
})
