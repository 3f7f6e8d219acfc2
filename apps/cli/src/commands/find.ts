/** `payments find`: looks a text up in all lists, in the service or in a destination. */
import {
  type Cell,
  Destination,
  findInApi,
  findInCopy,
  findInCopyAt,
  type Found,
  freshnessOf,
  heldBackText,
  keyCheck,
  keyCheckIn,
  type Match,
  type NamedPoint,
  printable,
  pseudonym as pseudonymOf,
  type ReachedPoint,
  ruleNameOf,
  searchedFields
} from "@payments/copy"
import { Lists, membersOf, parseText, type PaymentsApi } from "@payments/core"
import {
  allOf,
  checkAll,
  chosenPersonal,
  type ChosenSource,
  ConfigFlag,
  fromDestination,
  fromFlag,
  logNote,
  type Next,
  nextMembers,
  print,
  printOrEnd,
  type ProgramError,
  requireOutput,
  setting,
  shellWord,
  SourceFlag,
  switchFlag,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { Effect, type FileSystem, type Layer, Stdio, Stream, type Terminal } from "effect"
import { Argument, Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { flagsText, type GivenFlags, givenFlags, isPrintable, nextText } from "../listing/ContinueCommand.ts"
import { describe } from "../listing/ListingOutput.ts"
import { omittedNote } from "../listing/OmittedFields.ts"
import { optionalPointIn, pointMetavar, pointNotes, pointProblems, pointWords } from "../listing/PointFlag.ts"
import type { ControlOptions, CopyState } from "../output/ControlSheet.ts"
import { type Column, lookOf, makeRowWriter, printRows } from "../output/Rows.ts"
import {
  amountsNote,
  type Printed,
  type RowsTarget,
  sheetFormats,
  stateBefore,
  targetFlags,
  targetIn,
  writeRows
} from "../output/RowsTarget.ts"
import { isFromFile, notShown, valueText } from "../output/ValueText.ts"
import { logWrapped, wrapped } from "../output/Wrapped.ts"
import { checkWrittenFiles, printingTo } from "../output/WrittenFile.ts"

/** How many records of a list are shown. */
export const limits = { default: 100, most: 10_000 } as const

const notSearched = "a search does not find what they had"

const findFlags = {
  text: Argument.String("text").pipe(
    Argument.withMetavar("TEXT"),
    Argument.withDescription("the whole text; @FILE or @- (stdin) gives it and keeps it out of process lists")
  ),
  from: fromFlag,
  copy: switchFlag("copy", "search the destination of the source or PAYMENTS_TO, without a request"),
  at: textFlag("at", pointMetavar, `in a copy: search the rows of an earlier point: ${pointWords}`),
  contains: switchFlag("contains", "in a copy: find fields that contain the text, in upper or lower case"),
  limit: textFlag("limit", "NUMBER", `show at most this many records of a list; default ${limits.default}`),
  ...targetFlags(sheetFormats)
}

/** Makes `payments find`. `api` is the service to search. */
export const findCommand = <R>(api: Layer.Layer<PaymentsApi, ProgramError, R>) =>
  Command.make(
    "find",
    findFlags,
    Effect.fnUntraced(function*(input) {
      const target = yield* targetIn(input, sheetFormats)
      const isInCopy = input.copy || input.from !== undefined
      const { limit, point, text } = yield* settingsIn(input, isInCopy)
      const most = limit ?? limits.default
      const destination = isInCopy ? yield* fromDestination(input.from) : undefined
      if (destination !== undefined) yield* checkWrittenFiles([{ flag: "--output", file: input.output }], destination)
      const before = destination === undefined ? undefined : yield* stateBefore(target, destination, Lists.all)
      const search = searchIn(api, { text, destination, most, contains: input.contains, point })
      const results: Array<Found> = []
      const stdio = yield* Stdio.Stdio
      const flags = { ...input, source: yield* SourceFlag, config: yield* ConfigFlag }
      const nextOn = (isTerminal: boolean) => most < limits.most ? nextOf(flags, isTerminal) : undefined
      const found = Stream.tap(search.found, (result) => Effect.sync(() => results.push(result)))
      const { format } = target
      const omitted = destination === undefined
        ? undefined
        : yield* omittedNote(destination, Lists.all, () => true, notSearched)
      const notes = () => [...omitted === undefined ? [] : [omitted], ...search.notes()]
      if (format === "xlsx") {
        const isShown = !isFromFile(input.text) && (destination === undefined || keepsEveryField(before))
        const asked = [["search", `${input.contains ? "contains" : "equals"} ${isShown ? text : notShown}`]] as const
        const isNow = point === undefined
        const control = { asked, destination, lists: Lists.all, before, hasSums: false, isNow, notes }
        yield* writeFound(found, { results, limit: most, target, control })
      } else {
        const next = nextOn(target.output === undefined && (yield* stdio.stdoutIsTerminal))
        const printed = { ...target, format }
        yield* printingTo(target.output, printFound(found, { results, incomplete: search.incomplete, next, printed }))
      }
      const showsCommand = yield* stdio.stderrIsTerminal
      yield* logNotes(results, {
        limit: most,
        isInCopy,
        next: nextOn(showsCommand),
        showsCommand,
        contains: input.contains
      })
      for (const note of notes()) yield* logWrapped(note)
      yield* checkAll(
        Object.fromEntries(
          results.flatMap(({ error, list }) => error === undefined ? [] : [[list.label, Effect.fail(error)] as const])
        )
      )
    })
  ).pipe(
    Command.withDescription(
      "Look a reference, a customer or a document number up in all lists. The service compares whole values of: " +
        Lists.all.map((list) => `${list.title} (${searchedFields(list).join(", ")})`).join(", ") +
        ". A copy is searched in every documented text field"
    ),
    Command.withShortDescription("Look a reference, a customer or a document number up in all lists, or in a copy"),
    Command.withExamples([
      { command: "payments find ord-1001", description: "the records of all lists with this reference, customer, …" },
      {
        command: "payments find ord-1001 --from sqlite:./payments.db --at 2024-05-31",
        description: "the records in a copy as they were at the end of this day"
      },
      {
        command: "payments find @- --from sqlite:./payments.db --contains < name.txt",
        description: "the records in a copy with this text in any field"
      }
    ])
  )

/** Whether the rule of a copy is known to keep every field. With another rule, the text may be a value that the copy must not have. */
const keepsEveryField = (state: CopyState | undefined): boolean =>
  state !== undefined && ruleNameOf(state.rule) === "keep"

/** Reads the settings from the flags. Fails if they exclude each other. */
const settingsIn = (input: Command.Command.Config.Infer<typeof findFlags>, isInCopy: boolean) =>
  checkAll({
    text: Effect.flatMap(
      valueText("TEXT", input.text),
      (value) => value === "" ? Effect.fail(usage("TEXT is empty.")) : Effect.succeed(value)
    ),
    limit: setting({ name: "limit", text: input.limit }, undefined, wholeNumber(1, limits.most)),
    point: optionalPointIn(input.at),
    flags: input.contains && !isInCopy
      ? usage("--contains needs a copy: add --from or --copy. The service compares whole values only.")
      : input.at !== undefined && !isInCopy
      ? usage("--at needs a copy: add --from or --copy. The service has no history.")
      : Effect.void
  })

/** Returns the matches in the copy, or in the service, and what is to be said about them when they were read. */
const searchIn = <R>(
  api: Layer.Layer<PaymentsApi, ProgramError, R>,
  { destination, text, ...options }: {
    readonly text: string
    readonly destination: Destination.StoredDestination | undefined
    readonly most: number
    readonly contains: boolean
    readonly point: NamedPoint | undefined
  }
) => {
  const incomplete = new Map<string, string>()
  let reached: ReachedPoint | undefined
  const found: Stream.Stream<
    Found,
    ProgramError,
    R | ChosenSource | FileSystem.FileSystem | Stdio.Stdio | Terminal.Terminal
  > = destination === undefined
    ? Stream.provide(findInApi(text, options.most), api)
    : Stream.unwrap(Effect.map(searchCopy(text, { ...options, destination, incomplete }), (search) => {
      reached = search.reached
      return Stream.fromIterable(search.found)
    }))
  return {
    found,
    incomplete,
    notes: () =>
      reached === undefined ? Array.from(incomplete, ([list, why]) => `${list}: ${why}.`) : pointNotes(reached)
  }
}

/** Searches a copy. Adds the lists that it has not as the service has them to `incomplete`, and why. */
const searchCopy = Effect.fnUntraced(function*(
  text: string,
  { contains, destination, incomplete, most, point }: {
    readonly point: NamedPoint | undefined
    readonly destination: Destination.StoredDestination
    readonly most: number
    readonly contains: boolean
    readonly incomplete: Map<string, string>
  }
) {
  const pseudonym = contains ? undefined : yield* pseudonymIn(destination, text)
  const comparison = contains ? "contains" : "equals"
  const search = { text, limit: most, comparison, pseudonym } as const
  if (point !== undefined) {
    const { found, point: reached } = yield* findInCopyAt(destination, search, point)
    for (const { list, readAt } of reached?.lists ?? []) {
      if (readAt === undefined) incomplete.set(list.label, "no export is known that had read the whole list by then")
    }
    return { found, reached }
  }
  const found = yield* findInCopy(destination, search)
  for (const [list, why] of yield* incompleteLists(destination)) incomplete.set(list, why)
  return { found, reached: undefined }
}, Effect.catchTags({ QueryError: ({ problem }) => usage(problem), ...pointProblems }))

/**
 * Returns the pseudonym of the text, if the destination has pseudonyms of the source's key. Without that key, says that the text
 * is not found behind a pseudonym.
 */
const pseudonymIn = Effect.fnUntraced(function*(destination: Destination.StoredDestination, text: string) {
  const { rule } = yield* Effect.scoped(Effect.flatMap(Destination.reader(destination), ({ personal }) => personal))
  const check = keyCheckIn(rule)
  if (check === undefined) return undefined
  const { key } = yield* chosenPersonal("forDestination")
  if (key !== undefined && keyCheck(key) === check) return pseudonymOf(key, text)
  yield* logWrapped(
    `The copy has pseudonyms of ${
      key === undefined ? "a personal key, which is not set" : "another personal key than that of the source"
    }. So a value that has one is not found.`
  )
  return undefined
})

/** Returns the names of the lists that the destination has not as the service has them, and why. */
const incompleteLists = (destination: Destination.StoredDestination) =>
  Effect.scoped(Effect.gen(function*() {
    const lists = yield* freshnessOf(yield* Destination.reader(destination), Lists.all)
    return lists.flatMap(({ completeScan, list }) => {
      const why = completeScan === undefined
        ? "no export has read the whole list yet, so the copy may lack matches"
        : heldBackText(completeScan.certificate)
      return why === undefined ? [] : [[list, why] as const]
    })
  }))

/**
 * Prints the matches of each list when it has been searched, or in a table when all have. `results` are the lists so far.
 * `incomplete` are the lists that a copy has not as the service has them, and why. `next` is the command that shows more matches.
 */
const printFound = Effect.fnUntraced(function*<R>(
  found: Stream.Stream<Found, ProgramError, R>,
  { incomplete, next, printed: { csv, format }, results }: {
    readonly results: ReadonlyArray<Found>
    readonly incomplete: ReadonlyMap<string, string>
    readonly next: Next | undefined
    readonly printed: Printed
  }
) {
  const look = yield* lookOf(format)
  if (look.format === "table") {
    // The widths of the columns fit all lists, so that there is one header.
    const matches = (yield* Stream.runCollect(found)).flatMap((list) => list.matches)
    const columns = matches.some(({ isMissing }) => isMissing) ? [...tableColumns, missingColumn] : tableColumns
    return yield* printRows(columns, Stream.make(matches), look.format, { empty: "No records." })
  }
  if (look.format === "csv") {
    const rows = Stream.map(found, ({ matches }) => matches)
    return yield* printRows(csvColumns, rows, look.format, { empty: "No records.", csv })
  }
  yield* requireOutput
  const writer = yield* makeRowWriter<Match>(
    { columns: [], cells: () => [], json: jsonOf, document: "items", output: outputs.find },
    look
  )
  const end = (wasInterrupted: boolean) => writer.end(endOf(results, incomplete, next, wasInterrupted))
  yield* Stream.runForEach(found, ({ matches }) => printOrEnd(writer.rows(matches))).pipe(
    Effect.onInterrupt(() => print(end(true)))
  )
  yield* printOrEnd(end(false))
})

/** Writes a workbook. Its control sheet says which lists have more matches, or could not be searched. */
const writeFound = <R>(
  found: Stream.Stream<Found, ProgramError, R>,
  { control, limit, results, target }: {
    readonly results: ReadonlyArray<Found>
    readonly limit: number
    readonly target: RowsTarget
    readonly control: ControlOptions
  }
) =>
  writeRows(sheetColumns, Stream.map(found, ({ matches }) => matches), target, {
    empty: "",
    control: {
      ...control,
      notes: () => [
        amountsNote,
        ...control.notes(),
        ...isCut(results) ? [cutText(results, limit)] : [],
        ...results.flatMap(({ error, list }) =>
          error === undefined ? [] : [`${list.label}: not searched. ${describe(error).message}`]
        )
      ]
    }
  })

/** The members of the JSON document after its items. */
const endOf = (
  results: ReadonlyArray<Found>,
  incomplete: ReadonlyMap<string, string>,
  next: Next | undefined,
  wasInterrupted: boolean
): string =>
  JSON.stringify({
    complete: !wasInterrupted && incomplete.size === 0 && results.every(({ complete }) => complete),
    count: results.reduce((sum, { matches }) => sum + matches.length, 0),
    ...nextMembers(isCut(results) ? next : undefined),
    lists: results.map(({ complete, error, list, matches }) => ({
      list: list.label,
      complete: complete && !incomplete.has(list.label),
      count: matches.length,
      ...(error === undefined ? {} : { error: describe(error) })
    })),
    ...(wasInterrupted ? { error: { reason: "Interrupted", message: "interrupted" } } : {})
  }).slice(1, -1)

/** Returns the lists that have more matches than are shown. */
const cutLists = (results: ReadonlyArray<Found>): ReadonlyArray<string> =>
  results.filter(({ complete, error }) => !complete && error === undefined).map(({ list }) => list.title)

const cutText = (results: ReadonlyArray<Found>, limit: number): string =>
  `Not all matches are shown. These lists have more than ${limit}: ${allOf(cutLists(results))}.`

const isCut = (results: ReadonlyArray<Found>): boolean => cutLists(results).length > 0

const repeated = [
  "source",
  "config",
  "from",
  "copy",
  "at",
  "contains",
  "format",
  "output",
  "delimiter",
  "decimalComma",
  "bom"
] as const

/** Returns the command that shows more. The text may be personal: the command repeats it only if `showsText` is true. */
const nextOf = (
  given: GivenFlags<(typeof repeated)[number]> & { readonly text: string },
  showsText: boolean
): Next => {
  const { text } = given
  const flags = flagsText(givenFlags({ ...given, limit: String(limits.most) }, [...repeated, "limit"]))
  const command = (words: string) => printable(`payments find${words}${flags}`)
  // A text that starts with - would be read as a flag.
  const isRepeatable = !text.startsWith("-") && isPrintable(text)
  return isRepeatable && (showsText || /^@[^@]/.test(text))
    ? command(` ${shellWord(text)}`)
    : { command: command(""), arguments: ["TEXT"] }
}

/** Says which lists have more matches, which rows are missing, and after a search without matches, where else to look. */
const logNotes = Effect.fnUntraced(function*(
  results: ReadonlyArray<Found>,
  { contains, isInCopy, limit, next, showsCommand }: {
    readonly limit: number
    readonly isInCopy: boolean
    readonly next: Next | undefined
    readonly showsCommand: boolean
    readonly contains: boolean
  }
) {
  if (isCut(results)) {
    const cut = cutText(results, limit)
    yield* logNote({
      message: next === undefined
        ? yield* wrapped(`${cut} Use payments query on a copy.`)
        : showsCommand
        // The command is not wrapped, so that it can be copied.
        ? `${yield* wrapped(`${cut} Show more with:`)}\n  ${nextText(next)}`
        : `${cut} Use a higher --limit.`,
      next
    })
  }
  const matches = results.flatMap((result) => result.matches)
  const missing = matches.filter(({ isMissing }) => isMissing).length
  if (missing > 0) {
    yield* logWrapped(`Rows that the service no longer returns (missing): ${missing} of these.`)
  }
  if (matches.length > 0 || results.some(({ error }) => error !== undefined)) return
  if (!isInCopy) {
    yield* logWrapped(
      "The service compares whole values of few fields (see --help). --from searches every documented text field of a copy."
    )
  } else if (!contains) yield* logWrapped("No field equals the text. --contains finds fields that contain it.")
})

const jsonOf = ({ fields, id, isMissing, list, raw }: Match): string =>
  `{"list":${JSON.stringify(list.label)},"fields":${JSON.stringify(fields)},"id":${
    JSON.stringify(id ?? null)
  },"missing":${isMissing},"record":${raw}}`

/** Returns the value of a record's field, or `absent` without it. Its number is the exact text. */
const member = (field: string, absent: Cell) => ({ raw }: Match): Cell => {
  const text = /^\s*\{/.test(raw) ? membersOf(raw).get(field) : undefined
  if (text === undefined) return absent
  const value: unknown = parseText(text)
  return value === null ? null : typeof value === "string" ? value : { json: text }
}

const listColumn: Column<Match> = { name: "list", wholeUpTo: 20, of: ({ list }) => list.label }
const fieldsColumn: Column<Match> = { name: "fields", of: ({ fields }) => fields.join(", ") }
const idColumn: Column<Match> = { name: "id", wholeUpTo: 40, of: ({ id = null }) => id }

/** The columns of people. `absent` is what a record has that lacks the field. */
const columnsWith = (absent: Cell): ReadonlyArray<Column<Match>> => [
  listColumn,
  idColumn,
  { ...fieldsColumn, minTerminalWidth: 80 },
  { name: "status", kind: "state", of: member("status", absent) },
  { name: "amount", kind: "integer", of: member("amount", absent) },
  { name: "createdAt", minTerminalWidth: 100, of: member("createdAt", absent) }
]

const tableColumns = columnsWith("")

/** A table has it only if the service no longer returns one of the records. */
const missingColumn: Column<Match> = {
  name: "missing",
  minTerminalWidth: 100,
  of: ({ isMissing }) => isMissing ? "missing" : ""
}

const csvColumns: ReadonlyArray<Column<Match>> = [
  listColumn,
  fieldsColumn,
  idColumn,
  { name: "missing", of: ({ isMissing }) => ({ json: String(isMissing) }) },
  { name: "record", of: ({ raw }) => raw }
]

/** The columns of a workbook: those of people with empty cells, and the record. */
const sheetColumns: ReadonlyArray<Column<Match>> = [
  ...columnsWith(null),
  { name: "missing", of: ({ isMissing }) => ({ json: String(isMissing) }) },
  { name: "record", of: ({ raw }) => raw }
]
