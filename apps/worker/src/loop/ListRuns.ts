/**
 * What the runs of a list do now, as a value: a full scan, and passes that run within it. Its transitions are pure.
 * They decide what happens to the place of a run, and whether a full scan stalls. `ListLoop.ts` performs what they say.
 */
import type { ScanEvent } from "@payments/copy"
import type { RunKind } from "../state/StatusSnapshot.ts"

export interface ActiveRun {
  /** When it last committed a page or ended a long step, on the monotonic clock. */
  readonly progressAt: number
  /** The number of steps in progress that commit no page and may take long. */
  readonly longSteps: number
  /** Whether it reads. Before, a pass waits until the full scan has committed its pages. */
  readonly isReading: boolean
}

export type ListRuns = { readonly [kind in RunKind]?: ActiveRun }

/** A run gives its place up while it waits, and asks for its next turn after a commit. */
export type PlaceAction = "keep" | "giveUp" | "nextTurn"

const changed = (runs: ListRuns, kind: RunKind, change: (run: ActiveRun) => ActiveRun): ListRuns => {
  const run = runs[kind]
  return run === undefined ? runs : { ...runs, [kind]: change(run) }
}

export const started = (runs: ListRuns, kind: RunKind, now: number): ListRuns => ({
  ...runs,
  [kind]: { progressAt: now, longSteps: 0, isReading: false }
})

export const ended = (runs: ListRuns, kind: RunKind): ListRuns => {
  const { [kind]: _ended, ...others } = runs
  return others
}

export const progressed = (runs: ListRuns, kind: RunKind, now: number): ListRuns =>
  changed(runs, kind, (run) => ({ ...run, progressAt: now }))

/** The full scan begins a step that commits no page and may take long. */
export const stepBegan = (runs: ListRuns): ListRuns =>
  changed(runs, "full", (run) => ({ ...run, longSteps: run.longSteps + 1 }))

export const stepEnded = (runs: ListRuns, now: number): ListRuns =>
  changed(runs, "full", (run) => ({ ...run, longSteps: Math.max(0, run.longSteps - 1), progressAt: now }))

export const afterEvent = (
  runs: ListRuns,
  { _tag, kind }: Pick<ScanEvent, "_tag" | "kind">,
  now: number
): readonly [ListRuns, PlaceAction] => {
  switch (_tag) {
    case "Waiting":
      return [runs, "giveUp"]
    case "Ended":
      return [runs, "keep"]
    case "Begun":
      return [changed(runs, kind, (run) => ({ ...run, progressAt: now, isReading: true })), "keep"]
    case "Committed":
      return [progressed(runs, kind, now), "nextTurn"]
    case "Filling":
    case "Restarted":
      return [progressed(runs, kind, now), "keep"]
  }
}

/** A check of a full scan. All times are milliseconds. */
export interface Check {
  readonly now: number
  /** The time since the check before. */
  readonly elapsed: number
  /** Whether the full scan waits for a place. */
  readonly isQueued: boolean
  /** How long a full scan may make no progress. */
  readonly stallAfter: number
}

export const afterCheck = (
  runs: ListRuns,
  { elapsed, isQueued, now, stallAfter }: Check
): readonly [ListRuns, isStalled: boolean] => {
  const { full, ...passes } = runs
  if (full === undefined) return [runs, false]
  if (full.longSteps > 0 || isQueued) return [progressed(runs, "full", now), false]
  // The full scan commits nothing while a pass reads, so that time does not count.
  const isPaused = Object.values(passes).some(({ isReading }) => isReading)
  const progressAt = full.progressAt + (isPaused ? elapsed : 0)
  return [progressed(runs, "full", progressAt), now - progressAt >= stallAfter]
}
