/** The deadlines of one attempt at a page, and the time limit for decoding its answer. */
import { type Clock, Duration } from "effect"
import type { Deadlines } from "../config/PaymentsConfig.ts"
import { millisUnsafe } from "../model/Monotonic.ts"
import type { Timeout } from "../model/PaymentsError.ts"

/** The progress of an attempt. Times are milliseconds of one clock. */
export interface AttemptProgress {
  readonly startedAt: number
  phase: "headers" | "body"
  /** When the last bytes arrived. */
  lastBytesAt: number
}

/** Returns the next deadline, and the `phase` of the `Timeout` with which the attempt fails then. */
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
 * Returns when to check the deadlines next. If `deadlines.stalled` is shorter than `deadlines.headers`, this can be
 * before the next deadline: when the headers arrive, the next deadline can become earlier.
 */
export const nextCheckAt = (deadlines: Deadlines, progress: AttemptProgress, now: number): number =>
  Math.min(nextDeadline(deadlines, progress).at, now + Duration.toMillis(deadlines.stalled))

/**
 * The time limit for decoding one page. Decoding is synchronous, so it cannot be interrupted. It checks the limit
 * itself, at short intervals.
 */
export interface TimeLimit {
  readonly isOver: () => boolean
  /** Returns the milliseconds until the limit. It is negative after the limit. */
  readonly remainingMs: () => number
}

/** Returns a limit of `millis` milliseconds that starts now. */
export const makeTimeLimit = (clock: Clock.Clock, millis: number): TimeLimit => {
  const startedAt = millisUnsafe(clock)
  const remainingMs = () => millis - (millisUnsafe(clock) - startedAt)
  return { isOver: () => remainingMs() <= 0, remainingMs }
}
