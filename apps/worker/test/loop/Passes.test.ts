/** A worker that runs passes between full scans. */
import { assert, describe, it } from "@effect/vitest"
import { rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Duration, Effect, Layer } from "effect"
import { join } from "node:path"
import { everyList, makeSource, sourceIn, startSources, testStatus } from "./TestSources.ts"

const every = (interval: Duration.Input) => ({ _tag: "Every", every: Duration.fromInputUnsafe(interval) }) as const

/** A record that was created so many minutes after the first one. */
const record = (minute: number) => ({ id: `r${minute}`, createdAt: new Date(minute * 60_000).toISOString() })

describe("a worker without the setting of the order", () => {
  it.live(
    "begins head passes once full scans have shown that the newest come first, and ends them when they do not",
    () =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "p.db")
        const list = Array.from({ length: 40 }, (_, index) => record(39 - index))
        const prepend = (count: number) => {
          for (let added = 0; added < count; added++) list.unshift(record(list.length))
        }
        const service = yield* scriptedServer((request, response) => {
          const from = Number(new URL(request.url ?? "", "http://localhost").searchParams.get("cursor") ?? 0)
          const texts = list.slice(from, from + 10).map((one) => JSON.stringify(one))
          pageOf(response, texts, from + 10 < list.length ? String(from + 10) : null)
        })
        const source = makeSource("one", service.url, file, {
          lists: ["invoices"],
          full: every("1 second"),
          head: { pages: 1, schedule: every("1 second") }
        })
        const factOf = (fact: string) => {
          const [row] = rowsOf(file, `SELECT evidence FROM facts WHERE fact = '${fact}' AND list = 'invoices'`)
          const evidence: unknown = JSON.parse(String(row?.["evidence"] ?? "{}"))
          return evidence as { readonly accepted?: string; readonly observations?: ReadonlyArray<unknown> }
        }
        const headPasses = () => Number(rowsOf(file, "SELECT count(*) AS n FROM scans WHERE kind = 'head'")[0]?.["n"])
        yield* Effect.scoped(Effect.gen(function*() {
          const { until } = yield* startSources([source])
          yield* until((now) => everyList(sourceIn(now, "one"), ({ completeScan }) => completeScan !== null))
          prepend(4)
          yield* until(() => (factOf("places").observations?.length ?? 0) === 1)
          assert.strictEqual(headPasses(), 0, "nothing that was observed once is used")
          prepend(4)
          yield* until(() => factOf("places").accepted === "first")
        }))
        yield* Effect.scoped(Effect.gen(function*() {
          const { until } = yield* startSources([{ ...source, full: every("30 seconds") }])
          yield* until((now) => everyList(sourceIn(now, "one"), ({ next }) => next.head !== null))
          prepend(1)
          yield* until(() => headPasses() > 0)
        }))
        const { until } = yield* startSources([{ ...source, full: every("3 seconds") }])
        yield* until((now) => everyList(sourceIn(now, "one"), ({ next }) => next.head !== null))
        list.splice(25, 0, { id: "behind", createdAt: record(25).createdAt })
        const stopped = yield* until((now) => everyList(sourceIn(now, "one"), ({ drift }) => drift.length > 0))
        assert.match(
          sourceIn(stopped, "one")?.lists[0]?.drift[0] ?? "",
          /^changed: place of new records: in several places \(before: first\)/
        )
        // A pass may have begun before that, and read now.
        yield* until((now) =>
          everyList(sourceIn(now, "one"), ({ headProblem, next }) => headProblem !== null && next.head !== null)
        )
        const before = headPasses()
        prepend(1)
        yield* until(() => rowsOf(file, "SELECT id FROM invoices").length === list.length)
        assert.strictEqual(headPasses(), before, "no head pass ran")
      }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus)))
  )
})

describe("a worker with passes", () => {
  it.live("finds new records by head passes, reads the last days, and stops head passes if the order is wrong", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      const ids = Array.from({ length: 20 }, (_, index) => `r${20 - index}`)
      const days = new Set<string>()
      const service = yield* scriptedServer((request, response) => {
        const query = new URL(request.url ?? "", "http://localhost").searchParams
        const day = query.get("settlementDate")
        if (day !== null) days.add(day)
        const records = day === null ? ids.map((id) => `{"id":"${id}"}`) : []
        const isFirst = !query.has("cursor")
        pageOf(response, isFirst ? records.slice(0, 10) : records.slice(10), isFirst && day === null ? "next" : null)
      })
      const source = makeSource("one", service.url, file, {
        lists: ["invoices"],
        order: "newest-first",
        // No second full scan begins while a head pass has to find the new record.
        full: every("1 hour"),
        head: { pages: 1, schedule: every("1 second") },
        window: { days: 3, schedule: every("1 second") }
      })
      const has = (id: string) => rowsOf(file, "SELECT id FROM invoices").some((row) => row["id"] === id)
      const scansOf = (kind: string) =>
        Number(rowsOf(file, `SELECT count(*) AS n FROM scans WHERE kind = '${kind}'`)[0]?.["n"])
      yield* Effect.scoped(Effect.gen(function*() {
        const { until } = yield* startSources([source])
        yield* until((now) => everyList(sourceIn(now, "one"), ({ completeScan }) => completeScan !== null))
        ids.unshift("new")
        yield* until(() => has("new"))
        assert.strictEqual(scansOf("full"), 1, "the head pass found it")
        yield* until(() => days.size >= 3)
      }))
      const { until } = yield* startSources([{ ...source, full: every("3 seconds") }])
      // A worker knows where the last head pass stopped only after the end of one of its own.
      yield* until((now) => everyList(sourceIn(now, "one"), ({ next }) => next.head !== null))
      // A record behind the first page, where no head pass reads.
      ids.splice(15, 0, "behind")
      const stopped = yield* until((now) => everyList(sourceIn(now, "one"), ({ headProblem }) => headProblem !== null))
      assert.isTrue(has("behind"))
      assert.include(
        sourceIn(stopped, "one")?.lists[0]?.headProblem,
        "the service does not return the newest records first"
      )
      yield* until((now) => everyList(sourceIn(now, "one"), ({ next }) => next.head !== null))
      const before = scansOf("head")
      ids.unshift("newer")
      yield* until(() => has("newer"))
      assert.strictEqual(scansOf("head"), before, "no head pass ran")
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})
