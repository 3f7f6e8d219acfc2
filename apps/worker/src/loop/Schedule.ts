/**
 * When the runs of a list begin. An interval counts from the start of one run to the start of the next, on the
 * monotonic clock. A cron expression names wall-clock times. A run that was missed begins at once, and only once. Runs
 * are missed if the one before took longer, or if the worker did not run. Jitter spreads the runs of many sources.
 */
import type { SinkError } from "@payments/copy"
import { Monotonic, type PaymentsError } from "@payments/core"
import type { Schedule } from "@payments/program/sources"
import { Cron, DateTime, Duration, Effect, Random } from "effect"

/** The start of a run on both clocks, in milliseconds. */
export interface Start {
  readonly wall: number
  readonly monotonic: number
}

export const startNow: Effect.Effect<Start> = Effect.all({
  wall: Effect.map(DateTime.now, DateTime.toEpochMillis),
  monotonic: Monotonic.millis
})

/** `time` is from a destination. A time in the future, after the clock was set back, counts as now. */
export const startedAt = (time: string): Effect.Effect<Start> =>
  Effect.map(startNow, (now) => {
    const wall = Math.min(Date.parse(time), now.wall)
    return { wall, monotonic: now.monotonic - (now.wall - wall) }
  })

/** The share of an interval by which a run may be moved, and the most. */
const jitterShare = 0.1
const maxJitter = Duration.toMillis("30 seconds")
const jitter = (interval: number) => Math.min(interval * jitterShare, maxJitter)

/** How long to sleep at most before the wall clock is read again, because it may have been set. */
const longestSleep = Duration.toMillis("30 seconds")

export interface NextRun {
  /** The run before. Without it, the next one is due at once. */
  readonly last: Start | undefined
  /** Runs with the time of the next run, unless it is due at once. */
  readonly onNext: (at: string) => Effect.Effect<void>
  /** How many milliseconds to wait at most. */
  readonly retry?: number | undefined
}

/**
 * Waits until the next run is due. Jitter makes an interval up to a tenth shorter, and a cron time later by up to a
 * tenth of its interval. It never moves a run by more than 30 s.
 */
export const untilNext = Effect.fnUntraced(function*(
  schedule: Schedule,
  { last, onNext, retry = Infinity }: NextRun
) {
  if (last === undefined) return
  const share = yield* Random.next
  const now = yield* startNow
  if (schedule._tag === "Every") {
    const every = Duration.toMillis(schedule.every)
    const wait = Math.min(retry, last.monotonic + every - share * jitter(every) - now.monotonic)
    if (wait <= 0) return
    yield* onNext(formatted(now.wall + wait))
    return yield* Effect.sleep(wait)
  }
  const { cron } = schedule
  let due = nextOf(cron, last.wall)
  const delay = due <= now.wall ? 0 : share * jitter(nextOf(cron, due) - due)
  const retryAt = now.monotonic + retry
  let { monotonic, wall } = now
  if (due + delay > wall) yield* onNext(formatted(Math.min(due + delay, wall + retry)))
  while (wall < due + delay && monotonic < retryAt) {
    yield* Effect.sleep(Math.max(1, Math.min(due + delay - wall, retryAt - monotonic, longestSleep)))
    ;({ monotonic, wall } = yield* startNow)
    // If the clock was set back, an earlier time of the expression may come first.
    due = Math.min(due, nextOf(cron, wall))
  }
})

/** Returns the times of the next runs after `now`, of which the first may already be due. */
export const nextRuns = (schedule: Schedule, now: number, count: number): ReadonlyArray<string> => {
  const times: Array<number> = []
  for (let time = now; times.length < count; times.push(time)) {
    time = schedule._tag === "Every" ? time + Duration.toMillis(schedule.every) : nextOf(schedule.cron, time)
  }
  return times.map(formatted)
}

const nextOf = (cron: Cron.Cron, after: number): number => Cron.next(cron, after).getTime()

const formatted = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(Math.round(millis)))

/** The first wait after a failed run, and the longest. A schedule that comes earlier counts. */
const firstRetry = Duration.toMillis("30 seconds")
const longestRetry = Duration.toMillis("30 minutes")

/** Returns how many milliseconds to wait after so many failures in a row. */
export const retryWait = (failures: number): number => Math.min(firstRetry * 2 ** (failures - 1), longestRetry)

/**
 * Waits after a run that failed because the service requested a longer wait than a scan has patience for. The wait is
 * at most the longest one between two failures: the request may have been a mistake.
 */
export const waitAsRequested = Effect.fnUntraced(function*(
  error: PaymentsError | SinkError,
  onNext: (at: string) => Effect.Effect<void>
) {
  const requested = error._tag === "PaymentsError" && "retryAfter" in error.reason ? error.reason.retryAfter : undefined
  if (requested === undefined) return
  const wait = Math.min(Duration.toMillis(requested), longestRetry)
  yield* onNext(formatted((yield* startNow).wall + wait))
  yield* Effect.sleep(wait)
})
