/** What a probe does not conclude from services with other rules than those of the sandbox. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Sandbox } from "@payments/sandbox"
import { Duration, Effect, FileSystem, Layer, Redacted } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { join } from "node:path"
import { probe } from "../../src/facts.ts"

interface Request {
  readonly list: Lists.ListName
  readonly key: string
  readonly parameters: URLSearchParams
}

const nameOf = (path: string): Lists.ListName =>
  Lists.all.find(({ path: own }) => path.endsWith(own))?.name ?? "payoutRequests"

const filterFields = [...new Set(Lists.all.flatMap(({ filters }) => Object.keys(filters)))]

const recordAt = (list: Lists.ListName, index: number) => ({
  id: `${list}-${index}`,
  createdAt: new Date(1.7e12 + (index * 7919 % 1000) * 1000).toISOString(),
  ...Object.fromEntries(filterFields.map((field, at) => [field, `${field}-${index % (at + 20)}-long`])),
  paymentDate: new Date(1.7e12 + (index * 7907 % 1000) * 1000).toISOString(),
  settlementDate: new Date(1.7e12 + Math.floor(index / 5) * 86_400_000).toISOString().slice(0, 10)
})

/** A service of 300 records. `refusal` returns a status, or undefined; `start` the place after a cursor. */
const serving = (
  refusal: (request: Request) => number | undefined,
  start: (cursor: string, request: Request) => number = (cursor) => Number(cursor.split(":")[1])
) =>
  Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((sent, url) =>
      Effect.sync(() => {
        const key = sent.headers["authorization"]?.slice("Bearer ".length) ?? ""
        const request = { list: nameOf(url.pathname), key, parameters: url.searchParams }
        const status = refusal(request)
        if (status !== undefined) return HttpClientResponse.fromWeb(sent, new Response("{}", { status }))
        const [cursor, limit] = [request.parameters.get("cursor"), Number(request.parameters.get("limit") ?? 20)]
        const all = Array.from({ length: 300 }, (_, index) => recordAt(request.list, index)).filter((record) =>
          Object.entries(record).every(([name, value]) => [null, value].includes(request.parameters.get(name)))
        )
        const from = cursor === null ? 0 : start(cursor, request)
        const next = from + limit < all.length ? `${request.list}:${from + limit}` : null
        const body = JSON.stringify({ items: all.slice(from, from + limit), cursor: next, count: 0 })
        return HttpClientResponse.fromWeb(sent, new Response(body, { status: 200 }))
      })
    )
  )

const probed = (service: ReturnType<typeof serving>) =>
  Effect.gen(function*() {
    const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
    const config = yield* Sandbox.config("https://odd.localhost")
    const { facts } = yield* probe(config, { to: join(folder, "facts.json"), budget: 400, pause: Duration.zero })
    return (list: Lists.ListName, name: string) => {
      const { answer, degree } = facts.find((fact) => fact.list === list && fact.name === name) ?? {}
      return [degree, answer]
    }
  }).pipe(Effect.scoped, Effect.provide(Layer.merge(service, NodeServices.layer)))

describe("a probe of a service", () => {
  it.live("that locks a wrong key out does not take the lock for the usual refusal", () =>
    Effect.gen(function*() {
      const config = yield* Sandbox.config("https://odd.localhost")
      const own = Redacted.value(config.apiKey)
      let wrong = 0
      const factOf = yield* probed(serving(({ key }) => key === own ? undefined : ++wrong > 3 ? 403 : 401))
      for (const { name } of Lists.all) {
        for (const fact of ["none-key", "wrong-key"]) {
          const [degree, answer] = factOf(name, fact)
          assert.notStrictEqual(degree, "certain")
          assert.notStrictEqual(answer, "403")
        }
      }
    }))

  it.live("that answers a list with 402 or 404 does not say that the key is refused", () =>
    Effect.gen(function*() {
      const factOf = yield* probed(
        serving(({ list }) => list === "payinSources" ? 402 : list === "invoices" ? 404 : undefined)
      )
      assert.deepStrictEqual(factOf("payoutRequests", "configured-key"), ["certain", "accepted"])
      for (const list of ["payinSources", "invoices"] as const) {
        assert.deepStrictEqual(factOf(list, "configured-key"), ["undecided", undefined])
      }
    }))

  it.live("sees an order by days, and that another list's cursor gives no record", () =>
    Effect.gen(function*() {
      const factOf = yield* probed(
        serving(
          () => undefined,
          (cursor, { list }) => cursor.startsWith(`${list}:`) ? Number(cursor.split(":")[1]) : 300
        )
      )
      assert.deepStrictEqual(factOf("invoices", "order"), ["certain", "settlementDate, oldest first"])
      for (const { name } of Lists.all) {
        assert.deepStrictEqual(factOf(name, "cursor-list"), ["certain", "no record"])
      }
    }))
})
