/**
 * Checks a service against its document, rule by rule: records (§2), pages (§2.5, §4), keys (§5) and limits (§8). It only
 * reads, one request after the other. A rule holds, does not hold, or could not be observed, for example because a list is
 * too short. A finding contains nothing of a record, cursor or key.
 */
import { isJsonObject, Lists, PaymentsConfig } from "@payments/core"
import { Data, Duration, Effect, Redacted, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import type { Finding, Verdict } from "./ConformanceFinding.ts"
import { ContentCheck } from "./ContentCheck.ts"

/** How much to read, and how fast. */
export interface ConformanceOptions {
  /** The most pages of a list to read in search of its end; default 10. */
  readonly pages?: number | undefined
  /** The pause after each request; default 500 ms. */
  readonly pause?: Duration.Duration | undefined
}

/** Checks all lists. */
export const conformance: (
  config: PaymentsConfig["Service"],
  options?: ConformanceOptions
) => Effect.Effect<ReadonlyArray<Finding>, never, HttpClient.HttpClient> = Effect.fnUntraced(function*(
  config,
  options = {}
) {
  const client = yield* HttpClient.HttpClient
  const findings: Array<Finding> = []
  for (const list of Lists.all) {
    const everything = new ContentCheck(list)
    const pause = options.pause ?? Duration.millis(500)
    const send = makeSend({ config, client, list, pause, everything })
    const observed: Array<Finding> = []
    for (const { observe, rule, section } of rulesOf(list, options.pages ?? 10)) {
      const observation = yield* observe(send).pipe(
        Effect.catch(({ reason }) => Effect.succeed(notObserved(reason)))
      )
      observed.push({ section, list: list.name, rule, ...observation })
    }
    // The rules about content judge every answer of the other rules.
    findings.push(...everything.findings(), ...observed)
  }
  return findings
})

/** The rule could not be observed, for a reason that has nothing to do with the rule. */
class NotObserved extends Data.TaggedError("NotObserved")<{ readonly reason: string }> {}

interface Observation {
  readonly verdict: Verdict
  readonly seen: string
}

const holds = (seen: string): Observation => ({ verdict: "holds", seen })
const fails = (seen: string): Observation => ({ verdict: "does not hold", seen })
const notObserved = (reason: string): Observation => ({ verdict: "could not be observed", seen: reason })
const holdsIf = (condition: boolean, seen: string): Observation => condition ? holds(seen) : fails(seen)

/** An answer. `page` is its body if the status is 2xx and the body is a JSON object. */
interface Answer {
  readonly status: number
  readonly page: Readonly<Record<string, unknown>> | undefined
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly layout: Lists.PageLayout
}

/** Sends a request with these parameters, by field name, and with the configured key, a wrong key or none. */
interface Send {
  (parameters: Readonly<Record<string, string>>, key?: "none" | "wrong"): Effect.Effect<Answer, NotObserved>
}

const makeSend = ({ client, config, everything, list, pause }: {
  readonly config: PaymentsConfig["Service"]
  readonly client: HttpClient.HttpClient
  readonly list: Lists.AnyList
  readonly pause: Duration.Duration
  readonly everything: ContentCheck
}): Send => {
  const address = PaymentsConfig.addressOf(config, list)
  const configuredKey = PaymentsConfig.keysOf(config)[list.baseAddress]
  return (parameters, key) => {
    const request = HttpClientRequest.get(address, {
      acceptJson: true,
      urlParams: Object.entries(parameters).map(([field, value]) =>
        [Lists.parameterName(list, field, config.invoiceParameters), Redacted.make(value)] as const
      )
    })
    const sentKey = key === "wrong" ? Redacted.make("wrong-key") : configuredKey
    return client.execute(key === "none" ? request : HttpClientRequest.bearerToken(request, sentKey)).pipe(
      Effect.flatMap((response) =>
        Effect.map(
          textOf(response, config.largestBodyBytes),
          (text): Answer => {
            const { headers, status } = response
            const page = pageIn(text, status)
            if (status >= 200 && status < 300) everything.add(text, page, headers)
            return { status, page, headers, layout: list.page }
          }
        )
      ),
      Effect.timeout(config.deadlines.attempt),
      Effect.mapError((error) =>
        error._tag === "NotObserved" ? error : new NotObserved({ reason: `no answer (${error._tag})` })
      ),
      Effect.filterOrFail(
        ({ status }) => status >= 200 && status < 300 || status >= 400 && status < 500 && status !== 429,
        ({ status }) => new NotObserved({ reason: `the service answered ${status}` })
      ),
      Effect.tap(Effect.sleep(pause)),
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
      // A client that follows a redirect could send the key to another address.
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
    )
  }
}

/** Reads the body as text. Fails if it has more than `maxBytes`. */
const textOf = (response: HttpClientResponse.HttpClientResponse, maxBytes: number) =>
  Effect.suspend(() => {
    let size = 0
    return response.stream.pipe(
      Stream.tap((chunk) => {
        size += chunk.length
        return size > maxBytes
          ? Effect.fail(new NotObserved({ reason: `the answer has more than ${maxBytes} bytes` }))
          : Effect.void
      }),
      Stream.decodeText(),
      Stream.mkString,
      Effect.catchReason("HttpClientError", "EmptyBodyError", () => Effect.succeed(""))
    )
  })

const pageIn = (text: string, status: number): Answer["page"] => {
  if (status < 200 || status >= 300) return undefined
  try {
    const body: unknown = JSON.parse(text)
    return isJsonObject(body) ? body : undefined
  } catch {
    return undefined
  }
}

const itemsOf = ({ layout, page }: Answer): ReadonlyArray<unknown> => {
  const items = page?.[layout.items]
  return Array.isArray(items) ? items : []
}
const cursorOf = ({ headers, layout, page }: Answer): unknown =>
  page === undefined ? undefined : Lists.cursorOf(layout, page, headers)
const idsOf = (answer: Answer): ReadonlyArray<unknown> =>
  itemsOf(answer).map((item) => isJsonObject(item) ? item["id"] : undefined)
const records = (count: number): string => `${count} ${count === 1 ? "record" : "records"}`

/** Requests a page. Without one, the rule cannot be observed. */
const pageOf = (send: Send, parameters: Readonly<Record<string, string>>): Effect.Effect<Answer, NotObserved> =>
  Effect.filterOrFail(
    send(parameters),
    ({ page }) => page !== undefined,
    ({ status }) =>
      new NotObserved({ reason: status < 300 ? "the answer is not JSON" : `the service answered ${status}` })
  )

interface Rule {
  readonly section: string
  readonly rule: string
  readonly observe: (send: Send) => Effect.Effect<Observation, NotObserved>
}

/**
 * Observes a limit outside the documented range. If only the `documented` limit returns a page, the rule holds. If the
 * limit returns a page too, `compare` decides from the lengths of both.
 */
const outsideRange = Effect.fnUntraced(function*(
  send: Send,
  documented: string,
  limit: string,
  compare: (length: number, documentedLength: number) => Observation
) {
  const documentedPage = yield* pageOf(send, { limit: documented })
  const answer = yield* send({ limit })
  if (answer.page !== undefined) return compare(itemsOf(answer).length, itemsOf(documentedPage).length)
  return answer.status < 300 ? notObserved("the answer is not JSON") : holds(`status ${answer.status}`)
})

const merchantScope = ({ label }: Lists.AnyList): Rule => ({
  section: "§5",
  rule: `${label} are those of the key's merchant`,
  observe: () => Effect.succeed(notObserved("one key shows the records of one merchant only"))
})

const smallestPage: Rule = {
  section: "§8",
  rule: "limit 0 is refused, or treated as another limit",
  observe: (send) =>
    outsideRange(
      send,
      "1",
      "0",
      (length, documentedLength) =>
        documentedLength === 0 ? notObserved("the list is empty") : holdsIf(length > 0, records(length))
    )
}

const defaultPage = (documented: number): Rule => ({
  section: "§8",
  rule: `without a limit, a page has ${documented} records`,
  observe: (send) =>
    Effect.map(pageOf(send, {}), (answer) => {
      const { length } = itemsOf(answer)
      return cursorOf(answer) === null && length < documented
        ? notObserved("the list is shorter")
        : holdsIf(length === documented, records(length))
    })
})

const rulesOf = (list: Lists.AnyList, pages: number): ReadonlyArray<Rule> => [
  {
    section: "§4.4.1",
    rule: "a request without a cursor gives the first page",
    observe: (send) => Effect.map(send({}), ({ page, status }) => holdsIf(page !== undefined, `status ${status}`))
  },
  nextPage,
  endOfList(pages),
  sameCursor,
  ...(["none", "wrong"] as const).map(refusedKey),
  {
    section: "§5",
    rule: "the configured key is accepted",
    observe: (send) =>
      Effect.map(send({ limit: "1" }), ({ status }) => holdsIf(status >= 200 && status < 300, `status ${status}`))
  },
  ...(list.merchantIdIn === undefined ? [] : [merchantScope(list)]),
  {
    section: "§8",
    rule: "a page has at most limit records",
    observe: (send) => atMost(pageOf(send, { limit: "1" }), 1)
  },
  {
    section: "§8",
    rule: "limit 100 is accepted",
    observe: (send) => atMost(pageOf(send, { limit: "100" }), 100)
  },
  {
    section: "§8",
    rule: "no page has more than 100 records",
    observe: (send) =>
      outsideRange(
        send,
        "100",
        "101",
        (length) => length === 0 ? notObserved("the list is empty") : holdsIf(length <= 100, records(length))
      )
  },
  ...(list.limits.minimum === undefined ? [] : [smallestPage]),
  ...(list.limits.default === undefined ? [] : [defaultPage(list.limits.default)]),
  ...Object.entries<Lists.Filter>(list.filters).map(([field, filter]) => filterRule(list.section, field, filter))
]

const nextPage: Rule = {
  section: "§4.4.2",
  rule: "a string cursor, sent with the same limit, gives the next page",
  observe: Effect.fnUntraced(function*(send) {
    const first = yield* pageOf(send, { limit: "2" })
    const cursor = cursorOf(first)
    if (typeof cursor !== "string") return notObserved("the list has one page of 2")
    const second = yield* send({ limit: "2", cursor })
    if (second.page === undefined) return fails(`status ${second.status}`)
    const before = new Set(idsOf(first))
    const repeats = idsOf(second).filter((id) => before.has(id)).length
    return holdsIf(repeats === 0, repeats === 0 ? "other records" : `${records(repeats)} of the previous page`)
  })
}

const endOfList = (pages: number): Rule => ({
  section: "§4.4.3",
  rule: "a null cursor ends the list",
  observe: Effect.fnUntraced(function*(send) {
    const seen = new Set<string>()
    let cursor: string | undefined
    for (let page = 1; page <= pages; page++) {
      const answer = yield* pageOf(send, { limit: "100", ...(cursor === undefined ? {} : { cursor }) })
      const next = cursorOf(answer)
      if (next === null) return holds(`after ${page} ${page === 1 ? "page" : "pages"}`)
      if (typeof next !== "string") return fails("a page without a cursor")
      if (seen.has(next)) return fails("an earlier cursor again")
      seen.add(next)
      cursor = next
    }
    return notObserved(`the list has more pages than the ${pages} that were read`)
  })
})

const sameCursor: Rule = {
  section: "§4.4.4",
  rule: "an unchanged cursor is accepted, also a second time",
  observe: Effect.fnUntraced(function*(send) {
    const cursor = cursorOf(yield* pageOf(send, { limit: "2" }))
    if (typeof cursor !== "string") return notObserved("the list has one page of 2")
    const once = yield* send({ limit: "2", cursor })
    const again = yield* send({ limit: "2", cursor })
    const refused = [once, again].find(({ page }) => page === undefined)
    if (refused !== undefined) return fails(`status ${refused.status}`)
    if (JSON.stringify(idsOf(once)) !== JSON.stringify(idsOf(again))) {
      return notObserved("two answers differ; the list may have changed in between")
    }
    const encoded = encodeURIComponent(cursor) !== cursor
    return holds(`the same page twice; the cursor has ${encoded ? "characters" : "no character"} to percent-encode`)
  })
}

const refusedKey = (key: "none" | "wrong"): Rule => ({
  section: "§5",
  rule: key === "none" ? "a request without a key is refused" : "a request with a wrong key is refused",
  observe: Effect.fnUntraced(function*(send) {
    // If the service refuses the configured key as well, a refusal shows nothing about keys.
    yield* pageOf(send, { limit: "1" })
    const { status } = yield* send({ limit: "1" }, key)
    if (status < 300) return fails(`status ${status}`)
    return status === 401 || status === 403
      ? holds(`status ${status}`)
      : notObserved(`status ${status}, not 401 or 403`)
  })
})

const filterRule = (section: string, field: string, filter: Lists.Filter): Rule => ({
  section,
  rule: `${field} filters`,
  observe: Effect.fnUntraced(function*(send) {
    const some = yield* pageOf(send, { limit: "100" })
    const values = itemsOf(some).map((item) => isJsonObject(item) ? item[field] : undefined)
    const value = values.find((text) => typeof text === "string" && text !== "")
    if (typeof value !== "string") return notObserved(`no record of the first page has a ${field}`)
    if (values.every((text) => text === value)) {
      return notObserved(`all records of the first page have the same ${field}`)
    }
    const filtered = itemsOf(yield* pageOf(send, { [field]: value, limit: "100" }))
    const matching = filtered.filter((item) => isJsonObject(item) && Lists.matches(filter, item[field], value)).length
    return filtered.length === 0
      ? fails("no record, although one has the value")
      : holdsIf(matching === filtered.length, `${matching} of ${filtered.length} with the value`)
  })
})

const atMost = (page: Effect.Effect<Answer, NotObserved>, limit: number): Effect.Effect<Observation, NotObserved> =>
  Effect.map(page, (answer) => {
    const { length } = itemsOf(answer)
    return length === 0 ? notObserved("the list is empty") : holdsIf(length <= limit, records(length))
  })
