/**
 * The pace of a client that shares one budget of requests with all clients of a key: those of other processes and other
 * machines. The state of the budget is in a `RateLimiterStore`, as token buckets:
 *
 * - `slots`: a request takes a token and waits for its turn. The bucket holds one token, so requests are spaced evenly.
 *   A client takes one token at a time, so each client gets the same share, and a killed client wastes one token.
 * - `rate`: its level is the rate on a logarithmic scale. It gains a token per second, and each token is 1 %, so the
 *   rate grows by 1 % per second. A full bucket means that no limit is known.
 * - `turn`: one client at a time reduces the rate, at most once per second.
 * - `reductions`: a rate that was reduced several times within a few seconds is reduced more each time.
 * - `clients`: the number of clients, counted once per minute.
 *
 * While the store cannot be used, the client keeps to its share of the last known rate.
 */
import { type Clock, Duration, Effect, Fiber, Option, Semaphore } from "effect"
import type { RateLimiterStore } from "effect/persistence/RateLimiter"
import * as Monotonic from "../Monotonic.ts"
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

/** The lowest and the highest rate that the store expresses, in requests per second. */
const lowestRate = 0.2
const highestRate = 1000

/** The level of `rate` for a rate. */
const levelOf = (rate: number): number => 100 * Math.log(rate / lowestRate)
const rateOf = (level: number): number => lowestRate * Math.exp(level / 100)
const fullLevel = Math.ceil(levelOf(highestRate))

const second = Duration.seconds(1)
/** A client reads the rate again after this time. */
const rateIntervalMs = 1000
/** A client counts the other clients again after this time. */
const countIntervalMs = 10_000
/** The clients are counted anew after this time. */
const countWindow = Duration.minutes(1)
/** The longest wait for an answer of the store. */
const answerTimeout = second
/** The time between two attempts to use a store that failed. */
const retryIntervalMs = 5000
/** The reductions within the last seconds that make the next one larger, and how fast they are forgotten. */
const reductions = { limit: 5, refillRate: Duration.seconds(5) }

/** Returns a pace that shares a budget. */
export const makeSharedPace = ({ ceiling = highestRate, name, slowDown, store }: Budget): Pace => {
  let rate = ceiling
  let rateReadAt = Number.NEGATIVE_INFINITY
  /** No request is sent before. */
  let notBefore = Number.NEGATIVE_INFINITY
  /** The clients that are counted now, and those that were counted in the minute before. */
  let clients = 1
  let earlierClients = 1
  let countedAt = Number.NEGATIVE_INFINITY
  let countEndsAt = Number.NEGATIVE_INFINITY
  /** The pace without the store, if it cannot be used. */
  let own: Pace | undefined
  let triedAt = Number.NEGATIVE_INFINITY

  /** Requests that wait, in order. */
  const queue = Semaphore.makeUnsafe(1)
  const cachedName = Effect.runSync(Effect.cached(name))

  type Take = Omit<Parameters<typeof store.tokenBucket>[0], "key">
  const take = (bucket: string, options: Take) =>
    Effect.flatMap(cachedName, (budget) => store.tokenBucket({ key: `${budget} ${bucket}`, ...options }))

  /** Takes tokens of `rate`. Returns its level. */
  const takeRate = (tokens: number) =>
    Effect.flatMap(
      take("rate", { tokens, limit: fullLevel, refillRate: second, allowOverflow: true }),
      ([level]) => isNumber(level, -fullLevel, fullLevel) ? Effect.succeed(level) : unusable
    )
  const noteLevel = (level: number, now: number) => {
    rate = Math.min(ceiling, rateOf(Math.max(0, level)))
    rateReadAt = now
  }

  /** Takes tokens of `slots`. Returns the time in ms until the last of them is there. */
  const takeSlots = Effect.fnUntraced(function*(tokens: number) {
    const intervalMs = 1000 / rate
    const [remaining, elapsedMs] = yield* take("slots", {
      tokens,
      limit: 1,
      refillRate: Duration.millis(intervalMs),
      allowOverflow: true
    })
    const waitMs = Math.max(0, -remaining * intervalMs - elapsedMs)
    return isNumber(waitMs, 0, longestWaitMs + 1000 * intervalMs) ? waitMs : yield* unusable
  })

  /** Counts this client and reads how many there are. */
  const count = Effect.fnUntraced(function*(now: number) {
    const key = `${yield* cachedName} clients`
    const add = (tokens: number, refillRate: Duration.Duration) =>
      store.fixedWindow({ key, tokens, refillRate, limit: undefined })
    const [before] = yield* add(0, second)
    if (now >= countEndsAt) {
      // The first client that is counted sets the time after which all are counted anew.
      const [after, ttlMs] = yield* add(1, before === 0 ? countWindow : Duration.millis(1))
      if (!isNumber(after, 1, mostClients) || !isNumber(ttlMs, 0, longestWaitMs)) return yield* unusable
      earlierClients = clients
      clients = after
      countEndsAt = now + ttlMs
    } else clients = isNumber(before, 1, mostClients) ? before : 1
    countedAt = now
  })

  /** Takes the next slot. Returns the time in ms until it begins. */
  const reserve = Effect.fnUntraced(function*(clock: Clock.Clock) {
    const now = Monotonic.millisUnsafe(clock)
    if (now - rateReadAt >= rateIntervalMs) noteLevel(yield* takeRate(0), now)
    if (now - countedAt >= countIntervalMs || now >= countEndsAt) yield* count(now)
    return yield* takeSlots(1)
  })

  const leaveStore = (now: number, { message }: StoreProblem) => {
    const share = rate / Math.max(clients, earlierClients)
    own = makeOwnPace(share, slowDown)
    triedAt = now
    return Effect.logWarning(
      `The rate limit store cannot be used: ${message}. Until it can, this process sends at most ${
        share >= 10 ? Math.floor(share) : share.toPrecision(2)
      } requests per second, its share of the budget.`
    )
  }

  /** Uses the store again if it answers. */
  const returnToStore = (clock: Clock.Clock) =>
    answered(takeRate(0)).pipe(
      Effect.tap((level) => {
        noteLevel(level, Monotonic.millisUnsafe(clock))
        own = undefined
        return Effect.logInfo("The rate limit store can be used again.")
      }),
      // The first failure was reported. The next attempt follows.
      Effect.ignore
    )

  const wait = Effect.fnUntraced(function*(clock: Clock.Clock) {
    if (own === undefined) {
      // To derive the name takes time that is not the store's.
      yield* cachedName
      const reserved = yield* Effect.result(answered(reserve(clock)))
      if (reserved._tag === "Success") {
        if (reserved.success > 0) yield* Effect.sleep(reserved.success)
        while (notBefore > Monotonic.millisUnsafe(clock)) {
          yield* Effect.sleep(notBefore - Monotonic.millisUnsafe(clock))
        }
        return
      }
      yield* leaveStore(Monotonic.millisUnsafe(clock), reserved.failure)
    } else if (Monotonic.millisUnsafe(clock) - triedAt >= retryIntervalMs) {
      triedAt = Monotonic.millisUnsafe(clock)
      // Requests do not wait for it: a store that is away may take a second to fail.
      yield* Effect.forkDetach(returnToStore(clock))
    }
    yield* own?.acquire ?? Effect.void
  })

  /** Reduces the rate of all clients, and lets all of them wait for `retryAfterMs`. */
  const reduce = Effect.fnUntraced(function*(clock: Clock.Clock, retryAfterMs: number) {
    const [turns] = yield* take("turn", { tokens: 1, limit: 1, refillRate: second, allowOverflow: false })
    if (turns < 0) return
    const [unused] = yield* take("reductions", { ...reductions, tokens: 1, allowOverflow: false })
    // 0.9 for the first reduction, then 0.8, down to 0.5.
    const factor = 0.5 + 0.1 * Math.max(0, unused)
    const level = yield* takeRate(0)
    const reduced = Math.max(0, levelOf(Math.max(lowestRate, Math.min(ceiling, rateOf(level)) * factor)))
    if (level > reduced) noteLevel(yield* takeRate(level - reduced), Monotonic.millisUnsafe(clock))
    if (retryAfterMs === 0) return
    const missingMs = retryAfterMs - (yield* takeSlots(0))
    if (missingMs > 0) yield* takeSlots(missingMs * rate / 1000)
  })

  return {
    acquire: Effect.clockWith((clock) => queue.withPermits(1)(wait(clock))),
    onRateLimited: (retryAfterMs) =>
      Effect.clockWith((clock) => {
        if (own !== undefined) return own.onRateLimited(retryAfterMs)
        const now = Monotonic.millisUnsafe(clock)
        notBefore = Math.max(notBefore, now + retryAfterMs)
        return Effect.catch(
          answered(reduce(clock, retryAfterMs)),
          (error) =>
            Effect.andThen(
              leaveStore(now, error),
              Effect.suspend(() => own?.onRateLimited(retryAfterMs) ?? Effect.void)
            )
        )
      }),
    rate: () => own?.rate() ?? rate
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
