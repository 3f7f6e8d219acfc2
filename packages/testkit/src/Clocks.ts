/** Clocks that a test sets while it runs. */
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

/** A wall clock and a monotonic clock that show the same milliseconds. */
const ownClock = (millis: () => number, sleep: Clock.Clock["sleep"]): Clock.Clock => {
  const whole = () => Math.floor(millis())
  const nanos = () => BigInt(Math.round(millis() * 1000)) * 1000n
  return {
    currentTimeMillisUnsafe: whole,
    currentTimeMillis: Effect.sync(whole),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep
  }
}

/**
 * Runs an effect with a wall clock and a monotonic clock that stand still until `advance` moves both by milliseconds. So an
 * age does not depend on the speed of the machine.
 */
export const overStandingClock = <A, E, R>(use: (advance: (ms: number) => void) => Effect.Effect<A, E, R>) =>
  Effect.clockWith((clock) => {
    let millis = clock.currentTimeMillisUnsafe()
    const standing = ownClock(() => millis, (duration) => clock.sleep(duration))
    return Effect.provideService(use((ms) => void (millis += ms)), Clock.Clock, standing)
  })

/**
 * Runs an effect with a wall clock and a monotonic clock that only its sleeps move. So the time that a busy machine takes for
 * anything else does not count. `slept` returns the milliseconds that have passed. Sleeps at the same time count each.
 */
export const overSleptClock = <A, E, R>(use: (slept: () => number) => Effect.Effect<A, E, R>) =>
  Effect.clockWith((clock) => {
    const start = clock.currentTimeMillisUnsafe()
    let slept = 0
    const sleep = (duration: Duration.Duration) =>
      Effect.tap(clock.sleep(duration), () => Effect.sync(() => void (slept += Math.ceil(Duration.toMillis(duration)))))
    return Effect.provideService(use(() => slept), Clock.Clock, ownClock(() => start + slept, sleep))
  })

interface Sleeper {
  readonly until: number
  readonly wake: () => void
}

/** Returns a sleep that ends when the clock wakes it. */
const sleepAmong =
  (sleepers: Set<Sleeper>, millis: () => number, onSleep: () => void = () => {}) => (duration: Duration.Duration) =>
    Duration.toMillis(duration) <= 0 ? Effect.yieldNow : Effect.callback<void>((resume) => {
      const sleeper = { until: millis() + Duration.toMillis(duration), wake: () => resume(Effect.void) }
      sleepers.add(sleeper)
      onSleep()
      return Effect.sync(() => void sleepers.delete(sleeper))
    })

/** Returns the sleepers whose time has come, in the order of their times. */
const due = (sleepers: ReadonlySet<Sleeper>, millis: number): ReadonlyArray<Sleeper> =>
  [...sleepers].filter(({ until }) => until <= millis).toSorted((one, other) => one.until - other.until)

/** The longest time that passes on a patient clock in one turn of the event loop. */
const longestTurnMs = 10

/**
 * Runs an effect with a monotonic clock and timers that do not count the time in which this process cannot run. At most 10 ms
 * pass in each turn of the event loop. So a busy machine ends no deadline of Effect, only those of Node. `advance` moves the
 * monotonic clock and the timers, not the wall clock.
 */
export const overPatientClock = <A, E, R>(use: (advance: (ms: number) => void) => Effect.Effect<A, E, R>) =>
  Effect.clockWith((clock) => {
    let last = performance.now()
    let millis = last
    const sleepers = new Set<Sleeper>()
    const tick = () => {
      const now = performance.now()
      millis += Math.min(now - last, longestTurnMs)
      last = now
      for (const sleeper of due(sleepers, millis)) if (sleepers.delete(sleeper)) sleeper.wake()
    }
    const patient: Clock.Clock = {
      ...ownClock(() => millis, sleepAmong(sleepers, () => millis)),
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
      currentTimeMillis: clock.currentTimeMillis,
      currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
      currentTimeNanos: clock.currentTimeNanos
    }
    return Effect.acquireUseRelease(
      Effect.sync(() => setInterval(tick, longestTurnMs / 2)),
      () => Effect.scoped(Effect.provideService(use((ms) => void (millis += ms)), Clock.Clock, patient)),
      (ticking) => Effect.sync(() => clearInterval(ticking))
    )
  })

/** So often the event loop turns before a clock skips. Until then, what was woken goes to sleep again or begins something. */
const turnsBeforeSkip = 50

/**
 * Runs an effect with a wall clock and a monotonic clock that skip to the end of the next sleep when nothing is under way.
 * `during` marks what is under way. For its time both clocks stand still, so nothing in it may sleep. Then a rate does not
 * depend on the machine.
 */
export const overSkippingClock = <A, E, R>(
  use: (during: <B, F, S>(effect: Effect.Effect<B, F, S>) => Effect.Effect<B, F, S>) => Effect.Effect<A, E, R>
) =>
  Effect.clockWith((clock) => {
    let millis = clock.currentTimeMillisUnsafe()
    let underWay = 0
    let turns: NodeJS.Immediate | undefined
    const sleepers = new Set<Sleeper>()
    const turn = (left: number): void => {
      turns = setImmediate(() => left > 0 ? turn(left - 1) : skip())
    }
    const rest = () => {
      clearImmediate(turns)
      if (underWay === 0 && sleepers.size > 0) turn(turnsBeforeSkip)
    }
    const skip = () => {
      const [next] = due(sleepers, Number.MAX_VALUE)
      if (next === undefined) return
      sleepers.delete(next)
      millis = Math.max(millis, next.until)
      next.wake()
      rest()
    }
    const sleep = sleepAmong(sleepers, () => millis, rest)
    const during = <B, F, S>(effect: Effect.Effect<B, F, S>) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          underWay++
          rest()
        }),
        () => effect,
        () =>
          Effect.sync(() => {
            underWay--
            rest()
          })
      )
    const standStill = Effect.sync(() => {
      underWay = Infinity
      rest()
    })
    return Effect.ensuring(Effect.provideService(use(during), Clock.Clock, ownClock(() => millis, sleep)), standStill)
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
