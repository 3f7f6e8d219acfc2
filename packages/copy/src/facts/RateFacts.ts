/**
 * The rate at which answers with 429 begin (§8). It sends more than the source allows, so it needs a permission, and comes after
 * all other facts.
 *
 * The first rate that is refused is an upper bound. An allowance for bursts may have hidden a lower one. So the same rate is sent
 * once more, and goes on when the allowance is used up. What is accepted from then on shows both bounds, if it is about as much
 * in each second.
 */
import { Duration, Effect } from "effect"
import { notObserved, pageOf } from "./Ask.ts"
import { type Fact, observed } from "./Fact.ts"
import { type Flood, type SendFlood, waitAfter } from "./Flood.ts"

/** Requests per second. They are few, so that an answer is the same from run to run. */
const allRates = [2, 5, 10, 20, 50, 100]

/** One refusal can come from two requests that met on their way. */
const fewRefusals = 3

/** The pause if the service names none. A longer one is that of an allowance for a longer time, and no rate. */
const pause = Duration.seconds(1)
const longestPause = Duration.seconds(2)

/** Tests give other rates. */
export const rateLimit = (rates: ReadonlyArray<number> = allRates): Fact => ({
  name: "rate-limit",
  section: "§8",
  question: "At how many requests a second do answers with 429 begin?",
  phase: "rates",
  observe: Effect.fnUntraced(function*(ask) {
    const { flood } = ask
    if (flood === undefined) return yield* notObserved("it provokes answers with 429: --may-throttle permits that")
    yield* pageOf(ask, { limit: "1" })
    if (ask.wasThrottled()) return yield* notObserved("429 also came at the rate of the other requests")
    let few = 0
    for (const perSecond of rates) {
      const found = yield* flood({
        perSecond,
        seconds: Math.max(1, 2 * fewRefusals / perSecond),
        mostRefused: fewRefusals
      })
      if (found.refused.length >= fewRefusals) return yield* measure(flood, { perSecond, rates, first: found })
      if (!found.isReached) return yield* notObserved(`the service is slower than ${perSecond} requests a second`)
      few += found.refused.length
    }
    if (few > 0) return yield* notObserved(`${few} answers with 429, too few for a limit`)
    return observed(
      `none up to ${rates.at(-1)} a second`,
      "for a second. A larger allowance for a longer time cannot be told from none"
    )
  })
})

/** How long the rate that was refused is sent once more, in seconds. */
const seconds = 5

const measure = Effect.fnUntraced(function*(
  flood: SendFlood,
  { first, perSecond, rates }: {
    readonly first: Flood
    readonly perSecond: number
    readonly rates: ReadonlyArray<number>
  }
) {
  const asked = first.retryAfter ?? pause
  yield* waitAfter(asked)
  if (Duration.isGreaterThan(asked, longestPause)) {
    return yield* notObserved(
      `429 with a pause of ${Math.ceil(Duration.toSeconds(asked))} s: an allowance for a longer time, and no rate`
    )
  }
  if (!first.isEven) return yield* notObserved("the requests did not leave evenly")
  const found = yield* flood({ perSecond, seconds, mostRefused: Number.POSITIVE_INFINITY })
  yield* waitAfter(found.retryAfter ?? Duration.zero)
  if (!found.isReached) return yield* notObserved(`the service is slower than ${perSecond} requests a second`)
  const bySecond = Array.from(
    { length: seconds },
    (_, second) => found.accepted.filter((ms) => Math.min(Math.floor(ms / 1000), seconds - 1) === second).length
  )
  // The first second may have had some of the allowance.
  const [least, most] = [Math.min(...bySecond.slice(1)), Math.max(...bySecond.slice(1))]
  const usedUpMs = Math.min(...found.refused)
  if (least === 0 || most > 2 * least + 2 || usedUpMs > 1000) {
    return yield* notObserved(
      `at ${perSecond} a second, ${bySecond.join(", ")} were accepted: an allowance for a longer time, and no rate`
    )
  }
  const accepted = found.accepted.filter((ms) => ms > usedUpMs).length
  const { lower, upper } = boundsOf(accepted, seconds - usedUpMs / 1000, perSecond)
  const from = rates.findLast((rate) => rate <= lower)
  const to = rates.find((rate) => rate >= upper || rate === perSecond) ?? perSecond
  const seen = `429 at ${perSecond} a second, where ${bySecond.join(", ")} were accepted in ${seconds} seconds. ` +
    "Other programs with the key count too"
  return from === undefined
    ? observed(`at most ${to} a second`, seen)
    : observed(`between ${from} and ${to} a second`, seen)
})

/**
 * Returns the limits by which so many requests are accepted once an allowance is used up. A service may count by full seconds,
 * of which the time can have one more or less. It may refuse a request shortly before it could accept it, and the next
 * one comes later.
 */
const boundsOf = (accepted: number, time: number, perSecond: number) => {
  const free = time / (accepted + 1) - 2 / perSecond
  return {
    lower: (accepted - 1) / (time + 1),
    upper: Math.max((accepted + 1) / (time - 1), free > 0 ? 1 / free : perSecond)
  }
}
