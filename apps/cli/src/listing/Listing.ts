/**
 * Reads a list and prints its records. What is printed is whole records, also after an error or an interrupt. Whenever
 * records remain, stderr says so, with the command that continues.
 */
import { type FieldPath, namesForLogs, printable, Stdout } from "@payments/copy"
import { type ListOperation, Lists, Monotonic, PaymentsApi, type PaymentsError, Position } from "@payments/core"
import {
  canRedraw,
  CommandExit,
  drawProgress,
  eraseProgress,
  ExitCode,
  grouped,
  logLine,
  logNote,
  type Next,
  withNext
} from "@payments/program"
import { Duration, Effect, Record, Redacted, Stdio, Stream } from "effect"
import * as OutputFile from "../output/OutputFile.ts"
import { fieldReader } from "../output/PrintedRecord.ts"
import { lookOf, type RowFormat } from "../output/Rows.ts"
import { logWrapped, wrapped } from "../output/Wrapped.ts"
import { CollectedRecords } from "./CollectedRecords.ts"
import { continueCommand, isPrintable, nextText, type TypedFlags } from "./ContinueCommand.ts"
import * as CursorFile from "./CursorFile.ts"
import { type ListedRecord, recordsOf } from "./ListedRecords.ts"
import { describe, type Ending, makeListingOutput } from "./ListingOutput.ts"
import { CollectedLimit, type Selection } from "./Selection.ts"
import { meets } from "./Where.ts"

/** What to read and to print. */
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

/** The state of a running listing. */
interface ListingState {
  /** Pages read, including empty ones. */
  pages: number
  /** Records read, without those that an earlier run has printed. */
  read: number
  /** The records of `read` that meet the conditions. */
  selected: number
  /** The cursor of the next page, or of a page that was printed in part; null at the start and at the end. */
  cursor: string | null
  /** Keys of the records of that page that were printed. */
  printedOfPage: ReadonlyArray<string>
  done: boolean
  /** Whether the service no longer accepts the cursor, so that only a new listing can continue. */
  isRefused: boolean
  /** Selected records that do not match the document. */
  bad: number
  /** The number of the first record that does not match, and its problem. */
  firstBad: readonly [number: number, problem: string]
  /** Paths of undocumented fields that CSV does not show, with the number of their records. */
  readonly hidden: Map<string, number>
  /** The undocumented fields of `--fields` that no record has had so far. */
  readonly unseen: Set<FieldPath>
}

/** A running listing. */
interface Listing {
  readonly list: Lists.AnyList
  readonly input: ListingInput
  readonly limit: number
  readonly state: ListingState
  /** Whether stdout and stderr may show cursors and filter values: on a terminal, because logs must not contain them. */
  readonly isShown: { readonly stdout: boolean; readonly stderr: boolean }
  /** Whether reading stopped because no more records fit in the memory of `--sort` or `--query`. */
  readonly isFull: () => boolean
  /** How many of the records that `--sort` or `--query` keeps are repeated. */
  readonly repeated: () => number
}

const listIsComplete = "No more records: the list was read to its end. Remove the cursor file to start again."

/** How long a listing that has read a page waits while the service limits the rate. */
const patienceAfterPage = Duration.minutes(1)

/** Records per page of a listing that does not read to the end. */
export const pageSize = { default: 20 } as const

/** Reads the list and prints its records. */
export const runListing = Effect.fnUntraced(function*(list: Lists.AnyList, input: ListingInput) {
  const api = yield* PaymentsApi
  const { conditions, fields, query, sort } = input.selection
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
  const isDone = saved?.done === true
  const file = input.output === undefined || isDone ? undefined : yield* OutputFile.open(
    input.output,
    saved !== undefined
      ? { _tag: "Saved", bytes: saved.outputBytes }
      : input.cursor === undefined
      ? { _tag: "First" }
      : { _tag: "Cursor" }
  )
  if (isDone && input.output !== undefined) return yield* logLine(listIsComplete)
  const start = saved === undefined ? input.cursor ?? null : saved.cursor
  // What a run before this one has written has the header already.
  const isContinued = file === undefined
    ? (saved !== undefined || start !== null) && ((yield* Stdout.fileLength) ?? 0) > 0
    : !file.isNew
  const output = yield* makeListingOutput(list, { format, fields, file, isContinued })
  if (saved?.done === true) {
    yield* output.end({ cursor: null, complete: true, next: undefined, read: undefined, printedOfPage: 0, repeated: 0 })
    return yield* logLine(listIsComplete)
  }
  const limit = saved?.limit ?? limitOf(input)
  const paths = Lists.fieldPaths(list)
  const documented = new Map(paths.map((path) => [path, paths.some((inner) => inner.startsWith(`${path}.`))]))
  const state: ListingState = {
    pages: 0,
    isRefused: false,
    read: 0,
    selected: 0,
    cursor: start,
    printedOfPage: saved?.printed ?? [],
    done: false,
    bad: 0,
    firstBad: [0, ""],
    hidden: new Map(),
    unseen: new Set(fields?.filter(({ header }) => !documented.has(header)))
  }
  const collectedLimit = yield* CollectedLimit
  const collected = query === undefined && sort.length === 0
    ? undefined
    : new CollectedRecords(sort, collectedLimit[query === undefined ? "sort" : "query"])
  const showsProgress = (collected !== undefined || file !== undefined) && (yield* canRedraw)
  const stdio = yield* Stdio.Stdio
  const listing: Listing = {
    list,
    input,
    limit,
    state,
    isShown: { stdout: yield* stdio.stdoutIsTerminal, stderr: yield* stdio.stderrIsTerminal },
    isFull: () => collected?.isFull === true && !state.done,
    repeated: () => collected?.repeated ?? 0
  }
  // The operations differ only in the types of their records and filters. This command passes both on unchanged.
  const operation: ListOperation<{ readonly id: string }, object> = api[list.name]
  const pagesFrom = (cursor: string | null) =>
    operation.pages({
      ...filters,
      limit,
      position: cursor === null ? undefined : Position.make({ list: list.name, cursor, limit, filters }),
      prefetch: input.all ? 1 : 0,
      onBadRecord: input.strict ? "fail" : "quarantine"
    })
  const savePosition = Effect.gen(function*() {
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
  const print = (records: ReadonlyArray<ListedRecord>) => {
    const progress = showsProgress
      ? drawProgress(`${list.label} ${grouped(state.read)}`)
      : Effect.void
    if (collected === undefined) return Effect.andThen(output.records(records.map(({ text }) => text)), progress)
    for (const record of records) collected.add(record)
    return progress
  }
  let progressAt = yield* Monotonic.millis
  const readFromPosition = Effect.suspend(() =>
    Stream.runForEachWhile(
      pagesFrom(state.cursor),
      Effect.fnUntraced(function*(page) {
        const printedBefore = new Set(state.printedOfPage)
        const unprinted = recordsOf(page).filter(({ key }) => !printedBefore.has(key))
        const read = input.max === undefined ? unprinted : unprinted.slice(0, input.max - state.read)
        const selected = conditions.length === 0 ? read : read.filter(({ text }) => {
          const field = fieldReader(text)
          return conditions.every((condition) => meets(condition, field))
        })
        yield* print(selected)
        state.pages++
        if (read.some(({ problem }) => problem !== undefined)) countBad(state, read, new Set(selected))
        state.read += read.length
        state.selected += selected.length
        if (format === "csv" && fields === undefined && query === undefined) {
          for (const { value } of selected) countHidden(state, documented, value)
        }
        if (state.unseen.size > 0) { for (const { text } of selected) removeSeen(state, text) }
        if (read.length < unprinted.length) {
          state.printedOfPage = [...state.printedOfPage, ...read.map(({ key }) => key)]
        } else {
          state.cursor = page.next === null ? null : Redacted.value(page.next).cursor
          state.printedOfPage = []
          state.done = page.next === null
        }
        if (collected === undefined) yield* savePosition
        progressAt = yield* Monotonic.millis
        return (input.max === undefined ? input.all : state.read < input.max) && !listing.isFull()
        // An interruption waits until the position is saved. Otherwise the next run would print these records again.
      }, Effect.uninterruptible)
    )
  )
  /** Waits while the service limits the rate, and requests the same page again. */
  const readPages = Effect.retry(readFromPosition, {
    while: Effect.fnUntraced(function*(error) {
      if (error._tag !== "PaymentsError" || error.reason._tag !== "RateLimited") return false
      const patience = input.patience ?? (state.pages === 0 ? Duration.zero : patienceAfterPage)
      const leftMs = progressAt + Duration.toMillis(patience) - (yield* Monotonic.millis)
      const waitMs = Math.max(error.reason.retryAfterMs ?? 1000, 100)
      if (waitMs > leftMs) return false
      yield* Effect.sleep(Duration.millis(waitMs))
      return true
    })
  })
  /** Prints what was collected, ends the document and logs what it does not show. */
  const finish = Effect.fnUntraced(function*(error?: Ending["error"]) {
    yield* eraseProgress
    if (query !== undefined && collected !== undefined) {
      if (error !== undefined) {
        // A result over a part of the records could be mistaken for the result. Nothing is printed, so the next run starts again.
        state.cursor = start
        state.printedOfPage = saved?.printed ?? []
      }
      const { printResult } = yield* Effect.promise(() => import("./QueryResult.ts"))
      yield* printResult(list, error === undefined ? query : undefined, collected, format, endingOf(listing, error))
    } else {
      if (collected !== undefined) {
        for (const texts of batchesOf(collected.texts())) yield* output.records(texts)
      }
      yield* output.end(endingOf(listing, error))
    }
    if (collected !== undefined && (query === undefined || error === undefined)) yield* savePosition
    const isExact = (format === "ndjson" || format === "json") && fields === undefined && query === undefined
    const repeated = listing.repeated()
    if (repeated > 0) {
      yield* logWrapped(
        `payments: ${list.label}: ${
          grouped(repeated)
        } of the records are repeated: the service returned them again on a later page. A sum or count includes them each time. An export stores each record once.`
      )
    }
    yield* logNotes(listing, isExact, error, (name) => api.isSecret(name))
  })
  const finishWith = (error: Ending["error"]) =>
    Effect.catch(
      finish(error),
      // The error that stopped the listing decides how the command ends.
      ({ message }) => message === "" ? Effect.void : logLine(`payments: ${message}`)
    )
  // A run that is killed before its first position has appended records that the next one cuts off.
  if (file !== undefined && saved?.output === undefined) yield* savePosition
  yield* readPages.pipe(
    Effect.tapError((error) => Effect.sync(() => state.isRefused = isCursorRefused(error))),
    Effect.tapError((error) =>
      error._tag === "PaymentsError"
        ? finishWith(describe(error))
        : error.exitCode === ExitCode.done
        ? Effect.void
        : output.end(endingOf(listing, { reason: "CursorFile", message: error.message }))
    ),
    // If no page was read, or the cursor is refused, the listing starts again.
    Effect.mapError((error) =>
      error._tag === "PaymentsError" &&
        (state.isRefused || (state.pages === 0 && (start === null || listing.isShown.stderr)))
        ? withNext(error, nextOf(listing, listing.isShown.stderr))
        : error
    ),
    Effect.onInterrupt(() => finishWith({ reason: "Interrupted", message: "interrupted" }))
  )
  yield* finish()
  if (state.bad > 0 || listing.isFull()) return yield* new CommandExit({ exitCode: ExitCode.incomplete, problem: "" })
})

const isCursorRefused = (error: PaymentsError | CommandExit): boolean =>
  error._tag === "PaymentsError" && error.reason._tag === "PaginationFault" && error.reason.kind === "cursorRefused"

/** The number of sorted records that are printed at once. */
const batchSize = 1000

function* batchesOf(texts: Iterable<string>): Generator<ReadonlyArray<string>> {
  let batch: Array<string> = []
  for (const text of texts) {
    batch.push(text)
    if (batch.length < batchSize) continue
    yield batch
    batch = []
  }
  yield batch
}

/** Counts the selected records that do not match the document. Runs before `state.read` includes these records. */
const countBad = (
  state: ListingState,
  read: ReadonlyArray<ListedRecord>,
  selected: ReadonlySet<ListedRecord>
): void => {
  for (const [index, record] of read.entries()) {
    if (record.problem === undefined || !selected.has(record)) continue
    if (state.bad++ === 0) state.firstBad = [state.read + index + 1, record.problem]
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/**
 * Counts the fields of a record that have no column: undocumented ones, and those that should be objects but are not.
 * `documented` are the documented paths, and whether they are objects.
 */
const countHidden = (
  state: ListingState,
  documented: ReadonlyMap<string, boolean>,
  value: unknown,
  parent = ""
): void => {
  if (!isObject(value)) return
  for (const [name, inner] of Object.entries(value)) {
    const path = `${parent}${name}`
    const hasFields = documented.get(path)
    if (hasFields === true && isObject(inner)) countHidden(state, documented, inner, `${path}.`)
    else if (hasFields === undefined || (hasFields && inner !== null)) {
      state.hidden.set(path, (state.hidden.get(path) ?? 0) + 1)
    }
  }
}

const removeSeen = (state: ListingState, text: string): void => {
  const field = fieldReader(text)
  for (const path of state.unseen) if (field(path) !== undefined) state.unseen.delete(path)
}

const endingOf = (listing: Listing, error: Ending["error"]): Ending => {
  const { input: { selection }, isShown, repeated, state } = listing
  return {
    cursor: state.cursor,
    complete: state.done,
    next: nextOf(listing, isShown.stdout),
    read: selection.conditions.length === 0 ? undefined : state.read,
    printedOfPage: state.printedOfPage.length,
    repeated: repeated(),
    error
  }
}

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

/**
 * Returns the command that continues. Undefined if its cursor cannot be printed. `showsPersonal` says whether the command may
 * contain filter values.
 */
const nextOf = ({ input, limit, list, state }: Listing, showsPersonal: boolean): Next | undefined => {
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

/** Logs how to continue, and what the output does not show. `isExact`: whether it has the whole records as sent. */
const logNotes = Effect.fnUntraced(function*(
  listing: Listing,
  isExact: boolean,
  error: Ending["error"],
  isSecret: (text: string) => boolean
) {
  const { input: { selection: { conditions, query, sort } }, list, state } = listing
  yield* logHowToContinue(listing, error)
  if (state.bad > 0) {
    const [number, problem] = state.firstBad
    const isAsRead = conditions.length === 0 && sort.length === 0 && query === undefined
    yield* logWrapped(
      `payments: ${list.label}: records that do not match the document: ${state.bad}; ${
        isExact ? "printed as sent" : "included in the output"
      }. The first is record ${number} ${isAsRead ? "of the output" : "of those that were read"} (${
        printable(problem)
      }). Use --strict to stop at such a record.`
    )
  }
  const hidden = Object.keys(namesForLogs(Object.fromEntries(state.hidden), isSecret))
  if (hidden.length > 0) {
    yield* logWrapped(
      `payments: ${list.label}: the CSV has a column for each documented field only. The records also have ${
        new Intl.ListFormat("en-GB").format(hidden)
      }: choose fields with --fields.`
    )
  }
  if (state.unseen.size > 0 && state.selected > 0) {
    const names = Array.from(state.unseen, ({ header }) => printable(header))
    yield* logWrapped(`payments: ${list.label}: no printed record has ${new Intl.ListFormat("en-GB").format(names)}.`)
  }
})

/** Logs how to continue. Prints the cursor only on a terminal, because logs must not contain cursors. */
const logHowToContinue = Effect.fnUntraced(function*(listing: Listing, error: Ending["error"]) {
  const { input, isFull, isShown, limit, state } = listing
  const { conditions, query, sort } = input.selection
  if (state.done || state.pages === 0 || state.isRefused) return
  const local = [
    ...(conditions.length > 0 ? ["--where"] : []),
    ...(sort.length > 0 ? ["--sort"] : []),
    ...(query === undefined ? [] : ["--query"])
  ]
  const scope = local.length === 0
    ? ""
    : query !== undefined && error !== undefined
    ? " --query prints no result, because that of some records could be mistaken for that of all."
    : ` ${new Intl.ListFormat("en-GB").format(local)} ${local.length === 1 ? "applies" : "apply"} only to the ${
      grouped(state.read)
    } that were read${isFull() ? ", because no more fit in memory" : ""}.`
  const remain = `More records remain.${scope}`
  const next = nextOf(listing, isShown.stderr)
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
