import { assert, it } from "@effect/vitest"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import { rowsOf } from "../../src/sqlite/SqliteRows.ts"

it("returns each row once, even if the driver restarts a statement that is stepped after its last row", () => {
  /** An iterator that does so, as those of Node 22.20 to 24.15 do. */
  const restarting = function*() {
    for (;;) {
      yield { row: 1 }
      yield { row: 2 }
      yield undefined
    }
  }
  const iterate = () => {
    const inner = restarting()
    const next = () => {
      const { value } = inner.next()
      return value === undefined ? { done: true, value: null } : { done: false, value }
    }
    return { next, [Symbol.iterator]: () => ({ next }) }
  }
  // Of the driver's iterators only these members are used.
  const rows = rowsOf({ iterate: iterate as unknown as StatementSync["iterate"] }, [])
  const seen = Array.from({ length: 5 }, () => rows.next())
  assert.deepStrictEqual(seen.map(({ done, value }) => [done, value?.["row"]]), [
    [false, 1],
    [false, 2],
    [true, undefined],
    [true, undefined],
    [true, undefined]
  ])
})

it("resets the statement when a loop ends early", () => {
  const db = new DatabaseSync(":memory:")
  const statement = db.prepare("SELECT value AS row FROM json_each('[1,2,3]') WHERE value > ?")
  for (const { row } of rowsOf(statement, [1])) {
    assert.strictEqual(row, 2)
    break
  }
  assert.deepStrictEqual([...rowsOf(statement, [0])].map(({ row }) => row), [1, 2, 3])
  db.close()
})
