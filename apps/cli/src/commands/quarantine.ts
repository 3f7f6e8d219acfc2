/** `payments quarantine`: prints the records of an export that do not match the document. */
import { Destination, type QuarantinedRow, type Reader } from "@payments/copy"
import { Lists } from "@payments/core"
import { fromDestination, fromFlag } from "@payments/program"
import { Effect, Option, Stream } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { type Column, numberCell, printRows, rowFormatFlag } from "../output/Rows.ts"
import { resourceFlag } from "./changes.ts"

/** The largest number of rows that one read of the destination returns. */
const batchSize = 500

export const quarantineCommand = Command.make(
  "quarantine",
  { from: fromFlag, resource: resourceFlag, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from, resource }) {
    const destination = yield* fromDestination(from)
    const reader = yield* Destination.reader(destination)
    const rows = quarantined(reader, resource.length === 0 ? Lists.all : resource)
    yield* printRows(columns, rows, format, { empty: "No record is quarantined.", output: outputs.quarantine })
  }, Effect.scoped)
).pipe(
  Command.withDescription("List the records that do not match the document, with the path and the expected value"),
  Command.withExamples([
    { command: "payments quarantine --from sqlite:./payments.db", description: "all quarantined records" },
    {
      command: "payments quarantine --from file:./payments --resource invoices --format json",
      description: "only invoices, with their exact text"
    }
  ])
)

const columns: ReadonlyArray<Column<QuarantinedRow>> = [
  { name: "list", minWidth: 15, of: ({ list }) => list },
  { name: "id", wholeUpTo: 36, of: ({ id = null }) => id },
  { name: "path", of: ({ path }) => path },
  { name: "expected", minWidth: 20, of: ({ expected }) => expected },
  { name: "scan", hidden: true, of: ({ scan }) => numberCell(scan) },
  { name: "raw", hidden: true, of: ({ raw }) => ({ json: raw }) }
]

const quarantined = (reader: Reader, lists: ReadonlyArray<Lists.AnyList>) =>
  Stream.paginate(undefined as string | undefined, (after) =>
    // `after` is the place of the last row; undefined at the start.
    Effect.map(reader.quarantine(after, batchSize, lists), (rows) =>
      [
        rows.length === 0 ? [] : [rows],
        rows.length < batchSize ? Option.none() : Option.some(rows.at(-1)?.place)
      ] as const))
