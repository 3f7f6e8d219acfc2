/** What a listing says at its end: how to continue it, and what its output does not show. */
import { namesForLogs, printable, Stdout } from "@payments/copy"
import type { Lists } from "@payments/core"
import { allOf, grouped, logNote, type Next } from "@payments/program"
import { Effect } from "effect"
import type { RowFormat } from "../output/Rows.ts"
import { logWrapped, wrapped } from "../output/Wrapped.ts"
import type { CollectedRecords } from "./CollectedRecords.ts"
import { continueCommand, isPrintable, nextText, type TypedFlags } from "./ContinueCommand.ts"
import type { Ending } from "./ListingOutput.ts"
import type { ListingState } from "./ListingState.ts"
import type { Selection } from "./Selection.ts"

export interface ListingReport {
  readonly list: Lists.AnyList
  readonly input: {
    readonly all: boolean
    readonly cursorFile: string | undefined
    readonly output: string | undefined
    readonly selection: Selection
    readonly typed: TypedFlags
  }
  readonly limit: number
  readonly format: RowFormat
  readonly state: ListingState
  /** Whether stdout and stderr may show cursors and filter values: on a terminal, because logs must not contain them. */
  readonly isShown: { readonly stdout: boolean; readonly stderr: boolean }
  /** The records that `--sort` or `--query` keeps until the end. */
  readonly collected: CollectedRecords | undefined
}

/** Whether reading stopped because no more records fit in the memory of `--sort` or `--query`. */
export const isFull = ({ collected, state }: Pick<ListingReport, "collected" | "state">): boolean =>
  collected?.isFull === true && !state.done

export const endingOf = (report: ListingReport, error: Ending["error"]): Ending => {
  const { collected, input: { selection }, isShown, state } = report
  return {
    cursor: state.cursor,
    complete: state.done,
    next: nextOf(report, isShown.stdout),
    read: selection.conditions.length === 0 ? undefined : state.read,
    printedOfPage: state.printedOfPage.length,
    repeated: collected?.repeated ?? 0,
    error
  }
}

/**
 * Returns the command that continues. Undefined if its cursor cannot be printed. `showsPersonal` says whether the command may
 * contain filter values.
 */
export const nextOf = ({ input, limit, list, state }: ListingReport, showsPersonal: boolean): Next | undefined => {
  // With a cursor that the service refuses, the command would fail for ever.
  const cursor = state.isRefused ? null : state.cursor
  if (input.cursorFile !== undefined) {
    if (state.isRefused) return undefined
    const start = [["cursor-file", input.cursorFile] as const]
    return continueCommand(list.label, input.typed, start, showsPersonal)
  }
  if (cursor !== null && !isPrintable(cursor)) return undefined
  const start = [["limit", String(limit)] as const, ...(cursor === null ? [] : [["cursor", cursor] as const])]
  return continueCommand(list.label, input.typed, start, showsPersonal)
}

/** Logs how to continue, and what the output does not show. */
export const logNotes = Effect.fnUntraced(function*(
  report: ListingReport,
  error: Ending["error"],
  isSecret: (text: string) => boolean
) {
  const { collected, list, state } = report
  const repeated = collected?.repeated ?? 0
  const note = (text: string) => logWrapped(`payments: ${list.label}: ${text}`)
  if (repeated > 0) {
    yield* note(
      `${
        grouped(repeated)
      } of the records are repeated: the service returned them again on a later page. A sum or count includes them each time. An export stores each record once.`
    )
  }
  yield* logHowToContinue(report, error)
  if (state.bad > 0) yield* note(badText(report))
  const hidden = Object.keys(namesForLogs(Object.fromEntries(state.hidden), isSecret))
  if (hidden.length > 0) {
    yield* note(
      `the CSV has a column for each documented field only. The records also have ${
        allOf(hidden)
      }: choose fields with --fields.`
    )
  }
  if (state.unseen.size > 0 && state.selected > 0) {
    const names = Array.from(state.unseen, ({ header }) => printable(header))
    yield* note(`no printed record has ${allOf(names)}.`)
  }
})

/** Says how many records do not match the document. */
const badText = ({ format, input: { selection }, state }: ListingReport): string => {
  const { conditions, fields, query, sort } = selection
  const [number, problem] = state.firstBad
  // These formats print whole records as sent, unless fields or the result of a query are printed.
  const isExact = (format === "ndjson" || format === "json") && fields === undefined && query === undefined
  const isAsRead = conditions.length === 0 && sort.length === 0 && query === undefined
  return `records that do not match the document: ${state.bad}; ${
    isExact ? "printed as sent" : "included in the output"
  }. The first is record ${number} ${isAsRead ? "of the output" : "of those that were read"} (${
    printable(problem)
  }). Use --strict to stop at such a record.`
}

/** Says that records remain, and to how many of them the flags apply that select from the records that were read. */
const remainText = (report: ListingReport, error: Ending["error"]): string => {
  const { input: { selection: { conditions, query, sort } }, state } = report
  const local = [
    ...(conditions.length > 0 ? ["--where"] : []),
    ...(sort.length > 0 ? ["--sort"] : []),
    ...(query === undefined ? [] : ["--query"])
  ]
  if (local.length === 0) return "More records remain."
  const verb = local.length === 1 ? "applies" : "apply"
  return query !== undefined && error !== undefined
    ? "More records remain. --query prints no result, because that of some records could be mistaken for that of all."
    : `More records remain. ${allOf(local)} ${verb} only to the ${grouped(state.read)} that were read${
      isFull(report) ? ", because no more fit in memory" : ""
    }.`
}

/** Logs how to continue. Prints the cursor only on a terminal, because logs must not contain cursors. */
const logHowToContinue = Effect.fnUntraced(function*(report: ListingReport, error: Ending["error"]) {
  const { input, isShown, limit, state } = report
  if (state.done || state.pages === 0 || state.isRefused) return
  const remain = remainText(report, error)
  const next = nextOf(report, isShown.stderr)
  // The shell empties a file that stands after one >.
  const isInFile = input.output === undefined && (yield* Stdout.fileLength) !== undefined
  if (input.cursorFile !== undefined) {
    return yield* logNote({
      message: yield* wrapped(
        `${remain} Run the same command again${isInFile ? ", with >> in place of >," : ""} to continue.`
      ),
      next
    })
  }
  const advice = input.all ? "Continue" : "Read them all with --all, or continue"
  const repeated = state.printedOfPage.length > 0
    ? ` (the first ${state.printedOfPage.length} records of that page were printed)`
    : ""
  if (isShown.stderr && next !== undefined) {
    // The command is not wrapped, so that it can be copied.
    return yield* logNote({
      message: `${yield* wrapped(
        `${remain} ${advice} with${isInFile ? " this command and >> in place of >" : ""}${repeated}:`
      )}\n  ${nextText(next)}`,
      next
    })
  }
  yield* logNote({
    message: input.output === undefined
      ? `${remain} ${advice} with the same filters and --limit ${limit} --cursor with the cursor that --format json prints${repeated}, or --cursor-file FILE to save it.`
      : `${remain} To be able to continue, start again with --cursor-file FILE and another --output.`,
    next: undefined
  })
})
