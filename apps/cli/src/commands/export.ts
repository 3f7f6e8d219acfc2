/** `payments export`. */
import { Days, Lists, PaymentsApi, type PaymentsConfigError, readPlainFile } from "@payments/core"
import {
  Destination,
  lowestExitCode,
  namesForLogs,
  namesForTerminal,
  printable,
  scanAll,
  scanAllParts,
  type ScanOptions,
  type ScanOutcome,
  Sink
} from "@payments/export"
import {
  checkAll,
  CommandExit,
  destinationOf,
  logLine,
  print,
  requireOutput,
  scanFlags,
  scanOptionsOf,
  setting,
  textFlag,
  toFlag,
  usage,
  wholeNumber
} from "@payments/export/program"
import { Effect, type FileSystem, Layer, Result, Stdio } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { terminalWidth } from "../Output.ts"
import { makeProgress, sayFailures } from "../Progress.ts"
import { problemsOf, summarize } from "../Summary.ts"

const named = Lists.all.map(({ label, name }) => [label, name] as const)

/** `payments export`, over the given service. */
export const exportCommand = <R>(api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>) =>
  Command.make(
    "export",
    {
      lists: Argument.ChoiceWithValue("list", named).pipe(
        Argument.variadic(),
        Argument.withMetavar("LIST"),
        Argument.withDescription(`${named.map(([label]) => label).join(", ")}; all three if none is named`)
      ),
      to: toFlag(", or - for the records of one list on stdout"),
      settlementDates: textFlag(
        "settlement-dates",
        "FROM..TO",
        "cut the invoices by settlement date, both days included, and read the days side by side"
      ),
      customerIds: textFlag(
        "customer-ids",
        "FILE",
        "cut payout requests or payin sources by the customer ids in this file, one a line"
      ),
      concurrency: textFlag("concurrency", "NUMBER", "parts that are read at once; 4 unless given"),
      rebind: Flag.Boolean("rebind").pipe(
        Flag.withDescription(
          "the service has moved, or a new merchant or key belongs here: let the destination belong to them too"
        ),
        Flag.withDefault(false)
      ),
      ...scanFlags
    },
    Effect.fnUntraced(function*(input) {
      const names = input.lists.length === 0 ? Lists.all.map(({ name }) => name) : [...new Set(input.lists)]
      // All settings are checked first, together: a wrong one leaves no empty destination behind.
      const { concurrency, destination, parts, scanOptions, service } = yield* checkAll({
        destination: destinationFor(input, names),
        scanOptions: scanOptionsOf(input),
        parts: partsOf(input, names),
        concurrency: setting({ name: "concurrency", text: input.concurrency }, undefined, wholeNumber(1, 64)),
        service: Layer.build(api)
      })
      const options = { ...scanOptions, rebind: input.rebind }
      const isKept = destination._tag !== "Stdout"
      if (!isKept) yield* requireOutput
      const exported = parts === undefined
        ? exportLists(names, options, isKept)
        : exportParts({ ...parts, concurrency }, options, isKept)
      yield* exported.pipe(Effect.provide(Destination.layer(destination)), Effect.provide(service))
    }, Effect.scoped)
  ).pipe(
    Command.withDescription("Copy lists into a database or files, going on where an earlier run was cut"),
    Command.withExamples([
      { command: "payments export --to sqlite:./payments.db", description: "all three lists" },
      { command: "payments export invoices --to 'file:./invoices?format=parquet'", description: "one list, as a file" },
      { command: "payments export invoices --to - | gzip > invoices.ndjson.gz", description: "one list, as it comes" },
      {
        command:
          "payments export invoices --to sqlite:./payments.db --settlement-dates 2024-05-01..2024-05-31 --concurrency 8",
        description: "the invoices settled in May, eight days at a time"
      }
    ])
  )

/** Where to export, unless that makes no sense with the other flags. */
const destinationFor = Effect.fnUntraced(function*(
  input: Parameters<typeof conflictOf>[0] & { readonly to: string | undefined },
  names: ReadonlyArray<Lists.ListName>
) {
  const destination = yield* destinationOf({ name: "to", text: input.to })
  const conflict = destination._tag === "Stdout" ? conflictOf(input, names) : undefined
  return conflict === undefined ? destination : yield* usage(conflict)
})

/** What makes no sense where nothing is kept. */
const conflictOf = (
  { ignoreFields, missingLimit, onLocked, rebind }: {
    readonly ignoreFields: string | undefined
    readonly missingLimit: string | undefined
    readonly onLocked: string | undefined
    readonly rebind: boolean
  },
  names: ReadonlyArray<Lists.ListName>
): string | undefined =>
  names.length > 1
    ? "To - (stdout) goes one list at a time, for no line says which one it is of: name it."
    : rebind || [ignoreFields, missingLimit, onLocked].some((given) => given !== undefined)
    ? "--rebind, --on-locked, --ignore-field and --missing-limit are for what is kept, not for - (stdout)."
    : undefined

/** The parts of one list. */
interface Parts {
  readonly list: Lists.ListName
  readonly field: string
  readonly values: ReadonlyArray<string>
}

/** The parts that the flags ask for, if they ask for any. */
const partsOf = Effect.fnUntraced(function*(
  { concurrency, customerIds, settlementDates }: {
    readonly concurrency: string | undefined
    readonly customerIds: string | undefined
    readonly settlementDates: string | undefined
  },
  names: ReadonlyArray<Lists.ListName>
): Effect.fn.Return<Parts | undefined, CommandExit, FileSystem.FileSystem> {
  if (customerIds !== undefined && settlementDates !== undefined) {
    return yield* usage("--settlement-dates and --customer-ids do not go together.")
  }
  if (customerIds === undefined && settlementDates === undefined) {
    return concurrency === undefined
      ? undefined
      : yield* usage("--concurrency is for parts of a list: give --settlement-dates or --customer-ids.")
  }
  const [list, ...more] = names
  const field = settlementDates === undefined ? "customerId" : "settlementDate"
  if (list === undefined || more.length > 0 || !Object.hasOwn(Lists.byName[list].filters, field)) {
    return yield* usage(
      settlementDates === undefined
        ? "--customer-ids cuts one list: payout-requests or payin-sources."
        : "--settlement-dates cuts one list: invoices."
    )
  }
  const values = settlementDates === undefined
    ? yield* idsIn(customerIds ?? "")
    : daysOf(settlementDates) ?? (yield* usage(
      "Invalid value for --settlement-dates. Expected: two days such as 2024-05-01..2024-05-31, the first not the later, ten years at most"
    ))
  return { list, field, values }
})

/** Bytes. Over a million ids, each of which is scanned as a part of its own. */
const largestIdsFile = 64 * 1024 * 1024

const idsIn = Effect.fnUntraced(function*(file: string) {
  const { text } = yield* readPlainFile(file, { maxBytes: largestIdsFile }).pipe(
    Effect.mapError(({ problem }) => usage(`--customer-ids: the file ${printable(file)} ${problem}.`))
  )
  const lines = text.split(/\r\n|\r|\n/).map((line) => line.trim())
  // An id with such a character is none: the file is something else.
  const bad = lines.findIndex((line) => /\p{Cc}/u.test(line))
  if (bad >= 0) {
    return yield* usage(`--customer-ids: line ${bad + 1} of the file ${printable(file)} holds a control character.`)
  }
  const ids = [...new Set(lines.filter((line) => line !== ""))]
  return ids.length === 0 ? yield* usage(`--customer-ids: the file ${printable(file)} names no customer.`) : ids
})

const daysOf = (range: string): ReadonlyArray<string> | undefined => {
  const [, from = "", to = ""] = /^([^.]+)\.\.([^.]+)$/.exec(range) ?? []
  return Result.getOrUndefined(Days.between(from, to))
}

/** Exports the lists side by side, shows how it goes, and ends with a summary. */
export const exportLists = (names: ReadonlyArray<Lists.ListName>, options: ScanOptions = {}, isKept = true) =>
  shown(isKept, (onEvent) => scanAll(names, { ...options, onEvent }))

const exportParts = (
  { list, ...parts }: Parts & { readonly concurrency: number | undefined },
  options: ScanOptions,
  isKept: boolean
) =>
  shown(isKept, (onEvent) => Effect.map(scanAllParts(list, { ...options, ...parts, onEvent }), (outcome) => [outcome]))

const shown = Effect.fnUntraced(function*<R>(
  isKept: boolean,
  scans: (onEvent: ScanOptions["onEvent"]) => Effect.Effect<ReadonlyArray<ScanOutcome>, never, R>
) {
  const sink = yield* Sink
  const progress = yield* makeProgress(isKept)
  const outcomes = yield* scans(progress.onEvent).pipe(
    Effect.ensuring(progress.clear),
    Effect.onInterrupt(() =>
      logLine(
        isKept
          ? "payments: interrupted. What was committed is kept: run again to go on."
          : "payments: interrupted. The next run begins anew."
      )
    )
  )
  const onTerminal = yield* (yield* Stdio.Stdio)[isKept ? "stdoutIsTerminal" : "stderrIsTerminal"]
  const width = onTerminal ? yield* terminalWidth : Infinity
  const summary = summarize(yield* withShownNames(outcomes, onTerminal), progress.told, isKept, width)
  if (summary.length > 0) {
    yield* isKept ? print([...summary, `Rows: ${sink.location}`, ""].join("\n")) : logLine(summary.join("\n"))
  }
  // Last, where a person looks first.
  for (const problem of problemsOf(outcomes, isKept ? sink : "stdout")) yield* logLine(`payments: ${problem}`)
  yield* sayFailures(outcomes)
  const exitCode = lowestExitCode(outcomes.map((outcome) => outcome.exitCode))
  if (exitCode !== 0) return yield* new CommandExit({ exitCode, problem: "" })
})

/** The outcomes, with those names of undocumented fields that may stand where the summary goes. */
const withShownNames = Effect.fnUntraced(function*(outcomes: ReadonlyArray<ScanOutcome>, onTerminal: boolean) {
  const { isSecret } = yield* PaymentsApi
  const shownNames = onTerminal ? namesForTerminal : namesForLogs
  return outcomes.map((outcome) => ({
    ...outcome,
    result: Result.map(
      outcome.result,
      (scans) => scans.map((scan) => ({ ...scan, undocumented: shownNames(scan.undocumented, isSecret) }))
    )
  }))
})
