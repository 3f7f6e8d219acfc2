/** `payments source list` and `payments sources`: list the sources and where their settings come from. */
import { ChosenSource } from "@payments/export/program"
import { Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { type Column, printRows, type RowFormat, rowFormatFlag } from "../RowsOutput.ts"

const columns: ReadonlyArray<Column> = [
  { name: "source", minWidth: 8 },
  { name: "setting", wholeUpTo: 24 },
  { name: "value", minWidth: 16, details: (cell) => [cell] },
  { name: "from", minWidth: 8, details: (cell) => [cell] }
]

const flags = { format: rowFormatFlag }

/** Prints the sources. */
const list = Effect.fnUntraced(
  function*({ format }: { readonly format: RowFormat | undefined }) {
    const sources = yield* (yield* ChosenSource).listed()
    const rows = sources.flatMap(({ name, settings }) =>
      settings.map((setting) => [name, setting.name, setting.value, setting.from])
    )
    yield* printRows(columns, Stream.make(rows), format, "No source is configured.")
  }
)

const description = "List the sources and where each setting comes from; keys are masked, and nothing is requested"

/** `payments source list`. */
export const sourceListCommand = Command.make("list", flags, list).pipe(
  Command.withDescription(description),
  Command.withExamples([
    { command: "payments source list", description: "all sources of the sources file, or the environment" },
    { command: "payments source list --source north --format json", description: "one source, for programs" }
  ])
)

/** `payments sources`: the same as `payments source list`. */
export const sourcesCommand = Command.make("sources", flags, list).pipe(
  Command.withDescription(description),
  Command.withExamples([
    { command: "payments sources", description: "all sources of the sources file, or the environment" },
    { command: "payments sources --source north --format json", description: "one source, for programs" }
  ])
)
