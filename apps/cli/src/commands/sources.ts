/** `payments sources`: lists the sources and where their settings come from. */
import { ChosenSource } from "@payments/export/program"
import { Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { type Column, printRows, rowFormatFlag } from "../RowsOutput.ts"

/** `payments sources`. */
export const sourcesCommand = Command.make(
  "sources",
  { format: rowFormatFlag },
  Effect.fnUntraced(function*({ format }) {
    const sources = yield* (yield* ChosenSource).listed
    const rows = sources.flatMap(({ name, settings }) =>
      settings.map((setting) => [name, setting.name, setting.value, setting.from])
    )
    yield* printRows(columns, Stream.make(rows), format, "No source is configured.")
  })
).pipe(
  Command.withDescription(
    "List the sources and where each setting comes from; keys are masked, and nothing is requested"
  ),
  Command.withExamples([
    { command: "payments sources", description: "all sources of the sources file, or the environment" },
    { command: "payments sources --source north --format json", description: "one source, for programs" }
  ])
)

const columns: ReadonlyArray<Column> = [
  { name: "source", minWidth: 8 },
  { name: "setting", wholeUpTo: 24 },
  { name: "value", minWidth: 16 },
  { name: "from", minWidth: 8 }
]
