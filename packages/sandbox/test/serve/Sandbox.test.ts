import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Effect, Layer, Redacted, Stream } from "effect"
import { Sandbox, type SandboxOptions } from "../../src/index.ts"

const request = (url: string, key = "sandbox_key", path = "/v0/payoutRequests") =>
  Effect.promise(() => fetch(url + path, { headers: { authorization: `Bearer ${key}` } }))

const withSandbox = <A, E>(options: SandboxOptions, use: (url: string) => Effect.Effect<A, E>) =>
  Sandbox.use(({ url }) => use(url)).pipe(Effect.provide(Sandbox.layer(options)))

describe("the sandbox", () => {
  it.live("accepts only keys that begin with sandbox_, on every list", () =>
    withSandbox({ records: 3 }, (url) =>
      Effect.gen(function*() {
        for (const { path } of Lists.all) {
          assert.strictEqual((yield* request(url, "sandbox_any", path)).status, 200)
          for (const key of ["", "live_key", "x sandbox_"]) {
            assert.strictEqual((yield* request(url, key, path)).status, 401)
          }
        }
      })))

  it.live("returns 20 records without a limit, and refuses limits outside 1 to 100 and repeated parameters", () =>
    withSandbox({ records: 200 }, (url) =>
      Effect.gen(function*() {
        for (const { path } of Lists.all) {
          const count = (query: string) =>
            Effect.gen(function*() {
              const answer = yield* request(url, "sandbox_key", path + query)
              if (answer.status !== 200) return answer.status
              const body = (yield* Effect.promise(() => answer.json())) as { readonly items: ReadonlyArray<unknown> } // the page envelope
              return `${body.items.length} records`
            })
          assert.strictEqual(yield* count(""), "20 records")
          assert.strictEqual(yield* count("?limit=1"), "1 records")
          assert.strictEqual(yield* count("?limit=100"), "100 records")
          for (const wrong of ["?limit=0", "?limit=101", "?limit=x", "?limit=1&limit=2", "?limit=", "?cursor=x"]) {
            assert.strictEqual(yield* count(wrong), 400, wrong)
          }
        }
      })))

  it.live("serves a list in its own order, with its own count and rules", () =>
    withSandbox({
      records: 30,
      order: "oldest",
      count: "page",
      perList: { payinSources: { order: "newest", count: "total", behaviour: { cursorLimit: "obey" } } }
    }, (url) =>
      Effect.gen(function*() {
        const pageOf = (path: string) =>
          Effect.flatMap(request(url, "sandbox_key", path), (answer) =>
            Effect.promise(() =>
              answer.json() as Promise<{ cursor: string; count: number; items: ReadonlyArray<{ createdAt: string }> }> // a page
            ))
        const shown: Array<unknown> = []
        for (const path of ["/v0/payoutRequests", "/v0/payinSources"]) {
          const { count, cursor, items } = yield* pageOf(`${path}?limit=5`)
          const { status } = yield* request(url, "sandbox_key", `${path}?limit=6&cursor=${cursor}`)
          const isNewest = String(items[0]?.createdAt) > String(items.at(-1)?.createdAt)
          shown.push([isNewest, count, status])
        }
        assert.deepStrictEqual(shown, [[false, 5, 400], [true, 30, 200]])
      })))

  it.live("accepts a cursor only with the limit and filters of its listing", () =>
    withSandbox({ records: 200 }, (url) =>
      Effect.gen(function*() {
        const first = yield* request(url, "sandbox_key", "/v0/payoutRequests?limit=10")
        const { cursor } = (yield* Effect.promise(() => first.json())) as { readonly cursor: string } // more pages follow
        const requestPage = (query: string) =>
          Effect.map(request(url, "sandbox_key", `/v0/payoutRequests?cursor=${cursor}${query}`), ({ status }) => status)
        assert.strictEqual(yield* requestPage("&limit=10"), 200)
        for (const other of ["", "&limit=11", "&limit=10&customerId=cus_1"]) {
          assert.strictEqual(yield* requestPage(other), 400)
        }
      })))

  it.live("applies faults with a rate to the same requests on every run, in process and over a socket", () =>
    Effect.gen(function*() {
      const options: SandboxOptions = {
        records: 3000,
        seed: 7,
        faults: [{ fault: "status", status: 503, rate: 0.05 }, { fault: "reset", rate: 0.05 }]
      }
      const config = (url: string) => Layer.effect(PaymentsConfig, Sandbox.config(url))
      const inProcess = PaymentsApi.layer.pipe(
        Layer.provide(Sandbox.layerClient(options)),
        Layer.provide(config("https://sandbox.localhost"))
      )
      const overSocket = PaymentsApi.layer.pipe(
        Layer.provide(Layer.unwrap(Effect.map(Sandbox, ({ url }) => config(url)))),
        Layer.provide(layerHttpClient),
        Layer.provide(Sandbox.layer(options))
      )
      const attempts = (api: Layer.Layer<PaymentsApi, unknown>) =>
        PaymentsApi.use(({ payinSources }) => Stream.runCollect(payinSources.pages({ limit: 50 }))).pipe(
          Effect.map((pages) => pages.map((page) => page.attempts)),
          Effect.provide(api)
        )
      const first = yield* attempts(inProcess)
      assert.isTrue(first.some((count) => count > 1))
      assert.deepStrictEqual(yield* attempts(inProcess), first)
      assert.deepStrictEqual(yield* attempts(overSocket), first)
    }))

  it.live("serves the OpenAPI document of the contract", () =>
    withSandbox({}, (url) =>
      Effect.gen(function*() {
        const spec = yield* Effect.promise(() => fetch(`${url}/openapi.json`).then((answer) => answer.json()))
        assert.deepStrictEqual(
          Object.keys((spec as { readonly paths: object }).paths),
          Lists.all.map(({ path }) => path)
        ) // an OpenAPI document has `paths`
      })))

  it("keeps its key redacted", () => {
    assert.notInclude(JSON.stringify(Effect.runSync(Sandbox.config("http://localhost:1"))), "sandbox_key")
    assert.isTrue(Redacted.isRedacted(Effect.runSync(Sandbox.config("http://localhost:1")).apiKey))
  })
})
