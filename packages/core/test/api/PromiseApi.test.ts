/** The promise API, over sockets. */
import { assert, describe, it } from "@effect/vitest"
import { suite } from "@payments/testkit/PaymentsApiTest"
import { pageOf, type Script, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect, Layer, Redacted, Stream } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import type { ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Sandbox, sandboxKey } from "../../../sandbox/src/index.ts"
import { type ListOperations, Lists, PaymentsApi, type PaymentsError } from "../../src/index.ts"
import { connectFromEnvironment, layerHttpClient } from "../../src/node.ts"
import { connect, connectWith, type Payments, PaymentsConfigError, PaymentsError as Thrown } from "../../src/promise.ts"
import { layerTest } from "../../src/testing.ts"

const apiKey = Redacted.value(sandboxKey)

/** Wraps the promise API as `PaymentsApi`, so that the suite of `PaymentsApi` can test it. */
const asService = <R>(client: Effect.Effect<Payments, never, R>): Layer.Layer<PaymentsApi, never, R> =>
  Layer.effect(
    PaymentsApi,
    Effect.gen(function*() {
      const payments = yield* Effect.acquireRelease(client, ({ close }) => Effect.promise(close))
      // Any other error would fail the suite, which expects a PaymentsError.
      const caught = (error: unknown) => error as PaymentsError
      const operations = Lists.map(({ name }) => {
        // The operations of all lists take queries of the same shape here.
        const list = payments[name] as Payments["invoices"]
        return {
          page: (query?: object) => Effect.tryPromise({ try: () => list.page(query), catch: caught }),
          pages: (query?: object) => Stream.fromAsyncIterable(list.pages(query), caught),
          stream: (query?: object) => Stream.fromAsyncIterable(list.stream(query), caught),
          parameters: list.parameters
        }
      })
      // `asService` restores the types that `connect` started from.
      return { ...operations, source: payments.source, isSecret: payments.isSecret } as unknown as ListOperations
    })
  )

suite(
  "the promise API in memory",
  (lists) => asService(Effect.promise(() => connectWith(layerTest(lists))))
)

suite(
  "the promise API over fetch and a socket",
  ({ faults, reservedCursors, ...lists }) =>
    asService(Effect.flatMap(Sandbox, ({ url }) => Effect.promise(() => connect({ baseUrl: url, apiKey }))))
      .pipe(
        Layer.provide(Sandbox.layer({ lists, faults, reservedCursors }))
      )
)

/** Runs promise code against a server with this script, over both clients. */
const over = (script: Script, use: (server: Server, payments: Payments) => Promise<void>) =>
  Effect.gen(function*() {
    const server = yield* scriptedServer((request, response, count) => {
      watched.set(response, new Promise((resolve) => response.once("close", () => resolve(response.writableFinished))))
      answered.push(response)
      script(request, response, count)
    })
    const watched = new Map<ServerResponse, Promise<boolean>>()
    const answered: Array<ServerResponse> = []
    for (const httpClient of [undefined, layerHttpClient]) {
      server.requests.length = 0
      answered.length = 0
      const rejected: Array<unknown> = []
      const onRejection = (reason: unknown) => rejected.push(reason)
      process.on("unhandledRejection", onRejection)
      yield* Effect.promise(async () => {
        await using payments = await connect({ baseUrl: server.url, apiKey: "k", httpClient })
        await use({ requests: server.requests, sentWhole: (index) => watched.get(at(answered, index)) }, payments)
      })
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      process.off("unhandledRejection", onRejection)
      assert.deepStrictEqual(rejected, [])
    }
  }).pipe(Effect.scoped)

interface Server {
  readonly requests: ReadonlyArray<string>
  /** Resolves when the answer ends, to whether all of it was sent. */
  readonly sentWhole: (index: number) => Promise<boolean> | undefined
}

const at = <A>(values: ReadonlyArray<A>, index: number): A => {
  const value = values[index]
  if (value === undefined) throw new Error(`there is no element ${index}`)
  return value
}

const collect = async <A>(values: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const all: Array<A> = []
  for await (const value of values) all.push(value)
  return all
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

const until = async (condition: () => boolean): Promise<void> => {
  if (condition()) return
  await pause(1)
  return until(condition)
}

const thrown = async (use: () => Promise<unknown>): Promise<unknown> => {
  try {
    await use()
  } catch (error) {
    return error
  }
  return assert.fail("nothing was thrown")
}

/** Answers the first request with a page, and the second one never. */
const secondHangs: Script = (_, response, count) => {
  if (count % 2 === 1) pageOf(response, [`{"id":"a"}`, `{"id":"b"}`], `c${count}`)
}

const endless: Script = (_, response, count) => void pageOf(response, [`{"id":"${count}"}`], `c${count}`)

describe("a loop over a list", () => {
  it.live("cancels the running request at once when it is left", () =>
    over(secondHangs, async ({ requests, sentWhole }, payments) => {
      const ids: Array<string> = []
      for await (const { id } of payments.invoices.stream()) {
        ids.push(id)
        // The next page is requested as soon as its cursor is known.
        await until(() => requests.length === 2)
        break
      }
      assert.deepStrictEqual(ids, ["a"])
      assert.strictEqual(await sentWhole(1), false)
    }))

  it.live("cancels the running request when its body throws, and passes the error on", () =>
    over(secondHangs, async ({ requests, sentWhole }, payments) => {
      const mine = new Error("mine")
      const error = await thrown(async () => {
        for await (const page of payments.invoices.pages()) {
          assert.strictEqual(page.items.length, 2)
          await until(() => requests.length === 2)
          throw mine
        }
      })
      assert.strictEqual(error, mine)
      assert.strictEqual(await sentWhole(1), false)
    }))

  it.live("throws the signal's reason when it is aborted, and cancels the running request", () =>
    over(secondHangs, async ({ requests, sentWhole }, payments) => {
      const controller = new AbortController()
      const reason = new Error("enough")
      void until(() => requests.length === 2).then(() => controller.abort(reason))
      const ids: Array<string> = []
      const error = await thrown(async () => {
        for await (const { id } of payments.invoices.stream({ signal: controller.signal })) ids.push(id)
      })
      assert.strictEqual(error, reason)
      assert.deepStrictEqual(ids, ["a", "b"])
      assert.strictEqual(await sentWhole(1), false)
      assert.strictEqual(await thrown(() => payments.invoices.page({ signal: controller.signal })), reason)
      assert.strictEqual(requests.length, 2)
    }))

  it.live("requests no more than one page ahead when it is slow", () =>
    over(endless, async ({ requests }, payments) => {
      let seen = 0
      for await (const page of payments.payoutRequests.pages()) {
        assert.strictEqual(page.items.length, 1)
        await pause(20)
        seen++
        assert.isAtMost(requests.length, seen + 1)
        if (seen === 5) break
      }
      for await (const page of payments.payoutRequests.pages({ prefetch: 0 })) {
        assert.strictEqual(page.items.length, 1)
        const before = requests.length
        await pause(20)
        assert.strictEqual(requests.length, before)
        break
      }
    }))

  it.live("answers calls of next() in order, even if they are not awaited", () =>
    over(
      (_, response, count) => void pageOf(response, [`{"id":"${count}"}`], count % 3 === 0 ? null : `c${count}`),
      async (
        _,
        payments
      ) => {
        const iterator = payments.payinSources.stream({ prefetch: 0 })[Symbol.asyncIterator]()
        const results = await Promise.all(Array.from({ length: 5 }, () => iterator.next()))
        assert.deepStrictEqual(results.map(({ done, value }) => done === true ? "end" : Number(value?.id) % 3), [
          1,
          2,
          0,
          "end",
          "end"
        ])
      }
    ))

  it.live("starts a new listing with each iteration, and requests nothing before", () =>
    over((_, response) => void pageOf(response, [`{"id":"a"}`], null), async ({ requests }, payments) => {
      const invoices = payments.invoices.stream({ contract: undefined })
      assert.strictEqual(requests.length, 0)
      assert.deepStrictEqual((await collect(invoices)).map(({ id }) => id), ["a"])
      assert.deepStrictEqual((await collect(invoices)).map(({ id }) => id), ["a"])
      assert.strictEqual(requests.length, 2)
    }))
})

describe("an error of the promise API", () => {
  it.live("is the PaymentsError itself, with its reason and the position to continue from", () =>
    over((_, response, count) => {
      if (count % 2 === 1) pageOf(response, [`{"id":"a"}`], "c1")
      else response.writeHead(401, { "content-type": "application/json" }).end("{}")
    }, async (_, payments) => {
      const ids: Array<string> = []
      const error = await thrown(async () => {
        for await (const { id } of payments.invoices.stream()) ids.push(id)
      })
      assert.instanceOf(error, Thrown)
      assert.instanceOf(error, Error)
      if (!(error instanceof Thrown)) return
      assert.deepStrictEqual([ids, error.reason._tag, error.status], [["a"], "Unauthorized", 401])
      assert.match(error.message, /^invoices: not authorized/)
      assert.isDefined(error.position)
    }))

  it.live("has the wait that the service requests in milliseconds", () =>
    over((_, response, count) => {
      response.writeHead(count === 1 ? 429 : 503, { "retry-after": "90" }).end()
    }, async (_, payments) => {
      const waits: Array<unknown> = []
      for (let request = 0; request < 2; request++) {
        // oxlint-disable-next-line no-await-in-loop -- the answers differ in this order
        const error = await thrown(() => payments.invoices.page())
        if (!(error instanceof Thrown)) return assert.fail(String(error))
        const { reason } = error
        waits.push(
          reason._tag,
          reason._tag === "RateLimited" || reason._tag === "ServerFailure" ? reason.retryAfterMs : 0
        )
      }
      assert.deepStrictEqual(waits, ["RateLimited", 90_000, "ServerFailure", 90_000])
    }))

  it("lists all wrong settings by the names of the options", async () => {
    const error = await thrown(() =>
      connect({ baseUrl: "ftp://a.example", apiKey: "", invoiceParameters: { limit: "cursor" } })
    )
    assert.instanceOf(error, PaymentsConfigError)
    assert.deepStrictEqual(
      error instanceof PaymentsConfigError ? error.problems.map(({ setting }) => setting) : [],
      ["baseUrl", "apiKey", "invoiceParameters"]
    )
  })

  it("reports an unknown filter before any request", async () => {
    await using payments = await connectWith(layerTest({}))
    // Plain JavaScript can write this; the types refuse it.
    const query: object = { colour: "red" }
    const error = await thrown(() => payments.invoices.page(query))
    assert.strictEqual(error instanceof Thrown ? error.reason._tag : undefined, "InvalidRequest")
  })
})

describe("a client that is closed", () => {
  it.live("ends running calls and refuses new ones", () =>
    over(secondHangs, async ({ requests, sentWhole }, payments) => {
      const iterator = payments.invoices.stream()[Symbol.asyncIterator]()
      await iterator.next()
      await iterator.next()
      const waiting = thrown(() => iterator.next())
      await until(() => requests.length === 2)
      const idle = payments.payinSources.pages()[Symbol.asyncIterator]()
      await Promise.all([payments.close(), payments.close()])
      assert.strictEqual((await waiting as Error).name, "AbortError")
      assert.strictEqual(await sentWhole(1), false)
      assert.strictEqual((await thrown(() => idle.next()) as Error).name, "AbortError")
      assert.strictEqual((await thrown(() => payments.invoices.page()) as Error).name, "AbortError")
      assert.strictEqual(requests.length, 2)
    }))

  it("releases the resources of its listings before those of the client", async () => {
    const order: Array<string> = []
    const note = (name: string) => Effect.sync(() => order.push(name))
    const slowly = Effect.andThen(Effect.sleep("40 millis"), note("listing"))
    const recording = Layer.effect(
      PaymentsApi,
      Effect.gen(function*() {
        const api = yield* PaymentsApi
        yield* Effect.addFinalizer(() => note("client"))
        const stream: typeof api.invoices.stream = (query) => Stream.ensuring(api.invoices.stream(query), slowly)
        return { ...api, invoices: { ...api.invoices, stream } }
      })
    )
    const payments = await connectWith(
      recording.pipe(Layer.provide(layerTest({ invoices: [{ id: "a" }, { id: "b" }] })))
    )
    const iterator = payments.invoices.stream()[Symbol.asyncIterator]()
    assert.deepStrictEqual(await iterator.next(), { done: false, value: { id: "a" } })
    await payments.close()
    assert.deepStrictEqual(order, ["listing", "client"])
  })
})

describe("connectFromEnvironment", () => {
  it.live("reads the address and the key file from the environment", () =>
    Effect.gen(function*() {
      const { url } = yield* Sandbox
      const folder = mkdtempSync(join(tmpdir(), "payments-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      writeFileSync(join(folder, "key"), `${apiKey}\n`, { mode: 0o600 })
      yield* Effect.promise(async () => {
        await using payments = await connectFromEnvironment({
          PAYMENTS_BASE_URL: url,
          PAYMENTS_API_KEY_FILE: join(folder, "key")
        })
        assert.strictEqual((await payments.invoices.page({ limit: 3 })).items.length, 3)
      })
      const error = yield* Effect.promise(() => thrown(() => connectFromEnvironment({})))
      assert.instanceOf(error, PaymentsConfigError)
    }).pipe(Effect.scoped, Effect.provide(Sandbox.layer({ records: 10 }))))
})
