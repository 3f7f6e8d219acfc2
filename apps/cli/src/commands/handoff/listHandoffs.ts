/** `payments handoff list`: how far each hand-off is, and why one stands still. */
import { Destination, type Maintenance } from "@payments/copy"
import type { Handoff } from "@payments/copy/handoff"
import { Lists } from "@payments/core"
import {
  CommandExit,
  copyOf,
  counted,
  ExitCode,
  flagsOfSource,
  fromDestination,
  fromFlag,
  haltAdvice,
  haltText,
  lowestExitCode,
  programExitCodeOf,
  shellWord,
  sourcesOfDestinations
} from "@payments/program"
import type { LoadedSource, SourceHandoff } from "@payments/program/sources"
import { DateTime, Effect, Result, Stream } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { type Column, lookOf, numberCell, printRows, rowFormatFlag } from "../../output/Rows.ts"
import { logWrapped } from "../../output/Wrapped.ts"

export const listCommand = Command.make(
  "list",
  { from: fromFlag, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from }) {
    const sources = yield* sourcesOfDestinations(from)
    const chosen: ReadonlyArray<Chosen> = sources.length === 0
      ? [{ source: undefined, destination: yield* fromDestination(from) }]
      : yield* Effect.forEach(
        sources,
        (source) => Effect.map(copyOf(source, "from"), (destination) => ({ source, destination }))
      )
    // One destination that cannot be opened does not hide the others.
    const read = yield* Effect.forEach(chosen, (one) => Effect.result(rowsOf(one)), {
      concurrency: concurrentDestinations
    })
    const rows = read.flatMap((result) => Result.isSuccess(result) ? result.success : [])
    const failures = read.flatMap((result) => Result.isFailure(result) ? [result.failure] : [])
    const [, second] = chosen
    const [first] = failures
    if (first !== undefined && second === undefined) return yield* first
    // A reader that closes the pipe early must not hide that a destination cannot be opened.
    yield* Effect.catchIf(
      printRows(columns, Stream.make(rows), format, { empty: "No hand-offs.", output: outputs.handoffList }),
      ({ exitCode }) => failures.length > 0 && exitCode === ExitCode.done,
      () => Effect.void
    )
    if ((yield* lookOf(format)).format === "table") {
      yield* Effect.forEach(rows.flatMap(adviceOf), (line) => logWrapped(line), { discard: true })
    }
    if (failures.length > 0) {
      const exitCode = lowestExitCode(failures.map(programExitCodeOf))
      return yield* new CommandExit({ exitCode, problem: failures.map(({ message }) => message).join("\n") })
    }
  })
).pipe(
  Command.withDescription(
    "List the hand-offs with their states, positions, lags and next attempts. With a sources file, also those that have not begun, and those that were removed from it. As a table, say how to go on with those that stand still"
  ),
  Command.withShortDescription("List the hand-offs with their states, positions and lags"),
  Command.withExamples([
    { command: "payments handoff list", description: "all hand-offs of the sources file" },
    {
      command: "payments handoff list --from sqlite:./payments.db --format json",
      description: "those of a destination, as JSON"
    }
  ])
)

/** How many destinations are read at the same time. */
const concurrentDestinations = 8

/** A destination, and its source if no flag or variable names the destination. */
interface Chosen {
  readonly source: LoadedSource | undefined
  readonly destination: Destination.StoredDestination
}

interface HandoffRow {
  readonly source: string | null
  /** The flag that names the source or the destination. */
  readonly place: string
  readonly consumer: string
  /** `new`: it has not begun. `removed`: the settings no longer name it, and changes are kept for it. */
  readonly state: Handoff["state"] | "new" | "removed"
  readonly stored: Handoff | undefined
  readonly position: number | undefined
  readonly lag: number | undefined
  readonly lagSeconds: number | undefined
  /** The changes that wait for a decision, the one that all others wait for first. */
  readonly refused: ReadonlyArray<number>
  /** The changes that are set aside, by record. */
  readonly setAside: number
  readonly skips: number
  /** Null without a sources file. */
  readonly to: string | null
}

const rowsOf = ({ destination, source }: Chosen) =>
  Effect.scoped(Effect.gen(function*() {
    const maintenance = yield* Destination.maintenance(destination)
    const stored = yield* maintenance.handoffs
    const configured = source?.handoffs ?? []
    const names = new Set([...configured, ...stored].map(({ consumer }) => consumer))
    const place = source === undefined
      ? `--from ${shellWord(Destination.shown(destination))}`
      : yield* flagsOfSource(source.name)
    return yield* Effect.forEach([...names].toSorted(), (consumer) =>
      rowOf(maintenance, {
        source: source?.name,
        place,
        consumer,
        stored: stored.find((one) => one.consumer === consumer),
        configured: configured.find((one) => one.consumer === consumer)
      }))
  })).pipe(
    // A source without hand-offs may not have been exported yet.
    Effect.catchIf(() => source !== undefined && (source.handoffs ?? []).length === 0, () => Effect.succeed([]))
  )

const rowOf = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  { configured, consumer, place, source, stored }: {
    readonly source: string | undefined
    readonly place: string
    readonly consumer: string
    readonly stored: Handoff | undefined
    readonly configured: SourceHandoff | undefined
  }
) {
  const at = (yield* maintenance.consumerStates).find(({ name }) => name === consumer)
  const lists = configured?.lists ?? Lists.all
  const [oldest] = at === undefined ? [] : yield* maintenance.changes(at.position, 1, lists)
  const asides = stored === undefined ? [] : yield* maintenance.handoffAsides(consumer)
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const row: HandoffRow = {
    source: source ?? null,
    place,
    consumer,
    state: source !== undefined && configured === undefined ? "removed" : stored?.state ?? "new",
    stored,
    position: at?.position,
    lag: at?.lag,
    lagSeconds: at === undefined
      ? undefined
      : oldest === undefined
      ? 0
      : Math.max(0, Math.floor((now - Date.parse(oldest.at)) / 1000)),
    refused: [
      ...stored?.state === "waiting" && stored.batch !== undefined ? [stored.batch.last] : [],
      ...asides.filter(({ isRefused }) => isRefused).map(({ seq }) => seq)
    ],
    setAside: asides.length,
    skips: stored === undefined ? 0 : (yield* maintenance.handoffSkips(consumer)).length,
    to: configured?.origin ?? null
  }
  return row
})

/** What a person does about a hand-off that stands still. */
const adviceOf = ({ consumer, place, refused, setAside, source, state, stored }: HandoffRow): ReadonlyArray<string> => {
  const name = source === null ? consumer : `${source}/${consumer}`
  if (state === "removed") {
    return [
      `${name} is not in the settings, and changes are kept for it. To remove it: payments changes consumers --remove ${consumer} ${place}`
    ]
  }
  const [seq = null] = refused
  if (state === "stopped" || (state === "waiting" && !(stored?.reason === "full" && seq === null))) {
    const halted = { consumer, state, reason: stored?.reason ?? null, seq }
    return [`${name} ${haltText(halted)}. To go on: ${haltAdvice(halted, place)}`]
  }
  if (setAside === 0) return []
  const aside = `${name} has set ${counted(setAside, "change")} aside`
  return [
    seq === null
      ? `${aside}, and sends ${
        setAside === 1 ? "it" : "them"
      } again. To do so at once: payments handoff resume ${consumer} ${place}`
      : `${aside}. The receiver refuses ${numbersText(refused)}. To go on: ${
        haltAdvice({ consumer, state: "waiting", reason: "refused", seq }, place)
      }`
  ]
}

const mostNumbers = 20

const numbersText = (numbers: ReadonlyArray<number>): string =>
  `${numbers.slice(0, mostNumbers).join(", ")}${
    numbers.length > mostNumbers ? ` and ${numbers.length - mostNumbers} more` : ""
  }`

const number = (value: number | undefined) => value === undefined ? null : numberCell(value)

const columns: ReadonlyArray<Column<HandoffRow>> = [
  { name: "source", of: ({ source }) => source },
  { name: "consumer", wholeUpTo: 40, of: ({ consumer }) => consumer },
  { name: "state", of: ({ state }) => state },
  { name: "reason", of: ({ stored }) => stored?.reason ?? null },
  { name: "position", of: ({ position }) => number(position) },
  { name: "lag", of: ({ lag }) => number(lag) },
  { name: "lag_seconds", of: ({ lagSeconds }) => number(lagSeconds) },
  { name: "attempts", of: ({ stored }) => numberCell(stored?.attempts ?? 0) },
  { name: "next_attempt_at", minWidth: 24, of: ({ stored }) => stored?.nextAttemptAt ?? null },
  { name: "refused_seq", of: ({ refused: [first] }) => number(first) },
  { name: "set_aside", of: ({ setAside }) => numberCell(setAside) },
  { name: "skips", of: ({ skips }) => numberCell(skips) },
  { name: "epoch", minTerminalWidth: 120, of: ({ stored }) => number(stored?.epoch) },
  { name: "to", minTerminalWidth: 120, of: ({ to }) => to }
]
