/**
 * The pace of a client that shares one budget of requests with all clients of a key: those of other processes and other
 * machines. The state of the budget is in a `RateLimiterStore`. The rate grows while requests wait for it: fast until the
 * first 429, then slowly near the rate of the last 429.
 *
 * A client that is cut off from the store cannot know whether the others are too, and they cannot know that it still
 * sends. So the clients that use the store leave a part of the ceiling unused, the reserve. A client without the store
 * sends at most its share of the reserve. All clients together then keep to the ceiling at every moment.
 *
 * This module only performs: `SharedRate.ts` decides, and `SharedBudget.ts` uses the store.
 */
import { type Clock, Effect, Semaphore } from "effect"
import type { RateLimiterStore } from "effect/persistence/RateLimiter"
import * as Monotonic from "../model/Monotonic.ts"
import { makeOwnPace, type Pace } from "./Pace.ts"
import type { SlowDown } from "./RateLimiter.ts"
import { makeSharedBudget, type StoreProblem } from "./SharedBudget.ts"
import * as SharedRate from "./SharedRate.ts"

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

/** The time between two attempts to use a store that failed. */
const retryIntervalMs = 5000

/** Returns a pace that shares a budget. */
export const makeSharedPace = ({ ceiling, name, slowDown, store }: Budget): Pace => {
  const bounds = SharedRate.boundsOf(ceiling)
  const cachedName = Effect.runSync(Effect.cached(name))
  const client: Client = { bounds, budget: makeSharedBudget(store, cachedName), state: SharedRate.initial(bounds) }
  /** The pace without the store, and when the store was last tried, while it cannot be used. */
  let away: { readonly pace: Pace; triedAt: number } | undefined
  /** Requests that wait, in order. */
  const queue = Semaphore.makeUnsafe(1)

  /** Uses the pace without the store from now on. */
  const leaveStore = (now: number, { message }: StoreProblem): Effect.Effect<void> => {
    // Another request has noticed it at the same time.
    if (away !== undefined) return Effect.void
    const share = SharedRate.rateWithoutStore(client.state)
    away = { pace: makeOwnPace(share, slowDown), triedAt: now }
    return Effect.logWarning(warning(message, share))
  }

  /** Uses the store again if it answers. */
  const returnToStore = readRate(client).pipe(
    Effect.tap(() => {
      away = undefined
      return Effect.logInfo("The rate limit store can be used again.")
    }),
    // The first failure was reported. The next attempt follows.
    Effect.ignore
  )

  /** Waits for a slot of the budget, or without the store, for the client's own pace. */
  const waitForSlot = Effect.fnUntraced(function*(clock: Clock.Clock) {
    if (away === undefined) {
      // To derive the name takes time that is not the store's.
      yield* cachedName
      const reserved = yield* Effect.result(reserve(client, clock))
      if (reserved._tag === "Success") return yield* Effect.sleep(reserved.success)
      yield* leaveStore(Monotonic.millisUnsafe(clock), reserved.failure)
    } else if (Monotonic.millisUnsafe(clock) - away.triedAt >= retryIntervalMs) {
      away.triedAt = Monotonic.millisUnsafe(clock)
      // Requests do not wait for it: a store that is away may take seconds to fail.
      yield* Effect.forkDetach(returnToStore)
    }
    yield* away?.pace.acquire ?? Effect.void
  })

  const wait: (clock: Clock.Clock) => Effect.Effect<void> = Effect.fnUntraced(function*(clock: Clock.Clock) {
    yield* waitForSlot(clock)
    const pauseMs = client.state.notBefore - Monotonic.millisUnsafe(clock)
    if (pauseMs <= 0) return
    // The slot is within the pause that the service requested. The next one is not.
    yield* Effect.sleep(pauseMs)
    yield* wait(clock)
  })

  return {
    acquire: Effect.clockWith((clock) => queue.withPermits(1)(wait(clock))),
    onRateLimited: (retryAfterMs) =>
      Effect.clockWith((clock) => {
        const now = Monotonic.millisUnsafe(clock)
        client.state = SharedRate.onRateLimited(client.state, now, retryAfterMs)
        const slowOwn = Effect.suspend(() => away?.pace.onRateLimited(retryAfterMs) ?? Effect.void)
        if (away !== undefined) return slowOwn
        return Effect.catch(reduce(client, retryAfterMs), (error) => Effect.andThen(leaveStore(now, error), slowOwn))
      }),
    rate: () => away?.pace.rate() ?? client.state.rate,
    isShared: () => away === undefined
  }
}

const warning = (message: string, share: number): string =>
  `The rate limit store cannot be used: ${message.replace(/\.$/, "")}. Until it can, this process sends at most ${
    share >= 10 ? Math.floor(share) : share.toPrecision(2)
  } requests per second, its share of what the others leave unused.`

interface Client {
  readonly bounds: SharedRate.RateBounds
  readonly budget: ReturnType<typeof makeSharedBudget>
  state: SharedRate.SharedRate
}

/** Reads the rate. If requests wait for it, increases it. */
const readRate = Effect.fnUntraced(function*(client: Client) {
  const { bounds, budget } = client
  let level = yield* budget.addLevel("rate", 0)
  if (SharedRate.shouldGrow(bounds, client.state, level) && (yield* budget.hasTurn("growth"))) {
    const peak = level < SharedRate.fullLevel ? yield* budget.addLevel("peak", 0) : SharedRate.fullLevel
    level = yield* budget.addLevel("rate", SharedRate.growthOf(bounds, level, peak))
  }
  client.state = SharedRate.onLevelRead(bounds, client.state, level)
})

/** Takes the next slot. Returns the time in ms until it begins. */
const reserve = Effect.fnUntraced(function*(client: Client, clock: Clock.Clock) {
  const { budget } = client
  const now = Monotonic.millisUnsafe(clock)
  if (now >= client.state.readAgainAt) {
    yield* readRate(client)
    const { clients, validMs } = yield* budget.countClients(now >= client.state.countEndsAt)
    client.state = SharedRate.onCount(client.state, clients, validMs === undefined ? undefined : now + validMs)
    client.state = SharedRate.onRead(client.state, now, Monotonic.millisUnsafe(clock))
  }
  const waitMs = yield* budget.takeSlot(1000 / client.state.rate)
  client.state = SharedRate.onSlot(client.state, waitMs)
  return waitMs
})

/** Reduces the rate of all clients, and lets all of them wait for `retryAfterMs`. */
const reduce = Effect.fnUntraced(function*(client: Client, retryAfterMs: number) {
  const { bounds, budget } = client
  if (!(yield* budget.hasTurn("reduction"))) return
  // First the pause, before other clients take more slots.
  const missingMs = retryAfterMs === 0 ? 0 : retryAfterMs - (yield* budget.takeSlot(0))
  if (missingMs > 0) yield* budget.takeSlot(missingMs)
  const left = yield* budget.noteReduction
  const level = yield* budget.addLevel("rate", 0)
  const { after, before } = SharedRate.reductionOf(client.state, level, left)
  yield* budget.addLevel("peak", before - (yield* budget.addLevel("peak", 0)))
  client.state = SharedRate.onLevel(bounds, client.state, yield* budget.addLevel("rate", after - level))
})
