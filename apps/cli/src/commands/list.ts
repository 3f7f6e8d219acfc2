/** `payments <list> list`: reads a list, for example `payments payout-requests list`. */
import { Days, type ListOperation, Lists, PaymentsApi, Position } from "@payments/core"
import { ExitCode, printable } from "@payments/export"
import {
  checkAll,
  CommandExit,
  logLine,
  optionalFlag,
  type ProgramError,
  setting,
  type SettingParser,
  textFlag,
  usage,
  wholeNumber
} from "@payments/export/program"
import { Effect, Layer, Record, Redacted, Stdio, Stream, String } from "effect"
import { Command, Flag } from "effect/cli"
import * as CursorFile from "../CursorFile.ts"
import { isDateTimePrefix } from "../FilterDates.ts"
import { type ListedRecord, recordsOf } from "../ListedRecords.ts"
import { describe, type Format, formats, makeOutput } from "../Output.ts"
import { isStdin, valueText } from "../ValueText.ts"

const day: SettingParser<string> = {
  expected: "a day such as 2024-05-31",
  parse: (text) => Days.isDay(text) ? text : undefined
}

const dateTime: SettingParser<string> = {
  expected: "a date-time such as 2024-05-31T14:03:07.123Z, or its beginning such as 2024-05-31 or 2024-05",
  parse: (text) => isDateTimePrefix(text) ? text : undefined
}

const notEmpty: SettingParser<string> = {
  expected: "text that is not empty",
  parse: (text) => text === "" ? undefined : text
}

/** The parser of each type of filter. */
const parsers: { readonly [Type in Lists.Filter["type"]]: SettingParser<string> } = { text: notEmpty, day, dateTime }

/** Returns the filters of a list by field name, each with the name of its flag. */
const filtersOf = (list: Lists.AnyList): { readonly [field: string]: Lists.Filter & { readonly flag: string } } =>
  Record.map<string, Lists.Filter, Lists.Filter & { readonly flag: string }>(list.filters, (filter, field) => ({
    ...filter,
    flag: filter.flag ?? String.snakeToKebab(String.camelToSnake(field))
  }))

const filterFlag = ({ description, flag, type }: Lists.Filter & { readonly flag: string }) =>
  optionalFlag(
    Flag.String(flag).pipe(
      Flag.withDescription(type === "text" ? `${description}; @FILE or @- (stdin) gives the text` : description)
    )
  )

/** Returns the value of a filter. A filter by text can name a file or stdin, which keeps its value out of process lists. */
const filterText = (flag: string, type: Lists.Filter["type"], text: string | undefined) =>
  text === undefined || type !== "text" ? Effect.succeed(text) : valueText(flag, text)

const pageSize = { default: 20 } as const

const paging = {
  limit: textFlag("limit", "NUMBER", "records per page, 1 to 100"),
  all: Flag.Boolean("all").pipe(Flag.withDefault(false), Flag.withDescription("read to the end of the list")),
  max: textFlag("max", "NUMBER", "read at most this many records"),
  cursor: textFlag("cursor", "CURSOR", "start at this cursor, with the limit and filters that belong to it"),
  cursorFile: textFlag("cursor-file", "FILE", "resume at the position in this file, and save the new position in it")
}

const strict = Flag.Boolean("strict").pipe(
  Flag.withDefault(false),
  Flag.withDescription("stop at the first record that does not match the document")
)

const format = optionalFlag(
  Flag.Literals("format", formats).pipe(Flag.withDescription("default: table on a terminal, ndjson in a pipe"))
)

/** Makes the command of a list. `api` is the service to read. */
export const listCommand = <R>(list: Lists.AnyList, api: Layer.Layer<PaymentsApi, ProgramError, R>) => {
  const filters = filtersOf(list)
  return Command.make(list.label).pipe(
    Command.withDescription(`Read ${list.title}`),
    Command.withSubcommands([
      Command.make(
        "list",
        { filters: Record.map(filters, filterFlag), ...paging, strict, format },
        Effect.fnUntraced(function*(input) {
          // A second read of stdin would wait or return nothing, so check this before any value is read.
          if (Object.values(input.filters).filter((text) => text !== undefined && isStdin(text)).length > 1) {
            return yield* usage("Only one value can come from standard input (@-).")
          }
          const conflict = conflictOf(input)
          const textOf = (name: string, text: string | undefined) => setting({ name, text }, undefined, notEmpty)
          const { service, ...checked } = yield* checkAll({
            flags: conflict === undefined ? Effect.void : usage(conflict),
            filters: checkAll(
              Record.map(filters, ({ flag, type }, field) =>
                Effect.flatMap(
                  filterText(`--${flag}`, type, input.filters[field]),
                  (text) => setting({ name: flag, text }, undefined, parsers[type])
                ))
            ),
            limit: setting({ name: "limit", text: input.limit }, undefined, wholeNumber(1, 100)),
            max: setting({ name: "max", text: input.max }, undefined, wholeNumber(1)),
            cursor: textOf("cursor", input.cursor),
            cursorFile: textOf("cursor-file", input.cursorFile),
            service: Layer.build(api)
          })
          yield* Effect.provide(runList(list, { ...input, ...checked }), service)
        }, Effect.scoped)
      ).pipe(
        Command.withDescription("Print one page, --max records or --all of them"),
        Command.withExamples([
          { command: `payments ${list.label} list --limit 5`, description: "the first five records" },
          {
            command: `payments ${list.label} list --all --format ndjson > ${list.label}.ndjson`,
            description: "all records, exactly as sent"
          }
        ])
      )
    ])
  )
}

interface Input {
  readonly filters: { readonly [field: string]: string | undefined }
  readonly limit: number | undefined
  readonly all: boolean
  readonly max: number | undefined
  readonly cursor: string | undefined
  readonly cursorFile: string | undefined
  readonly strict: boolean
  readonly format: Format | undefined
}

/** The state of a running listing. */
interface ListingState {
  /** Pages read, including empty ones. */
  pages: number
  printed: number
  /** The cursor of the next page, or of a page that was printed in part; null at the start and at the end. */
  cursor: string | null
  /** Keys of the records of that page that were printed. */
  printedOfPage: ReadonlyArray<string>
  done: boolean
  /** Printed records that do not match the document. */
  bad: number
  /** The number in the output of the first record that does not match, and its problem. */
  firstBad: string
}

const runList = Effect.fnUntraced(function*(list: Lists.AnyList, input: Input) {
  const api = yield* PaymentsApi
  const filters = Record.filter(input.filters, (value) => value !== undefined)
  const saved = input.cursorFile === undefined ? undefined : yield* CursorFile.read(input.cursorFile, {
    source: api.source,
    list: list.name,
    filters,
    // With --max, the first run chose the limit, which may differ from --limit.
    limit: input.max === undefined ? input.limit : undefined
  })
  const output = yield* makeOutput(list, input.format)
  if (saved?.done === true) {
    yield* output.end(null)
    return yield* logLine("No more records: the list was read to its end. Remove the cursor file to start again.")
  }
  const limit = saved?.limit ?? limitOf(input)
  const cursor = saved === undefined ? input.cursor ?? null : saved.cursor
  const state: ListingState = {
    pages: 0,
    printed: 0,
    cursor,
    printedOfPage: saved?.printed ?? [],
    done: false,
    bad: 0,
    firstBad: ""
  }
  // The operations differ only in the types of their records and filters. This command passes both on unchanged.
  const operation: ListOperation<{ readonly id: string }, object> = api[list.name]
  const pages = operation.pages({
    ...filters,
    limit,
    position: cursor === null ? undefined : Position.make({ list: list.name, cursor, limit, filters }),
    prefetch: input.all ? 1 : 0,
    onBadRecord: input.strict ? "fail" : "quarantine"
  })
  const savePosition = Effect.suspend(() =>
    input.cursorFile === undefined ? Effect.void : CursorFile.write(input.cursorFile, {
      version: 1,
      source: api.source,
      list: list.name,
      limit,
      filters,
      cursor: state.cursor,
      printed: state.printedOfPage,
      done: state.done
    })
  )
  yield* Stream.runForEachWhile(
    pages,
    Effect.fnUntraced(function*(page) {
      const printedBefore = new Set(state.printedOfPage)
      const unprinted = recordsOf(page).filter(({ key }) => !printedBefore.has(key))
      const selected = input.max === undefined ? unprinted : unprinted.slice(0, input.max - state.printed)
      yield* output.records(selected)
      state.pages++
      countBad(state, selected)
      state.printed += selected.length
      if (selected.length < unprinted.length) {
        state.printedOfPage = [...state.printedOfPage, ...selected.map(({ key }) => key)]
      } else {
        state.cursor = page.next === null ? null : Redacted.value(page.next).cursor
        state.printedOfPage = []
        state.done = page.next === null
      }
      yield* savePosition
      return input.max === undefined ? input.all : state.printed < input.max
      // An interruption waits until the position is saved. Otherwise the next run would print these records again.
    }, Effect.uninterruptible)
  ).pipe(
    Effect.tapError((error) =>
      error._tag === "PaymentsError"
        ? Effect.andThen(output.end(state.cursor, describe(error)), logNotes(list, input, limit, state))
        : error.exitCode === ExitCode.done
        ? Effect.void
        : output.end(state.cursor, { reason: "CursorFile", message: error.message })
    ),
    Effect.onInterrupt(() =>
      Effect.andThen(
        output.end(state.cursor, { reason: "Interrupted", message: "interrupted" }),
        logNotes(list, input, limit, state)
      )
    )
  )
  yield* output.end(state.cursor)
  yield* logNotes(list, input, limit, state)
  if (state.bad > 0) return yield* new CommandExit({ exitCode: ExitCode.incomplete, problem: "" })
})

/** Counts the records that do not match the document. Runs before `state.printed` includes these records. */
const countBad = (state: ListingState, selected: ReadonlyArray<ListedRecord>): void => {
  for (const [index, { problem }] of selected.entries()) {
    if (problem === undefined) continue
    if (state.bad++ === 0) {
      state.firstBad = `record ${state.printed + index + 1} of the output (${problem})`
    }
  }
}

/**
 * Returns the page size: at most --max. Without --limit it is, if possible, a divisor of --max, so that the run ends at the
 * end of a page.
 */
const limitOf = ({ all, limit, max }: Input): number => {
  if (max === undefined) return limit ?? (all ? Lists.pageLimit.default : pageSize.default)
  const largest = Math.min(limit ?? Lists.pageLimit.default, max)
  if (limit !== undefined) return largest
  for (let size = largest; size >= pageSize.default; size--) if (max % size === 0) return size
  return largest
}

const conflictOf = ({ all, cursor, cursorFile, max }: {
  readonly all: boolean
  readonly cursor: string | undefined
  readonly cursorFile: string | undefined
  readonly max: string | undefined
}): string | undefined =>
  all && max !== undefined
    ? "--all and --max exclude each other."
    : cursor !== undefined && cursorFile !== undefined
    ? "--cursor and --cursor-file exclude each other."
    : undefined

/** Logs how to continue, and the number of records that do not match the document. */
const logNotes = Effect.fnUntraced(function*(list: Lists.AnyList, input: Input, limit: number, state: ListingState) {
  yield* logHowToContinue(input, limit, state)
  if (state.bad === 0) return
  yield* logLine(
    `payments: ${list.label}: records that do not match the document: ${state.bad}; printed as sent. The first is ${
      printable(state.firstBad)
    }. Use --strict to stop at such a record.`
  )
})

/** Logs how to continue. Prints the cursor only on a terminal, because logs must not contain cursors. */
const logHowToContinue = Effect.fnUntraced(function*(input: Input, limit: number, state: ListingState) {
  if (state.done || state.pages === 0) return
  if (input.cursorFile !== undefined) {
    return yield* logLine("More records remain. Run the same command again to continue.")
  }
  const { cursor } = state
  const repeated = state.printedOfPage.length > 0
    ? ` (the first ${state.printedOfPage.length} records of that page were printed)`
    : ""
  const terminal = yield* (yield* Stdio.Stdio).stderrIsTerminal
  const hint = cursor !== null && terminal && printable(cursor) === cursor
    ? `--limit ${limit} --cursor '${cursor.replaceAll("'", "'\\''")}'${repeated}`
    : `--limit ${limit} --cursor with the cursor that --format json prints${repeated}, or --cursor-file FILE to save it`
  const advice = input.all ? "Continue" : "Read them all with --all, or continue"
  yield* logLine(`More records remain. ${advice} with the same filters and ${hint}.`)
})
