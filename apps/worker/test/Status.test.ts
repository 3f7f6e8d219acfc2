import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { pageOf, scriptedServer } from "../../../packages/core/test/ScriptedServer.ts"
import { temporaryFolder } from "../../cli/test/Program.ts"
import { type Readiness, startWorker } from "./RunningWorker.ts"

const records = Array.from({ length: 20 }, (_, index) => `{"id":"r${index}"}`)

/** A ready worker. Its service has 20 records in pages of 10; `behave` changes how the service responds. */
const readyWorker = Effect.gen(function*() {
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
  yield* running.untilOk("/health/ready")
  const until = (matches: (readiness: Readiness) => boolean) =>
    running.until(running.readiness, ({ body, status }) => {
      assert.strictEqual(status, body.ready ? 200 : 503)
      return matches(body)
    })
  return { until, behave: (as: typeof behaviour) => void (behaviour = as) }
})

const all = (body: Readiness) => Object.values(body.lists)

describe("/health/ready of a worker", () => {
  it.live("reports not ready and the reason while scans wait for a service that responds with 503", () =>
    Effect.gen(function*() {
      const { behave, until } = yield* readyWorker
      behave("503 after the first page")
      const { body } = yield* until(({ lists }) => lists["invoices"]?.waiting?.reason === "ServerFailure")
      assert.isFalse(body.ready)
      assert.include(body.lists["invoices"]?.waiting?.message, "503")
      assert.deepInclude(body.lists["invoices"], { scanned: 10, failure: null })
      assert.deepInclude(body.lists["invoices"]?.complete, { records: 20 })
      behave("whole")
      yield* until(({ ready }) => ready)
    }).pipe(Effect.scoped))

  it.live("reports not ready while rows are held back, because the destination is then not up to date", () =>
    Effect.gen(function*() {
      const { behave, until } = yield* readyWorker
      behave("half")
      const { body } = yield* until((now) => all(now).every(({ complete }) => complete?.heldBack === 10))
      assert.isFalse(body.ready)
      assert.deepInclude(body.lists["invoices"], { failure: null, waiting: null })
      behave("whole")
      yield* until(({ ready }) => ready)
    }).pipe(Effect.scoped))

  it.live("reports the start of a failure and the counts of the last complete scan", () =>
    Effect.gen(function*() {
      const { behave, until } = yield* readyWorker
      behave("403")
      const { body: first } = yield* until((now) =>
        all(now).every(({ failure, scanned }) => failure?.reason === "Forbidden" && scanned === null)
      )
      const { at, ...counts } = first.lists["invoices"]?.complete ?? assert.fail("the list was complete before")
      assert.deepStrictEqual(counts, { records: 20, quarantined: 0, heldBack: 0 })
      const failure = first.lists["invoices"]?.failure ?? assert.fail("the list has failed")
      assert.isAtLeast(Date.parse(failure.since), Date.parse(at))
      // The next rounds fail the same way.
      yield* Effect.sleep("1500 millis")
      const { body: later } = yield* until(() => true)
      assert.deepStrictEqual(
        [later.lists["invoices"]?.failure?.since, later.lists["invoices"]?.complete?.at],
        [failure.since, at]
      )
    }).pipe(Effect.scoped))
})
