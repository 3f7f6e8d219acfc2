/** `payments query`: a question to a destination, in SQL. */
import { query } from "@payments/export"
import { fromDestination, fromFlag, usage } from "@payments/export/program"
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { type Column, printRows, rowFormatFlag } from "../RowsOutput.ts"

/** `payments query`. */
export const queryCommand = Command.make(
  "query",
  {
    sql: Argument.String("sql").pipe(
      Argument.withMetavar("SQL"),
      Argument.withDescription("one statement that reads: SELECT, WITH or VALUES")
    ),
    from: fromFlag,
    format: rowFormatFlag
  },
  Effect.fnUntraced(
    function*({ format, from, sql }) {
      const destination = yield* fromDestination(from)
      yield* Effect.scoped(Effect.gen(function*() {
        const { columns, rows } = yield* query(destination, sql)
        yield* printRows(columns.map(columnOf), rows, format, "No rows.")
      }))
    },
    Effect.catchTag("QueryError", ({ problem }) => usage(problem))
  )
).pipe(
  Command.withDescription("Ask a database or a folder in SQL; nothing is written, and no number is rounded"),
  Command.withExamples([
    {
      command:
        `payments query --from sqlite:./payments.db "SELECT status, count(*), sum(amount) FROM invoices GROUP BY status"`,
      description: "sums of amounts, to the digit"
    },
    {
      command: `payments query --from file:./payments --format csv "SELECT id, amount FROM payout_requests"`,
      description: "rows as CSV"
    }
  ])
)

/** Ids are there to be copied. */
const columnOf = (name: string): Column => name === "id" || name.endsWith("_id") ? { name, whole: 40 } : { name }
