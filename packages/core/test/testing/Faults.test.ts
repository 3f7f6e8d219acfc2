/** The values that faults accept, and the state that they keep. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as Lists from "../../src/model/Lists.ts"
import { makeBoundedMap } from "../../src/testing/BoundedMap.ts"
import { Fault } from "../../src/testing/Fault.ts"
import { makeListService } from "../../src/testing/ListService.ts"
import { recordsOf, serve } from "../../src/testing/MemoryList.ts"

describe("the schema of faults refuses", () => {
  it.each<unknown>([
    { fault: "body", text: "x", status: 9999 },
    { fault: "body", text: "x", status: 199 },
    { fault: "body", text: "x", contentType: "a\r\nb: c" },
    { fault: "contentType", value: "a\nb" },
    { fault: "redirect", location: "https://x/漢" },
    { fault: "status", status: 429, retryAfter: "später\n" },
    { fault: "truncate", bytes: -1 },
    { fault: "latency", ms: 2 ** 31 },
    { fault: "latency", ms: 1, jitterMs: 2 ** 31 },
    { fault: "drip", bytes: 1, everyMs: 2 ** 31 },
    { fault: "field", field: "id", value: "12,50" },
    { fault: "envelope", member: "count", value: "{" },
    { fault: "bomb", encoding: "br", mebibytes: 257 },
    { fault: "largePage", joined: 1e9 }
  ])("a fault that no answer can show: %j", (fault) => assert.isFalse(Schema.is(Fault)(fault)))
})

const records = recordsOf(Array.from({ length: 3 }, (_, index) => ({ id: String(index) })))
const servers = Lists.map((list) => serve(list, records))

const service = (faults: ReadonlyArray<Fault>, seed = 1) =>
  makeListService({ servers, accepts: (key) => key !== "", faults, seed }, 0)

const request = (served: ReturnType<typeof service>, query = "", key = "one", method?: string) =>
  served.answer({ target: `/v1/invoices${query}`, authorization: `Bearer ${key}`, now: 0, method }).reply

describe("a list service", () => {
  it("forgets the keys and queries that it has not seen for long", () => {
    const limited = service([{ fault: "rateLimit", perSecond: 1e-9 }])
    assert.deepStrictEqual([request(limited).status, request(limited).status], [200, 429])
    for (let other = 0; other < 10_000; other++) request(limited, "", `key-${other}`)
    assert.strictEqual(request(limited).status, 200)

    // Find a query whose random outcome differs at the second visit. Once forgotten, it has the first outcome again.
    const outcomes = (visits: number, query: string) => {
      const faulty = service([{ fault: "status", status: 503, rate: 0.5 }])
      return Array.from({ length: visits }, () => request(faulty, query).status)
    }
    const query = Array.from({ length: 100 }, (_, index) => `?limit=1&of=${index}`).find((candidate) => {
      const [first, second] = outcomes(2, candidate)
      return first === 503 && second === 200
    }) ?? ""
    const faulty = service([{ fault: "status", status: 503, rate: 0.5 }])
    assert.strictEqual(request(faulty, query).status, 503)
    for (let other = 0; other < 11_000; other++) request(faulty, `?limit=1&other=${other}`)
    assert.strictEqual(request(faulty, query).status, 503)
  })

  it("refuses an expired cursor, also with another limit than that of its page, but not before", () => {
    const anyLimit = Lists.map((list) => serve(list, records, { anyLimit: true }))
    const expiring = makeListService(
      { servers: anyLimit, accepts: () => true, faults: [{ fault: "cursorExpires", cursorMs: 1000 }] },
      0
    )
    const send = (query: string, now: number) =>
      expiring.answer({ target: `/v1/invoices?${query}`, authorization: "Bearer key", now }).reply
    const { cursor } = JSON.parse(send("limit=1", 0).body) as { cursor: string } // more pages follow
    const statusAt = (limit: number, now: number) => send(`limit=${limit}&cursor=${cursor}`, now).status
    assert.deepStrictEqual([statusAt(1, 900), statusAt(2, 900), statusAt(1, 1100), statusAt(2, 1100)], [
      200,
      200,
      400,
      400
    ])
  })

  it("accepts the cursor of a short page only in its list", () => {
    const short = service([{ fault: "shortPage", records: 1 }])
    const { cursor } = JSON.parse(request(short, "?limit=2").body) as { cursor: string } // more pages follow
    const statusIn = (path: string) =>
      short.answer({ target: `${path}?limit=2&cursor=${cursor}`, authorization: "Bearer one", now: 0 }).reply.status
    assert.deepStrictEqual([statusIn("/v1/invoices"), statusIn("/v0/payinSources")], [200, 400])
  })

  it("answers a conditional request with 304 if one of its tags is that of the page, and if chosen", () => {
    const answerTo = (faults: ReadonlyArray<Fault>, ifNoneMatch?: string) =>
      service(faults).answer({ target: "/v1/invoices", authorization: "Bearer one", now: 0, ifNoneMatch }).reply
    const conditional: ReadonlyArray<Fault> = [{ fault: "etag", conditional: true }]
    const { body, headers: { etag = "" }, status } = answerTo(conditional)
    assert.strictEqual(status, 200)
    for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const { delayMs: _, ...reply } = answerTo(conditional, tags)
      assert.deepStrictEqual(reply, { status: 304, headers: { etag }, body: "" })
    }
    assert.deepInclude(answerTo(conditional, `"other"`), { status: 200, body })
    assert.deepInclude(answerTo([{ fault: "etag" }], etag), { status: 200, body })
    const failing = answerTo([{ fault: "status", status: 503 }, ...conditional], "*")
    assert.strictEqual(failing.status, 503)
  })

  it("keeps only the latest entries of a bounded map", () => {
    const recent = makeBoundedMap<number, number>(10)
    for (let count = 0; count < 1000; count++) recent.set(count, count)
    const kept = Array.from({ length: 1000 }, (_, key) => recent.get(key)).filter((value) => value !== undefined)
    assert.deepStrictEqual(kept, [990, 991, 992, 993, 994, 995, 996, 997, 998, 999])
    recent.set(990, 1)
    recent.set(1000, 1)
    assert.deepStrictEqual([recent.get(990), recent.get(991)], [1, undefined])
  })

  it("separates the listings of two keys", () => {
    const served = service([{ fault: "duplicate", records: 1 }])
    const pageOf = (key: string, cursor?: string) => {
      const { body } = request(served, `?limit=1${cursor === undefined ? "" : `&cursor=${cursor}`}`, key)
      return JSON.parse(body) as { readonly items: ReadonlyArray<object>; readonly cursor: string } // the envelope
    }
    const { cursor } = pageOf("one")
    pageOf("two")
    pageOf("two", cursor)
    const { items } = pageOf("one", cursor)
    assert.deepStrictEqual(items, [{ id: "0" }, { id: "1" }])
  })

  it("answers other methods than GET with 405", () => {
    for (const method of ["POST", "PUT", "DELETE", "PATCH"]) {
      const { headers, status } = request(service([]), "", "one", method)
      assert.deepStrictEqual([status, headers["allow"]], [405, "GET"], method)
    }
    assert.strictEqual(request(service([]), "", "one", "GET").status, 200)
  })

  it("reads the key only from the Bearer scheme", () => {
    const keys: Array<string> = []
    const recording = makeListService({ servers, accepts: (key) => keys.push(key) > 0 }, 0)
    for (const authorization of ["Bearer a", "bearer a", "Basic! sandbox_a", "Bearer a b", "Bearer ", undefined]) {
      recording.answer({ target: "/v1/invoices", authorization, now: 0 })
    }
    assert.deepStrictEqual(keys, ["a", "a", "", "", "", ""])
  })
})
