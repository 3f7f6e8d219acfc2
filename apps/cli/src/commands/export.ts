/** `payments export`. */
import {
  describeGeneration,
  Destination,
  driftWithoutSecrets,
  generationSince,
  namesForLogs,
  namesForTerminal,
  printable,
  scanAll,
  scanAllParts,
  type ScanOptions,
  type ScanOutcome,
  Sink
} from "@payments/copy"
import { Days, Lists, PaymentsApi, readPlainFile, RequestObserver } from "@payments/core"
import {
  anyOf,
  checkAll,
  chosenBoundTo,
  chosenPersonal,
  chosenScanOptionsOf,
  ChosenSource,
  CommandExit,
  ConfigFlag,
  contract,
  ExitCode,
  logLine,
  logNote,
  lowestExitCode,
  Metrics,
  type Next,
  type ObservedSettings,
  openSettingsOf,
  outcomeExitCode,
  print,
  type ProgramError,
  requireOutput,
  scanFlags,
  setting,
  SourceFlag,
  switchFlag,
  terminalWidth,
  textFlag,
  toDestination,
  toFlag,
  usage,
  wholeNumber,
  withNext
} from "@payments/program"
import { buildWithProvenNames, warnOfCursorLife } from "@payments/program/sources"
import { Context, DateTime, Effect, type FileSystem, type Layer, Result, Stdio, String } from "effect"
import { Argument, Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { flagsText, type GivenFlags, givenFlags } from "../listing/ContinueCommand.ts"
import { printCopied } from "../listing/CopiedRecords.ts"
import { pointMetavar, pointWords } from "../listing/PointFlag.ts"
import { printJson, type ResultFormat, resultFormatFlag } from "../output/ResultOutput.ts"
import { problemsOf, summarize } from "../output/Summary.ts"
import { logFailures, makeProgress } from "../progress/Progress.ts"

/** The lists by their names on the command line. */
const listChoices = Lists.all.map(({ label, name }) => [label, name] as const)

/** Whether the filter `field` can divide the list into parts. */
const canDivide = (list: Lists.AnyList, field: string): boolean => Object.hasOwn(list.filters, field)

const dividedBy = (field: string): string =>
  anyOf(Lists.all.filter((list) => canDivide(list, field)).map(({ label }) => label))

const exportFlags = {
  lists: Argument.ChoiceWithValue("list", listChoices).pipe(
    Argument.variadic(),
    Argument.withMetavar("LIST"),
    Argument.withDescription(`${listChoices.map(([label]) => label).join(", ")}; default: all lists`)
  ),
  to: toFlag(", or - for the records of one list on stdout"),
  from: textFlag(
    "from",
    "DESTINATION",
    "with --to -: print the records of this copy, which an export wrote, without a request"
  ),
  at: textFlag("at", pointMetavar, `with --from: the records of an earlier point: ${pointWords}`),
  settlementDates: textFlag(
    "settlement-dates",
    "FROM..TO",
    `export the records of ${
      dividedBy("settlementDate")
    } settled on these days, both included; reads each day by itself`
  ),
  customerIds: textFlag(
    "customer-ids",
    "FILE",
    `export the records of the customers in this file, one id per line, from ${
      dividedBy("customerId")
    }; reads each customer by itself`
  ),
  concurrency: textFlag("concurrency", "NUMBER", "how many days or customers to read at the same time; default 4"),
  rebind: switchFlag(
    "rebind",
    "accept this service, merchant and key for the destination from now on; for a service that has moved, another merchant or a new key"
  ),
  acceptMissing: textFlag(
    "accept-missing",
    "NUMBER",
    "in this run, look for the records of one list that were held back, and mark those that are nowhere, at most so many"
  ),
  ...scanFlags,
  format: resultFormatFlag
}

type Given = Command.Command.Config.Infer<typeof exportFlags>

const examples = [
  { command: "payments export --to sqlite:./payments.db", description: "all lists" },
  { command: "payments export invoices --to 'file:./invoices?format=parquet'", description: "one list, as a file" },
  { command: "payments export invoices --to - | gzip > invoices.ndjson.gz", description: "one list, to stdout" },
  {
    command: "payments export invoices --from sqlite:./payments.db --at 2024-05-31 --to - > invoices.ndjson",
    description: "the invoices of a copy as they were at the end of this day"
  },
  {
    command:
      "payments export invoices --to sqlite:./payments.db --settlement-dates 2024-05-01..2024-05-31 --concurrency 8",
    description: "the invoices settled in May, eight days at a time"
  }
]

/** Makes the command. `api` is the service to read. `telemetry` exports what happens, for the time of the export. */
export const exportCommand = <R>(
  api: Layer.Layer<PaymentsApi, ProgramError, R>,
  telemetry: (source: ObservedSettings) => Layer.Layer<Metrics, never, Sink>
) =>
  Command.make(
    "export",
    exportFlags,
    Effect.fnUntraced(function*(input) {
      if (input.from !== undefined) return yield* printCopied({ ...input, from: input.from, others: othersIn(input) })
      if (input.at !== undefined) return yield* usage("--at needs --from COPY. The service has no history.")
      // `checkAll` reports the error of the source, which the service needs too.
      const source = yield* Effect.orElseSucceed((yield* ChosenSource).forService, () => undefined)
      const sourceName = source?.name ?? "default"
      const names = input.lists.length > 0
        ? [...new Set(input.lists)]
        : source?.lists ?? Lists.all.map(({ name }) => name)
      // All settings are checked together, before anything is opened: a wrong setting leaves no empty destination.
      const { acceptMissing, concurrency, destination, parts, personal, scanOptions, service } = yield* checkAll({
        destination: destinationFor(input, names),
        scanOptions: chosenScanOptionsOf(input),
        personal: chosenPersonal("forService"),
        parts: partsOf(input, names),
        concurrency: setting({ name: "concurrency", text: input.concurrency }, undefined, wholeNumber(1, 64)),
        acceptMissing: acceptMissingOf(input, names),
        service: serviceFor(api, input)
      })
      yield* warnOfCursorLife(Context.get(service, PaymentsApi), destination, names, logLine)
      const isStored = Destination.isStored(destination)
      if (!isStored || input.format === "json") yield* requireOutput
      const given = { ...input, source: yield* SourceFlag, config: yield* ConfigFlag }
      const next = nextOf(given)
      const output: ExportOutput = { isStored, format: input.format, next, acceptMissing: acceptCommandOf(given) }
      yield* Effect.gen(function*() {
        const metrics = yield* Metrics
        const options: ScanOptions = {
          ...scanOptions,
          acceptMissing,
          personal,
          rebind: input.rebind,
          onEvent: (event) => metrics.onEvent(sourceName, event)
        }
        const exported = parts === undefined
          ? exportLists(names, options, output)
          : withProgress(names, output, options, (onEvent) =>
            Effect.map(
              scanAllParts(parts.list, { ...options, field: parts.field, values: parts.values, concurrency, onEvent }),
              (outcome) => [outcome]
            ))
        yield* Effect.provideService(exported, RequestObserver, metrics.requestsOf(sourceName))
      }).pipe(
        Effect.withSpan("payments export"),
        Effect.provide(telemetry({ ...source, ...yield* openSettingsOf(source), name: sourceName, lists: names })),
        Effect.provide(Destination.layer(destination)),
        Effect.provide(service)
      )
    }, Effect.scoped)
  ).pipe(
    Command.withDescription("Copy lists into a database or files; resumes an interrupted run"),
    Command.withExamples(examples)
  )

/** Returns the given flags that only an export from the service has. */
const othersIn = ({ at: _at, format, from: _from, lists: _lists, to: _to, ...others }: Given): ReadonlyArray<string> =>
  Object.entries({ ...others, format: format === "json" ? format : undefined })
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name]) => `--${String.camelToSnake(name).replaceAll("_", "-")}`)

/** Builds the client. What is wrong with its source and destination is reported for them. */
const serviceFor = <R>(api: Layer.Layer<PaymentsApi, ProgramError, R>, { to }: Given) =>
  Effect.flatMap(
    Effect.all({
      boundTo: Effect.orElseSucceed(chosenBoundTo("forService"), () => undefined),
      to: Effect.orElseSucceed(toDestination(to), () => undefined)
    }),
    (place) => buildWithProvenNames(api, place, logLine)
  )

/** The flags that the command which resumes an export repeats. The days are values of a filter, so it does not. */
const repeated = [
  "source",
  "config",
  "to",
  "customerIds",
  "concurrency",
  "patience",
  "onLocked",
  "ignoreField",
  "missingLimit",
  "acceptMissing",
  "format",
  "rebind"
] as const

/** The flags that the command which accepts missing records repeats. */
const repeatedToAccept = ["source", "config", "to", "patience", "onLocked", "ignoreField", "missingLimit"] as const

/** Returns the function that returns the command which accepts that so many records of a list are missing. */
const acceptCommandOf =
  (given: Given & GivenFlags<"source" | "config">): ExportOutput["acceptMissing"] => (list, records) => {
    const flags = flagsText(givenFlags(given, repeatedToAccept))
    return printable(`payments export ${Lists.byName[list].label}${flags} --accept-missing ${records}`)
  }

/** Returns the same command, which resumes an interrupted export. */
const nextOf = (
  given: Given & GivenFlags<"source" | "config">
): Next => {
  const lists = given.lists.map((name) => ` ${Lists.byName[name].label}`).join("")
  const command = printable(`payments export${lists}${flagsText(givenFlags(given, repeated))}`)
  return given.settlementDates === undefined ? command : { command, arguments: ["--settlement-dates"] }
}

/** Reads the destination from the flags. Fails if other flags exclude it. */
const destinationFor = Effect.fnUntraced(function*(
  input: Given,
  names: ReadonlyArray<Lists.ListName>
) {
  const destination = yield* toDestination(input.to)
  const conflict = Destination.isStored(destination) ? undefined : conflictOf(input, names)
  return conflict === undefined ? destination : yield* usage(conflict)
})

/** Returns why an export to stdout is impossible with these flags, or undefined if it is possible. */
const conflictOf = (
  { acceptMissing, ignoreField, missingLimit, onLocked, rebind }: Given,
  names: ReadonlyArray<Lists.ListName>
): string | undefined =>
  names.length > 1
    ? "Only one list at a time can go to stdout (-), because its lines do not name their list. Name one list."
    : rebind || [acceptMissing, ignoreField, missingLimit, onLocked].some((given) => given !== undefined)
    ? "--rebind, --on-locked, --ignore-field, --missing-limit and --accept-missing do not apply to stdout (-). Remove them."
    : undefined

/** Reads how many records of the list are accepted as missing. Fails if other flags exclude it. */
const acceptMissingOf = Effect.fnUntraced(function*(
  { acceptMissing: text, customerIds, settlementDates }: Given,
  names: ReadonlyArray<Lists.ListName>
) {
  const accepted = yield* setting({ name: "accept-missing", text }, undefined, wholeNumber(1))
  if (accepted === undefined) return undefined
  if (names.length !== 1) return yield* usage("--accept-missing needs exactly one list, because it counts its records.")
  if (customerIds !== undefined || settlementDates !== undefined) {
    return yield* usage("--accept-missing needs a scan of the whole list. Remove --settlement-dates or --customer-ids.")
  }
  return accepted
})

interface Parts {
  readonly list: Lists.ListName
  readonly field: string
  readonly values: ReadonlyArray<string>
}

/** Reads the parts from the flags. Returns undefined if the whole list is exported. */
const partsOf = Effect.fnUntraced(function*(
  { concurrency, customerIds, settlementDates }: Given,
  names: ReadonlyArray<Lists.ListName>
): Effect.fn.Return<Parts | undefined, CommandExit, FileSystem.FileSystem> {
  if (customerIds !== undefined && settlementDates !== undefined) {
    return yield* usage("--settlement-dates and --customer-ids exclude each other. Give one of them.")
  }
  if (customerIds === undefined && settlementDates === undefined) {
    return concurrency === undefined
      ? undefined
      : yield* usage("--concurrency applies only to parts of a list. Add --settlement-dates or --customer-ids.")
  }
  const [list, ...more] = names
  const field = settlementDates === undefined ? "customerId" : "settlementDate"
  if (list === undefined || more.length > 0 || !canDivide(Lists.byName[list], field)) {
    return yield* usage(
      settlementDates === undefined
        ? `--customer-ids needs exactly one list: ${dividedBy("customerId")}.`
        : `--settlement-dates needs exactly one list: ${dividedBy("settlementDate")}.`
    )
  }
  const values = settlementDates === undefined
    ? yield* idsIn(customerIds ?? "")
    : daysOf(settlementDates) ?? (yield* usage(
      "Invalid value for --settlement-dates. Expected: two days such as 2024-05-01..2024-05-31, the first not after the second, ten years at most"
    ))
  return { list, field, values }
})

/** The size of the largest file of ids, in bytes. It fits more than a million ids. The scan reads each of them as a part. */
const largestIdsFile = 64 * 1024 * 1024

const idsIn = Effect.fnUntraced(function*(file: string) {
  const { text } = yield* readPlainFile(file, { maxBytes: largestIdsFile }).pipe(
    Effect.mapError(({ problem }) => usage(`--customer-ids: the file ${printable(file)} ${problem}.`))
  )
  const lines = text.split(/\r\n|\r|\n/).map((line) => line.trim())
  // No id contains a control character. A file with one is not a list of ids.
  const bad = lines.findIndex((line) => /\p{Cc}/u.test(line))
  if (bad >= 0) {
    return yield* usage(`--customer-ids: line ${bad + 1} of the file ${printable(file)} contains a control character.`)
  }
  const ids = [...new Set(lines.filter((line) => line !== ""))]
  return ids.length === 0 ? yield* usage(`--customer-ids: the file ${printable(file)} contains no customer id.`) : ids
})

const daysOf = (range: string): ReadonlyArray<string> | undefined => {
  const [, from = "", to = ""] = /^([^.]+)\.\.([^.]+)$/.exec(range) ?? []
  return Result.getOrUndefined(Days.between(from, to))
}

export interface ExportOutput {
  /** Whether a destination stores the records. Otherwise they go to stdout, and the summary to stderr. */
  readonly isStored: boolean
  readonly format: ResultFormat
  readonly next: Next
  /** Returns the command that accepts that so many records of a list are missing. */
  readonly acceptMissing: (list: Lists.ListName, records: number) => string
}

/** Exports the lists concurrently, shows the progress, and prints a summary at the end. */
export const exportLists = (names: ReadonlyArray<Lists.ListName>, options: ScanOptions, output: ExportOutput) =>
  withProgress(names, output, options, (onEvent) => scanAll(names, { ...options, onEvent }))

/** Runs the scans, shows their progress and prints the summary. Fails with the exit code of the outcomes. */
const withProgress = Effect.fnUntraced(function*<R>(
  names: ReadonlyArray<Lists.ListName>,
  { acceptMissing, format, isStored, next }: ExportOutput,
  options: ScanOptions,
  scans: (onEvent: ScanOptions["onEvent"]) => Effect.Effect<ReadonlyArray<ScanOutcome>, never, R>
) {
  const sink = yield* Sink
  const startedAt = DateTime.formatIso(yield* DateTime.now)
  const progress = yield* makeProgress(sink, isStored)
  const onTerminal = yield* (yield* Stdio.Stdio)[isStored ? "stdoutIsTerminal" : "stderrIsTerminal"]
  const printDocument = Effect.fnUntraced(function*(outcomes: ReadonlyArray<ScanOutcome>) {
    const { summaryDocument } = yield* Effect.promise(() => import("../output/SummaryJson.ts"))
    const shown = yield* withoutSecretNames(outcomes, onTerminal)
    const document = summaryDocument(names, shown, isStored ? sink.location : undefined, next)
    yield* isStored
      ? printJson(outputs.exportResult, document)
      : logLine(printable(JSON.stringify(contract.withVersion(outputs.exportSummary, { summary: document }))))
  })
  const ended: Array<ScanOutcome> = []
  const outcomes = yield* progress.during(
    scans((event) => {
      if (event._tag === "Ended" && event.kind === "full") ended.push(event.outcome)
      return Effect.andThen(options.onEvent?.(event) ?? Effect.void, progress.onEvent(event))
    })
  ).pipe(
    Effect.onInterrupt(() =>
      Effect.andThen(
        format === "json" ? printDocument(ended) : Effect.void,
        logNote({
          message: isStored
            ? "payments: interrupted. Committed records are stored. Run the same command again to resume."
            : "payments: interrupted. The next run starts from the first page.",
          next
        })
      )
    )
  )
  const problems = problemsOf(
    outcomes,
    isStored ? sink : "stdout",
    acceptMissing,
    options.personal?.undocumented === "hold"
  )
  yield* logBegunGeneration(sink, startedAt)
  if (format === "json") {
    yield* printDocument(outcomes)
    yield* Effect.mapError(failWith(outcomes, problems), (error) => withNext(error, next))
    return
  }
  const width = yield* terminalWidth
  const lines = summarize(yield* withoutSecretNames(outcomes, onTerminal), progress.startEvents, isStored, width)
  const summary = lines.every((line) => line.length <= width) ? lines : yield* wrapLong(lines, width)
  if (summary.length > 0) {
    yield* isStored ? print([...summary, `Rows: ${sink.location}`, ""].join("\n")) : logLine(summary.join("\n"))
  }
  // Problems are printed last: people read the last lines first.
  for (const problem of problems) yield* logLine(`payments: ${problem}`)
  yield* logFailures(outcomes)
  const exitCode = lowestExitCode(outcomes.map(outcomeExitCode))
  if (exitCode !== 0) return yield* new CommandExit({ exitCode, problem: "" })
})

/** Says if the export has found that the destination was restored, and has begun a generation of its changes. */
const logBegunGeneration = Effect.fnUntraced(function*(sink: Sink["Service"], startedAt: string) {
  const generation = yield* generationSince(sink, startedAt)
  if (generation === undefined) return
  yield* logLine(
    `payments: ${sink.location} is now in ${
      describeGeneration(generation)
    }. Consumers of changes have to say where they stand: payments status names them.`
  )
})

/** Fails with the errors of the lists and the problems of the records, if there are any. */
const failWith = (outcomes: ReadonlyArray<ScanOutcome>, problems: ReadonlyArray<string>) =>
  checkAll({
    ...Object.fromEntries(
      outcomes.flatMap(({ list, result }) => Result.isFailure(result) ? [[list, Effect.fail(result.failure)]] : [])
    ),
    problems: problems.length === 0
      ? Effect.void
      : new CommandExit({ exitCode: ExitCode.incomplete, problem: problems.join("\n") })
  })

/** Wraps the lines that are wider than the terminal between their words. */
const wrapLong = Effect.fnUntraced(function*(lines: ReadonlyArray<string>, width: number) {
  const { wrapWords } = yield* Effect.promise(() => import("../output/TextWidth.ts"))
  return lines.flatMap((line) => line.length <= width ? [line] : wrapWords(line, width))
})

/** Removes names of undocumented fields that could be secrets. A terminal may show more names than a log. */
const withoutSecretNames = Effect.fnUntraced(function*(outcomes: ReadonlyArray<ScanOutcome>, onTerminal: boolean) {
  const { isSecret } = yield* PaymentsApi
  const publicNames = onTerminal ? namesForTerminal : namesForLogs
  return outcomes.map((outcome) => ({
    ...outcome,
    result: Result.map(
      outcome.result,
      (scans) =>
        scans.map((scan) => ({
          ...scan,
          drift: driftWithoutSecrets(scan.drift, isSecret),
          undocumented: publicNames(scan.undocumented, isSecret)
        }))
    )
  }))
})
