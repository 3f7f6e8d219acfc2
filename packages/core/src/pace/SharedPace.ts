/**
 * The pace of a client that shares one budget of requests with all clients of a key: those of other processes and other
 * machines. The state of the budget is in a `RateLimiterStore`, which has buckets of tokens and counters:
 *
 * - `slots`: its tokens are milliseconds. A request takes the time between two requests, and waits until the bucket has
 *   gained what it took. So requests are spaced evenly. A client takes one slot at a time, so all clients get the same
 *   share, and a killed client wastes one slot.
 * - `rate`: its level is the rate on a logarithmic scale: a token is 1 %. A full bucket means that nothing is known.
 * - `peak`: the rate at the last 429, on the same scale.
 * - `growth`, `reduction`: one client at a time changes the rate, at most once per second.
 * - `reductions`: a rate that was reduced several times within a few seconds is reduced more each time.
 * - `clients`: the number of clients, counted anew every minute.
 *
 * The rate grows while requests wait for it: fast until the first 429, then slowly near the peak.
 *
 * A client that is cut off from the store cannot know whether the others are too, and they cannot know that it still
 * sends. So the clients that use the store leave a part of the ceiling unused, the reserve, and a client without the
 * store sends at most its share of the reserve. All clients together then keep to the ceiling at every moment.
 */
import { type Clock, Duration, Effect, Fiber, Option, Semaphore } from "effect"
import type { RateLimiterStore } from "effect/persistence/RateLimiter"
import * as Monotonic from "../model/Monotonic.ts"
import { makeOwnPace, type Pace } from "./Pace.ts"
import type { SlowDown } from "./RateLimiter.ts"

/** What the clients of a budget share. */
export interface Budget {
  readonly store: RateLimiterStore["Service"]
  /** The name of the budget in the store. It is the same for all clients of a key, and does not reveal the key. */
  readonly name: Effect.Effect<string>
  /** The most requests per second of all clients. Undefined: no limit. */
  readonly ceiling: number | undefined
  /** How the client's own rate decreases after a 429, while the store cannot be used. */
  readonly slowDown: SlowDown
}

/** The rates that the store can express, in requests per second. */
const lowestRate = 0.2
const highestRate = 1000
/** The first rate if there is no ceiling. */
const firstRate = 20
/** The part of the ceiling for all clients that are cut off from the store, together. */
const reservedPart = 0.05

/** The level of `rate` and `peak` for a rate. */
const levelOf = (rate: number): number => 100 * Math.log(rate / lowestRate)
const rateOf = (level: number): number => lowestRate * Math.exp(level / 100)
const fullLevel = Math.ceil(levelOf(highestRate))

/** `rate` and `peak` gain 1 % per hour. So they are forgotten weeks after the last request. */
const register = { limit: fullLevel, refillRate: Duration.hours(1), allowOverflow: true }
/** Buckets of which one client at a time gets the token. */
const turn = { tokens: 1, limit: 1, refillRate: Duration.seconds(1), allowOverflow: false }
/** The reductions of the last seconds. */
const reductions = { tokens: 1, limit: 5, refillRate: Duration.seconds(5), allowOverflow: false }

/** Returns by how much the level grows in a second. */
const growthOf = (level: number, peak: number): number =>
  // No 429 yet: the rate doubles within 2 s.
  peak >= fullLevel
    ? 35
    // The last 429 came at a much higher rate, or none came at a much higher rate than then: the limit is elsewhere.
    : Math.abs(peak - level) > 15
    ? 5
    : 1

/** A client reads the rate and the number of clients again after this time, or if the store is slow, after a longer one. */
const readIntervalMs = 1000
/** Reading takes at most one part in so many of the time. */
const readShare = 5
/** The clients are counted anew after this time. */
const countWindow = Duration.minutes(1)
/** The longest wait for the answer of one operation of the store. */
const answerTimeout = Duration.seconds(1)
/** The time between two attempts to use a store that failed. */
const retryIntervalMs = 5000

/** Returns a pace that shares a budget. */
export const makeSharedPace = ({ ceiling, name, slowDown, store }: Budget): Pace => {
  const highest = ceiling === undefined ? highestRate : Math.min(ceiling * (1 - reservedPart), highestRate)
  const firstLevel = levelOf(ceiling === undefined ? firstRate : highest)
  const highestLevel = ceiling === undefined ? fullLevel - 1 : Math.min(fullLevel - 1, firstLevel)
  let rate = rateOf(firstLevel)
  let readAgainAt = Number.NEGATIVE_INFINITY
  /** Whether a request has waited for its slot since the rate was read. */
  let hasWaited = false
  /** No request is sent before. */
  let notBefore = Number.NEGATIVE_INFINITY
  /** The clients that are counted now, and those that were counted in the minute before. */
  let clients = 1
  let earlierClients = 1
  let countEndsAt = Number.NEGATIVE_INFINITY
  /** The pace without the store, if it cannot be used. */
  let own: Pace | undefined
  let triedAt = Number.NEGATIVE_INFINITY

  /** Requests that wait, in order. */
  const queue = Semaphore.makeUnsafe(1)
  const cachedName = Effect.runSync(Effect.cached(name))

  type Take = Omit<Parameters<typeof store.tokenBucket>[0], "key">
  const take = (bucket: string, options: Take) =>
    Effect.flatMap(cachedName, (budget) => answered(store.tokenBucket({ key: `${budget} ${bucket}`, ...options })))

  /** Adds to the level of `rate` or `peak`. Returns the level. */
  const add = (bucket: "rate" | "peak", levels: number) =>
    Effect.flatMap(
      take(bucket, { ...register, tokens: -levels }),
      ([level]) => isNumber(level, -fullLevel, 2 * fullLevel) ? Effect.succeed(level) : unusable
    )
  const hasTurn = (bucket: "growth" | "reduction") => Effect.map(take(bucket, turn), ([remaining]) => remaining >= 0)

  /** Reads the rate. If requests wait for it, increases it. */
  const readRate = Effect.gen(function*() {
    let level = yield* add("rate", 0)
    const isKnown = level < fullLevel
    if ((!isKnown || (hasWaited && level < highestLevel)) && (yield* hasTurn("growth"))) {
      const growth = isKnown ? growthOf(level, yield* add("peak", 0)) : firstLevel - level
      level = yield* add("rate", Math.min(growth, highestLevel - level))
    }
    noteLevel(level < fullLevel ? level : firstLevel)
    hasWaited = false
  })
  const noteLevel = (level: number) => {
    rate = Math.min(highest, rateOf(Math.max(0, level)))
  }

  /** Takes milliseconds of `slots`. Returns the time in ms until they begin, which is when a request may be sent. */
  const takeSlot = Effect.fnUntraced(function*(slotMs: number) {
    const [remaining, elapsedMs] = yield* take("slots", {
      tokens: slotMs,
      limit: slotMs,
      refillRate: Duration.millis(1),
      allowOverflow: true
    })
    const waitMs = Math.max(0, -remaining - elapsedMs)
    return isNumber(waitMs, 0, longestWaitMs + 1000 * slotMs) ? waitMs : yield* unusable
  })

  /** Counts this client and reads how many there are. */
  const count = Effect.fnUntraced(function*(now: number) {
    const key = `${yield* cachedName} clients`
    const addClients = (tokens: number, refillRate: Duration.Duration) =>
      answered(store.fixedWindow({ key, tokens, refillRate, limit: undefined }))
    const [before] = yield* addClients(0, countWindow)
    if (now >= countEndsAt) {
      // The first client that is counted sets the time after which all are counted anew.
      const [after, ttlMs] = yield* addClients(1, before === 0 ? countWindow : Duration.millis(1))
      if (!isNumber(after, 1, mostClients) || !isNumber(ttlMs, 0, longestWaitMs)) return yield* unusable
      earlierClients = clients
      clients = after
      countEndsAt = now + ttlMs
    } else clients = isNumber(before, 1, mostClients) ? before : 1
  })

  /** Takes the next slot. Returns the time in ms until it begins. */
  const reserve = Effect.fnUntraced(function*(clock: Clock.Clock) {
    const now = Monotonic.millisUnsafe(clock)
    if (now >= readAgainAt) {
      yield* readRate
      yield* count(now)
      const readAt = Monotonic.millisUnsafe(clock)
      readAgainAt = readAt + Math.max(readIntervalMs, (readAt - now) * readShare)
    }
    const waitMs = yield* takeSlot(1000 / rate)
    if (waitMs > 0) hasWaited = true
    return waitMs
  })

  /** Uses the pace without the store from now on. */
  const leaveStore = (now: number, { message }: StoreProblem) => {
    // Another request has noticed it at the same time.
    if (own !== undefined) return Effect.void
    const share = (rate / (1 - reservedPart)) * reservedPart / Math.max(clients, earlierClients)
    own = makeOwnPace(share, slowDown)
    triedAt = now
    return Effect.logWarning(
      `The rate limit store cannot be used: ${message.replace(/\.$/, "")}. Until it can, this process sends at most ${
        share >= 10 ? Math.floor(share) : share.toPrecision(2)
      } requests per second, its share of what the others leave unused.`
    )
  }

  /** Uses the store again if it answers. */
  const returnToStore = readRate.pipe(
    Effect.tap(() => {
      own = undefined
      return Effect.logInfo("The rate limit store can be used again.")
    }),
    // The first failure was reported. The next attempt follows.
    Effect.ignore
  )

  /** Waits for a slot of the budget, or without the store, for the client's own pace. */
  const waitForSlot = Effect.fnUntraced(function*(clock: Clock.Clock) {
    if (own === undefined) {
      // To derive the name takes time that is not the store's.
      yield* cachedName
      const reserved = yield* Effect.result(reserve(clock))
      if (reserved._tag === "Success") return yield* Effect.sleep(reserved.success)
      yield* leaveStore(Monotonic.millisUnsafe(clock), reserved.failure)
    } else if (Monotonic.millisUnsafe(clock) - triedAt >= retryIntervalMs) {
      triedAt = Monotonic.millisUnsafe(clock)
      // Requests do not wait for it: a store that is away may take seconds to fail.
      yield* Effect.forkDetach(returnToStore)
    }
    yield* own?.acquire ?? Effect.void
  })

  const wait: (clock: Clock.Clock) => Effect.Effect<void> = Effect.fnUntraced(function*(clock: Clock.Clock) {
    yield* waitForSlot(clock)
    const pauseMs = notBefore - Monotonic.millisUnsafe(clock)
    if (pauseMs <= 0) return
    // The slot is within the pause that the service requested. The next one is not.
    yield* Effect.sleep(pauseMs)
    yield* wait(clock)
  })

  /** Reduces the rate of all clients, and lets all of them wait for `retryAfterMs`. */
  const reduce = Effect.fnUntraced(function*(retryAfterMs: number) {
    if (!(yield* hasTurn("reduction"))) return
    // First the pause, before other clients take more slots.
    const missingMs = retryAfterMs === 0 ? 0 : retryAfterMs - (yield* takeSlot(0))
    if (missingMs > 0) yield* takeSlot(missingMs)
    const [left] = yield* take("reductions", reductions)
    // 0.9 for the first reduction, then 0.8, down to 0.5.
    const factor = 0.5 + 0.1 * Math.max(0, left)
    const level = yield* add("rate", 0)
    const before = Math.min(level, levelOf(rate))
    yield* add("peak", before - (yield* add("peak", 0)))
    const after = Math.max(0, before + 100 * Math.log(factor))
    noteLevel(yield* add("rate", after - level))
  })

  return {
    acquire: Effect.clockWith((clock) => queue.withPermits(1)(wait(clock))),
    onRateLimited: (retryAfterMs) =>
      Effect.clockWith((clock) => {
        const now = Monotonic.millisUnsafe(clock)
        // The pause lasts, whether the store can be used then or not.
        notBefore = Math.max(notBefore, now + retryAfterMs)
        if (own !== undefined) return own.onRateLimited(retryAfterMs)
        return Effect.catch(
          reduce(retryAfterMs),
          (error) =>
            Effect.andThen(
              leaveStore(now, error),
              Effect.suspend(() => own?.onRateLimited(retryAfterMs) ?? Effect.void)
            )
        )
      }),
    rate: () => own?.rate() ?? rate,
    isShared: () => own === undefined
  }
}

/** More clients are an error of the store. */
const mostClients = 1_000_000

/** A longer wait, apart from slots of other clients, is not from a client of this budget. */
const longestWaitMs = 60 * 60 * 1000

const isNumber = (value: number, minimum: number, maximum: number): boolean => value >= minimum && value <= maximum

/** Why the store cannot be used. */
interface StoreProblem {
  readonly message: string
}

const unusable = Effect.fail<StoreProblem>({ message: "it contains a number out of range" })

/** Limits the time that the store may take. Does not wait for the interruption of an operation that takes longer. */
const answered = <A>(operation: Effect.Effect<A, StoreProblem>): Effect.Effect<A, StoreProblem> =>
  Effect.flatMap(Effect.forkDetach(operation), (fiber) =>
    Effect.timeoutOption(Fiber.await(fiber), answerTimeout).pipe(
      Effect.ensuring(Effect.forkDetach(Fiber.interrupt(fiber))),
      Effect.flatMap(Option.getOrElse(() => Effect.fail({ message: "no answer for 1 s" })))
    ))
