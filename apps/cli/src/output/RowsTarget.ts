/** Where and how a command writes its rows: stdout or a file, as text or as a workbook. */
import { type Destination, type FieldCondition, printable } from "@payments/copy"
import type { Lists } from "@payments/core"
import { type CommandExit, type contract, counted, optionalFlag, usage } from "@payments/program"
import { Effect, type Stream } from "effect"
import { Flag } from "effect/cli"
import type { ControlOptions } from "./ControlSheet.ts"
import { type CsvDialect, csvDialectIn, csvFlags, type GivenDialect } from "./CsvDialect.ts"
import { type Column, printRows, type RowFormat, rowFormats } from "./Rows.ts"
import { notShown } from "./ValueText.ts"
import { logWrapped } from "./Wrapped.ts"
import { formatIn, outputFlag, printingTo } from "./WrittenFile.ts"

export const sheetFormats = [...rowFormats, "xlsx"] as const
export type SheetFormat = typeof sheetFormats[number]

export interface RowsTarget<Format extends string = SheetFormat> {
  readonly format: Format | undefined
  readonly csv: CsvDialect | undefined
  readonly output: string | undefined
}

/** The flags of a command that writes these formats. */
export const targetFlags = <const Format extends string>(formats: ReadonlyArray<Format>) => ({
  format: optionalFlag(
    Flag.Literals("format", formats).pipe(
      Flag.withDescription("default: table on a terminal, ndjson in a pipe, or what the ending of --output says")
    )
  ),
  output: outputFlag,
  ...csvFlags
})

export const targetIn = Effect.fnUntraced(function*<Format extends string>(
  given: GivenDialect & { readonly format: Format | undefined; readonly output: string | undefined },
  formats: ReadonlyArray<Format>
) {
  const format = yield* formatIn(given, formats)
  const target: RowsTarget<Format> = { format, csv: yield* csvDialectIn({ ...given, format }), output: given.output }
  return target
})

/** A target of text. */
export type Printed = RowsTarget<RowFormat>

/** Fails if the target is no text of rows. */
export const printedIn = ({ format, ...others }: RowsTarget<string>): Effect.Effect<Printed, CommandExit> => {
  const printed = rowFormats.find((one) => one === format)
  return format !== printed
    ? Effect.fail(usage(`--format ${format} is for the rows of a copy.`))
    : Effect.succeed({ ...others, format: printed })
}

export const amountsNote =
  "Amounts are integers as the service sends them. Its document specifies neither their currency nor their unit."

/** Returns the condition for people who read the output. */
export const conditionText = (condition: FieldCondition): string => {
  const { header } = condition.path
  return "value" in condition
    ? `${header} ${condition.operator} ${hasHiddenValue(condition) ? notShown : condition.value}`
    : `${header} is ${condition.operator}`
}

/** Whether no file may show the value of the condition. */
export const hasHiddenValue = (condition: FieldCondition): boolean =>
  "value" in condition && condition.isHidden === true

/** Reads the state of a copy, if a workbook needs it. */
export const stateBefore = (
  { format }: Pick<RowsTarget<string>, "format">,
  destination: Destination.StoredDestination,
  lists: ReadonlyArray<Lists.AnyList>
) =>
  format === "xlsx"
    ? Effect.flatMap(
      Effect.promise(() => import("./ControlSheet.ts")),
      ({ copyState }) => copyState(destination, lists)
    )
    : Effect.undefined

/** Writes the rows as they arrive. `control` is for a workbook. */
export const writeRows = Effect.fnUntraced(function*<Row, E, R>(
  columns: ReadonlyArray<Column<Row>>,
  rows: Stream.Stream<ReadonlyArray<Row>, E, R>,
  { csv, format, output }: RowsTarget,
  { control, empty, members, output: printedAs }: {
    readonly empty: string
    readonly members?: string | undefined
    /** The output that the rows are, for JSON. */
    readonly output?: contract.JsonOutput | undefined
    readonly control: ControlOptions
  }
) {
  if (format !== "xlsx" || output === undefined) {
    const printed = format === "xlsx" ? undefined : format
    return yield* printingTo(output, printRows(columns, rows, printed, { empty, csv, members, output: printedAs }))
  }
  const { controlSheet, writtenNotes } = yield* Effect.promise(() => import("./ControlSheet.ts"))
  const { writeWorkbook } = yield* Effect.promise(() => import("./Workbook.ts"))
  const written = yield* writeWorkbook(output, { columns, rows }, controlSheet(control))
  yield* logWrapped(`The workbook is written to ${printable(output)}: ${counted(written.rows, "row", "rows")}.`)
  for (const note of writtenNotes(written)) yield* logWrapped(note)
})
