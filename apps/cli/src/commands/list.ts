/** `payments <list> list`, such as `payments payout-requests list`. */
import { Days, type ListOperation, Lists, PaymentsApi, type PaymentsConfigError, Position } from "@payments/core"
import { ExitCode, printable } from "@payments/export"
import {
  checkAll,
  CommandExit,
  logLine,
  optionalFlag,
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
import { describe, type Format, formats, makeOutput } from "../Output.ts"
import { type PrintedRecord, recordsOf } from "../PageRecords.ts"

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

/** What a filter takes. */
const parsers: { readonly [Type in Lists.Filter["type"]]: SettingParser<string> } = { text: notEmpty, day, dateTime }

/** The filters of a list, by field name, as the flags that give their values. */
const filtersOf = (list: Lists.AnyList): { readonly [field: string]: Lists.Filter & { readonly flag: string } } =>
  Record.map<string, Lists.Filter, Lists.Filter & { readonly flag: string }>(list.filters, (filter, field) => ({
    ...filter,
    flag: filter.flag ?? String.snakeToKebab(String.camelToSnake(field))
  }))

const filterFlag = ({ description, flag }: { readonly description: string; readonly flag: string }) =>
  optionalFlag(Flag.String(flag).pipe(Flag.withDescription(description)))

const pageSize = { default: 20 } as const

const paging = {
  limit: textFlag("limit", "NUMBER", "records per page, 1 to 100"),
  all: Flag.Boolean("all").pipe(Flag.withDefault(false), Flag.withDescription("read to the end of the list")),
  max: textFlag("max", "NUMBER", "read at most this many records"),
  cursor: textFlag("cursor", "CURSOR", "go on from this cursor, with the limit and filters it belongs to"),
  cursorFile: textFlag("cursor-file", "FILE", "go on from the position in this file, and keep it there")
}

const strict = Flag.Boolean("strict").pipe(
  Flag.withDefault(false),
  Flag.withDescription("end at the first record that is not as the document describes it")
)

const format = optionalFlag(
  Flag.Literals("format", formats).pipe(Flag.withDescription("table on a terminal, ndjson in a pipe, unless given"))
)

/** `<list> list`. */
export const listCommand = <R>(list: Lists.AnyList, api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>) => {
  const filters = filtersOf(list)
  return Command.make(list.label).pipe(
    Command.withDescription(`Read ${list.title}`),
    Command.withSubcommands([
      Command.make(
        "list",
        { filters: Record.map(filters, filterFlag), ...paging, strict, format },
        Effect.fnUntraced(function*(input) {
          const conflict = conflictOf(input)
          const textOf = (name: string, text: string | undefined) => setting({ name, text }, undefined, notEmpty)
          const { service, ...checked } = yield* checkAll({
            flags: conflict === undefined ? Effect.void : usage(conflict),
            filters: checkAll(
              Record.map(
                filters,
                ({ flag, type }, field) => setting({ name: flag, text: input.filters[field] }, undefined, parsers[type])
              )
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
          { command: `payments ${list.label} list --limit 5`, description: "the first five" },
          {
            command: `payments ${list.label} list --all --format ndjson > ${list.label}.ndjson`,
            description: "all, exactly as sent"
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

/** Where a listing is, while it is printed. */
interface Progress {
  /** Pages read, empty ones too. */
  pages: number
  printed: number
  /** Of the page that comes next, or of the one that was cut; null at the start and at the end. */
  cursor: string | null
  /** Ids of that page that are printed already. */
  cut: ReadonlyArray<string>
  done: boolean
  /** Printed records that are not as the document describes them. */
  bad: number
  /** What is wrong with the first of them, and where in the output it is. */
  firstBad: string
}

const runList = Effect.fnUntraced(function*(list: Lists.AnyList, input: Input) {
  const api = yield* PaymentsApi
  const filters = Record.filter(input.filters, (value) => value !== undefined)
  const kept = input.cursorFile === undefined ? undefined : yield* CursorFile.read(input.cursorFile, {
    source: api.source,
    list: list.name,
    filters,
    // With --max, the first run chose a limit that suits it.
    limit: input.max === undefined ? input.limit : undefined
  })
  const output = yield* makeOutput(list, input.format)
  if (kept?.done === true) {
    yield* output.end(null)
    return yield* logLine("Nothing more: the list was read to its end. Remove the cursor file to begin again.")
  }
  const limit = kept?.limit ?? limitOf(input)
  const cursor = kept === undefined ? input.cursor ?? null : kept.cursor
  const reading: Progress = {
    pages: 0,
    printed: 0,
    cursor,
    cut: kept?.printed ?? [],
    done: false,
    bad: 0,
    firstBad: ""
  }
  // The three operations differ in their records and filters, which are only passed on here.
  const operation: ListOperation<{ readonly id: string }, object> = api[list.name]
  const pages = operation.pages({
    ...filters,
    limit,
    position: cursor === null ? undefined : Position.make({ list: list.name, cursor, limit, filters }),
    prefetch: input.all ? 1 : 0,
    onBadRecord: input.strict ? "fail" : "quarantine"
  })
  const keepPosition = Effect.suspend(() =>
    input.cursorFile === undefined ? Effect.void : CursorFile.write(input.cursorFile, {
      version: 1,
      source: api.source,
      list: list.name,
      limit,
      filters,
      cursor: reading.cursor,
      printed: reading.cut,
      done: reading.done
    })
  )
  yield* Stream.runForEachWhile(
    pages,
    Effect.fnUntraced(function*(page) {
      const already = new Set(reading.cut)
      const fresh = recordsOf(page).filter(({ key }) => !already.has(key))
      const taken = input.max === undefined ? fresh : fresh.slice(0, input.max - reading.printed)
      yield* output.records(taken)
      reading.pages++
      countBad(reading, taken)
      reading.printed += taken.length
      if (taken.length < fresh.length) {
        reading.cut = [...reading.cut, ...taken.map(({ key }) => key)]
      } else {
        reading.cursor = page.next === null ? null : Redacted.value(page.next).cursor
        reading.cut = []
        reading.done = page.next === null
      }
      yield* keepPosition
      return input.max === undefined ? input.all : reading.printed < input.max
      // An interrupt waits until the position says what was printed: otherwise the next run would print it again.
    }, Effect.uninterruptible)
  ).pipe(
    Effect.tapError((error) =>
      error._tag === "PaymentsError"
        ? Effect.andThen(output.end(reading.cursor, describe(error)), sayMore(list, input, limit, reading))
        : error.exitCode === ExitCode.done
        ? Effect.void
        : output.end(reading.cursor, { reason: "CursorFile", message: error.message })
    ),
    Effect.onInterrupt(() =>
      Effect.andThen(
        output.end(reading.cursor, { reason: "Interrupted", message: "interrupted" }),
        sayMore(list, input, limit, reading)
      )
    )
  )
  yield* output.end(reading.cursor)
  yield* sayMore(list, input, limit, reading)
  if (reading.bad > 0) return yield* new CommandExit({ exitCode: ExitCode.incomplete, problem: "" })
})

/** Counts the records that are not as documented, before `reading.printed` counts them all. */
const countBad = (reading: Progress, taken: ReadonlyArray<PrintedRecord>): void => {
  for (const [index, { problem }] of taken.entries()) {
    if (problem === undefined) continue
    if (reading.bad++ === 0) {
      reading.firstBad = `record ${reading.printed + index + 1} of the output (${problem})`
    }
  }
}

/** No page is larger than what is wanted of it; unless told otherwise, one that --max is a multiple of: no run ends within it. */
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
    ? "--all and --max do not go together."
    : cursor !== undefined && cursorFile !== undefined
    ? "--cursor and --cursor-file do not go together."
    : undefined

/** What there is to know beside the records. */
const sayMore = Effect.fnUntraced(function*(list: Lists.AnyList, input: Input, limit: number, reading: Progress) {
  yield* sayHowToGoOn(input, limit, reading)
  if (reading.bad === 0) return
  const records = reading.bad === 1 ? "1 record is" : `${reading.bad} records are`
  yield* logLine(
    `payments: ${list.label}: ${records} not as the document describes, and printed as sent. The first is ${
      printable(reading.firstBad)
    }. To end at such a record: --strict.`
  )
})

/** A terminal shows the cursor, since a person wants it; a log or a file that stderr may go to does not. */
const sayHowToGoOn = Effect.fnUntraced(function*(input: Input, limit: number, reading: Progress) {
  if (reading.done || reading.pages === 0) return
  if (input.cursorFile !== undefined) return yield* logLine("More records remain. Run the same command again to go on.")
  const { cursor } = reading
  const repeated = reading.cut.length > 0 ? ` (its first ${reading.cut.length} records are those just printed)` : ""
  const terminal = yield* (yield* Stdio.Stdio).stderrIsTerminal
  const hint = cursor !== null && terminal && printable(cursor) === cursor
    ? `--limit ${limit} --cursor '${cursor.replaceAll("'", "'\\''")}'${repeated}`
    : `--limit ${limit} --cursor and the cursor that --format json prints${repeated}, or --cursor-file FILE to have it kept`
  yield* logLine(`More records remain. Read them all with --all, or go on with the same filters and ${hint}.`)
})
