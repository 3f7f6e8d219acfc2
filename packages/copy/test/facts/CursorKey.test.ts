/** What a cursor gives with another key, of services that bind cursors to keys, ignore keys, or have several merchants. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, type PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { Duration, Effect, FileSystem, Layer, Redacted } from "effect"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { probe } from "../../src/facts.ts"

type Options = Parameters<typeof Sandbox.layer>[0]

const otherKey = "sandbox_other"

/** Serves one sandbox to the other key, and one to all others. */
const merchants = Effect.fnUntraced(function*(ours: string, theirs: string) {
  const server = createServer((request, response) => {
    const isOther = request.headers.authorization === `Bearer ${otherKey}`
    fetch(`${isOther ? theirs : ours}${request.url}`, {
      headers: { authorization: request.headers.authorization ?? "" }
    })
      .then(async (answer) => response.writeHead(answer.status).end(await answer.text()))
      .catch(() => response.destroy())
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))),
    () => Effect.sync(() => server.close())
  )
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens at a port
})

const urlOf = (options: Options) =>
  Effect.flatMap(
    Layer.build(Sandbox.layer(options)),
    (context) => Effect.provide(Sandbox.use(({ url }) => Effect.succeed(url)), context)
  )

/** Probes, and returns how sure the fact is, its answer and what was seen. */
const observe = Effect.fnUntraced(function*(
  url: string,
  { budget = 300, change = {}, key = otherKey }: {
    readonly budget?: number
    readonly change?: Partial<PaymentsConfig["Service"]>
    readonly key?: string | undefined
  } = {}
) {
  const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
  const config = { ...yield* Sandbox.config(url), ...change }
  const given = key === "" ? undefined : Redacted.make(key)
  const options = { to: join(folder, "facts.json"), budget, pause: Duration.zero, otherKey: given }
  const { facts } = yield* probe(config, options)
  const found = facts.filter(({ name }) => name === "cursor-key")
  return { found, text: yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(options.to)) }
})

const platform = Layer.merge(NodeServices.layer, layerHttpClient)

describe("a cursor with another key", () => {
  it.live.each<readonly [Options, answer: string]>([
    [{}, "the next page"],
    [{ cursors: "offset", order: "newest" }, "the next page"],
    [{ behaviour: { cursorKey: "refuse" } }, "a refusal"],
    [{ behaviour: { cursorKey: "refuse", invalidCursor: "first page" } }, "the first page"]
  ])("of a service with %j gives: %s", ([options, answer]) =>
    Effect.gen(function*() {
      const { found, text } = yield* observe(yield* urlOf(options))
      assert.deepStrictEqual(found.map((fact) => [fact.degree, fact.answer]), Lists.all.map(() => ["certain", answer]))
      assert.notInclude(text, otherKey)
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live.each<readonly [title: string, theirs: Options, answer: string]>([
    ["records of that merchant", { seed: 2, order: "newest" }, "other records"],
    ["none, if that merchant has fewer", { seed: 2, records: 1 }, "no record"],
    ["the first page of that merchant", {
      seed: 2,
      behaviour: { cursorKey: "refuse", invalidCursor: "first page" }
    }, "the first page"]
  ])("of another merchant gives %s", ([, theirs, answer]) =>
    Effect.gen(function*() {
      const url = yield* merchants(yield* urlOf({ behaviour: { cursorKey: "obey" } }), yield* urlOf(theirs))
      const { found } = yield* observe(url)
      assert.deepStrictEqual(found.map((fact) => [fact.degree, fact.answer]), Lists.all.map(() => ["certain", answer]))
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live.each<readonly [title: string, key: string, seen: string]>([
    ["without another key", "", "it needs another key: --other-key-file"],
    ["with the configured key", "sandbox_key", "the other key is the configured one"],
    ["with a key that the service does not know", "unknown", "the other key is refused with status 401"]
  ])("is not observed %s", ([, key, seen]) =>
    Effect.gen(function*() {
      const { found } = yield* observe(yield* urlOf({}), { key, budget: 100 })
      assert.deepStrictEqual(found.map((fact) => [fact.degree, fact.seen]), Lists.all.map(() => ["undecided", seen]))
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("is not sent to an address whose configured key is of another kind", () =>
    Effect.gen(function*() {
      const { found } = yield* observe(yield* urlOf({}), {
        change: { invoicesApiKey: Redacted.make("sandbox_invoices") }
      })
      assert.deepStrictEqual(
        found.map(({ degree, list, seen }) => [list, degree, degree === "certain" ? "" : seen]),
        [
          ["payoutRequests", "certain", ""],
          ["payinSources", "certain", ""],
          ["invoices", "undecided", "this list has a key of its own kind"]
        ]
      )
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live.each(["obey", "refuse"] as const)(
    "is not guessed while the lists change (%s)",
    (cursorKey) =>
      Effect.gen(function*() {
        const live = { speed: 1000, appearPerHour: 600, changePerHour: 600, vanishPerHour: 600 }
        const { found } = yield* observe(
          yield* urlOf({ live, order: "newest", behaviour: { cursorKey, invalidCursor: "first page" } })
        )
        const right = cursorKey === "obey" ? "the next page" : "the first page"
        for (const { answer } of found) assert.include([undefined, right], answer)
      }).pipe(Effect.scoped, Effect.provide(platform))
  )
})
