/**
 * Reads a list and prints its records. What is printed is whole records, also after an error or an interrupt. Whenever
 * records remain, stderr says so, with the command that continues.
 */
import { Stdout } from "@payments/copy"
import { type ListOperation, Lists, Monotonic, PaymentsApi, type PaymentsError, Position } from "@payments/core"
import {
  canRedraw,
  CommandExit,
  drawProgress,
  eraseProgress,
  ExitCode,
  grouped,
  logLine,
  withNext
} from "@payments/program"
import { Duration, Effect, Record, Redacted, Stdio, Stream } from "effect"
import * as OutputFile from "../output/OutputFile.ts"
import { lookOf, type RowFormat } from "../output/Rows.ts"
import { CollectedRecords } from "./CollectedRecords.ts"
import type { TypedFlags } from "./ContinueCommand.ts"
import * as CursorFile from "./CursorFile.ts"
import { type ListedRecord, recordsOf } from "./ListedRecords.ts"
import { endingOf, isFull, type ListingReport, logNotes, nextOf } from "./ListingNotes.ts"
import { describe, type Ending, makeListingOutput } from "./ListingOutput.ts"
import { type ListingState, type PageRules, startState, takePage } from "./ListingState.ts"
import { CollectedLimit, type Selection } from "./Selection.ts"

export interface ListingInput {
  readonly filters: { readonly [field: string]: string | undefined }
  readonly limit: number | undefined
  readonly all: boolean
  readonly max: number | undefined
  readonly cursor: string | undefined
  readonly cursorFile: string | undefined
  readonly output: string | undefined
  /** How long to wait while the service limits the rate. */
  readonly patience: Duration.Duration | undefined
  readonly strict: boolean
  readonly format: RowFormat | undefined
  readonly selection: Selection
  readonly typed: TypedFlags
}

const listIsComplete = "No more records: the list was read to its end. Remove the cursor file to start again."

/** How long a listing that has read a page waits while the service limits the rate. */
const patienceAfterPage = Duration.minutes(1)

/** Records per page of a listing that does not read to the end. */
export const pageSize = { default: 20 } as const

export const runListing = Effect.fnUntraced(function*(list: Lists.AnyList, input: ListingInput) {
  const listing = yield* openListing(list, input)
  if (listing === undefined) return yield* logLine(listIsComplete)
  // A run that is killed before its first position has appended records that the next one cuts off.
  if (listing.file !== undefined && listing.saved?.output === undefined) yield* savePosition(listing)
  yield* readPages(listing).pipe(
    Effect.tapError((error) => endAfter(listing, error)),
    Effect.mapError((error) => withContinuation(listing, error)),
    Effect.onInterrupt(() => finishAfter(listing, { reason: "Interrupted", message: "interrupted" }))
  )
  yield* finish(listing)
  if (listing.state.bad > 0 || isFull(listing)) {
    return yield* new CommandExit({ exitCode: ExitCode.incomplete, problem: "" })
  }
})

interface Listing extends Effect.Success<ReturnType<typeof prepare>>, Pick<ListingReport, "collected" | "isShown"> {
  readonly output: Effect.Success<ReturnType<typeof makeListingOutput>>
  readonly rules: PageRules
  readonly showsProgress: boolean
  readonly first: ListingState
  /** The state after the pages that were printed. */
  state: ListingState
}

/** Opens the files and reads the position. */
const prepare = Effect.fnUntraced(function*(list: Lists.AnyList, input: ListingInput) {
  const api = yield* PaymentsApi
  const { conditions, fields } = input.selection
  const filters = Record.filter(input.filters, (value) => value !== undefined)
  const format = input.output === undefined ? (yield* lookOf(input.format)).format : input.format ?? "ndjson"
  const savedOutput = input.output === undefined ? undefined : {
    path: yield* OutputFile.realPath(input.output),
    format,
    fields: fields?.map(({ names }) => names) ?? null,
    conditions: conditions.map(({ path, ...condition }) => JSON.stringify({ names: path.names, ...condition }))
      .toSorted()
  }
  const saved = input.cursorFile === undefined ? undefined : yield* CursorFile.read(input.cursorFile, {
    source: api.source,
    list: list.name,
    filters,
    // With --max, the first run chose the limit, which may differ from --limit.
    limit: input.max === undefined ? input.limit : undefined,
    output: savedOutput
  })
  const fresh = { _tag: input.cursor === undefined ? "First" : "Cursor" } as const
  const file = input.output === undefined || saved?.done === true
    ? undefined
    : yield* OutputFile.open(input.output, saved === undefined ? fresh : { _tag: "Saved", bytes: saved.outputBytes })
  return { api, list, input, filters, format, savedOutput, saved, file, limit: saved?.limit ?? limitOf(input) }
})

/** Starts the listing. Returns undefined if an earlier run has read the list to its end. */
const openListing = Effect.fnUntraced(function*(list: Lists.AnyList, input: ListingInput) {
  const prepared = yield* prepare(list, input)
  const { file, format, saved } = prepared
  if (saved?.done === true && input.output !== undefined) return undefined
  const { conditions, fields, query, sort } = input.selection
  const start = saved === undefined ? input.cursor ?? null : saved.cursor
  // What a run before this one has written has the header already.
  const isContinued = file === undefined
    ? (saved !== undefined || start !== null) && ((yield* Stdout.fileLength) ?? 0) > 0
    : !file.isNew
  const output = yield* makeListingOutput(list, { format, fields, file, isContinued })
  if (saved?.done === true) {
    yield* output.end({ cursor: null, complete: true, next: undefined, read: undefined, printedOfPage: 0, repeated: 0 })
    return undefined
  }
  const paths = Lists.fieldPaths(list)
  const documented = new Map(paths.map((path) => [path, paths.some((inner) => inner.startsWith(`${path}.`))]))
  const collectedLimit = yield* CollectedLimit
  const collected = query === undefined && sort.length === 0
    ? undefined
    : new CollectedRecords(sort, collectedLimit[query === undefined ? "sort" : "query"])
  const stdio = yield* Stdio.Stdio
  const first = startState({
    cursor: start,
    printedOfPage: saved?.printed ?? [],
    unseen: new Set(fields?.filter(({ header }) => !documented.has(header)))
  })
  const hasAllColumns = format !== "csv" || fields !== undefined || query !== undefined
  const listing: Listing = {
    ...prepared,
    output,
    rules: { conditions, max: input.max, documented: hasAllColumns ? undefined : documented },
    collected,
    showsProgress: (collected !== undefined || file !== undefined) && (yield* canRedraw),
    isShown: { stdout: yield* stdio.stdoutIsTerminal, stderr: yield* stdio.stderrIsTerminal },
    first,
    state: first
  }
  return listing
})

const savePosition = Effect.fnUntraced(function*(
  { api, file, filters, input, limit, list, savedOutput, state }: Listing
) {
  if (input.cursorFile === undefined) return
  // The records are on disk before the position that follows them.
  const outputBytes = file === undefined ? undefined : yield* file.sync
  yield* CursorFile.write(input.cursorFile, {
    version: 1,
    ...(outputBytes === undefined ? {} : { outputBytes }),
    ...(savedOutput === undefined ? {} : { output: savedOutput }),
    source: api.source,
    list: list.name,
    limit,
    filters,
    cursor: state.cursor,
    printed: state.printedOfPage,
    done: state.done
  })
})

/** Prints the records of a page, or keeps them until the end. */
const printRecords = (
  { collected, list, output, showsProgress, state }: Listing,
  records: ReadonlyArray<ListedRecord>
) => {
  const progress = showsProgress ? drawProgress(`${list.label} ${grouped(state.read)}`) : Effect.void
  if (collected === undefined) return Effect.andThen(output.records(records.map(({ text }) => text)), progress)
  for (const record of records) collected.add(record)
  return progress
}

/** Reads and prints pages. Waits while the service limits the rate, and requests the same page again. */
const readPages = Effect.fnUntraced(function*(listing: Listing) {
  const { api, filters, input, limit, list, rules } = listing
  // The operations differ only in the types of their records and filters. This command passes both on unchanged.
  const operation: ListOperation<{ readonly id: string }, object> = api[list.name]
  let progressAt = yield* Monotonic.millis
  const pages = Stream.suspend(() => {
    const { cursor } = listing.state
    return operation.pages({
      ...filters,
      limit,
      position: cursor === null ? undefined : Position.make({ list: list.name, cursor, limit, filters }),
      prefetch: input.all ? 1 : 0,
      onBadRecord: input.strict ? "fail" : "quarantine"
    })
  })
  const readFromPosition = Stream.runForEachWhile(
    pages,
    Effect.fnUntraced(function*(page) {
      const next = page.next === null ? null : Redacted.value(page.next).cursor
      const { selected, state } = takePage(listing.state, { records: recordsOf(page), next }, rules)
      yield* printRecords(listing, selected)
      listing.state = state
      if (listing.collected === undefined) yield* savePosition(listing)
      progressAt = yield* Monotonic.millis
      return (input.max === undefined ? input.all : state.read < input.max) && !isFull(listing)
      // An interruption waits until the position is saved. Otherwise the next run would print these records again.
    }, Effect.uninterruptible)
  )
  yield* Effect.retry(readFromPosition, {
    while: Effect.fnUntraced(function*(error) {
      if (error._tag !== "PaymentsError" || error.reason._tag !== "RateLimited") return false
      const patience = input.patience ?? (listing.state.pages === 0 ? Duration.zero : patienceAfterPage)
      const leftMs = progressAt + Duration.toMillis(patience) - (yield* Monotonic.millis)
      const waitMs = Math.max(error.reason.retryAfterMs ?? 1000, 100)
      if (waitMs > leftMs) return false
      yield* Effect.sleep(Duration.millis(waitMs))
      return true
    })
  })
})

/** Prints what was collected, ends the document and logs what it does not show. */
const finish = Effect.fnUntraced(function*(listing: Listing, error?: Ending["error"]) {
  const { api, collected, format, input: { selection: { query } }, list, output } = listing
  yield* eraseProgress
  if (query !== undefined && collected !== undefined) {
    if (error !== undefined) {
      // A result over a part of the records could be mistaken for the result. Nothing is printed, so the next run starts again.
      listing.state = {
        ...listing.state,
        cursor: listing.first.cursor,
        printedOfPage: listing.first.printedOfPage
      }
    }
    const { printResult } = yield* Effect.promise(() => import("./JsonQueryResult.ts"))
    yield* printResult({
      list,
      query: error === undefined ? query : undefined,
      records: collected,
      format,
      ending: endingOf(listing, error)
    })
  } else {
    if (collected !== undefined) {
      // CSV has its header also without records.
      yield* output.records([])
      yield* Stream.runForEachArray(Stream.fromIterable(collected.texts(), { chunkSize: batchSize }), output.records)
    }
    yield* output.end(endingOf(listing, error))
  }
  if (collected !== undefined && (query === undefined || error === undefined)) yield* savePosition(listing)
  yield* logNotes(listing, error, (name) => api.isSecret(name))
})

/** Finishes a listing that an error has stopped. The error decides how the command ends. */
const finishAfter = (listing: Listing, error: NonNullable<Ending["error"]>) =>
  Effect.catch(
    finish(listing, error),
    ({ message }) => message === "" ? Effect.void : logLine(`payments: ${message}`)
  )

const endAfter = (listing: Listing, error: PaymentsError | CommandExit) =>
  Effect.suspend(() => {
    listing.state = { ...listing.state, isRefused: isCursorRefused(error) }
    if (error._tag === "PaymentsError") return finishAfter(listing, describe(error))
    return error.exitCode === ExitCode.done
      ? Effect.void
      : listing.output.end(endingOf(listing, { reason: "CursorFile", message: error.message }))
  })

const isCursorRefused = (error: PaymentsError | CommandExit): boolean =>
  error._tag === "PaymentsError" && error.reason._tag === "PaginationFault" && error.reason.kind === "cursorRefused"

/** Adds the command that starts again to the error, if no page was read or the cursor is refused. */
const withContinuation = (listing: Listing, error: PaymentsError | CommandExit) => {
  const { first, isShown, state } = listing
  return error._tag === "PaymentsError" &&
      (state.isRefused || (state.pages === 0 && (first.cursor === null || isShown.stderr)))
    ? withNext(error, nextOf(listing, isShown.stderr))
    : error
}

/** The number of sorted records that are printed at once. */
const batchSize = 1000

/**
 * Returns the page size: at most --max. Without --limit it is, if possible, a divisor of --max, so that the run ends at the
 * end of a page.
 */
const limitOf = ({ all, limit, max }: ListingInput): number => {
  if (max === undefined) return limit ?? (all ? Lists.pageLimit.default : pageSize.default)
  const largest = Math.min(limit ?? Lists.pageLimit.default, max)
  if (limit !== undefined) return largest
  for (let size = largest; size >= pageSize.default; size--) if (max % size === 0) return size
  return largest
}
