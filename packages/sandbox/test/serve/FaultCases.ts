/** The faults of the catalogue, and the outcome of a listing with each. */
import { assert } from "@effect/vitest"
import { Duration } from "effect"
import { canary, type Case, fails, ids, malformed, returnsAll } from "./FaultOutcomes.ts"
import { refusalCases, statusCases } from "./StatusCases.ts"

const shortDeadlines = { headers: Duration.millis(300), stalled: Duration.millis(300), attempt: Duration.millis(900) }

const cases: { readonly [title: string]: Case } = {
  "delays its answers": { faults: [{ fault: "latency", ms: 20, jitterMs: 20 }], expect: returnsAll(1, 1, 1) },
  "resets the connection once": { faults: [{ fault: "reset", nth: 2 }], expect: returnsAll(1, 2, 1) },
  "resets every connection": {
    faults: [{ fault: "reset", from: 2 }],
    expect: fails({ _tag: "Transport", kind: "reset" }, 3, 1)
  },
  "answers 503, then resets the connection": {
    faults: [{ fault: "status", status: 503, nth: 1 }, { fault: "reset", nth: 2 }],
    expect: returnsAll(3, 1, 1)
  },
  "closes the connection once": { faults: [{ fault: "close", nth: 1 }], expect: returnsAll(2, 1, 1) },
  "closes every connection": {
    faults: [{ fault: "close" }],
    expect: ({ error }) => assert.deepInclude(error?.reason, { _tag: "Transport" })
  },
  "truncates a body once": { faults: [{ fault: "truncate", nth: 3 }], expect: returnsAll(1, 1, 2) },
  "truncates every body, with a Content-Length": {
    faults: [{ fault: "truncate", from: 2 }],
    expect: fails({ _tag: "Transport", kind: "truncated" }, 3, 1)
  },
  "truncates every chunked body": {
    faults: [{ fault: "truncate", framing: "chunked", bytes: 100 }],
    expect: fails({ _tag: "Transport", kind: "truncated" }, 3)
  },
  "never begins to answer": {
    // By the page, not by the number of the request: a slow answer to the first page may be requested again.
    faults: [{ fault: "stall", at: "headers", pages: "later" }],
    config: { deadlines: shortDeadlines },
    expect: fails({ _tag: "Timeout", phase: "headers" }, 3, 1)
  },
  "stalls in the middle of the body": {
    faults: [{ fault: "stall", at: "body" }],
    config: {
      // Only the deadline of the body is short, so that a slow answer of a busy machine does not reach another one.
      deadlines: { headers: Duration.seconds(20), stalled: Duration.millis(600), attempt: Duration.seconds(40) }
    },
    expect: fails({ _tag: "Timeout", phase: "body" }, 3)
  },
  "stalls in the middle of the body, long before the deadline for headers": {
    faults: [{ fault: "stall", at: "body" }],
    config: { deadlines: { ...shortDeadlines, headers: Duration.minutes(1), attempt: Duration.minutes(2) } },
    expect: fails({ _tag: "Timeout", phase: "body" }, 3)
  },
  "sends small chunks": { faults: [{ fault: "drip", bytes: 4000, everyMs: 1 }], expect: returnsAll(1, 1, 1) },
  "sends one byte at a time": {
    faults: [{ fault: "drip", bytes: 1, everyMs: 20 }],
    // Only a silence of 1450 ms that begins in the first 50 ms reaches `stalled`.
    config: {
      deadlines: { headers: Duration.millis(1450), stalled: Duration.millis(1450), attempt: Duration.millis(1500) }
    },
    expect: fails({ _tag: "Timeout", phase: "attempt" }, 3)
  },
  "adds headers, an ETag and a wrong Date": {
    faults: [
      { fault: "header", name: "x-ratelimit-limit", value: "100" },
      { fault: "etag" },
      { fault: "clock", aheadSeconds: 3600 }
    ],
    expect: returnsAll(1, 1, 1)
  },
  "has an ETag for conditional requests, which a listing does not send": {
    faults: [{ fault: "etag", conditional: true }],
    expect: returnsAll(1, 1, 1)
  },
  "compresses its answers with gzip": {
    faults: [{ fault: "compress", encoding: "gzip" }],
    expect: returnsAll(1, 1, 1)
  },
  "compresses its answers with br": { faults: [{ fault: "compress", encoding: "br" }], expect: returnsAll(1, 1, 1) },
  "compresses its answers with zstd": {
    faults: [{ fault: "compress", encoding: "zstd" }],
    expect: returnsAll(1, 1, 1)
  },
  "truncates a compressed body once": {
    faults: [{ fault: "compress", encoding: "gzip", nth: 2 }, { fault: "truncate", bytes: 300, nth: 2 }],
    expect: returnsAll(1, 2, 1)
  },
  "sends a gzip bomb": {
    faults: [{ fault: "bomb", encoding: "gzip", mebibytes: 40 }],
    expect: fails({ _tag: "MalformedResponse", kind: "tooLarge" }, 1)
  },
  "sends a br bomb": {
    faults: [{ fault: "bomb", encoding: "br", mebibytes: 40 }],
    expect: fails({ _tag: "MalformedResponse", kind: "tooLarge" }, 1)
  },
  "sends more bytes than the limit": {
    faults: [],
    config: { largestBodyBytes: 10_000 },
    expect: fails({ _tag: "MalformedResponse", kind: "tooLarge" }, 1)
  },
  "limits the rate of requests": { faults: [{ fault: "rateLimit", perSecond: 5 }], expect: returnsAll() },
  "sends HTML": {
    faults: [{ fault: "body", text: "<html>Sign in</html>" }],
    expect: fails({ _tag: "MalformedResponse", kind: "notJson", detail: "text/html" }, 1)
  },
  "sends an empty body": {
    faults: [{ fault: "body", text: "", contentType: "application/json" }],
    expect: fails({ _tag: "MalformedResponse", kind: "notJson", detail: "an empty body" }, 1)
  },
  "sends half of a JSON text as a complete body": {
    faults: [{ fault: "body", text: `{"items":[{"id":"a"}` }],
    expect: fails({ _tag: "Transport", kind: "truncated" }, 3)
  },
  "sends an array": { faults: [{ fault: "body", text: "[]" }], expect: malformed("(root)") },
  "declares another content type": {
    faults: [{ fault: "contentType", value: "text/plain" }],
    expect: returnsAll(1, 1, 1)
  },
  "redirects to another host": {
    faults: [{ fault: "redirect", location: "https://elsewhere.example.com/v1/invoices" }],
    expect: fails({ _tag: "RedirectRefused", status: 302 }, 1)
  },
  "refuses every cursor": {
    faults: [{ fault: "cursorExpires", cursorMs: 0 }, { fault: "latency", ms: 5 }],
    expect: fails({ _tag: "PaginationFault", kind: "cursorRefused" }, 1, 1)
  },
  "sends no cursor": {
    faults: [{ fault: "envelope", member: "cursor" }],
    expect: fails({ _tag: "PaginationFault", kind: "missingCursor" }, 1)
  },
  "sends an empty cursor: it does not end the list": {
    faults: [{ fault: "envelope", member: "cursor", value: `""` }],
    expect: fails({ _tag: "PaginationFault", kind: "cursorRefused" }, 1, 1)
  },
  "sends a number as the cursor": {
    faults: [{ fault: "envelope", member: "cursor", value: "7" }],
    expect: malformed("cursor")
  },
  "sends an unpaired surrogate as the cursor": {
    faults: [{ fault: "envelope", member: "cursor", value: `"\\ud800"` }],
    expect: malformed("cursor")
  },
  "spells the name of the cursor in another way": {
    faults: [{ fault: "envelope", member: "cursor", name: "Cursor" }],
    expect: fails({ _tag: "PaginationFault", kind: "missingCursor" }, 1)
  },
  "sends no items": { faults: [{ fault: "envelope", member: "items" }], expect: malformed("items") },
  "spells the name of the items in another way": {
    faults: [{ fault: "envelope", member: "items", name: "Items" }],
    expect: malformed("items")
  },
  "sends null for items": {
    faults: [{ fault: "envelope", member: "items", value: "null" }],
    expect: malformed("items")
  },
  "sends null for an item": {
    faults: [{ fault: "envelope", member: "items", value: "[null]" }],
    expect: malformed("items[0]")
  },
  "sends text as the count": {
    faults: [{ fault: "envelope", member: "count", value: `"many"` }],
    expect: returnsAll(1, 1, 1)
  },
  "sends the member `cursor` twice: the client uses the last value, as JSON.parse does": {
    faults: [{ fault: "envelope", member: "cursor", value: "null", duplicate: true, nth: 2 }],
    expect: ({ error, ids: received }) => {
      assert.isUndefined(error)
      assert.deepStrictEqual(received, ids.slice(0, 200))
    }
  },
  "sends __proto__ in addition to the items": {
    faults: [{ fault: "envelope", member: "__proto__", value: `{"cursor":"evil","items":[]}` }],
    expect: returnsAll(1, 1, 1)
  },
  "sends __proto__ instead of the items": {
    faults: [{ fault: "envelope", member: "items" }, { fault: "envelope", member: "__proto__", value: `{"items":[]}` }],
    expect: malformed("items")
  },
  "sends a URL as the cursor: the client does not follow it, but sends it back as the cursor": {
    faults: [{ fault: "envelope", member: "cursor", value: `"https://elsewhere.example.com/?cursor=1"`, nth: 1 }],
    expect: fails({ _tag: "PaginationFault", kind: "cursorRefused" }, 1, 1)
  },
  "sends URLs as ids": {
    faults: [{ fault: "field", field: "id", value: `"//elsewhere.example.com/../.."` }],
    expect: ({ error, ids: received }) => {
      assert.isUndefined(error)
      assert.strictEqual(received.length, 250)
    }
  },
  "repeats a cursor": {
    faults: [{ fault: "cursorCycle", length: 1, pages: "later" }],
    expect: fails({ _tag: "PaginationFault", kind: "repeatedCursor" }, 0, 2)
  },
  "sends a cycle of two pages": {
    faults: [{ fault: "cursorCycle", length: 2, pages: "later", nth: 2 }],
    expect: ({ error }) => assert.deepInclude(error?.reason, { _tag: "PaginationFault", kind: "repeatedCursor" })
  },
  "sends a cycle of three pages that includes the first": {
    faults: [{ fault: "cursorCycle", length: 3 }],
    expect: ({ error }) => assert.deepInclude(error?.reason, { _tag: "PaginationFault", kind: "repeatedCursor" })
  },
  "sends some empty pages with a cursor": {
    faults: [{ fault: "emptyPage", every: 2 }],
    expect: returnsAll(1, 1, 1, 1, 1)
  },
  "sends only empty pages": {
    faults: [{ fault: "emptyPage", pages: "later" }],
    config: { progress: { emptyPages: 50, repeatedPages: 10 } },
    expect: ({ attempts, error, ids: received }) => {
      assert.deepInclude(error?.reason, { _tag: "PaginationFault", kind: "limitReached" })
      assert.isDefined(error?.position)
      assert.deepStrictEqual([received.length, attempts.length], [100, 52])
    }
  },
  "sends short pages": {
    faults: [{ fault: "shortPage", records: 30 }],
    expect: returnsAll(...Array<number>(10).fill(1))
  },
  "ignores the limit": { faults: [{ fault: "largePage", joined: 2 }], expect: returnsAll(1, 1) },
  "sends an empty list: no client can detect that": {
    faults: [{ fault: "emptyList" }],
    expect: (outcome) => assert.deepStrictEqual([outcome.ids, outcome.error], [[], undefined])
  },
  "ignores a filter": {
    faults: [{ fault: "ignoreFilter" }],
    query: { contract: canary.contract },
    expect: fails({ _tag: "FilterNotApplied", field: "contract" }, 1)
  },
  "ignores one filter and applies the other": {
    faults: [{ fault: "ignoreFilter", field: "contract" }],
    query: { contract: canary.contract, settlementDate: "2024-05-01" },
    expect: fails({ _tag: "FilterNotApplied", field: "contract" }, 1)
  },
  "applies a filter to some records": {
    faults: [{ fault: "ignoreFilter", share: 0.1 }],
    query: { contract: canary.contract },
    expect: fails({ _tag: "FilterNotApplied", field: "contract" }, 1)
  },
  "ignores a filter that the client does not check": {
    faults: [{ fault: "ignoreFilter" }],
    query: { contract: canary.contract },
    config: { uncheckedFilters: { invoices: ["contract"] } },
    expect: returnsAll(1, 1, 1)
  },
  "repeats records on the next page: the client returns them twice": {
    faults: [{ fault: "duplicate", records: 3, nth: 2 }],
    expect: ({ ids: received }) =>
      assert.deepStrictEqual(received, [...ids.slice(0, 100), ...ids.slice(97, 100), ...ids.slice(100)])
  },
  "leaves records out: no client can detect that": {
    faults: [{ fault: "skip", records: 5, nth: 1 }],
    expect: ({ ids: received }) => assert.deepStrictEqual(received, ids.slice(5))
  },
  "swaps two records": {
    faults: [{ fault: "reorder", nth: 1 }],
    expect: ({ ids: received }) =>
      assert.deepStrictEqual(received, [...ids.slice(0, 99), ids[100] ?? "", ids[99] ?? "", ...ids.slice(101)])
  },
  "sends null for an amount": {
    faults: [{ fault: "field", field: "amount", value: "null" }],
    expect: returnsAll(1, 1, 1)
  },
  "spells an amount with a fraction and an exponent": {
    faults: [{ fault: "field", field: "amount", value: "1.20e3" }],
    expect: returnsAll(1, 1, 1)
  },
  "sends a record without an id": {
    faults: [{ fault: "field", field: "id", pages: "later", share: 0.5 }],
    expect: ({ error, ids: received }) => {
      assert.deepInclude(error?.reason, { _tag: "MalformedResponse", kind: "wrongShape" })
      assert.match(error?.reason._tag === "MalformedResponse" ? error.reason.path : "", /^items\[\d+\]\.id$/)
      assert.isDefined(error?.position)
      assert.deepStrictEqual(received, ids.slice(0, 100))
    }
  },
  "sends an amount with a fraction, under a name with an escape": {
    faults: [
      { fault: "field", field: "amount" },
      { fault: "envelope", member: "items", value: `[{"id":"a","\\u0061mount":1.5}]` }
    ],
    expect: malformed("items[0].amount")
  },
  "adds a field": {
    faults: [{ fault: "field", field: "undocumented", value: `{"deep":[1e400]}` }],
    expect: returnsAll(1, 1, 1)
  }
}

const badAmounts = {
  "beyond 2^53": "9007199254740993",
  "with a fraction": "12.5",
  "with a fraction that parsing would drop": "9007199254740990.6",
  "beyond the range of a double": "1e400",
  "as text": `"12"`
}

const amountCases: { readonly [title: string]: Case } = Object.fromEntries(
  Object.entries(badAmounts).map(([title, value]) => [
    `sends an amount ${title}`,
    { faults: [{ fault: "field", field: "amount", value }], expect: malformed("items[0].amount") } satisfies Case
  ])
)

/** All cases, by the behaviour of the service. */
export const everyCase = { ...cases, ...amountCases, ...refusalCases, ...statusCases }
