/**
 * The operations of a budget in a `RateLimiterStore`, which has buckets of tokens and counters:
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
 * Each operation fails if the store fails, takes too long, or answers with a number out of range.
 */
import { Duration, Effect, Fiber, Option } from "effect"
import type { RateLimiterStore } from "effect/persistence/RateLimiter"
import { countWindow, fullLevel } from "./SharedRate.ts"

/** Why the store cannot be used. */
export interface StoreProblem {
  readonly message: string
}

/** `rate` and `peak` gain 1 % per hour. So they are forgotten weeks after the last request. */
const register = { limit: fullLevel, refillRate: Duration.hours(1), allowOverflow: true }
/** Buckets of which one client at a time gets the token. */
const turn = { tokens: 1, limit: 1, refillRate: Duration.seconds(1), allowOverflow: false }
/** The reductions of the last seconds. */
const reductions = { tokens: 1, limit: 5, refillRate: Duration.seconds(5), allowOverflow: false }
/** More clients are an error of the store. */
const mostClients = 1_000_000
/** A longer wait, apart from slots of other clients, is not from a client of this budget. */
const longestWaitMs = 60 * 60 * 1000
/** The longest wait for the answer of one operation of the store. */
const answerTimeout = Duration.seconds(1)

/** Returns the operations of the budget `name`. */
export const makeSharedBudget = (store: RateLimiterStore["Service"], name: Effect.Effect<string>) => {
  type Take = Omit<Parameters<typeof store.tokenBucket>[0], "key">
  const take = (bucket: string, options: Take) =>
    Effect.flatMap(name, (budget) => answered(store.tokenBucket({ key: `${budget} ${bucket}`, ...options })))
  const addClients = (tokens: number, refillRate: Duration.Duration) =>
    Effect.flatMap(
      name,
      (budget) => answered(store.fixedWindow({ key: `${budget} clients`, tokens, refillRate, limit: undefined }))
    )
  return {
    /** Adds to the level of `rate` or `peak`. Returns the level. */
    addLevel: (bucket: "rate" | "peak", levels: number) =>
      Effect.flatMap(
        take(bucket, { ...register, tokens: -levels }),
        ([level]) => isNumber(level, -fullLevel, 2 * fullLevel) ? Effect.succeed(level) : unusable
      ),
    /** Returns whether this client is the one that may change the rate now. */
    hasTurn: (bucket: "growth" | "reduction") => Effect.map(take(bucket, turn), ([remaining]) => remaining >= 0),
    /** Notes a reduction. Returns how many more are expected within the next seconds. */
    noteReduction: Effect.map(take("reductions", reductions), ([left]) => left),
    /** Takes milliseconds of `slots`. Returns the time in ms until they begin, which is when a request may be sent. */
    takeSlot: Effect.fnUntraced(function*(slotMs: number) {
      const [remaining, elapsedMs] = yield* take("slots", {
        tokens: slotMs,
        limit: slotMs,
        refillRate: Duration.millis(1),
        allowOverflow: true
      })
      const waitMs = Math.max(0, -remaining - elapsedMs)
      return isNumber(waitMs, 0, longestWaitMs + 1000 * slotMs) ? waitMs : yield* unusable
    }),
    /** Returns the number of clients. With `isNew`, counts this client, and returns how long the count is valid. */
    countClients: Effect.fnUntraced(function*(isNew: boolean) {
      const [before] = yield* addClients(0, countWindow)
      if (!isNew) return { clients: isNumber(before, 1, mostClients) ? before : 1, validMs: undefined }
      // The first client that is counted sets the time after which all are counted anew.
      const [clients, validMs] = yield* addClients(1, before === 0 ? countWindow : Duration.millis(1))
      return isNumber(clients, 1, mostClients) && isNumber(validMs, 0, longestWaitMs)
        ? { clients, validMs }
        : yield* unusable
    })
  }
}

const isNumber = (value: number, minimum: number, maximum: number): boolean => value >= minimum && value <= maximum

const unusable = Effect.fail<StoreProblem>({ message: "it contains a number out of range" })

/** Limits the time that the store may take. Does not wait for the interruption of an operation that takes longer. */
const answered = <A>(operation: Effect.Effect<A, StoreProblem>): Effect.Effect<A, StoreProblem> =>
  Effect.flatMap(Effect.forkDetach(operation), (fiber) =>
    Effect.timeoutOption(Fiber.await(fiber), answerTimeout).pipe(
      Effect.ensuring(Effect.forkDetach(Fiber.interrupt(fiber))),
      Effect.flatMap(Option.getOrElse(() => Effect.fail({ message: "no answer for 1 s" })))
    ))
