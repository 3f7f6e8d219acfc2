import { assert, describe, it } from "@effect/vitest"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect } from "effect"
import { outputs } from "../../src/contract/WorkerOutputs.ts"
import { initialState, listFrom } from "../../src/state/Status.ts"
import { isUpToDate, keptBy, type Readiness, startWorker } from "../loop/RunningWorker.ts"
import { makeSource } from "../loop/TestSources.ts"

const records = Array.from({ length: 20 }, (_, index) => `{"id":"r${index}"}`)

/** A worker that is up to date. Its service has 20 records in pages of 10; `behave` changes how the service responds. */
const upToDateWorker = Effect.gen(function*() {
  let behaviour: "whole" | "503 after the first page" | "403" | "half" = "whole"
  const service = yield* scriptedServer((request, response) => {
    const isFirst = !request.url?.includes("cursor=")
    if (behaviour === "403") response.writeHead(403).end()
    else if (behaviour === "503 after the first page" && !isFirst) response.writeHead(503).end()
    else if (behaviour === "half") pageOf(response, records.slice(0, 10), null)
    else if (isFirst) pageOf(response, records.slice(0, 10), "next")
    else pageOf(response, records.slice(10), null)
  })
  const running = yield* startWorker(["--every", "1s", "--to", `sqlite:${yield* temporaryFolder}/p.db`], {
    PAYMENTS_BASE_URL: service.url,
    PAYMENTS_API_KEY: "k"
  })
  yield* running.untilUpToDate
  const until = (matches: (readiness: Readiness) => boolean) =>
    running.until(running.readiness, ({ body, status }) => {
      assert.deepStrictEqual([status, body.ready], [200, true], "the destination can be used")
      return matches(body)
    })
  const freshness = Effect.promise(async () => {
    const response = await fetchOnce(`http://127.0.0.1:${running.port}/health/fresh`)
    const body = keptBy(await response.json(), outputs.fresh) as {
      readonly fresh: boolean
      readonly heldBack: ReadonlyArray<{ readonly list: string; readonly rows: number; readonly why: string }>
    } // documented
    return { status: response.status, body }
  })
  const untilFreshness = (matches: (answer: Effect.Success<typeof freshness>) => boolean) =>
    running.until(freshness, matches)
  return { log: running.log, until, untilFreshness, behave: (as: typeof behaviour) => void (behaviour = as) }
})

const listsOf = (body: Readiness) => body.sources[0]?.lists ?? []
const invoicesOf = (body: Readiness) =>
  listsOf(body).find(({ list }) => list === "invoices") ?? assert.fail("invoices are a list of the source")

describe("the state that a worker reports", () => {
  it.live("has the reason while scans wait for a service that responds with 503", () =>
    Effect.gen(function*() {
      const { behave, log, until } = yield* upToDateWorker
      behave("503 after the first page")
      const { body } = yield* until((now) => invoicesOf(now).progress?.waiting?.reason === "ServerFailure")
      const { completeScan, failure, progress } = invoicesOf(body)
      assert.include(progress?.waiting?.message, "503")
      assert.deepStrictEqual([progress?.kind, progress?.records, failure], ["full", 10, null])
      assert.isNotNull(completeScan)
      const [waits] = log("scan waits")
      assert.containsAllKeys(waits?.annotations, ["source", "list", "scan", "reason", "error", "waitMs"])
      behave("whole")
      yield* until(isUpToDate)
    }).pipe(Effect.scoped))

  it.live("says that rows are held back, because the destination is then not up to date", () =>
    Effect.gen(function*() {
      const { behave, until, untilFreshness } = yield* upToDateWorker
      behave("half")
      const { body } = yield* until((now) => listsOf(now).every(({ failure }) => failure !== null))
      assert.deepInclude(invoicesOf(body).failure, {
        reason: "HeldBack",
        message: "10 rows would be missing at once, so none was marked missing."
      })
      // `/health/fresh` names them, and stays 200: the next scan may return them.
      // It does so once it has read the destination after the scans.
      const { body: fresh, status } = yield* untilFreshness(({ body: now }) => now.heldBack.length === 3)
      assert.deepStrictEqual([status, fresh.fresh], [200, true])
      assert.deepInclude(fresh.heldBack[2], { list: "invoices", rows: 10 })
      assert.include(fresh.heldBack[2]?.why, "the last full scan returned 10 of 20 rows")
      behave("whole")
      yield* until(isUpToDate)
    }).pipe(Effect.scoped))

  it.live("has the start of a failure, and the last complete scan", () =>
    Effect.gen(function*() {
      const { behave, until } = yield* upToDateWorker
      behave("403")
      const { body: first } = yield* until((now) =>
        listsOf(now).every(({ failure, progress }) => failure?.reason === "Forbidden" && progress === null)
      )
      const { completeScan, failure } = invoicesOf(first)
      assert.isAtLeast(Date.parse(failure?.since ?? ""), Date.parse(completeScan?.endedAt ?? ""))
      // The next scans fail the same way.
      yield* Effect.sleep("1500 millis")
      const { body: later } = yield* until((now) => invoicesOf(now).progress === null)
      assert.deepStrictEqual(
        [invoicesOf(later).failure?.since, invoicesOf(later).completeScan],
        [failure?.since, completeScan]
      )
      assert.isAbove(invoicesOf(later).ageSeconds ?? 0, 1)
    }).pipe(Effect.scoped))
})

describe("a worker that lost a list to another one", () => {
  const [list] = initialState(makeSource("a", "http://127.0.0.1:1", "a.db"), "").lists
  const problem = { reason: "LeaseLost", message: "lost", since: "2026-01-01T00:00:10.000Z" }
  const failed = {
    ...list ?? assert.fail("it has lists"),
    failure: { ...problem, kind: "full" as const },
    stall: problem
  }
  const scanned = (endedAt: string) => ({
    list: failed.list,
    rows: 1,
    missing: 0,
    quarantined: 0,
    completeScan: { scan: 1, startedAt: "2026-01-01T00:00:00.000Z", endedAt, certificate: undefined },
    running: undefined,
    holder: "another",
    headProblem: undefined,
    generation: undefined,
    lastChange: 0,
    consumers: []
  })

  it("reports its own failure only until the other one has scanned the list", () => {
    const problems = (endedAt: string, holdsLock: boolean) => {
      const { failure, stall } = listFrom(scanned(endedAt), { ...failed, holdsLock })
      return [failure?.reason, stall?.reason]
    }
    assert.deepStrictEqual(problems("2026-01-01T00:00:09.000Z", false), ["LeaseLost", "LeaseLost"])
    assert.deepStrictEqual(problems("2026-01-01T00:00:11.000Z", false), [undefined, undefined])
    assert.deepStrictEqual(problems("2026-01-01T00:00:11.000Z", true), ["LeaseLost", "LeaseLost"])
  })
})
