/**
 * Removes old changes and scans from a destination. It removes changes in the order of their numbers, and stops before the
 * first one that a consumer has not acknowledged or that `verify` needs. It runs next to exports and readers: it needs no lock
 * of a list, and a reader of changes detects the removal of changes that it has not read. It may be killed at any moment.
 */
import { DateTime, Duration, Effect } from "effect"
import type { ChangeNeeds, ChooseChanges, Maintenance, OldChange } from "./engine/Store.ts"
import type { SinkError } from "./Sink.ts"

/** What to keep. Without a duration, everything is kept. */
export interface Retention {
  /** How long a change is kept. */
  readonly keepChanges?: Duration.Duration | undefined
  /** How long a scan is kept after its end. */
  readonly keepScans?: Duration.Duration | undefined
  /** Only counts. */
  readonly isDryRun?: boolean | undefined
}

/** What keeps a change that is old enough to be removed. */
export type HeldBack =
  /** A consumer that has not acknowledged it. */
  | { readonly by: "consumer"; readonly name: string; readonly position: number }
  /** A full scan, because `verify` reads the changes of the list after it. */
  | { readonly by: "scan"; readonly list: string; readonly scan: number }

/** What was removed, or in a dry run what would be. */
export interface Pruned {
  readonly changes: {
    readonly removed: number
    /** The highest number of a removed change, also of earlier runs, or 0. */
    readonly through: number
    /** What keeps the next change, if it is old enough to be removed. */
    readonly heldBack: ReadonlyArray<HeldBack>
  }
  readonly scans: { readonly removed: number }
}

/** The rows that one transaction removes. */
const batchSize = 1000

/** The pause between two transactions, in which writers of an SQLite file can start theirs. */
const pause = Duration.millis(10)

/** Removes changes and scans that are older than the given durations. */
export const prune = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  { isDryRun = false, keepChanges, keepScans }: Retention
): Effect.fn.Return<Pruned, SinkError> {
  return {
    changes: yield* pruneChanges(maintenance, keepChanges, isDryRun),
    scans: { removed: keepScans === undefined ? 0 : yield* pruneScans(maintenance, keepScans, isDryRun) }
  }
})

const pruneChanges = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  keep: Duration.Duration | undefined,
  isDryRun: boolean
): Effect.fn.Return<Pruned["changes"], SinkError> {
  let { pruned: through } = yield* maintenance.changeRange
  if (keep === undefined) return { removed: 0, through, heldBack: [] }
  const before = yield* timeBefore(keep)
  for (let removed = 0;; yield* Effect.sleep(pause)) {
    const now = DateTime.formatIso(yield* DateTime.now)
    const chosen = yield* maintenance.pruneChanges(
      { after: through, count: batchSize, isDryRun, now },
      chooseOlder(before, through)
    )
    removed += chosen.removed
    through = chosen.through
    if (chosen.isLast) return { removed, through, heldBack: chosen.heldBack }
  }
})

interface Chosen {
  readonly through: number
  readonly removed: number
  readonly heldBack: ReadonlyArray<HeldBack>
  /** Whether no later change can be removed. */
  readonly isLast: boolean
}

/** Chooses the changes before a time that nothing needs, up to the first one that stays. */
const chooseOlder = (before: string, after: number): ChooseChanges<Chosen> => (changes, needs) => {
  let through = after
  for (const [removed, change] of changes.entries()) {
    const isOld = change.at < before
    const heldBack = isOld ? heldBackBy(change, needs) : []
    if (!isOld || heldBack.length > 0) return { through, removed, heldBack, isLast: true }
    through = change.seq
  }
  return { through, removed: changes.length, heldBack: [], isLast: changes.length < batchSize }
}

const heldBackBy = (
  { list, scan, seq }: OldChange,
  { certified, consumers }: ChangeNeeds
): ReadonlyArray<HeldBack> => [
  ...consumers.filter(({ position }) => position < seq).map(({ name, position }): HeldBack => ({
    by: "consumer",
    name,
    position
  })),
  ...certified.filter((needed) =>
    needed.list === list && (scan > needed.scan || (needed.lastChange !== undefined && seq > needed.lastChange))
  ).map((needed): HeldBack => ({ by: "scan", list: needed.list, scan: needed.scan }))
]

const pruneScans = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  keep: Duration.Duration,
  isDryRun: boolean
): Effect.fn.Return<number, SinkError> {
  const before = yield* timeBefore(keep)
  for (let removed = 0;; yield* Effect.sleep(pause)) {
    const scans = yield* maintenance.pruneScans({ before, count: batchSize, isDryRun })
    removed += scans
    if (isDryRun || scans < batchSize) return removed
  }
})

/** Returns the time before now, but not one before 1970: ISO texts of such years do not sort by time. */
const timeBefore = (duration: Duration.Duration) =>
  Effect.map(
    DateTime.now,
    (now) => new Date(Math.max(0, DateTime.toEpochMillis(now) - Duration.toMillis(duration))).toISOString()
  )
