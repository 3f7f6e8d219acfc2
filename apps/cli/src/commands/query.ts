/** `payments query`: runs an SQL query on a destination. */
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
      Argument.withDescription("one statement: SELECT, WITH or VALUES")
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
  Command.withDescription("Query a database or a folder with SQL; writes nothing and rounds no number"),
  Command.withExamples([
    {
      command:
        `payments query --from sqlite:./payments.db "SELECT status, count(*), sum(amount) FROM invoices GROUP BY status"`,
      description: "exact sums of amounts"
    },
    {
      command: `payments query --from file:./payments --format csv "SELECT id, amount FROM payout_requests"`,
      description: "rows as CSV"
    }
  ])
)

/** Ids are never shortened, so that people can copy them. */
const columnOf = (name: string): Column => name === "id" || name.endsWith("_id") ? { name, wholeUpTo: 40 } : { name }
