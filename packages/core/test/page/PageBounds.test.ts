/** The limits of one page, and of the time to process it. */
import { assert, describe, it } from "@effect/vitest"
import { page } from "@payments/testkit/PageBody"
import { scriptedServer } from "@payments/testkit/ScriptedServer"
import { Clock, Effect, Layer, Redacted, Result, Schema, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import { BodyBytes } from "../../src/config/BodyBytes.ts"
import { Lists, PaymentsApi, PaymentsConfig, type PaymentsError } from "../../src/index.ts"
import { layerHttpClient } from "../../src/node.ts"
import { hasMoreValues, mostRecords, mostValues } from "../../src/page/PageBounds.ts"
import { openEnvelope } from "../../src/page/PageDecoder.ts"
import { apiOver } from "../http/Clients.ts"

/** A client that answers every request with this body. */
const answering = (body: string, status = 200) =>
  Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request) =>
      Effect.succeed(HttpClientResponse.fromWeb(
        request,
        new Response(body, { status, headers: { "content-type": "application/json" } })
      ))
    )
  )

const pageOf = (items: ReadonlyArray<string>) => `{"items":[${items.join(",")}],"cursor":null}`

const numbered = (count: number) => pageOf(Array.from({ length: count }, (_, index) => `{"id":"${index}"}`))

/** Reads a page with this body, and quarantines bad records. Returns the page or the error. */
const readPage = (body: string, status?: number) =>
  PaymentsApi.use(({ invoices }) => Effect.result(invoices.page({ onBadRecord: "quarantine" }))).pipe(
    Effect.provide(apiOver(answering(body, status)))
  )

/** A clock that advances one second with each reading. */
const movingClock = () => {
  let seconds = 0
  const millis = () => ++seconds * 1000
  const nanos = () => BigInt(millis()) * 1_000_000n
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: () => Effect.never
  }
  return clock
}

describe("a page", () => {
  it.live("with more than 1,000 records is malformed, before any record is checked", () =>
    Effect.gen(function*() {
      const most = yield* readPage(numbered(mostRecords))
      assert.isTrue(Result.isSuccess(most) && most.success.items.length === mostRecords)
      for (const body of [numbered(mostRecords + 1), pageOf(Array.from({ length: mostRecords + 1 }, () => "{}"))]) {
        const more = yield* readPage(body)
        assert.isTrue(Result.isFailure(more))
        if (Result.isFailure(more)) {
          assert.deepInclude(more.failure.reason, { _tag: "MalformedResponse", kind: "wrongShape", path: "items" })
          assert.strictEqual(more.failure.attempts, 1)
          assert.include(more.failure.message, "at most 1,000 records")
        }
      }
    }))

  it.live("with more than 500,000 values anywhere is malformed, over any client", () =>
    Effect.gen(function*() {
      const values = Array.from({ length: mostValues }, () => "1").join(",")
      const bodies = [
        `{"items":[${values}],"cursor":null}`,
        pageOf([`{"id":"a","x":[${values}]}`]),
        pageOf([`{"id":"a","x":{${values.replaceAll("1", `"":0`)}}}`]),
        pageOf([`{"id":"a","x":${"[".repeat(mostValues)}${"]".repeat(mostValues)}}`]),
        `[${values}]`
      ]
      for (const body of bodies) {
        const server = yield* scriptedServer((_, response) => response.writeHead(200).end(body))
        const config = Layer.effect(
          PaymentsConfig,
          PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: Redacted.make("key") })
        )
        for (const client of [layerHttpClient, FetchHttpClient.layer]) {
          const error: PaymentsError = yield* PaymentsApi.use((api) => Effect.flip(api.invoices.page())).pipe(
            Effect.provide(PaymentsApi.layer.pipe(Layer.provide([client, config])))
          )
          assert.deepInclude(error.reason, { _tag: "MalformedResponse", kind: "wrongShape", path: "(root)" })
          assert.include(error.message, "at most 500,000 values")
        }
      }
    }).pipe(Effect.scoped))

  it.live("with exactly 500,000 values is read", () =>
    Effect.gen(function*() {
      // Six more values: the page, its items, its cursor, the record, its id and the array.
      const read = yield* readPage(
        pageOf([`{"id":"a","x":[${Array.from({ length: mostValues - 6 }, () => "1").join(",")}]}`])
      )
      assert.isTrue(Result.isSuccess(read) && read.success.items.length === 1)
    }))

  it.prop("has as many values as counting the parsed value finds", [Schema.Json], ([value]) => {
    const count = (one: unknown): number =>
      typeof one !== "object" || one === null
        ? 1
        : Object.values(one).reduce<number>((sum, each) => sum + count(each), 1)
    const values = count(value)
    for (const text of [JSON.stringify(value), JSON.stringify(value, null, "\t ")]) {
      assert.isFalse(hasMoreValues(text, values))
      assert.isTrue(values === 1 || hasMoreValues(text, values - 1))
    }
  })

  it.live("is not searched for an error code if it is large", () =>
    Effect.gen(function*() {
      const codes = ["", "x".repeat(100_000)].map((more) => `{"code":"BAD_FILTER","more":"${more}"}`)
      const [small, large] = yield* Effect.forEach(codes, (body) => readPage(body, 400))
      assert.isTrue(small !== undefined && Result.isFailure(small) && small.failure.body?.code === "BAD_FILTER")
      assert.isTrue(large !== undefined && Result.isFailure(large) && large.failure.body?.code === undefined)
    }))
})

describe("the deadline of an attempt", () => {
  it.live.each([[10, "Success"], [900, "Failure"]] as const)(
    "covers checking the records: %s of them",
    ([count, outcome]) =>
      Effect.gen(function*() {
        const result = yield* readPage(numbered(count)).pipe(Effect.provideService(Clock.Clock, movingClock()))
        assert.strictEqual(result._tag, outcome)
        if (Result.isFailure(result)) assert.deepInclude(result.failure.reason, { _tag: "Timeout", phase: "attempt" })
      })
  )

  it("covers reading the envelope", () => {
    const opened = openEnvelope({ status: 200, headers: {}, text: numbered(1) }, Lists.documentedPage, {
      isOver: () => true,
      remainingMs: () => 0
    })
    assert.isTrue(Result.isFailure(opened) && opened.failure._tag === "Timeout" && opened.failure.phase === "attempt")
  })
})

describe("the bytes of a body", () => {
  it("are copied out of any number of small chunks", () => {
    for (const announced of [0, 300_000, 2 ** 40]) {
      const body = new BodyBytes(1024 * 1024)
      const chunk = new Uint8Array(3)
      for (let index = 0; index < 100_000; index++) {
        // The chunk is reused, so a chunk that was not copied would change.
        if (index > 0) body.add(chunk.fill(index % 251), announced)
        else body.add(new Uint8Array(3))
      }
      assert.strictEqual(body.size, 300_000)
      const bytes = body.finish()
      assert.isTrue(bytes.length === 300_000 && bytes.every((byte, at) => byte === Math.floor(at / 3) % 251))
      assert.strictEqual(body.size, 0)
    }
  })

  it("take no memory for announced bytes that did not arrive", () => {
    const body = new BodyBytes(1024)
    body.add(new Uint8Array(10), 2 ** 50)
    body.add(new Uint8Array(10), 2 ** 50)
    assert.isAtMost(body.finish().buffer.byteLength, 64 * 1024)
  })

  it("are the only chunk itself, or empty without a chunk", () => {
    const body = new BodyBytes(1024)
    assert.strictEqual(body.finish().length, 0)
    const chunk = new Uint8Array(100)
    body.add(new Uint8Array(0))
    body.add(chunk)
    assert.strictEqual(body.finish(), chunk)
  })
})

describe("large pages", () => {
  it.live("are not prefetched", () =>
    Effect.gen(function*() {
      for (const [filler, requestsBefore] of [["x", [2, 3]], ["x".repeat(5 * 1024 * 1024), [1, 2]]] as const) {
        let requests = 0
        const client = HttpClient.make((request) =>
          Effect.sync(() =>
            HttpClientResponse.fromWeb(
              request,
              new Response(page([{ id: String(requests), x: filler }], String(++requests)))
            )
          )
        )
        const seen: Array<number> = []
        yield* PaymentsApi.use(({ invoices }) =>
          invoices.pages({ limit: 1 }).pipe(
            Stream.take(2),
            Stream.runForEach(() =>
              // Wait for the request that is expected, and then for one that is not.
              Effect.repeat(Effect.sleep("5 millis"), { until: () => requests >= (requestsBefore[seen.length] ?? 0) })
                .pipe(Effect.andThen(Effect.sleep("50 millis")), Effect.map(() => void seen.push(requests)))
            )
          )
        ).pipe(Effect.provide(apiOver(Layer.succeed(HttpClient.HttpClient, client))))
        assert.deepStrictEqual(seen, [...requestsBefore])
      }
    }))
})
