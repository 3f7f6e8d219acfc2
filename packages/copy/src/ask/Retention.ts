/**
 * Removes old changes, old scans and rows that have been missing for long from a destination. It removes changes in the
 * order of their numbers. It stops before the first one that a consumer has not acknowledged or that `verify` needs. It
 * runs next to exports and readers, and needs no lock of a list. A reader of changes detects the removal of changes
 * that it has not read. A scan or pass that gets a removed record again inserts it as a new one. It may be killed at
 * any moment.
 */
import { Lists } from "@payments/core"
import { DateTime, Duration, Effect, type FileSystem, type Path } from "effect"
import { maintenance as openMaintenance, operations, type StoredDestination } from "../destination/Destination.ts"
import type { DestinationSettings } from "../destination/Driver.ts"
import type { ConsumerState } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import type { ChangeNeeds, ChooseChanges, ChooseRows, Maintenance, OldChange, OldRow } from "../store/Store.ts"
import { hasList } from "./ExistingColumns.ts"

/** What to keep. Without a duration, everything is kept. */
export interface Retention {
  /** How long a change is kept. */
  readonly keepChanges?: Duration.Duration | undefined
  /** How long a scan is kept after its end. */
  readonly keepScans?: Duration.Duration | undefined
  /** How long a row is kept after it was marked missing. */
  readonly keepMissing?: Duration.Duration | undefined
  /** Only counts. */
  readonly isDryRun?: boolean | undefined
}

/** A consumer that has not acknowledged a change, and its position. */
interface HeldBackByConsumer extends Pick<ConsumerState, "name" | "position"> {
  readonly by: "consumer"
}

/** What keeps a change that is old enough to be removed. */
export type HeldBack =
  | HeldBackByConsumer
  /** A full scan, because `verify` reads the changes of the list after it. */
  | { readonly by: "scan"; readonly list: string; readonly scan: number }

/** What was removed, or in a dry run what would be. */
export interface Pruned {
  /** The generation of the numbers of changes. Undefined in a destination of a version without generations. */
  readonly generation: string | undefined
  readonly changes: {
    readonly removed: number
    /** The highest number of a removed change, also of earlier runs, or 0. */
    readonly through: number
    /** What keeps the next change, if it is old enough to be removed. */
    readonly heldBack: ReadonlyArray<HeldBack>
  }
  readonly scans: { readonly removed: number }
  readonly rows: {
    readonly removed: number
    /** The consumers that have not acknowledged that rows are missing which are old enough to be removed. */
    readonly heldBack: ReadonlyArray<HeldBackByConsumer>
  }
}

/** The rows that one transaction removes. */
const batchSize = 1000

/** The pause between two transactions, in which writers of an SQLite file can start theirs. */
const pause = Duration.millis(10)

/** Removes changes and scans that are older than the given durations, and rows that have been missing for longer. */
export const prune = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  { isDryRun = false, keepChanges, keepMissing, keepScans }: Retention,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all
): Effect.fn.Return<Pruned, SinkError> {
  const { generation } = yield* maintenance.changeRange
  const pruned = {
    generation,
    rows: yield* pruneRows(maintenance, lists, keepMissing, isDryRun),
    changes: yield* pruneChanges(maintenance, keepChanges, isDryRun),
    scans: { removed: keepScans === undefined ? 0 : yield* pruneScans(maintenance, keepScans, isDryRun) }
  }
  // An earlier run may have been killed before it emptied the log.
  if (!isDryRun) yield* maintenance.emptyLog
  return pruned
})

export interface DestinationRetention extends Retention, Pick<DestinationSettings, "keepSnapshots"> {}

/**
 * Removes what is older from a destination, as {@link prune} does. Where files are rendered, it then renders the lists
 * again whose rows were removed.
 */
export const pruneAll = Effect.fnUntraced(function*(
  destination: StoredDestination,
  { keepSnapshots, ...retention }: DestinationRetention
): Effect.fn.Return<
  Pruned & { readonly snapshots: { readonly removedFiles: number } },
  SinkError,
  FileSystem.FileSystem | Path.Path
> {
  const pruned = yield* Effect.scoped(
    Effect.flatMap(openMaintenance(destination), (opened) => prune(opened, retention))
  )
  const { rendered } = operations(destination)
  const removedFiles = rendered === undefined || keepSnapshots === undefined
    ? 0
    : yield* rendered.prune(keepSnapshots, retention.isDryRun ?? false)
  // An earlier run may have been killed after it removed rows and before it rendered.
  if (rendered !== undefined && retention.keepMissing !== undefined && retention.isDryRun !== true) {
    yield* rendered.renderAgain("prune", keepSnapshots)
  }
  return { ...pruned, snapshots: { removedFiles } }
})

const pruneRows = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  lists: ReadonlyArray<Lists.AnyList>,
  keep: Duration.Duration | undefined,
  isDryRun: boolean
): Effect.fn.Return<Pruned["rows"], SinkError> {
  if (keep === undefined) return { removed: 0, heldBack: [] }
  const before = yield* timeBefore(keep)
  const heldBack = new Map<string, HeldBackByConsumer>()
  let removed = 0
  for (const list of yield* Effect.filter(lists, (one) => hasList(maintenance, one))) {
    for (let after: number | undefined = -1; after !== undefined;) {
      const now = DateTime.formatIso(yield* DateTime.now)
      const batch = { list, after, before, count: batchSize, isDryRun, now }
      const chosen: ChosenRows = yield* maintenance.pruneRows(batch, chooseUnneeded)
      removed += chosen.rows.length
      for (const consumer of chosen.heldBack) heldBack.set(consumer.name, consumer)
      after = chosen.next
      if (after !== undefined) yield* Effect.sleep(pause)
    }
  }
  return { removed, heldBack: [...heldBack.values()] }
})

interface ChosenRows {
  readonly rows: ReadonlyArray<OldRow>
  readonly heldBack: ReadonlyArray<HeldBackByConsumer>
  /** The last row of the batch, or undefined if no later row is old. */
  readonly next: number | undefined
}

/**
 * Chooses the rows that nothing needs. A row that a complete or running scan has seen was returned meanwhile, or
 * belongs to a certificate. A consumer that has not read that a row is missing may still look the row up.
 */
const chooseUnneeded: ChooseRows<ChosenRows> = (rows, { consumers, seen }) => {
  const heldBack = new Set<ChangeNeeds["consumers"][number]>()
  const unneeded = rows.filter(({ missingChange = 0, row }) => {
    if (seen.has(row)) return false
    const behind = consumers.filter(({ position }) => position < missingChange)
    for (const consumer of behind) heldBack.add(consumer)
    return behind.length === 0
  })
  return {
    rows: unneeded,
    heldBack: [...heldBack].map(byConsumer),
    next: rows.length < batchSize ? undefined : rows.at(-1)?.row
  }
}

const byConsumer = (consumer: ChangeNeeds["consumers"][number]): HeldBackByConsumer => ({ by: "consumer", ...consumer })

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
  ...consumers.filter(({ position }) => position < seq).map(byConsumer),
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
