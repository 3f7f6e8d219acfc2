/** `payments config`: prints every setting that is in effect and where it comes from. */
import type { Cell } from "@payments/copy"
import { ChosenSource, logLine, scanFlags, toFlag } from "@payments/program"
import { effectiveSettings, processSettings, type ShownSetting } from "@payments/program/sources"
import { Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { columnsOfCells, printRows, rowFormatFlag } from "../output/Rows.ts"

const columns = columnsOfCells([
  { name: "source", minWidth: 8 },
  { name: "setting", wholeUpTo: 28 },
  { name: "value", minWidth: 16, details: (cell) => [cell] },
  { name: "from", minWidth: 8, details: (cell) => [cell] }
])

export const configCommand = Command.make(
  "config",
  { to: toFlag(), ...scanFlags, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, ...flags }) {
    const { listed, nothing } = yield* ChosenSource
    const sources = yield* listed(flags)
    const rowsOf = (source: Cell, settings: ReadonlyArray<ShownSetting>) =>
      settings.map(({ from, name, value }) => [source, name, value, from])
    const rows = [
      ...rowsOf({ json: "null", table: "" }, yield* processSettings),
      ...sources.flatMap(({ name, settings }) => rowsOf(name, effectiveSettings(settings)))
    ]
    yield* printRows(columns, Stream.make(rows), format, { empty: "", output: outputs.config })
    if (sources.length > 0) return
    const { advice, found } = yield* nothing
    yield* logLine(`${found}. ${advice}`)
  })
).pipe(
  Command.withDescription(
    "Print every setting that is in effect and where it comes from: a flag, a variable, the sources file or the default; keys are masked"
  ),
  Command.withShortDescription("Print every setting that is in effect, and where it comes from"),
  Command.withExamples([
    { command: "payments config", description: "the settings of all sources, and of the program" },
    { command: "payments config --source north", description: "of one source; of a command too, with its flags" }
  ])
)
