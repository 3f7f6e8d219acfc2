/** The deadlines of one attempt at a page, and the time limit of the work on its answer. */
import { type Clock, Duration } from "effect"
import { millisUnsafe } from "../Monotonic.ts"
import type { Deadlines } from "../PaymentsConfig.ts"
import type { Timeout } from "../PaymentsError.ts"

/** The progress of an attempt. Times are milliseconds of one clock. */
export interface AttemptProgress {
  readonly startedAt: number
  phase: "headers" | "body"
  /** When the last bytes arrived. */
  lastBytesAt: number
}

/** Returns the next deadline, and the phase that a timeout at that moment names. */
export const nextDeadline = (
  deadlines: Deadlines,
  { lastBytesAt, phase, startedAt }: AttemptProgress
): { readonly at: number; readonly phase: Timeout["phase"] } => {
  const whole = startedAt + Duration.toMillis(deadlines.attempt)
  const step = phase === "headers"
    ? startedAt + Duration.toMillis(deadlines.headers)
    : lastBytesAt + Duration.toMillis(deadlines.stalled)
  return step < whole ? { at: step, phase } : { at: whole, phase: "attempt" }
}

/**
 * Returns when to check the deadline next. While the headers are awaited, this can be before their deadline: as soon as
 * they arrive, the shorter limit of a stalled body may apply.
 */
export const nextCheckAt = (deadlines: Deadlines, progress: AttemptProgress, now: number): number =>
  Math.min(nextDeadline(deadlines, progress).at, now + Duration.toMillis(deadlines.stalled))

/**
 * The time limit of the work on one page. Synchronous work cannot be interrupted, so it checks the limit itself, at
 * short intervals.
 */
export interface WorkTime {
  readonly isOver: () => boolean
  /** Returns the milliseconds that are left. */
  readonly left: () => number
}

/** Returns a limit of `millis` milliseconds that starts now. */
export const workTime = (clock: Clock.Clock, millis: number): WorkTime => {
  const startedAt = millisUnsafe(clock)
  const left = () => millis - (millisUnsafe(clock) - startedAt)
  return { isOver: () => left() <= 0, left }
}
