/**
 * Holds a service against the document, rule by rule: what it says of pages (§2.5, §4), keys (§5) and limits (§8). It only
 * reads, one request after another, and tells of each rule whether it holds, does not hold, or could not be observed, say
 * because a list is too short. Nothing of a record, cursor or key is in what it tells.
 */
import { Lists, PaymentsConfig } from "@payments/core"
import { Data, Duration, Effect, Redacted, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"

/** What came of a rule. */
export type Verdict = "holds" | "does not hold" | "could not be observed"

/** A rule of the document, and what came of it for one list. */
export interface Finding {
  /** The section, such as `§4.4.2`. */
  readonly section: string
  readonly list: Lists.ListName
  readonly rule: string
  readonly verdict: Verdict
  /** What was seen, or why nothing was. */
  readonly seen: string
}

/** How to look. */
export interface ConformanceOptions {
  /** Pages that are read of a list to find its end; 10 unless given. */
  readonly pages?: number | undefined
  /** The rest between two requests; 500 ms unless given. */
  readonly pause?: Duration.Duration | undefined
}

/** Compares all lists with the document. */
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
    const ask = asking(config, client, list, options.pause ?? Duration.millis(500))
    for (const { rule, section, see } of rulesOf(list, options.pages ?? 10)) {
      const { seen, verdict } = yield* see(ask).pipe(
        Effect.catch(({ why }) => Effect.succeed<Sight>({ verdict: "could not be observed", seen: why }))
      )
      findings.push({ section, list: list.name, rule, verdict, seen })
    }
  }
  return findings
})

/** Nothing could be seen, for a reason that is none of the rule's. */
class Unseen extends Data.TaggedError("Unseen")<{ readonly why: string }> {}

interface Sight {
  readonly verdict: Verdict
  readonly seen: string
}

const holds = (seen: string): Sight => ({ verdict: "holds", seen })
const broken = (seen: string): Sight => ({ verdict: "does not hold", seen })
const unseen = (why: string): Sight => ({ verdict: "could not be observed", seen: why })
/** The rule holds or does not, and what was seen. */
const judge = (right: boolean, seen: string): Sight => right ? holds(seen) : broken(seen)

/** Any answer; `page` where it is a success. */
interface Answer {
  readonly status: number
  readonly page: Readonly<Record<string, unknown>> | undefined
}

interface Ask {
  (parameters: Readonly<Record<string, string>>, key?: "none" | "wrong"): Effect.Effect<Answer, Unseen>
}

const asking = (
  config: PaymentsConfig["Service"],
  client: HttpClient.HttpClient,
  list: Lists.AnyList,
  pause: Duration.Duration
): Ask => {
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
          (text): Answer => ({ status: response.status, page: pageIn(text, response.status) })
        )
      ),
      Effect.timeout(config.deadlines.attempt),
      Effect.mapError((error) => error._tag === "Unseen" ? error : new Unseen({ why: `no answer (${error._tag})` })),
      Effect.filterOrFail(
        ({ status }) => status >= 200 && status < 300 || status >= 400 && status < 500 && status !== 429,
        ({ status }) => new Unseen({ why: `the service answered ${status}` })
      ),
      Effect.tap(Effect.sleep(pause)),
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
      // A redirect would take the key along to an address that nobody has looked at.
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
    )
  }
}

/** The body as text, of so many bytes at most. */
const textOf = (response: HttpClientResponse.HttpClientResponse, most: number) =>
  Effect.suspend(() => {
    let size = 0
    return response.stream.pipe(
      Stream.tap((part) => {
        size += part.length
        return size > most ? Effect.fail(new Unseen({ why: `an answer of more than ${most} bytes` })) : Effect.void
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
    return isObject(body) ? body : undefined
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const itemsOf = ({ page }: Answer): ReadonlyArray<unknown> => Array.isArray(page?.["items"]) ? page["items"] : []
const cursorOf = ({ page }: Answer): unknown => page?.["cursor"]
const idsOf = (answer: Answer): ReadonlyArray<unknown> =>
  itemsOf(answer).map((item) => isObject(item) ? item["id"] : undefined)
const records = (count: number): string => `${count} ${count === 1 ? "record" : "records"}`

/** A page of the list, or nothing can be seen. */
const pageOf = (ask: Ask, parameters: Readonly<Record<string, string>>): Effect.Effect<Answer, Unseen> =>
  Effect.filterOrFail(
    ask(parameters),
    ({ page }) => page !== undefined,
    ({ status }) => new Unseen({ why: status < 300 ? "the answer is not JSON" : `the service answered ${status}` })
  )

interface Rule {
  readonly section: string
  readonly rule: string
  readonly see: (ask: Ask) => Effect.Effect<Sight, Unseen>
}

/** What comes of a limit beyond those that are documented: a refusal is right, if a documented limit is served. */
const servedOrRefused = Effect.fnUntraced(function*(
  ask: Ask,
  documented: string,
  limit: string,
  see: (length: number, records: number) => Sight
) {
  const served = yield* pageOf(ask, { limit: documented })
  const answer = yield* ask({ limit })
  if (answer.page !== undefined) return see(itemsOf(answer).length, itemsOf(served).length)
  return answer.status < 300 ? unseen("the answer is not JSON") : holds(`status ${answer.status}`)
})

const merchantScope = ({ label }: Lists.AnyList): Rule => ({
  section: "§5",
  rule: `${label} are those of the key's merchant`,
  see: () => Effect.succeed(unseen("one key shows one merchant"))
})

const smallestPage: Rule = {
  section: "§8",
  rule: "no page size below 1 is served",
  see: (ask) =>
    servedOrRefused(
      ask,
      "1",
      "0",
      (length, ofOne) => ofOne === 0 ? unseen("the list is empty") : judge(length > 0, records(length))
    )
}

const defaultPage = (documented: number): Rule => ({
  section: "§8",
  rule: `${documented} records come unless a limit is given`,
  see: (ask) =>
    Effect.map(pageOf(ask, {}), (answer) => {
      const { length } = itemsOf(answer)
      return cursorOf(answer) === null && length < documented
        ? unseen("the list is shorter")
        : judge(length === documented, records(length))
    })
})

const rulesOf = (list: Lists.AnyList, pages: number): ReadonlyArray<Rule> => [
  {
    section: "§2.5",
    rule: "items is an array of objects",
    see: (ask) =>
      Effect.map(pageOf(ask, { limit: "5" }), ({ page }) => {
        const items = page?.["items"]
        return judge(
          Array.isArray(items) && items.every(isObject),
          Array.isArray(items) ? records(items.length) : "no array"
        )
      })
  },
  {
    section: "§2.5",
    rule: "cursor is a string or null",
    see: (ask) =>
      Effect.map(pageOf(ask, { limit: "1" }), (answer) => {
        const cursor = cursorOf(answer)
        return judge(
          cursor === null || typeof cursor === "string",
          cursor === undefined ? "no cursor" : cursor === null ? "null" : `a ${typeof cursor}`
        )
      })
  },
  {
    section: "§2.5",
    rule: "count is an integer",
    see: (ask) =>
      Effect.map(
        pageOf(ask, { limit: "5" }),
        ({ page }) => judge(Number.isInteger(page?.["count"]), typeof page?.["count"])
      )
  },
  {
    section: "§4.4.1",
    rule: "a request without a cursor gives the first page",
    see: (ask) => Effect.map(ask({}), ({ page, status }) => judge(page !== undefined, `status ${status}`))
  },
  {
    section: "§4.4.2",
    rule: "a string cursor, sent with the same limit, gives the next page",
    see: Effect.fnUntraced(function*(ask) {
      const first = yield* pageOf(ask, { limit: "2" })
      const cursor = cursorOf(first)
      if (typeof cursor !== "string") return unseen("the list has one page of 2")
      const second = yield* ask({ limit: "2", cursor })
      if (second.page === undefined) return broken(`status ${second.status}`)
      const before = new Set(idsOf(first))
      const repeats = idsOf(second).filter((id) => before.has(id)).length
      return judge(repeats === 0, repeats === 0 ? "other records" : `${records(repeats)} of the page before`)
    })
  },
  {
    section: "§4.4.3",
    rule: "a null cursor ends the list",
    see: Effect.fnUntraced(function*(ask) {
      const seen = new Set<string>()
      let cursor: string | undefined
      for (let page = 1; page <= pages; page++) {
        const answer = yield* pageOf(ask, { limit: "100", ...(cursor === undefined ? {} : { cursor }) })
        const next = cursorOf(answer)
        if (next === null) return holds(`after ${page} ${page === 1 ? "page" : "pages"}`)
        if (typeof next !== "string") return broken("a page without a cursor")
        if (seen.has(next)) return broken("a cursor that came before")
        seen.add(next)
        cursor = next
      }
      return unseen(`the list has more than ${pages} pages`)
    })
  },
  {
    section: "§4.4.4",
    rule: "a cursor passed back unchanged is accepted, again too",
    see: Effect.fnUntraced(function*(ask) {
      const cursor = cursorOf(yield* pageOf(ask, { limit: "2" }))
      if (typeof cursor !== "string") return unseen("the list has one page of 2")
      const once = yield* ask({ limit: "2", cursor })
      const again = yield* ask({ limit: "2", cursor })
      const refused = [once, again].find(({ page }) => page === undefined)
      if (refused !== undefined) return broken(`status ${refused.status}`)
      if (JSON.stringify(idsOf(once)) !== JSON.stringify(idsOf(again))) {
        return unseen("two answers differ; the list may have changed in between")
      }
      const encoded = encodeURIComponent(cursor) !== cursor
      return holds(`the same page twice; the cursor has ${encoded ? "characters" : "no character"} to percent-encode`)
    })
  },
  ...(["none", "wrong"] as const).map((key): Rule => ({
    section: "§5",
    rule: key === "none" ? "a request without a key is refused" : "a request with a wrong key is refused",
    see: Effect.fnUntraced(function*(ask) {
      // A service that refuses everything says nothing of keys.
      yield* pageOf(ask, { limit: "1" })
      const { status } = yield* ask({ limit: "1" }, key)
      if (status < 300) return broken(`status ${status}`)
      return status === 401 || status === 403 ? holds(`status ${status}`) : unseen(`status ${status}, not 401 or 403`)
    })
  })),
  {
    section: "§5",
    rule: "the configured key is accepted",
    see: (ask) =>
      Effect.map(ask({ limit: "1" }), ({ status }) => judge(status >= 200 && status < 300, `status ${status}`))
  },
  ...(list.merchantIdIn === undefined ? [] : [merchantScope(list)]),
  {
    section: "§8",
    rule: "limit is the most records of a page",
    see: (ask) => atMost(pageOf(ask, { limit: "1" }), 1)
  },
  {
    section: "§8",
    rule: "100 is a limit that is served",
    see: (ask) => atMost(pageOf(ask, { limit: "100" }), 100)
  },
  {
    section: "§8",
    rule: "no page is larger than 100, whatever is asked",
    see: (ask) =>
      servedOrRefused(
        ask,
        "100",
        "101",
        (length) => length === 0 ? unseen("the list is empty") : judge(length <= 100, records(length))
      )
  },
  ...(list.limits.minimum === undefined ? [] : [smallestPage]),
  ...(list.limits.default === undefined ? [] : [defaultPage(list.limits.default)]),
  ...Object.entries<Lists.Filter>(list.filters).map(([field, filter]): Rule => ({
    section: list.section,
    rule: `${field} filters`,
    see: Effect.fnUntraced(function*(ask) {
      const some = yield* pageOf(ask, { limit: "100" })
      const values = itemsOf(some).map((item) => isObject(item) ? item[field] : undefined)
      const value = values.find((held) => typeof held === "string" && held !== "")
      if (typeof value !== "string") return unseen(`no record of the first page has a ${field}`)
      if (values.every((held) => held === value)) return unseen(`all records of the first page have the same ${field}`)
      const found = itemsOf(yield* pageOf(ask, { [field]: value, limit: "100" }))
      const right = found.filter((item) => isObject(item) && Lists.matches(filter, item[field], value)).length
      return found.length === 0
        ? broken("no record, though one has the value")
        : judge(right === found.length, `${right} of ${found.length} with the value asked for`)
    })
  }))
]

const atMost = (page: Effect.Effect<Answer, Unseen>, limit: number): Effect.Effect<Sight, Unseen> =>
  Effect.map(page, (answer) => {
    const { length } = itemsOf(answer)
    return length === 0 ? unseen("the list is empty") : judge(length <= limit, records(length))
  })
