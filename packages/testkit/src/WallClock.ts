/** Clocks that a test sets while it runs. Timers do not change. */
import { Clock, Effect } from "effect"

const withWallClock = <A, E, R>(effect: Effect.Effect<A, E, R>, millisOf: (clock: Clock.Clock) => number) =>
  Effect.clockWith((clock) => {
    const millis = () => millisOf(clock)
    const nanos = () => BigInt(Math.round(millis())) * 1_000_000n
    const changed: Clock.Clock = {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
      monotonicTimeNanos: clock.monotonicTimeNanos,
      sleep: (duration) => clock.sleep(duration)
    }
    return Effect.provideService(effect, Clock.Clock, changed)
  })

/**
 * Runs an effect with a wall clock and a monotonic clock that stand still until `advance` moves both by milliseconds. So an
 * age does not depend on the speed of the machine.
 */
export const overStandingClock = <A, E, R>(use: (advance: (ms: number) => void) => Effect.Effect<A, E, R>) =>
  Effect.clockWith((clock) => {
    let millis = clock.currentTimeMillisUnsafe()
    const nanos = () => BigInt(millis) * 1_000_000n
    const standing: Clock.Clock = {
      currentTimeMillisUnsafe: () => millis,
      currentTimeMillis: Effect.sync(() => millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: nanos,
      monotonicTimeNanos: Effect.sync(nanos),
      sleep: (duration) => clock.sleep(duration)
    }
    return Effect.provideService(use((ms) => void (millis += ms)), Clock.Clock, standing)
  })

/** Runs an effect with a wall clock that `set` shifts by `byMs` milliseconds. */
export const overSettableClock = <A, E, R>(use: (set: (byMs: number) => void) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let shift = 0
    const set = (byMs: number) => void (shift = byMs)
    return withWallClock(use(set), (clock) => clock.currentTimeMillisUnsafe() + shift)
  })

/** Runs an effect with a wall clock that jumps by `byMs` milliseconds before every reading. */
export const overJumpingClock = (byMs: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let shift = 0
    return withWallClock(effect, (clock) => clock.currentTimeMillisUnsafe() + (shift += byMs))
  })
