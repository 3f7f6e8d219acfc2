/**
 * Requests of a probe: one after the other, with a pause after each, within a number of requests. Answers keep their status,
 * so that a refusal is an observation.
 */
import { type Checked, isJsonObject, Lists, type Paces, PaymentsConfig } from "@payments/core"
import { DateTime, Duration, Effect, Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { longestWait, NotObserved, notObserved, retryAfterIn, textOf } from "./Exchange.ts"
import { makeFlood, type SendFlood } from "./Flood.ts"
import type { Keeper } from "./KeptCursor.ts"

export { NotObserved, notObserved } from "./Exchange.ts"

/** What one observation has found. It has no part of a record, cursor or key. */
export interface Observed {
  /** A word such as `refused`, or a measured value such as `20`. */
  readonly answer: string
  /** The observation as a sentence. */
  readonly seen: string
}

/** An answer. `page` is its body if the status is 2xx and the body is a JSON object with records. */
export interface Answer {
  readonly status: number
  readonly page: Readonly<Record<string, unknown>> | undefined
  readonly headers: Readonly<Record<string, string | undefined>>
  /**
   * The names of the members of the body, also of an error, with those of embedded objects after a dot; and those of the
   * headers. Without names that contain the key or a value of the request: a hostile service may return them.
   */
  readonly members: ReadonlyArray<string>
  readonly headerNames: ReadonlyArray<string>
  /** Answers to later requests have a larger number. */
  readonly nth: number
  /** When the request was sent and when the answer was complete, in milliseconds since the epoch. */
  readonly between: readonly [sent: number, received: number]
  readonly layout: Lists.PageLayout
}

export type Parameters = Readonly<Record<string, string>>

/** What a request has instead of the usual. */
export interface Unusual {
  /** By default the configured key. */
  readonly key?: "none" | "wrong" | "other"
  /** A segment after the path of the list. */
  readonly below?: string
  /** Further headers. */
  readonly headers?: Parameters
  /** Parameters by their names in the query, not by field name. */
  readonly named?: Parameters
}

/** Requests of one list. */
export interface Ask {
  readonly list: Lists.AnyList
  /** Requests of another list. */
  readonly other?: Ask | undefined
  /** The name of a parameter in the query. */
  readonly nameOf: (field: string) => string
  /** Sends a parameter under this name from now on, unless a setting names it. */
  readonly useName: (field: string, name: string) => void
  /** Sends a request with these parameters, by field name. */
  readonly send: (parameters: Parameters, unusual?: Unusual) => Effect.Effect<Answer, NotObserved>
  /** Returns the first answer to such a request, so that facts share requests. Sends the request if there is none. */
  readonly get: (parameters: Parameters, unusual?: Unusual) => Effect.Effect<Answer, NotObserved>
  /** Returns the first answer to a request that was sent after another one. Sends the request if there is none. */
  readonly getAfter: (
    earlier: Answer,
    parameters: Parameters,
    unusual?: Unusual
  ) => Effect.Effect<Answer, NotObserved>
  /** Returns the last answer to such a request, or the last that was sent before another one. */
  readonly last: (parameters: Parameters, before?: Answer) => Answer | undefined
  /** Returns the last answer to such a request if it is one of the last answers. Otherwise, sends the request. */
  readonly getRecent: (parameters: Parameters) => Effect.Effect<Answer, NotObserved>
  /** Whether pages have had fewer records than their limit, although more followed. */
  readonly hasShortPages: () => boolean
  /** What a fact does if the answers that facts share do not show it. */
  readonly ifUnclear: "send" | "fail" | "wait"
  /** The same for facts that wait: instead of later and new requests they fail with {@link mustWait}. */
  readonly waiting: Ask
  /** The cursors of this round that no request has sent. */
  readonly unused: ReadonlyMap<string, UnusedCursor>
  /** Keeps a cursor for later runs. */
  readonly keeper: Keeper | undefined
  /** Why no request can be sent with another key, if so. */
  readonly noOtherKey: string | undefined
  /** Sends requests at another rate than the source allows. Undefined if that is not permitted. */
  readonly flood: SendFlood | undefined
  /** The version of HTTP that the service chooses, or why it is not seen. */
  readonly httpVersion: Effect.Effect<string, NotObserved>
  /** Whether the service has given the same status to all requests with such a key in this run. */
  readonly isUsualRefusal: (key: "none" | "wrong", status: number) => boolean
  /** Whether the service has answered 429 to other requests. */
  readonly wasThrottled: () => boolean
}

/** A cursor that only pages have had, and no request. */
export interface UnusedCursor {
  readonly cursor: string
  /** Those of the request. */
  readonly parameters: Parameters
  /** The first page that had it. */
  readonly page: Answer
  /** When the last page that had it was complete, in milliseconds since the epoch. */
  readonly lastAt: number
}

/** Returns the version of HTTP that an address chooses, or why it is not seen. */
export type HttpVersionOf = (address: URL, deadline: Duration.Duration) => Effect.Effect<Checked<string>>

export interface AskOptions {
  readonly config: PaymentsConfig["Service"]
  readonly client: HttpClient.HttpClient
  readonly list: Lists.AnyList
  /** The request rate, which other programs with the key may share. */
  readonly paces: Paces
  /** Another key of the service, for requests that compare the two. It belongs where the key of payouts does. */
  readonly otherKey?: Redacted.Redacted<string> | undefined
  /** The pause after each request. */
  readonly pause: Duration.Duration
  /** Takes part of the budget. Fails if nothing is left. */
  readonly take: Effect.Effect<void, NotObserved>
  /** Sees which version of HTTP an address chooses, without a request. */
  readonly httpVersionOf?: HttpVersionOf | undefined
  /** Whether requests may provoke answers with 429. */
  readonly mayThrottle?: boolean | undefined
  /** Counts the answers with 429 to other requests, also those of earlier clients. */
  readonly throttled?: { count: number }
  /** Whether the service has refused a request that it also accepts. Shared by all lists, also of later clients. */
  readonly refusals?: { areRandom: boolean }
  /** The first status of a refusal, by base address and key; and one that differed from it. Shared by all lists, also of later clients. */
  readonly keyStatuses?: Map<string, number>
  /** The names of parameters that an observation has shown. Further requests of the list, with the same map, know them. */
  readonly names?: Map<string, string>
  /** Gets the sizes of pages that others followed, by limit. Further requests of the list, with the same map, know them. */
  readonly sizes?: Map<string, Set<number>>
  /** Keeps a cursor for later runs. */
  readonly keeper?: Keeper | undefined
  /** Gets the body of each successful answer, and its JSON object. */
  readonly onAnswer?: (text: string, page: Answer["page"], headers: Answer["headers"]) => void
}

/** A client that sends the requests of one list. */
export const makeAsk = (options: AskOptions): Ask => {
  const { list } = options
  const sizes = options.sizes ?? new Map<string, Set<number>>()
  // Under another name, the limit had no effect.
  const { nameOf, useName } = makeNames(options, () => sizes.clear())
  const sendOne = makeSend(options, nameOf)
  const answersTo = makeAnswers(nameOf)
  const cursors = makeCursors()
  const isRandom = makeRandomRefusals(options, answersTo)
  const send: Ask["send"] = (parameters, unusual) =>
    Effect.tap(
      // Such a refusal counts only if the service repeats it.
      Effect.repeat(sendOne(parameters, unusual), {
        times: 2,
        while: (answer) => isRandom(answer, parameters, unusual) && aboutParameters.has(answer.status)
      }),
      (answer) =>
        Effect.sync(() => {
          answersTo(parameters, unusual).push(answer)
          cursors.note(parameters, unusual, answer)
          const { cursor: _, limit, ...filters } = parameters
          // The pages of a filtered list may be short because the filter left records out.
          if (limit !== undefined && Object.keys({ ...filters, ...unusual }).length === 0 && isFollowed(answer)) {
            sizes.set(limit, (sizes.get(limit) ?? new Set()).add(itemsOf(answer).length))
          }
        })
    )
  const get: Ask["get"] = (parameters, unusual) => {
    const known = answersTo(parameters, unusual).at(0)
    return known === undefined ? send(parameters, unusual) : Effect.succeed(known)
  }
  const last: Ask["last"] = (parameters, before) =>
    answersTo(parameters).findLast(({ nth }) => before === undefined || nth < before.nth)
  const getAfter = (orElse: typeof send): Ask["getAfter"] => (earlier, parameters, unusual) => {
    const known = answersTo(parameters, unusual).find(({ nth }) => nth > earlier.nth)
    return known === undefined ? orElse(parameters, unusual) : Effect.succeed(known)
  }
  const getRecent: Ask["getRecent"] = (parameters) => {
    const known = last(parameters)
    return known === undefined || known.nth + recentAnswers < requests ? send(parameters) : Effect.succeed(known)
  }
  const shared = {
    list,
    nameOf,
    useName,
    send,
    get,
    getRecent,
    last,
    hasShortPages: () => areShort(sizes),
    unused: cursors.unused,
    keeper: options.keeper,
    isUsualRefusal: usualRefusals(options),
    noOtherKey: problemOfOtherKey(options),
    httpVersion: versionOf(options),
    flood: options.mayThrottle === true ? makeFlood(options) : undefined,
    wasThrottled: () => (options.throttled?.count ?? 0) > 0
  }
  const waiting: Ask = {
    ...shared,
    ifUnclear: "wait",
    getAfter: getAfter(() => Effect.fail(notObserved(mustWait))),
    get waiting() {
      return waiting
    }
  }
  return { ...shared, ifUnclear: "send", getAfter: getAfter(send), waiting }
}

const usualRefusals = ({ keyStatuses = new Map(), list }: AskOptions): Ask["isUsualRefusal"] => (key, status) => {
  const name = `${list.baseAddress} ${key}`
  const first = keyStatuses.get(name) ?? status
  keyStatuses.set(name, first)
  if (first !== status) keyStatuses.set("differing", status)
  return !keyStatuses.has("differing")
}

/** Whether a page before the end was short. A page of 100 can have fewer records because the largest limit is smaller. */
const areShort = (sizes: ReadonlyMap<string, ReadonlySet<number>>): boolean =>
  (sizes.get("100")?.size ?? 0) > 1 ||
  ["1", "2"].some((limit) => Math.min(...sizes.get(limit) ?? [2]) < Number(limit))

/** Keeps the answers to each query. The same query is the same request, whatever its parameters mean. */
const makeAnswers = (nameOf: Ask["nameOf"]) => {
  const answers = new Map<string, Array<Answer>>()
  return (parameters: Parameters, { named = {}, ...unusual }: Unusual = {}): Array<Answer> => {
    const query = [
      ...Object.entries(parameters).map(([field, value]) => [nameOf(field), value]),
      ...Object.entries(named)
    ]
    const key = JSON.stringify([query.toSorted(), unusual])
    const known = answers.get(key) ?? []
    answers.set(key, known)
    return known
  }
}

/** Returns a function that tells whether the service has refused a request that it also accepts. A cursor may expire. */
const makeRandomRefusals = (
  { refusals = { areRandom: false } }: AskOptions,
  answersTo: ReturnType<typeof makeAnswers>
) =>
(answer: Answer, parameters: Parameters, unusual?: Unusual): boolean => {
  const isRefusal = aboutParameters.has(answer.status)
  const differs = answersTo(parameters, unusual).some(({ page, status }) =>
    isRefusal ? page !== undefined : answer.page !== undefined && aboutParameters.has(status)
  )
  if (differs && parameters["cursor"] === undefined && unusual?.key === undefined) refusals.areRandom = true
  return refusals.areRandom
}

/** Keeps the names of parameters. `onLimit` is called when the limit gets another one. */
const makeNames = (
  { config, list, names = new Map() }: AskOptions,
  onLimit: () => void
): Pick<Ask, "nameOf" | "useName"> => {
  const configured = (field: string) => Lists.parameterName(list, field, config.invoiceParameters)
  const assumed: { readonly [parameter: string]: string } = Lists.defaultInvoiceParameters
  const nameOf = (field: string) => names.get(field) ?? configured(field)
  return {
    nameOf,
    useName: (field, name) => {
      if (configured(field) !== assumed[field] || nameOf(field) === name) return
      names.set(field, name)
      if (field === "limit") onLimit()
    }
  }
}

const versionOf = ({ config, httpVersionOf, list }: AskOptions): Ask["httpVersion"] =>
  httpVersionOf === undefined
    ? Effect.fail(notObserved("this program does not see connections"))
    : Effect.flatMap(
      httpVersionOf(PaymentsConfig.addressOf(config, list), config.deadlines.headers),
      (found) => "value" in found ? Effect.succeed(found.value) : Effect.fail(notObserved(found.problem))
    )

const problemOfOtherKey = ({ config, list, otherKey }: AskOptions): string | undefined => {
  if (otherKey === undefined) return "it needs another key: --other-key-file"
  const keys = PaymentsConfig.keysOf(config)
  const [own, payments, other] = [keys[list.baseAddress], keys.payments, otherKey].map((key) => Redacted.value(key))
  if (other === own) return "the other key is the configured one"
  // A key is sent only where one of its kind is.
  return own === payments ? undefined : "this list has a key of its own kind"
}

/** Keeps the cursors of first pages that no request has sent. */
const makeCursors = () => {
  const unused = new Map<string, UnusedCursor>()
  const used = new Set<string>()
  const note = ({ cursor: sent, ...parameters }: Parameters, unusual: Unusual = {}, answer: Answer): void => {
    if (sent !== undefined) {
      used.add(sent)
      unused.delete(sent)
    }
    const given = cursorOf(answer)
    if (typeof given !== "string" || used.has(given) || sent !== undefined || Object.keys(unusual).length > 0) return
    // A service may give the same cursor several times. Then its life may begin anew.
    const { page = answer } = unused.get(given) ?? {}
    unused.set(given, { cursor: given, parameters, page, lastAt: answer.between[1] })
  }
  return { unused, note }
}

/** The reason of a fact that needs an answer which other facts may need too. */
export const mustWait = "it needs a later answer"

/** Reads the whole answer. */
const answerFrom = (
  { config, list, onAnswer }: AskOptions,
  response: HttpClientResponse.HttpClientResponse,
  { sent, shown }: { readonly sent: DateTime.Utc; readonly shown: ReturnType<typeof withoutSecrets> }
) =>
  Effect.map(
    Effect.all([textOf(response, config.largestBodyBytes), DateTime.now]),
    ([text, received]): Answer => {
      const { headers, status } = response
      const body = objectIn(text)
      const isSuccess = status >= 200 && status < 300
      const items = body?.[list.page.items]
      const isError = Array.isArray(items) && items.length === 0 && errorMembers.some((name) => isFilled(body?.[name]))
      const page = isSuccess && Array.isArray(items) && !isError ? body : undefined
      if (isSuccess) onAnswer?.(text, body, headers)
      return {
        nth: ++requests,
        status,
        page,
        headers,
        members: shown(membersIn(body)),
        headerNames: shown(Object.keys(headers)),
        between: [DateTime.toEpochMillis(sent), DateTime.toEpochMillis(received)],
        layout: list.page
      }
    }
  )

/** The members by which a body without records says that the request failed, although its status is 2xx. */
const errorMembers = ["error", "errors", "fault"]

const isFilled = (value: unknown): boolean =>
  typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value)

const makeSend = (options: AskOptions, nameOf: Ask["nameOf"]): Ask["send"] => {
  const { client, config, list, otherKey, paces, pause, take, throttled } = options
  const address = PaymentsConfig.addressOf(config, list)
  const configuredKey = PaymentsConfig.keysOf(config)[list.baseAddress]
  let refusals = 0
  return (parameters, { below, headers: more = {}, key, named = {} } = {}) => {
    const query = Object.entries(parameters).map(([field, value]) => [nameOf(field), value] as const)
    const request = HttpClientRequest.get(below === undefined ? address : `${address}/${below}`, {
      acceptJson: true,
      urlParams: [...query, ...Object.entries(named)].map(([name, value]) => [name, Redacted.make(value)] as const),
      // Every answer shows whether the service compresses.
      headers: { "accept-encoding": "gzip, br", "cache-control": "no-cache", ...more }
    })
    const sentKey = (key === "other" ? otherKey : key === "wrong" ? Redacted.make("wrong-key") : undefined) ??
      configuredKey
    const pace = paces.of(list, key === "other" ? sentKey : configuredKey)
    const keys = [configuredKey, sentKey, otherKey ?? sentKey].map((secret) => Redacted.value(secret))
    const shown = withoutSecrets([...keys, ...Object.values({ ...parameters, ...named })])
    const exchange = Effect.all([
      DateTime.now,
      client.execute(key === "none" ? request : HttpClientRequest.bearerToken(request, sentKey))
    ]).pipe(
      Effect.flatMap(([sent, response]) => answerFrom(options, response, { sent, shown })),
      Effect.timeout(config.deadlines.attempt),
      Effect.mapError((error) =>
        error._tag === "NotObserved"
          ? error
          : new NotObserved({ reason: `no answer (${error._tag})`, retryAfter: Duration.zero })
      ),
      Effect.tap(({ status, ...answer }) => {
        refusals = status === 429 ? refusals + 1 : 0
        if (status === 429 && throttled !== undefined) throttled.count++
        return status === 429 ? paces.onRateLimited(pace, retryAfterOf(answer)) : Effect.void
      }),
      Effect.filterOrFail((answer) => isAnswer(answer) || answer.status === 304, refusalOf),
      Effect.tap(Effect.sleep(pause)),
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
      // A client that follows a redirect could send the key to another address.
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
    )
    // Each 429 makes the pace slower, so a service that answers nothing else is not asked for hours.
    const attempt = Effect.suspend(() =>
      refusals < mostRefusals
        ? take.pipe(Effect.andThen(pace.acquire), Effect.andThen(exchange))
        : Effect.fail(
          new NotObserved({ reason: `the service answered 429 ${refusals} times in a row`, mustStop: true })
        )
    )
    // Without another attempt, the other requests of the fact would have been sent for nothing.
    return Effect.retry(attempt, {
      times: 2,
      while: ({ retryAfter }) =>
        retryAfter !== undefined && Effect.as(Effect.sleep(Duration.max(retryAfter, pause)), true)
    })
  }
}

/** After so many answers with 429 in a row, no further request is sent. */
const mostRefusals = 9

/** How many answers this process has received. One request is sent at a time, so that their numbers order them. */
let requests = 0

const recentAnswers = 6

const isAnswer = ({ status }: Answer): boolean =>
  status >= 200 && status < 300 || status >= 400 && status < 500 && status !== 429

/** A shorter value, such as a limit, occurs in a name by chance. */
const shortestSecret = 4

/** Returns a function that leaves out names that contain one of the secrets, in any case. */
const withoutSecrets = (secrets: ReadonlyArray<string>) => {
  const hidden = secrets.filter(({ length }) => length >= shortestSecret).map((secret) => secret.toLowerCase())
  return (names: ReadonlyArray<string>): ReadonlyArray<string> =>
    names.filter((name) => !hidden.some((secret) => name.toLowerCase().includes(secret)))
}

/** The reason of an answer that shows nothing. Rate limits and failures of the server are transient. */
const refusalOf = ({ status, ...answer }: Answer): NotObserved => {
  const reason = `the service answered ${status}`
  if (status !== 429 && status < 500) return new NotObserved({ reason })
  const wait = retryAfterOf(answer) ?? Duration.zero
  return Duration.isLessThanOrEqualTo(wait, longestWait)
    ? new NotObserved({ reason, retryAfter: wait })
    : new NotObserved({ reason: `${reason}, and wants no request for more than a minute`, mustStop: true })
}

const retryAfterOf = ({ between, headers }: Pick<Answer, "between" | "headers">): Duration.Duration | undefined => {
  const given = headers["retry-after"]
  return given === undefined ? undefined : retryAfterIn(given, between[1])
}

const objectIn = (text: string): Answer["page"] => {
  try {
    const body: unknown = JSON.parse(text)
    return isJsonObject(body) ? body : undefined
  } catch {
    return undefined
  }
}

/** Names that are no value of a record: an error may have a map whose names are values. */
const memberName = /^[a-z][\w-]{0,30}$/i
const mostMembers = 12

const membersIn = (body: Answer["page"]): ReadonlyArray<string> =>
  Object.entries(body ?? {}).flatMap(([name, value]) => {
    const inner: unknown = Array.isArray(value) ? value[0] : value
    return isJsonObject(inner) ? Object.keys(inner).map((member) => `${name}.${member}`) : [name]
  }).filter((path) => path.split(".").every((name) => memberName.test(name))).slice(0, mostMembers)

/** The statuses that are about the parameters of a request. Others are about the key, a quota, or the service. */
const aboutParameters = new Set([400, 404, 405, 406, 409, 410, 413, 414, 416, 422])

/** Fails unless the service has answered with a page, or has refused the parameters. Then `page` is undefined. */
export const pageOrRefusal = (answer: Effect.Effect<Answer, NotObserved>): Effect.Effect<Answer, NotObserved> =>
  Effect.filterOrFail(
    answer,
    ({ page, status }) => page !== undefined || aboutParameters.has(status),
    ({ status }) =>
      new NotObserved({ reason: status < 300 ? "the answer is no page" : `the service answered ${status}` })
  )

export const itemsOf = ({ layout, page }: Answer): ReadonlyArray<unknown> => {
  const items = page?.[layout.items]
  return Array.isArray(items) ? items : []
}

export const fieldOf = (item: unknown, field: string): unknown => isJsonObject(item) ? item[field] : undefined

/** Returns the texts of the field that are not empty, by record. */
export const fieldsOf = (answer: Answer, field: string): ReadonlyArray<string> =>
  itemsOf(answer).flatMap((item) => {
    const text = fieldOf(item, field)
    return typeof text === "string" && text !== "" ? [text] : []
  })

export const cursorOf = ({ headers, layout, page }: Answer): unknown =>
  page === undefined ? undefined : Lists.cursorOf(layout, page, headers)

/** Whether another page follows. Empty text, or nothing instead of a cursor, may be the end of the list. */
export const isFollowed = (answer: Answer): boolean => ![undefined, null, ""].includes(cursorOf(answer) as null) // any value

/** Returns the ids, and the whole record for one without an id. */
export const idsOf = (answer: Answer): ReadonlyArray<unknown> =>
  itemsOf(answer).map((item) => {
    const id = fieldOf(item, "id")
    return typeof id === "string" ? id : JSON.stringify(item)
  })

/** Fails unless the service has answered with a page. */
export const requirePage = (answer: Effect.Effect<Answer, NotObserved>): Effect.Effect<Answer, NotObserved> =>
  Effect.filterOrFail(
    answer,
    (found) => found.page !== undefined,
    ({ status }) =>
      new NotObserved({ reason: status < 300 ? "the answer is no page" : `the service answered ${status}` })
  )

/** Whether facts share the answers to a request, or send a new one. */
export type By = "get" | "send"

/** Gets a page, which facts share unless `send` is given. Without one, nothing can be observed. */
export const pageOf = (ask: Ask, parameters: Parameters, by: By = "get"): Effect.Effect<Answer, NotObserved> =>
  requirePage(ask[by](parameters))

/** Gets a first page, and returns it with its cursor. */
export const pageWithCursor = Effect.fnUntraced(function*(ask: Ask, limit: string, by: By = "get") {
  const first = yield* pageOf(ask, { limit }, by)
  const cursor = cursorOf(first)
  return typeof cursor === "string" && cursor !== ""
    ? { page: first, cursor }
    : yield* notObserved(`the list has one page of ${limit}`)
})

/** Whether pages have as many records as their limit, if more follow. The largest limit may be less than 100. */
export const hasFullPages = Effect.fnUntraced(function*(ask: Ask) {
  const whole = yield* ask.get({ limit: "100" })
  const { length } = itemsOf(whole)
  if (whole.page === undefined) return false
  if (!isFollowed(whole) || length >= 100 || ask.hasShortPages()) return !ask.hasShortPages()
  // A page that is short by chance seldom has as many records as the next one.
  const next = yield* ask.get({ limit: "100", cursor: String(cursorOf(whole)) })
  if (isFollowed(next) && itemsOf(next).length !== length) return false
  return itemsOf(yield* ask.get({ limit: String(length) })).length === length
})
