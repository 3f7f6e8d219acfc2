/** `payments status`: prints how fresh the lists of a destination are. It needs neither the API nor a key. */
import { Lists } from "@payments/core"
import {
  ageOf,
  type Cell,
  type ConsumerState,
  Destination,
  ExitCode,
  freshnessOf,
  isFresh,
  type ListFreshness,
  printable
} from "@payments/export"
import {
  checkAll,
  CommandExit,
  duration,
  fromDestination,
  fromFlag,
  print,
  requireOutput,
  setting,
  sourceOfDestination,
  textFlag
} from "@payments/export/program"
import { DateTime, Duration, Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { ageText } from "../AgeText.ts"
import { type Column, formatOf, logOmitted, printRows, rowFormatFlag } from "../RowsOutput.ts"
import type * as Table from "../Table.ts"
import type * as TextWidth from "../TextWidth.ts"
import { resourceFlag } from "./changes.ts"

/** A list with its age. */
interface ListStatus extends ListFreshness {
  /** Undefined if the age is unknown or there is no complete full scan. */
  readonly age: Duration.Duration | undefined
  readonly maxAge: Duration.Duration | undefined
  /** Undefined if no age is allowed or forbidden. */
  readonly isFresh: boolean | undefined
  /** Whether a rewrite of the destination is not complete, so that exports are refused. */
  readonly isRewriting: boolean
}

/** `payments status`. */
export const statusCommand = Command.make(
  "status",
  {
    from: fromFlag,
    maxAge: textFlag("max-age", "DURATION", "exit with code 12 if a list is older, such as 24h"),
    resource: resourceFlag,
    format: rowFormatFlag
  },
  Effect.fnUntraced(function*(given) {
    const { destination, flag, source } = yield* checkAll({
      destination: fromDestination(given.from),
      source: sourceOfDestination(given.from),
      flag: setting({ name: "max-age", text: given.maxAge }, undefined, duration)
    })
    const maxAge = flag ?? source?.maxAge
    const lists = given.resource.length > 0
      ? given.resource
      : source?.lists.map((name) => Lists.byName[name]) ?? Lists.all
    const { found, rewriting } = yield* Effect.scoped(Effect.gen(function*() {
      const reader = yield* Destination.reader(destination)
      return { found: yield* freshnessOf(reader, lists), rewriting: (yield* reader.personal).rewriting }
    }))
    const now = yield* DateTime.now
    const statuses = found.map((list): ListStatus => ({
      ...list,
      age: ageOf(list, now),
      maxAge,
      isFresh: maxAge === undefined ? undefined : isFresh(list, maxAge, now),
      isRewriting: rewriting
    }))
    const { format, width } = yield* formatOf(given.format)
    if (format === "table") {
      yield* requireOutput
      // Loaded only here, because most commands print no table.
      const modules = yield* Effect.promise(() => Promise.all([import("../Table.ts"), import("../TextWidth.ts")]))
      const { omittedColumns, text } = textOf(statuses, modules, width)
      yield* print(text)
      yield* logOmitted(omittedColumns)
    } else {
      const rows = statuses.map((status) => columns.map(({ of }) => of(status)))
      // A reader that closes the pipe early must not hide that a list is too old.
      yield* Effect.catchIf(
        printRows(columns, Stream.make(rows), format, ""),
        ({ exitCode }) => exitCode === ExitCode.done,
        () => Effect.void
      )
    }
    const problems = statuses.filter((status) => status.isFresh === false).map(problemOf)
    if (problems.length > 0) {
      return yield* new CommandExit({ exitCode: ExitCode.stale, problem: problems.join("\n") })
    }
  })
).pipe(
  Command.withDescription("Show how fresh the lists of a destination are; needs neither the API nor a key"),
  Command.withExamples([
    { command: "payments status --from sqlite:./payments.db", description: "age, rows and last scan of each list" },
    {
      command: "payments status --from file:./payments --resource invoices --max-age 24h",
      description: "exit with code 12 if the last complete full scan of the invoices began more than 24 hours ago"
    }
  ])
)

const json = (value: unknown): Cell => value === undefined ? null : { json: JSON.stringify(value) }
const seconds = (time: Duration.Duration | undefined): Cell =>
  time === undefined ? null : json(Duration.toSeconds(time))

/** The output for programs. */
const columns: ReadonlyArray<Column & { readonly of: (status: ListStatus) => Cell }> = [
  { name: "list", of: ({ list }) => list },
  { name: "ageSeconds", of: ({ age }) => seconds(age) },
  { name: "maxAgeSeconds", of: ({ maxAge }) => seconds(maxAge) },
  { name: "isFresh", of: (status) => json(status.isFresh) },
  { name: "rows", of: ({ rows }) => json(rows) },
  { name: "missing", of: ({ missing }) => json(missing) },
  { name: "quarantined", of: ({ quarantined }) => json(quarantined) },
  { name: "completeScan", of: ({ completeScan }) => json(completeScan) },
  { name: "running", of: ({ running }) => json(running) },
  { name: "holder", of: ({ holder = null }) => holder },
  { name: "headProblem", of: ({ headProblem = null }) => headProblem },
  { name: "consumers", of: ({ consumers }) => json(consumers) },
  { name: "isRewriting", of: ({ isRewriting }) => json(isRewriting) }
]

const count = new Intl.NumberFormat("en-US")
const plural = (number: number, thing: string) => `${count.format(number)} ${thing}${number === 1 ? "" : "s"}`

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
  const [first] = statuses
  const rewriting = first?.isRewriting === true
    ? [
      "a rewrite of personal data has begun and is not complete, so exports are refused; payments rewrite completes it"
    ]
    : []
  const text = [
    lists.print(statuses.map(cellsOf)),
    ...[...rewriting, ...statuses.flatMap(notesOf)].flatMap((note) => wrapWords(printable(note), width)).map((line) =>
      `${line}\n`
    ),
    ...(first === undefined || first.consumers.length === 0
      ? []
      : ["\n", consumers.print(first.consumers.map(consumerCells))])
  ].join("")
  return { text, omittedColumns: [...lists.omittedColumns(), ...consumers.omittedColumns()] }
}

const cellsOf = ({ age, completeScan, list, missing, quarantined, rows }: ListStatus): ReadonlyArray<string> => [
  list,
  age === undefined ? completeScan === undefined ? "never" : "unknown" : ageText(age),
  count.format(rows),
  count.format(missing),
  count.format(quarantined),
  completeScan === undefined ? "" : String(completeScan.scan),
  completeScan?.certificate === undefined ? "" : count.format(completeScan.certificate.records),
  completeScan?.endedAt ?? ""
]

const consumerCells = ({ lag, movedAt, name, position }: ConsumerState): ReadonlyArray<string> => [
  name,
  count.format(lag),
  String(position),
  movedAt
]

/** Returns what the table does not show: running scans, who has the lock, and stopped head passes. */
const notesOf = ({ headProblem, holder, list, running }: ListStatus): ReadonlyArray<string> => {
  const scan = running === undefined
    ? undefined
    : `${
      running.kind === "part" ? "a scan of a part" : "a full scan"
    } (${running.scan}) that began at ${running.startedAt} ${
      holder === undefined ? "was interrupted" : "is running"
    } after ${plural(running.pages, "page")} and ${plural(running.records, "record")}`
  return [
    ...(scan === undefined ? [] : [holder === undefined ? `${scan}; the next export continues or restarts it` : scan]),
    ...(holder === undefined ? [] : [`locked by ${holder}`]),
    ...(headProblem === undefined ? [] : [`head passes are stopped: ${headProblem}`])
  ].map((note) => `${list}: ${note}`)
}

/** Returns why the list is not fresh. */
const problemOf = ({ age, completeScan, list, maxAge = Duration.zero }: ListStatus): string => {
  const limit = ageText(maxAge)
  if (completeScan === undefined) return `${list} was never read completely, so it counts as older than ${limit}`
  return age === undefined
    ? `${list} has an unknown age, which counts as older than ${limit}: its last complete full scan began in the future (${completeScan.startedAt}). Check the clocks.`
    : `${list} is ${
      ageText(age)
    } old, but ${limit} is allowed: its last complete full scan began at ${completeScan.startedAt}`
}
