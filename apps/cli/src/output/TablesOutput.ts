/** `payments query --tables`: the tables and columns of a copy, what they mean, and the values that it has. */
import { type Cell, columnValues, type Destination, tables } from "@payments/copy"
import { Effect, Stream } from "effect"
import { outputs } from "../contract/Outputs.ts"
import { columnsOfCells, printRows } from "./Rows.ts"
import type { Printed } from "./RowsTarget.ts"
import { logWrapped } from "./Wrapped.ts"

/** How long the values of a copy may take. */
const longestValues = "5 seconds"

/** Prints the tables and columns, and if there is a copy, the values that it has. The tables are those of every copy. */
export const printTables = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination | undefined,
  { csv, format }: Printed
) {
  const read = destination === undefined ? [] : yield* columnValues(destination).pipe(
    Effect.timeoutOrElse({ duration: longestValues, orElse: () => Effect.succeed(undefined) }),
    Effect.catch((error) => Effect.as(logWrapped(`The values are not shown. ${error.message}`), []))
  )
  const rows = tables.flatMap(({ columns, name: table }) =>
    columns.map(({ description, kind, name }): ReadonlyArray<Cell> => {
      const found = read?.find((one) => one.table === table && one.column === name)
      const values = found === undefined || found.values.length === 0
        ? undefined
        : `${found.values.join(", ")}${found.hasMore ? ", …" : ""}`
      return [
        table,
        name,
        kind,
        {
          json: JSON.stringify(description),
          csv: description,
          table: values === undefined ? description : `${description}${valuesMark}${values}`
        },
        values === undefined ? null : { json: JSON.stringify(found?.values), csv: values }
      ]
    })
  )
  yield* printRows(tableColumns, Stream.make(rows), format, { empty: "", csv, output: outputs.queryTables })
  if (read === undefined) yield* logWrapped(`The values are not shown: to read them took more than ${longestValues}.`)
})

/** Stands before the values in a table. */
const valuesMark = ". Values: "

const tableColumns = columnsOfCells([
  { name: "table", wholeUpTo: 20 },
  { name: "column", wholeUpTo: 40 },
  { name: "type" },
  { name: "description", minWidth: 20, details: (cell) => cell.split(/(?<=\.) (?=Values: )/) },
  { name: "values", hidden: true }
])
