/**
 * `payments status`: prints how fresh the lists of a destination are, or those of all sources of a file. It needs neither the API
 * nor a key.
 */
import {
  ageOf,
  type Cell,
  type ConsumerState,
  describeGeneration,
  Destination,
  freshnessOf,
  heldBackText,
  isFresh,
  type ListFreshness,
  oldestOpen,
  openRecordsOf,
  printable,
  type Reader,
  skippedText,
  undatedIn
} from "@payments/copy"
import { Lists } from "@payments/core"
import {
  ageAndLimit,
  ageText,
  checkAll,
  CommandExit,
  copyOf,
  counted,
  duration,
  ExitCode,
  flagsOfSource,
  fromDestination,
  fromFlag,
  grouped,
  haltAdvice,
  type Halted,
  haltText,
  lowestExitCode,
  openSettingsOf,
  print,
  programExitCodeOf,
  requireOutput,
  setting,
  shellWord,
  sourcesOfDestinations,
  switchFlag,
  textFlag
} from "@payments/program"
import type { LoadedSource } from "@payments/program/sources"
import { DateTime, Duration, Effect, Result, Stream } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { openNotes, openProblemOf, type OpenStatus } from "../output/OpenRecordsText.ts"
import { type Column, logOmitted, lookOf, printRows, rowFormatFlag } from "../output/Rows.ts"
import type * as Table from "../output/Table.ts"
import type * as TextWidth from "../output/TextWidth.ts"
import { resourceFlag } from "./changes.ts"

interface ListStatus extends ListFreshness, OpenStatus {
  readonly list: string
  readonly completeScan: ListFreshness["completeScan"]
  /** The name of the source. Undefined if no source of a file is shown. */
  readonly source: string | undefined
  /** Undefined if the age is unknown or there is no complete full scan. */
  readonly age: Duration.Duration | undefined
  readonly maxAge: Duration.Duration | undefined
  /** Undefined if no age is allowed or forbidden. */
  readonly isFresh: boolean | undefined
  /** Whether a rewrite of the destination is not complete, so that exports are refused. */
  readonly isRewriting: boolean
  /** The hand-offs of the destination that send nothing until a person acts. */
  readonly halted: ReadonlyArray<Halted>
  /** Undefined if any age is allowed. An age that is not known is too long. */
  readonly isOpenTooLong: boolean | undefined
}

export const statusCommand = Command.make(
  "status",
  {
    from: fromFlag,
    maxAge: textFlag("max-age", "DURATION", "exit with code 12 if a list is older, such as 24h"),
    maxOpen: textFlag("max-open", "DURATION", "exit with code 12 if a record has been open for longer, such as 48h"),
    failOnHeldBack: switchFlag("fail-on-held-back", "exit with code 10 if the last full scan of a list held rows back"),
    resource: resourceFlag,
    format: rowFormatFlag
  },
  Effect.fnUntraced(function*(given) {
    const { chosen, environment, maxAge, maxOpen } = yield* checkAll({
      chosen: chosenDestinations(given.from),
      environment: openSettingsOf(undefined),
      maxAge: setting({ name: "max-age", text: given.maxAge }, undefined, duration),
      maxOpen: setting({ name: "max-open", text: given.maxOpen }, undefined, duration)
    })
    const limits = { environment, maxAge, maxOpen }
    const [, second] = chosen
    // One destination that cannot be read does not hide the others.
    const read = yield* Effect.forEach(chosen, (one) => {
      const statuses = statusesOf(given.resource, limits, one, second !== undefined)
      return second === undefined ? Effect.map(statuses, (found) => Result.succeed(found)) : Effect.result(statuses)
    }, { concurrency: concurrentDestinations })
    const statuses = read.flatMap((result) => Result.isSuccess(result) ? result.success : [])
    const failures = read.flatMap((result) => Result.isFailure(result) ? [result.failure] : [])
    const { format, width } = yield* lookOf(given.format)
    if (format === "table") {
      yield* requireOutput
      // Loaded only here, because most commands print no table.
      const modules = yield* Effect.promise(() =>
        Promise.all([import("../output/Table.ts"), import("../output/TextWidth.ts")])
      )
      const { omittedColumns, text } = textOf(statuses, modules, width)
      yield* print(text)
      yield* logOmitted(omittedColumns, "use --format json")
    } else {
      const columns = second === undefined ? listColumns : [sourceColumn, ...listColumns]
      // A reader that closes the pipe early must not hide that a list is too old.
      yield* Effect.catchIf(
        printRows(columns, Stream.make(statuses), format, { empty: "", output: outputs.status }),
        ({ exitCode }) => exitCode === ExitCode.done,
        () => Effect.void
      )
    }
    const stale = [
      ...statuses.filter((status) => status.isFresh === false).map(problemOf),
      ...statuses.filter((status) => status.isOpenTooLong === true).map(openProblemOf)
    ]
    const heldBack = given.failOnHeldBack ? statuses.flatMap(heldBackNotes) : []
    const problems = [...failures.map(({ message }) => message), ...heldBack.map((note) => `${note}.`), ...stale]
    if (problems.length > 0) {
      const exitCode = lowestExitCode([
        ...failures.map(programExitCodeOf),
        ...heldBack.map(() => ExitCode.incomplete),
        ...stale.map(() => ExitCode.stale)
      ])
      return yield* new CommandExit({ exitCode, problem: problems.join("\n") })
    }
  })
).pipe(
  Command.withDescription(
    "Show how fresh the lists of a destination, or of all sources of a file, are; needs neither the API nor a key"
  ),
  Command.withExamples([
    { command: "payments status --config payments.toml", description: "all sources of the file, in one answer" },
    { command: "payments status --from sqlite:./payments.db", description: "age, rows and last scan of each list" },
    {
      command: "payments status --from file:./payments --resource invoices --max-age 24h",
      description: "exit with code 12 if the last complete full scan of the invoices began more than 24 hours ago"
    },
    {
      command: "payments status --from sqlite:./payments.db --resource payout-requests --max-open 48h",
      description: "exit with code 12 if a payout request has been open for more than 48 hours"
    }
  ])
)

/** How many destinations are read at the same time. */
const concurrentDestinations = 8

/** A destination, and its source if no flag or variable names the destination. */
interface ChosenDestination {
  readonly source: LoadedSource | undefined
  readonly destination: Destination.StoredDestination
}

/** What flags and the environment say. */
interface Limits {
  /** The settings of the environment, for a destination without a source. */
  readonly environment: Pick<LoadedSource, "finalStates" | "maxOpen">
  readonly maxAge: Duration.Duration | undefined
  readonly maxOpen: Duration.Duration | undefined
}

const chosenDestinations = Effect.fnUntraced(function*(from: string | undefined) {
  const sources = yield* sourcesOfDestinations(from)
  if (sources.length === 0) return [{ source: undefined, destination: yield* fromDestination(from) }]
  return yield* Effect.forEach(
    sources,
    (source) => Effect.map(copyOf(source, "from"), (destination): ChosenDestination => ({ source, destination }))
  )
})

const statusesOf = Effect.fnUntraced(function*(
  resource: ReadonlyArray<Lists.AnyList>,
  limits: Limits,
  { destination, source }: ChosenDestination,
  isNamed: boolean
) {
  const lists = resource.length > 0
    ? resource
    : source?.lists.map((name) => Lists.byName[name]) ?? Lists.all
  const { found, handoffs, rewriting } = yield* Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(destination)
    const freshness = yield* freshnessOf(reader, lists)
    return {
      found: yield* Effect.forEach(
        freshness,
        (list, index) => Effect.map(openOf(reader, lists[index], limits, source), (open) => ({ ...list, ...open }))
      ),
      handoffs: yield* reader.handoffs,
      rewriting: (yield* reader.personal).rewriting
    }
  }))
  const now = yield* DateTime.now
  const maxAge = limits.maxAge ?? source?.maxAge
  const place = source === undefined
    ? `--from ${shellWord(Destination.shown(destination))}`
    : yield* flagsOfSource(source.name)
  return found.map((list): ListStatus => {
    const oldest = list.open === undefined ? undefined : oldestOpen(list.open, now)
    return {
      ...list,
      label: isNamed && source !== undefined ? `${source.name}/${list.list}` : list.list,
      source: source?.name,
      age: ageOf(list, now),
      maxAge,
      isFresh: maxAge === undefined ? undefined : isFresh(list, maxAge, now),
      isRewriting: rewriting,
      halted: handoffs.flatMap(({ batch, consumer, reason = null, state }): ReadonlyArray<Halted> =>
        state === "running" ? [] : [{ consumer, state, reason, seq: state === "waiting" ? batch?.last ?? null : null }]
      ),
      oldestOpen: oldest,
      isOpenTooLong: list.maxOpen === undefined
        ? undefined
        : list.completeScan === undefined || list.open === undefined || list.open.lacking.length > 0 ||
          undatedIn(list.open) > 0 || (oldest !== undefined && Duration.isGreaterThan(oldest.age, list.maxOpen)),
      place
    }
  })
})

/** Reads the open records of a list. */
const openOf = Effect.fnUntraced(function*(
  reader: Reader,
  list: Lists.AnyList | undefined,
  { environment, maxOpen: limit }: Limits,
  source: LoadedSource | undefined
) {
  if (list === undefined) return { open: undefined, maxOpen: undefined }
  const settings = source ?? environment
  const [configured, maxOpen] = [settings.finalStates?.[list.label], limit ?? settings.maxOpen?.[list.label]]
  return { open: yield* openRecordsOf(reader, list, { configured, isLimited: maxOpen !== undefined }), maxOpen }
})

const json = (value: unknown): Cell => value === undefined ? null : { json: JSON.stringify(value) }
const seconds = (time: Duration.Duration | undefined): Cell =>
  time === undefined ? null : json(Duration.toSeconds(time))

const sourceColumn: Column<ListStatus> = { name: "source", of: ({ source = null }) => source }

/** The output for programs. */
const listColumns: ReadonlyArray<Column<ListStatus>> = [
  { name: "list", of: ({ list }) => list },
  { name: "ageSeconds", of: ({ age }) => seconds(age) },
  { name: "maxAgeSeconds", of: ({ maxAge }) => seconds(maxAge) },
  { name: "isFresh", of: (status) => json(status.isFresh) },
  { name: "rows", of: ({ rows }) => json(rows) },
  { name: "missing", of: ({ missing }) => json(missing) },
  { name: "quarantined", of: ({ quarantined }) => json(quarantined) },
  { name: "heldBack", of: ({ completeScan }) => json(completeScan?.certificate?.heldBack ?? 0) },
  { name: "completeScan", of: ({ completeScan }) => json(completeScan) },
  { name: "running", of: ({ running }) => json(running) },
  { name: "holder", of: ({ holder = null }) => holder },
  { name: "headProblem", of: ({ headProblem = null }) => headProblem },
  { name: "generation", of: ({ generation }) => json(generation) },
  { name: "lastChange", of: ({ lastChange }) => json(lastChange) },
  {
    name: "consumers",
    of: ({ consumers }) => json(consumers.map((consumer) => ({ ...consumer, lag: consumer.lag ?? null })))
  },
  { name: "isRewriting", of: ({ isRewriting }) => json(isRewriting) },
  { name: "oldestOpenSeconds", of: (status) => seconds(status.oldestOpen?.age) },
  { name: "maxOpenSeconds", of: ({ maxOpen }) => seconds(maxOpen) },
  { name: "isOpenTooLong", of: ({ isOpenTooLong }) => json(isOpenTooLong) },
  { name: "open", of: ({ open }) => json(open) }
]

/** Formats the lists for people: a table, notes, and a table of the consumers. No line is wider than the terminal. */
const textOf = (
  statuses: ReadonlyArray<ListStatus>,
  [{ makeTable }, { wrapWords }]: readonly [typeof Table, typeof TextWidth],
  width: number
) => {
  const lists = makeTable([
    { name: "list", minWidth: 15 },
    { name: "age", wholeUpTo: 12 },
    ...["rows", "missing", "quarantined", "scan", "records"].map((name) => ({
      name,
      align: "right" as const,
      wholeUpTo: 20
    })),
    { name: "ended at", wholeUpTo: 24 }
  ], width)
  const consumers = makeTable([
    { name: "consumer", minWidth: 12 },
    { name: "changes behind", align: "right", wholeUpTo: 20 },
    { name: "position", align: "right", wholeUpTo: 20 },
    { name: "moved at", wholeUpTo: 24 }
  ], width)
  // The consumers of a destination read the changes of all lists, and a rewrite rewrites all lists.
  const destinations = statuses.filter((status, index) => status.source !== statuses[index - 1]?.source || index === 0)
  const prefix = ({ label, list }: ListStatus) => label.slice(0, label.length - list.length)
  const rewriting = destinations.filter(({ isRewriting }) => isRewriting).map((status) =>
    `${
      prefix(status)
    }a rewrite of personal data has begun and is not complete, so exports are refused; payments rewrite completes it`
  )
  const restored = destinations.flatMap((status) => generationNotes(status).map((note) => `${prefix(status)}${note}`))
  const halted = destinations.flatMap((status) =>
    status.halted.map((one) =>
      `${prefix(status)}the hand-off to ${one.consumer} ${haltText(one)}. To go on: ${haltAdvice(one, status.place)}`
    )
  )
  const readers = destinations.flatMap((status) =>
    status.consumers.map((consumer) => ({ ...consumer, name: `${prefix(status)}${consumer.name}` }))
  )
  const text = [
    lists.print(statuses.map(cellsOf)),
    ...[...rewriting, ...restored, ...halted, ...statuses.flatMap(notesOf)].flatMap((note) =>
      wrapWords(printable(note), width)
    )
      .map((line) => `${line}\n`),
    ...(readers.length === 0 ? [] : ["\n", consumers.print(readers.map(consumerCells))])
  ].join("")
  return { text, omittedColumns: [...lists.omittedColumns(), ...consumers.omittedColumns()] }
}

const cellsOf = ({ age, completeScan, label, missing, quarantined, rows }: ListStatus): ReadonlyArray<string> => [
  label,
  age === undefined ? completeScan === undefined ? "never" : "unknown" : ageText(age),
  grouped(rows),
  grouped(missing),
  grouped(quarantined),
  completeScan === undefined ? "" : String(completeScan.scan),
  completeScan?.certificate === undefined ? "" : grouped(completeScan.certificate.records),
  completeScan?.endedAt ?? ""
]

/** Returns that the destination was restored, and which consumers read nothing until they have said where they stand. */
const generationNotes = ({ consumers, generation }: ListStatus): ReadonlyArray<string> => {
  if (generation === undefined || generation.reason === "first") return []
  const refused = consumers.filter(({ lag }) => lag === undefined).map(({ name }) => name)
  return [
    `the destination is in ${describeGeneration(generation)}`,
    ...(refused.length === 0 ? [] : [
      `consumers that have to say where they stand, with payments changes ack NAME SEQ --generation GENERATION: ${
        refused.join(", ")
      }`
    ])
  ]
}

const consumerCells = ({ lag, movedAt, name, position }: ConsumerState): ReadonlyArray<string> => [
  name,
  lag === undefined ? "unknown" : grouped(lag),
  String(position),
  movedAt
]

/** Returns what the table does not show: rows held back, running scans, who has the lock, and stopped head passes. */
const notesOf = (status: ListStatus): ReadonlyArray<string> => {
  const { headProblem, holder, label, running } = status
  const scan = running === undefined
    ? undefined
    : `${
      running.kind === "part" ? "a scan of a part" : "a full scan"
    } (${running.scan}) that began at ${running.startedAt} ${
      holder === undefined ? "was interrupted" : "is running"
    } after ${counted(running.pages, "page")} and ${counted(running.records, "record")}`
  const notes = [
    ...(scan === undefined ? [] : [holder === undefined ? `${scan}; the next export continues or restarts it` : scan]),
    ...(holder === undefined ? [] : [`locked by ${holder}`]),
    ...(headProblem === undefined ? [] : [`head passes are stopped: ${headProblem}`])
  ].map((note) => `${label}: ${note}`)
  return [...heldBackNotes(status), ...notes, ...openNotes(status)]
}

const heldBackNotes = ({ completeScan, label }: ListStatus): ReadonlyArray<string> => {
  const certificate = completeScan?.certificate
  return [heldBackText(certificate), skippedText(certificate)].flatMap((text) =>
    text === undefined ? [] : [`${label}: ${text}`]
  )
}

/** Returns why the list is not fresh. */
const problemOf = ({ age, completeScan, label: list, maxAge = Duration.zero }: ListStatus): string => {
  const limit = ageText(maxAge)
  if (completeScan === undefined) return `${list} was never read completely, so it counts as older than ${limit}`
  if (age !== undefined) {
    const [old, allowed] = ageAndLimit(age, maxAge)
    return `${list} is ${old} old, but ${allowed} is allowed: its last complete full scan began at ${completeScan.startedAt}`
  }
  return `${list} has an unknown age, which counts as older than ${limit}: its last complete full scan began in the future (${completeScan.startedAt}). Check the clocks.`
}
