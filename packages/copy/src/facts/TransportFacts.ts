/** Facts about the service as a whole: errors (§7), limits that headers name (§8), compression, validators, its clock. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Answer, type Ask, notObserved, pageOf } from "./Ask.ts"
import { type Fact, observed } from "./Fact.ts"
import { requireLimit } from "./PageFacts.ts"
import { rateLimit } from "./RateFacts.ts"

/** They are observed at one list of each base address. */
export const transportFacts = ({ baseAddress, name }: Lists.AnyList): ReadonlyArray<Fact> =>
  firstLists[baseAddress] === name ? facts : []

const firstLists: { readonly [address in Lists.AnyList["baseAddress"]]: Lists.ListName } = {
  payments: "payoutRequests",
  invoices: "invoices"
}

const facts: ReadonlyArray<Fact> = [
  {
    name: "unknown-path",
    section: "§7",
    question: "How is a path answered that the document does not name?",
    observe: Effect.fnUntraced(function*(ask) {
      yield* pageOf(ask, { limit: "1" })
      const { page, status } = yield* ask.get({ limit: "1" }, { below: "no-such-path" })
      return observed(page === undefined ? String(status) : "a page", `status ${status}`)
    })
  },
  errorBody("key", "a wrong key", (ask) => ask.get({ limit: "1" }, { key: "wrong" })),
  errorBody(
    "parameter",
    "a limit that is no number",
    (ask) => Effect.andThen(requireLimit(ask), ask.get({ limit: "many" }))
  ),
  {
    name: "limit-headers",
    section: "§8",
    question: "Which headers name limits?",
    observe: (ask) =>
      Effect.map(pageOf(ask, { limit: "1" }), ({ headerNames }) => {
        const names = headerNames.filter((name) => limitHeader.test(name) && name.length <= 60).toSorted()
        return observed(names.join(", ") || "none", `${names.length} of ${headerNames.length} headers`)
      })
  },
  {
    name: "compression",
    section: "§4",
    question: "How is an answer compressed if the client accepts gzip and br?",
    observe: (ask) =>
      Effect.flatMap(pageOf(ask, { limit: "100" }), ({ headers, page }) => {
        const encoding = headers["content-encoding"] ?? "none"
        // Many services do not compress a small page.
        if (encoding === "none" && JSON.stringify(page).length < smallPage) {
          return Effect.fail(notObserved("the page is small"))
        }
        return Effect.succeed(
          observed(encodings.has(encoding) ? encoding : "another", "the answer to a request for gzip or br")
        )
      })
  },
  {
    name: "conditional",
    section: "§4",
    question: "Is an unchanged page answered without its body?",
    observe: Effect.fnUntraced(function*(ask) {
      let etag = (yield* pageOf(ask, { limit: "2" })).headers["etag"]
      if (etag === undefined) return observed("no ETag", "the headers of a page")
      for (let time = 1; time <= 3; time++) {
        const answer: Answer = yield* ask.get({ limit: "2" }, { headers: { "if-none-match": etag } })
        if (answer.status === 304) return observed("304", "status 304 to the same ETag")
        if (answer.headers["etag"] === etag) return observed("no", `status ${answer.status} to the same ETag`)
        // The page has changed since its ETag was read, so the newer one is sent.
        etag = answer.headers["etag"] ?? etag
      }
      return yield* notObserved("the page changed in between")
    })
  },
  {
    name: "clock",
    section: "§2",
    question: "Does the service's clock agree with the clock here?",
    observe: (ask) =>
      Effect.flatMap(pageOf(ask, { limit: "1" }), ({ between: [sent, received], headers }) => {
        const date = Date.parse(headers["date"] ?? "")
        if (Number.isNaN(date)) return Effect.succeed(observed("no Date", "no Date header"))
        if (Number(headers["age"] ?? 0) > 0) return Effect.fail(notObserved("the page comes from a cache"))
        // The header has no milliseconds.
        const off = date + 1000 < sent ? date + 1000 - sent : date > received ? date - received : 0
        if (Math.abs(off) <= agreeingMs) return Effect.succeed(observed("yes", "within two seconds"))
        return Effect.succeed(
          observed(off > 0 ? "it is ahead" : "it is behind", `by ${Math.round(Math.abs(off) / 1000)} s`)
        )
      })
  },
  {
    name: "http-version",
    section: "§1",
    question: "Which version of HTTP does the service choose if 2 and 1.1 are offered?",
    observe: ({ httpVersion }) =>
      Effect.map(httpVersion, (version) => observed(version, "the choice of a connection without a request"))
  },
  rateLimit()
]

const agreeingMs = 2000

/** In characters. */
const smallPage = 3000

/** The headers by which services name their limits. */
const limitHeader =
  /rate-?limit|usage|-left$|remaining|credits|call-count|quota|limit-info|call-limit|request-limit|(day|min|hour|minute|second)-?limit|limit-(per|remaining)|requests?-remaining|remaining-(today|this)|throttl|app-usage|^retry-after$/i

/** The values of headers that are shown. A hostile service may return a key in any other. */
const encodings = new Set(["none", "gzip", "br", "deflate", "zstd"])
const types = new Set([
  "no type",
  "application/json",
  "application/problem+json",
  "application/xml",
  "text/html",
  "text/plain",
  "text/xml"
])

function errorBody(name: string, request: string, send: (ask: Ask) => ReturnType<Ask["get"]>): Fact {
  return {
    name: `error-${name}`,
    ...(name === "key" ? { phase: "keys" as const } : {}),
    section: "§7",
    question: `Which shape has the answer to ${request}?`,
    observe: (ask) =>
      Effect.flatMap(
        send(ask),
        (answer) =>
          answer.status < 400 || name === "parameter" && [401, 403].includes(answer.status)
            ? Effect.fail(notObserved("it is not refused"))
            : Effect.succeed(observed(shapeOf(answer), `status ${answer.status}`))
      )
  }
}

/** Names the type of a body and the members of its object, not their values. */
const shapeOf = ({ headers, members }: Answer): string => {
  const type = headers["content-type"]?.split(";")[0]?.trim().toLowerCase() ?? "no type"
  return [types.has(type) ? type : "another type", ...members.length === 0 ? [] : [members.join(", ")]].join(": ")
}
