/** Parts of a list by date, over HTTP, of a list that changes before each part is read. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, makePaces } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { Duration, Effect } from "effect"
import { HttpClient } from "effect/http"
import { randomUUID } from "node:crypto"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { makeAsk } from "../../src/facts/Ask.ts"
import { wholeFacts } from "../../src/facts/WholeFacts.ts"

interface Invoice {
  readonly id: string
  readonly settlementDate?: string
}

const days = ["2024-01-01", "2024-01-02", "2024-01-03"]

/** 60 invoices, half of them of the second day, and 5 that are not settled. */
const invoices = (): Array<Invoice> =>
  Array.from({ length: 65 }, (_, index) => {
    const id = `inv-${index}`
    return index < 60 ? { id, settlementDate: days[[1, 0, 1, 2][index % 4] ?? 0] ?? "" } : { id }
  })

type Change = (list: Array<Invoice>, day: string) => Array<Invoice>
type Select = (list: ReadonlyArray<Invoice>, day: string) => ReadonlyArray<Invoice>

const ofDay: Select = (list, day) => list.filter(({ settlementDate }) => settlementDate === day)

/** Observes a service that changes its list before it answers with a part. Returns the answer or the reason, and requests. */
const observe = Effect.fnUntraced(function*(select: Select, change: Change = (list) => list) {
  let list = invoices()
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    const { searchParams } = new URL(request.url ?? "", "http://localhost")
    const day = searchParams.get("settlementDate")
    if (day !== null) list = change(list, day)
    const from = Number(searchParams.get("cursor") ?? 0)
    const selected = day === null ? list : select(list, day)
    // The list has two pages.
    const items = selected.slice(from, from + 50)
    const cursor = from + 50 < selected.length ? String(from + 50) : null
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ items, cursor, count: 0 }))
  })
  const port = yield* Effect.acquireRelease(
    Effect.callback<number>((resume) =>
      void server.listen(0, "127.0.0.1", () => {
        resume(Effect.succeed((server.address() as AddressInfo).port)) // it listens at a port
      })
    ),
    () => Effect.sync(() => server.close())
  )
  const config = yield* Sandbox.config(`http://127.0.0.1:${port}`)
  const ask = makeAsk({
    client: yield* HttpClient.HttpClient,
    config,
    list: Lists.invoices,
    paces: yield* makePaces(config),
    pause: Duration.zero,
    take: Effect.void
  })
  const fact = wholeFacts(Lists.invoices).find(({ name }) => name === "parts-settlementDate")
  if (fact === undefined) return assert.fail("no such fact")
  const found = yield* Effect.match(fact.observe(ask), {
    onFailure: ({ reason }) => ({ answer: reason, seen: "" }),
    onSuccess: (observed) => observed
  })
  return { ...found, requests }
}, Effect.provide(layerHttpClient))

/** Moves the first record of the day to the next one. */
const moving: Change = (list, day) => {
  const first = list.findIndex(({ settlementDate }) => settlementDate === day)
  const next = days[(days.indexOf(day) + 1) % 3] ?? ""
  return list.map((invoice, index) => index === first ? { ...invoice, settlementDate: next } : invoice)
}

const vanishing: Change = (list, day) => {
  const first = list.findIndex(({ settlementDate }) => settlementDate === day)
  return list.filter((_, index) => index !== first)
}

const appearing: Change = (list, day) => [{ id: `new-${list.length}`, settlementDate: day }, ...list]

const lacking: Select = (list, day) => ofDay(list, day).filter(({ id }) => id !== "inv-30")

const withNext: Select = (list, day) => [...ofDay(list, day), ...ofDay(list, days[days.indexOf(day) + 1] ?? "")]

/** Answers with everything if no record has the day. */
const orEverything: Select = (list, day) => ofDay(list, day).length === 0 ? list : ofDay(list, day)

describe("the parts of a list", () => {
  it.live("are complete and disjoint, with few requests, and records without a date are in none", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* observe(ofDay), {
        answer: "complete and disjoint",
        seen: "3 dates with 60 records; 5 records without a settlementDate, in no part",
        requests: 5
      })
    }).pipe(Effect.scoped))

  it.live.each<readonly [title: string, Select, Change | undefined, answer: string]>([
    ["a record is in none", lacking, undefined, "records are missing"],
    ["a record is in none, and others change", lacking, moving, "records are missing"],
    ["records are in two", withNext, undefined, "records of other dates"],
    ["records are in two, and others change", withNext, appearing, "records of other dates"],
    ["both", (list, day) => withNext(lacking(list, day), day), undefined, "records are missing"],
    ["records get another date", ofDay, moving, "complete and disjoint"],
    ["records vanish", ofDay, vanishing, "complete and disjoint"],
    ["records appear", ofDay, appearing, "complete and disjoint"],
    [
      "all records of a day vanish, and the service ignores the day",
      orEverything,
      (list, day) => day === days[0] ? list.filter(({ settlementDate }) => settlementDate !== day) : list,
      // With those of the other days.
      "complete and disjoint"
    ],
    [
      "nearly all records are others afterwards",
      ofDay,
      (
        list,
        day
      ) => [...list.filter(({ settlementDate }) => settlementDate !== day), { id: randomUUID(), settlementDate: day }],
      "the list changed in between, or no answer fits"
    ]
  ])("if %s", ([, select, change, answer]) =>
    Effect.gen(function*() {
      const found = yield* observe(select, change)
      assert.strictEqual(found.answer, answer)
    }).pipe(Effect.scoped))
})
