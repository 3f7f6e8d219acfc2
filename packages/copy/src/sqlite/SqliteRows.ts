/**
 * The only file that steps through the rows of a statement of node:sqlite. Its iterators restart the statement on Node
 * 22.20 to 24.15 if `next()` is called again after the last row. A generator that has ended runs no code, so it
 * restarts nothing.
 */
import type { SQLInputValue, SQLOutputValue, StatementSync } from "node:sqlite"

/** Runs the statement and returns its rows, one at a time. A loop that ends early resets the statement. */
export function* rowsOf(
  statement: Pick<StatementSync, "iterate">,
  values: ReadonlyArray<SQLInputValue>,
  named: Record<string, SQLInputValue> = {}
): Generator<Record<string, SQLOutputValue>, void> {
  yield* statement.iterate(named, ...values)
}
