/**
 * Requests at a rate that is not that of the source, to see when the service answers 429. Each takes part of the budget, and
 * what the service says about its limit reaches all programs that share the rate.
 */
import { Lists, Monotonic, type Paces, PaymentsConfig } from "@payments/core"
import { DateTime, Deferred, Duration, Effect, type Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { longestWait, NotObserved, notObserved, retryAfterIn, textOf } from "./Exchange.ts"

export interface FloodOptions {
  readonly perSecond: number
  readonly seconds: number
  /** After so many answers with 429, no further request is sent. */
  readonly mostRefused: number
}

/** What the service did with the requests. */
export interface Flood {
  /** When requests were sent that were accepted, and those that were answered with 429, in milliseconds since the start. */
  readonly accepted: ReadonlyArray<number>
  readonly refused: ReadonlyArray<number>
  /** Whether the requests left, and the answers came, at the rate. */
  readonly isReached: boolean
  /** Whether no two requests left so close together that a limit of the rate could refuse one. */
  readonly isEven: boolean
  /** The longest pause that an answer asked for. */
  readonly retryAfter: Duration.Duration | undefined
}

/** Sends requests until they end or the limit is found, and waits for all answers. */
export type SendFlood = (options: FloodOptions) => Effect.Effect<Flood, NotObserved>

interface FloodService {
  readonly client: HttpClient.HttpClient
  readonly config: PaymentsConfig["Service"]
  readonly list: Lists.AnyList
  readonly paces: Paces
  readonly take: Effect.Effect<void, NotObserved>
}

interface Sent {
  readonly sentAt: number
  readonly answeredAt: number
  readonly isRefused: boolean
  readonly retryAfter: Duration.Duration | undefined
}

export const makeFlood = (service: FloodService): SendFlood => {
  const { config, list, paces, take } = service
  const key = PaymentsConfig.keysOf(config)[list.baseAddress]
  const send = makeSend(service, key)
  const pace = paces.of(list, key)
  return Effect.fnUntraced(function*({ mostRefused, perSecond, seconds }) {
    const start = yield* Monotonic.millis
    /** Done when no further request is sent, with the problem if there is one. */
    const end = yield* Deferred.make<NotObserved | undefined>()
    const sent: Array<Sent> = []
    const sendAt = Effect.fnUntraced(function*(dueMs: number) {
      const wait = Effect.sleep(Math.max(0, start + dueMs - (yield* Monotonic.millis)))
      yield* Effect.raceFirst(wait, Deferred.await(end))
      if (yield* Deferred.isDone(end)) return
      yield* take
      const sentAt = (yield* Monotonic.millis) - start
      const answer = yield* send
      sent.push({ ...answer, sentAt, answeredAt: (yield* Monotonic.millis) - start })
      if (!answer.isRefused) return
      const refusals = sent.filter(({ isRefused }) => isRefused).length
      if (refusals >= mostRefused) yield* Deferred.succeed(end, undefined)
      // The other programs with the key wait from the first one on.
      if (refusals === 1) yield* paces.onRateLimited(pace, answer.retryAfter)
    })
    yield* Effect.forEach(
      Array.from({ length: Math.ceil(perSecond * seconds) }, (_, index) => index * 1000 / perSecond),
      // A problem ends the flood, but not the requests that are on their way: one of them may tell of a limit.
      (dueMs) => Effect.catch(sendAt(dueMs), (failure) => Deferred.succeed(end, failure)),
      { concurrency: "unbounded", discard: true }
    )
    yield* Deferred.succeed(end, undefined)
    const flood = floodOf(sent, perSecond)
    if (flood.refused.length > 0) yield* paces.onRateLimited(pace, flood.retryAfter)
    const problem = yield* Deferred.await(end)
    return problem === undefined ? flood : yield* problem
  })
}

const floodOf = (sent: ReadonlyArray<Sent>, perSecond: number): Flood => {
  const refused = sent.filter(({ isRefused }) => isRefused)
  const departures = sent.map(({ sentAt }) => sentAt).toSorted((one, other) => one - other)
  const arrivals = sent.map(({ answeredAt }) => answeredAt).toSorted((one, other) => one - other)
  const longest = (sent.length - 1) * 1000 / perSecond * slowest + unevenMs
  const spans = [departures, arrivals].map((times) => (times.at(-1) ?? 0) - (times.at(0) ?? 0))
  const gaps = departures.slice(1).map((time, index) => time - (departures[index] ?? 0))
  const waits = refused.flatMap(({ retryAfter }) => retryAfter ?? [])
  return {
    accepted: sent.filter(({ isRefused }) => !isRefused).map(({ sentAt }) => sentAt),
    refused: refused.map(({ sentAt }) => sentAt),
    isReached: spans.every((span) => span <= longest) &&
      gaps.every((gap) => gap <= 2000 / perSecond + unevenMs),
    isEven: gaps.every((gap) => gap >= 500 / perSecond - timerMs),
    retryAfter: waits.length === 0 ? undefined : waits.reduce(Duration.max)
  }
}

/**
 * A flood may take a tenth longer than planned, its first answer may be this much faster than its last, and it may pause for as
 * long.
 */
const slowest = 1.1
const unevenMs = 250

/** How exact a timer is. */
const timerMs = 5

/** Returns a request of the first record that is answered with a page or 429. It has no second attempt. */
const makeSend = ({ client, config, list }: FloodService, key: Redacted.Redacted<string>) => {
  const limit = Lists.parameterName(list, "limit", config.invoiceParameters)
  const request = HttpClientRequest.get(PaymentsConfig.addressOf(config, list), {
    acceptJson: true,
    urlParams: [[limit, "1"]]
  }).pipe(HttpClientRequest.bearerToken(key))
  return client.execute(request).pipe(
    Effect.tap((response) => textOf(response, config.largestBodyBytes)),
    Effect.timeout(config.deadlines.attempt),
    Effect.mapError((error) => error._tag === "NotObserved" ? error : notObserved(`no answer (${error._tag})`)),
    Effect.filterOrFail(({ status }) => status === 429 || status >= 200 && status < 300, ({ status }) =>
      // A service that fails at this rate gets no further request.
      new NotObserved({ reason: `the service answered ${status} at a high rate`, mustStop: true })),
    Effect.flatMap(({ headers, status }) =>
      Effect.map(DateTime.now, (now) => {
        const given = headers["retry-after"]
        const retryAfter = given === undefined ? undefined : retryAfterIn(given, DateTime.toEpochMillis(now))
        return { isRefused: status === 429, retryAfter }
      })
    ),
    Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
    Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
  )
}

/** Waits as long as the service asks for. Fails if that is too long. */
export const waitAfter = (retryAfter: Duration.Duration): Effect.Effect<void, NotObserved> =>
  Duration.isLessThanOrEqualTo(retryAfter, longestWait)
    ? Effect.sleep(retryAfter)
    : Effect.fail(
      new NotObserved({ reason: "429 with a pause of more than a minute", mustStop: true })
    )
