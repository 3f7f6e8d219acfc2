/** Clocks that a test sets while it runs. Timers do not change. */
import { Clock, Duration, Effect } from "effect"

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

/** A wall clock and a monotonic clock that begin now, and that only `pass` moves. Each sleep calls `onSlept` at its end. */
const overOwnClock = <A, E, R>(
  use: (pass: (ms: number) => void) => Effect.Effect<A, E, R>,
  onSlept: (ms: number, pass: (ms: number) => void) => void
) =>
  Effect.clockWith((clock) => {
    let millis = clock.currentTimeMillisUnsafe()
    const pass = (ms: number) => void (millis += ms)
    const nanos = () => BigInt(millis) * 1_000_000n
    const own: Clock.Clock = {
      currentTimeMillisUnsafe: () => millis,
      currentTimeMillis: Effect.sync(() => millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: nanos,
      monotonicTimeNanos: Effect.sync(nanos),
      sleep: (duration) =>
        Effect.tap(
          clock.sleep(duration),
          () => Effect.sync(() => onSlept(Math.ceil(Duration.toMillis(duration)), pass))
        )
    }
    return Effect.provideService(use(pass), Clock.Clock, own)
  })

/**
 * Runs an effect with a wall clock and a monotonic clock that stand still until `advance` moves both by milliseconds. So an
 * age does not depend on the speed of the machine.
 */
export const overStandingClock = <A, E, R>(use: (advance: (ms: number) => void) => Effect.Effect<A, E, R>) =>
  overOwnClock(use, () => {})

/**
 * Runs an effect with a wall clock and a monotonic clock that only its sleeps move. So the time that a busy machine takes for
 * anything else does not count. `slept` returns the milliseconds that have passed. Sleeps at the same time count each.
 */
export const overSleptClock = <A, E, R>(use: (slept: () => number) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let total = 0
    return overOwnClock(() => use(() => total), (ms, pass) => {
      total += ms
      pass(ms)
    })
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
