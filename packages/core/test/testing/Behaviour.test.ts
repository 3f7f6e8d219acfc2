/** What a list service does where its document is silent. */
import { assert, describe, it } from "@effect/vitest"
import * as Lists from "../../src/model/Lists.ts"
import type { Behaviour } from "../../src/testing/Behaviour.ts"
import { makeListService } from "../../src/testing/ListService.ts"
import { recordsOf, serve } from "../../src/testing/MemoryList.ts"

const records = recordsOf(
  Array.from({ length: 120 }, (_, index) => ({
    id: String(index),
    reference: `ref-${index}`,
    contract: `con-${index % 2}`,
    status: index % 4 === 0 ? "failed" : "paid",
    ...(index < 100 ? {} : { settlementDate: `2024-02-${28 + index % 2}` })
  }))
)

/** Returns the answers of a service to these queries. `CURSOR` is the cursor of the answer before. */
const answersOf = (
  behaviour: Behaviour,
  queries: ReadonlyArray<string>,
  { key = "key", path = "/v1/invoices" } = {}
) => {
  const anyLimit = behaviour.cursorLimit === "obey"
  const servers = Lists.map((list) => serve(list, records, { anyLimit }))
  const service = makeListService({ servers, accepts: (given) => given === "key", behaviour }, 0)
  let cursor = ""
  return queries.map((query) => {
    const target = `${path}?${query.replace("CURSOR", encodeURIComponent(cursor))}`
    const { body, status } = service.answer({ target, authorization: key && `Bearer ${key}`, now: 0 }).reply
    if (status !== 200) return status
    const page = JSON.parse(body) as { cursor: string | null; items: ReadonlyArray<{ id: string }> } // a page
    cursor = page.cursor ?? ""
    return page.items.map(({ id }) => Number(id))
  })
}

const from = (start: number, length: number) => Array.from({ length }, (_, index) => start + index)

describe("a list service", () => {
  it.each<readonly [Behaviour, queries: ReadonlyArray<string>, last: number | ReadonlyArray<number>]>([
    [{}, ["limit=101"], 400],
    [{ largeLimit: "clamp" }, ["limit=101"], from(0, 100)],
    [{ largeLimit: "obey" }, ["limit=101"], from(0, 101)],
    [{ largeLimit: "default" }, ["limit=101"], from(0, 20)],
    [{ largestLimit: 50, largeLimit: "clamp" }, ["limit=100"], from(0, 50)],
    [{ largestLimit: 200 }, ["limit=110"], from(0, 110)],
    [{ largestLimit: 200 }, ["limit=201"], 400],
    [{ defaultLimit: 10 }, [""], from(0, 20)],
    [{}, ["limit=0"], 400],
    [{ smallLimit: "clamp" }, ["limit=-1"], [0]],
    [{ smallLimit: "default" }, ["limit=0"], from(0, 20)],
    [{}, ["limit=many"], 400],
    [{ textLimit: "default" }, ["limit=many"], from(0, 20)],
    [{}, ["limit=1&other=1"], [0]],
    [{ unknownParameter: "refuse" }, ["limit=1&other=1"], 400],
    [{ unknownParameter: "refuse" }, ["limit=1&reference=ref-7"], [7]],
    [{}, ["limit=2", "limit=3&cursor=CURSOR"], 400],
    [{ cursorLimit: "obey" }, ["limit=2", "limit=3&cursor=CURSOR"], [2, 3, 4]],
    [{ cursorLimit: "keep" }, ["limit=2", "limit=3&cursor=CURSOR"], [2, 3]],
    [{}, ["limit=2", "limit=2&contract=con-1&cursor=CURSOR"], 400],
    [{ cursorFilters: "keep" }, ["limit=2", "limit=2&contract=con-1&cursor=CURSOR"], [2, 3]],
    [{}, ["limit=2&cursor=unknown"], 400],
    [{ cursorUse: "once" }, ["limit=2", "limit=2&cursor=CURSOR", "limit=2", "limit=2&cursor=CURSOR"], [2, 3]],
    [{ invalidCursor: "first page" }, ["limit=2&cursor=unknown"], [0, 1]],
    [{}, ["limit=2&reference=ref-500"], []],
    [{ absentValue: "everything" }, ["limit=2&reference=ref-500"], [0, 1]],
    [{ absentValue: "everything" }, ["limit=2&reference=ref-500", "limit=2&reference=ref-500&cursor=CURSOR"], [2, 3]],
    [{ absentValue: "refuse" }, ["limit=2&reference=ref-500"], 400],
    [{}, ["limit=2&reference=ref-1"], [1]],
    [{ filterMatch: "prefix" }, ["limit=2&reference=ref-1", "limit=2&reference=ref-1&cursor=CURSOR"], [11, 12]],
    [{}, ["limit=3&settlementDate=2024-02-28"], [100, 102, 104]],
    [{ dayFilter: "partial" }, ["limit=3&settlementDate=2024-02-28"], [100, 104, 108]],
    [{ dayFilter: "overlapping" }, ["limit=3&settlementDate=2024-02-28"], [100, 101, 102]],
    [{ dayFilter: "overlapping" }, [
      "limit=2&settlementDate=2024-02-28",
      "limit=2&settlementDate=2024-02-28&cursor=CURSOR"
    ], [
      102,
      103
    ]],
    [{ dayFilter: "overlapping" }, ["limit=2&settlementDate=2024-02-29"], [101, 103]],
    [{ hiddenStatus: "failed" }, ["limit=5"], [1, 2, 3]],
    [{ hiddenStatus: "failed" }, ["limit=2&contract=con-0"], [0, 2]]
  ])(
    "with %j answers %j in the end with %j",
    (behaviour, queries, last) => assert.deepStrictEqual(answersOf(behaviour, queries).at(-1), last)
  )

  it("accepts a cursor once, and issues another one with the same page", () => {
    const servers = Lists.map((list) => serve(list, records))
    const service = makeListService({ servers, accepts: () => true, behaviour: { cursorUse: "once" } }, 0)
    const send = (query: string) =>
      service.answer({ target: `/v1/invoices?${query}`, authorization: "Bearer key", now: 0 }).reply
    const issue = () => encodeURIComponent((JSON.parse(send("limit=2").body) as { cursor: string }).cursor) // a page
    const [one, other] = [issue(), issue()]
    const statuses = [one, one, other].map((cursor) => send(`limit=2&cursor=${cursor}`).status)
    assert.deepStrictEqual(statuses, [200, 400, 200])
  })

  it.each(["obey", "refuse"] as const)("answers a cursor of another key as chosen (%s)", (cursorKey) => {
    const servers = Lists.map((list) => serve(list, records))
    const service = makeListService({ servers, accepts: () => true, behaviour: { cursorKey } }, 0)
    const ask = (query: string, key: string) =>
      service.answer({ target: `/v1/invoices?${query}`, authorization: `Bearer ${key}`, now: 0 }).reply
    const { cursor } = JSON.parse(ask("limit=2", "one").body) as { cursor: string } // a page
    const next = `limit=2&cursor=${encodeURIComponent(cursor)}`
    const statuses = [ask(next, "one").status, ask(next, "other").status]
    assert.deepStrictEqual(statuses, [200, cursorKey === "obey" ? 200 : 400])
  })

  it.each<readonly [Behaviour, cursor: unknown]>([
    [{}, null],
    [{ endCursor: "empty" }, ""],
    [{ endCursor: "absent" }, undefined]
  ])("with %j ends a list with the cursor %j", (behaviour, cursor) => {
    const servers = Lists.map((list) => serve(list, records))
    const service = makeListService({ servers, accepts: () => true, behaviour }, 0)
    const target = "/v1/invoices?reference=ref-1"
    const { reply } = service.answer({ target, authorization: "Bearer key", now: 0 })
    assert.strictEqual((JSON.parse(reply.body) as { cursor?: unknown }).cursor, cursor) // a page
  })

  it("answers errors with HTML, and lists of a documented limit with another one", () => {
    const servers = Lists.map((list) => serve(list, records))
    const service = makeListService(
      { servers, accepts: () => true, behaviour: { errors: "html", defaultLimit: 10 } },
      0
    )
    const ask = (target: string) => service.answer({ target, authorization: "Bearer key", now: 0 }).reply
    assert.strictEqual(ask("/v1/invoices?limit=0").headers["content-type"], "text/html")
    assert.strictEqual(JSON.parse(ask("/v0/payoutRequests").body).count, 10)
  })

  it("answers each list, and the paths below it, as chosen for the list", () => {
    const servers = Lists.map((list) => serve(list, records))
    const service = makeListService({
      servers,
      accepts: (key) => key === "key",
      behaviour: { largeLimit: "clamp", missingKey: 403 },
      behaviours: { invoices: { largeLimit: "refuse", unknownPath: 410 }, payinSources: { defaultLimit: 110 } }
    }, 0)
    const statusOf = (target: string, authorization = "Bearer key") =>
      service.answer({ target, authorization, now: 0 }).reply.status
    assert.deepStrictEqual(
      [
        statusOf("/v0/payoutRequests?limit=101"),
        statusOf("/v1/invoices?limit=101"),
        statusOf("/v1/invoices", ""),
        statusOf("/v1/invoices/below"),
        statusOf("/v0/payinSources/below")
      ],
      [200, 400, 403, 410, 404]
    )
    const { reply } = service.answer({ target: "/v0/payinSources", authorization: "Bearer key", now: 0 })
    assert.strictEqual(JSON.parse(reply.body).count, 110)
  })

  it("answers a missing key, a wrong key and an unknown path as chosen", () => {
    const behaviour: Behaviour = { missingKey: 400, wrongKey: 403, unknownPath: 405 }
    assert.deepStrictEqual(answersOf(behaviour, [""], { key: "" }), [400])
    assert.deepStrictEqual(answersOf(behaviour, [""], { key: "other" }), [403])
    assert.deepStrictEqual(answersOf(behaviour, [""], { path: "/v1/other" }), [405])
  })
})
