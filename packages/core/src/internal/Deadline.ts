/** When an attempt at a page must have come further. */
import { type Clock, Duration } from "effect"
import { millisUnsafe } from "../Monotonic.ts"
import type { Deadlines } from "../PaymentsConfig.ts"
import type { Timeout } from "../PaymentsError.ts"

/** How far an attempt has come. Times are milliseconds of one clock. */
export interface Progress {
  readonly startedAt: number
  phase: "headers" | "body"
  /** When bytes last came. */
  movedAt: number
}

/** The next deadline, and what will have been waited for. */
export const nextDeadline = (
  deadlines: Deadlines,
  { movedAt, phase, startedAt }: Progress
): { readonly at: number; readonly phase: Timeout["phase"] } => {
  const whole = startedAt + Duration.toMillis(deadlines.attempt)
  const step = phase === "headers"
    ? startedAt + Duration.toMillis(deadlines.headers)
    : movedAt + Duration.toMillis(deadlines.stalled)
  return step < whole ? { at: step, phase } : { at: whole, phase: "attempt" }
}

/** When to look at the deadline: a body that has begun may stall sooner than its headers were due. */
export const lookAt = (deadlines: Deadlines, progress: Progress, now: number): number =>
  Math.min(nextDeadline(deadlines, progress).at, now + Duration.toMillis(deadlines.stalled))

/**
 * How long the work on one page may take. Synchronous work cannot be interrupted, so it checks the time itself, at short
 * intervals.
 */
export interface WorkTime {
  readonly isOver: () => boolean
  /** Milliseconds. */
  readonly left: () => number
}

/** A limit of so many milliseconds that begins now. */
export const workTime = (clock: Clock.Clock, millis: number): WorkTime => {
  const startedAt = millisUnsafe(clock)
  const left = () => millis - (millisUnsafe(clock) - startedAt)
  return { isOver: () => left() <= 0, left }
}
