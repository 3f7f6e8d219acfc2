/** `payments handoff list`: how far each hand-off is, and why one stands still. */
import { Destination, type Maintenance } from "@payments/copy"
import type { Handoff } from "@payments/copy/handoff"
import { Lists } from "@payments/core"
import { copyOf, fromDestination, fromFlag, sourcesOfDestinations } from "@payments/program"
import type { LoadedSource, SourceHandoff } from "@payments/program/sources"
import { DateTime, Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { type Column, numberCell, printRows, rowFormatFlag } from "../../output/Rows.ts"

export const listCommand = Command.make(
  "list",
  { from: fromFlag, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from }) {
    const sources = yield* sourcesOfDestinations(from)
    const chosen = sources.length === 0
      ? [{ source: undefined, destination: yield* fromDestination(from) }]
      : yield* Effect.forEach(
        sources.filter(({ handoffs = [] }) => handoffs.length > 0),
        (source) => Effect.map(copyOf(source, "from"), (destination) => ({ source, destination }))
      )
    const rows = yield* Effect.forEach(
      chosen,
      ({ destination, source }) =>
        Effect.scoped(
          Effect.flatMap(Destination.maintenance(destination), (maintenance) => rowsOf(maintenance, source))
        )
    )
    return yield* printRows(columns, Stream.make(rows.flat()), format, {
      empty: "No hand-offs.",
      output: outputs.handoffList
    })
  })
).pipe(
  Command.withDescription(
    "List the hand-offs with their states, positions, lags and next attempts. With a sources file, also those that have not begun"
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

interface HandoffRow {
  readonly source: string | null
  readonly consumer: string
  readonly state: Handoff["state"] | "new"
  readonly stored: Handoff | undefined
  readonly position: number | undefined
  readonly lag: number | undefined
  readonly lagSeconds: number | undefined
  /** The first change that the receiver refuses. */
  readonly refused: number | undefined
  /** The changes that are set aside, by record. */
  readonly setAside: number
  readonly skips: number
  /** Null without a sources file. */
  readonly to: string | null
}

const rowsOf = Effect.fnUntraced(function*(maintenance: Maintenance, source: LoadedSource | undefined) {
  const stored = yield* maintenance.handoffs
  const configured = source?.handoffs ?? []
  const names = new Set([...configured, ...stored].map(({ consumer }) => consumer))
  return yield* Effect.forEach([...names].toSorted(), (consumer) =>
    rowOf(maintenance, {
      source: source?.name,
      consumer,
      stored: stored.find((one) => one.consumer === consumer),
      configured: configured.find((one) => one.consumer === consumer)
    }))
})

const rowOf = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  { configured, consumer, source, stored }: {
    readonly source: string | undefined
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
    consumer,
    state: stored?.state ?? "new",
    stored,
    position: at?.position,
    lag: at?.lag,
    lagSeconds: oldest === undefined ? 0 : Math.max(0, Math.floor((now - Date.parse(oldest.at)) / 1000)),
    refused: asides.find(({ isRefused }) => isRefused)?.seq ??
      (stored?.state === "waiting" && stored.reason === "refused" ? stored.batch?.last : undefined),
    setAside: asides.length,
    skips: stored === undefined ? 0 : (yield* maintenance.handoffSkips(consumer)).length,
    to: configured?.origin ?? null
  }
  return row
})

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
  { name: "refused_seq", of: ({ refused }) => number(refused) },
  { name: "set_aside", of: ({ setAside }) => numberCell(setAside) },
  { name: "skips", of: ({ skips }) => numberCell(skips) },
  { name: "epoch", minTerminalWidth: 120, of: ({ stored }) => number(stored?.epoch) },
  { name: "to", minTerminalWidth: 120, of: ({ to }) => to }
]
