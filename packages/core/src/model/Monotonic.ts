/**
 * Monotonic time, for everything that waits, limits or measures. The wall clock may be set back or forward while a
 * program runs, so it is used for dates only: {@link DateTime.now}.
 *
 * `Schedule.fixed` and `Schedule.upTo` read the wall clock in Effect 4.1 (`Schedule.toStepWithMetadata`). The versions
 * here run on the monotonic clock and move with `TestClock`. Schedules that only count, such as `spaced` and
 * `exponential`, and `Effect.sleep`, `delay` and `timeout` need no replacement: they wait on timers.
 */
import { type Clock, type Duration, Effect, Schedule } from "effect"

/** Returns whole milliseconds since an arbitrary moment. */
export const millisUnsafe = (clock: Clock.Clock): number => Math.floor(Number(clock.monotonicTimeNanosUnsafe()) / 1e6)

/** Whole milliseconds since an arbitrary moment, from the clock of the fiber. */
export const millis: Effect.Effect<number> = Effect.clockWith((clock) => Effect.succeed(millisUnsafe(clock)))

/** Like `Schedule.fixed`: recurs at every tick of the interval, and at once after a missed tick. */
export const fixed = (interval: Duration.Input): Schedule.Schedule<number> => monotonic(Schedule.fixed(interval))

/** Like `Schedule.upTo`: ends the schedule when this much time has passed since its first step. */
export const upTo = (duration: Duration.Input) =>
<Output, Input, Error, Env>(
  self: Schedule.Schedule<Output, Input, Error, Env>
): Schedule.Schedule<Output, Input, Error, Env> => monotonic(Schedule.upTo(self, { duration }))

/** Passes monotonic time to the steps of a schedule, instead of wall-clock time. */
const monotonic = <Output, Input, Error, Env>(
  self: Schedule.Schedule<Output, Input, Error, Env>
): Schedule.Schedule<Output, Input, Error, Env> =>
  Schedule.fromStep(
    Effect.map(Schedule.toStep(self), (step) => (_wallTime: number, input: Input) =>
      Effect.clockWith((clock) => step(millisUnsafe(clock), input)))
  )
