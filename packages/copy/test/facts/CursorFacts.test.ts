/** The life of a cursor, over HTTP with short steps, and how its bounds are added. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, makePaces } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { Duration, Effect, FileSystem, Layer } from "effect"
import { HttpClient } from "effect/http"
import { join } from "node:path"
import { type KnownFact, probe } from "../../src/facts.ts"
import { type Ask, makeAsk } from "../../src/facts/Ask.ts"
import { cursorLife } from "../../src/facts/CursorFacts.ts"
import { judge, noEvidence } from "../../src/port/Judgement.ts"

const platform = Layer.merge(NodeServices.layer, layerHttpClient)

const steps = [{ text: "short", ms: 500 }, { text: "long", ms: 60_000 }]

/** Requests a first page, waits, and observes. Returns the answer or the reason, and the number of requests of the observation. */
const observeAfter = (
  ms: number,
  options: Parameters<typeof Sandbox.layer>[0],
  { forgets = false, isUsed = false }: { readonly forgets?: boolean; readonly isUsed?: boolean } = {}
) =>
  Sandbox.use(({ advance, counters, url }) =>
    Effect.gen(function*() {
      const config = yield* Sandbox.config(url)
      const client = yield* HttpClient.HttpClient
      const [paces, list] = [yield* makePaces(config), Lists.invoices]
      const http = makeAsk({ client, config, list, paces, pause: Duration.zero, take: Effect.void })
      const forgotten = new Set<string>()
      const ask: Ask = {
        ...http,
        send: ({ cursor = "", ...first }, unusual) =>
          http.send(cursor === "" || forgotten.has(cursor) ? first : { ...first, cursor }, unusual)
      }
      yield* ask.get({ limit: "2" })
      for (const { cursor } of ask.unused.values()) {
        if (forgets) forgotten.add(cursor)
        if (isUsed) yield* ask.send({ limit: "2", cursor })
      }
      yield* Effect.sleep(ms)
      // New records give the first page another cursor.
      if (forgets) yield* Effect.orDie(advance(3_600_000))
      const before = (yield* counters).requests
      const found = yield* cursorLife(steps).observe(ask).pipe(
        Effect.match({ onFailure: ({ reason }) => reason, onSuccess: ({ answer }) => answer })
      )
      return [found, (yield* counters).requests - before]
    })
  ).pipe(Effect.provide(Sandbox.layer(options)), Effect.provide(layerHttpClient))

describe("the life of a cursor", () => {
  it.live.each<readonly [string, number, Parameters<typeof Sandbox.layer>[0], answer: string, requests: number]>([
    ["is accepted", 550, {}, "at least short", 2],
    ["is refused", 550, { faults: [{ fault: "cursorExpires", cursorMs: 50 }] }, "less than long", 3],
    ["is young", 0, {}, "this run has no cursor that is older than short", 0],
    [
      "is refused at any age",
      550,
      { faults: [{ fault: "status", status: 400, pages: "later" }] },
      "the service answered 400",
      3
    ],
    ["is the only one of a short list", 550, { records: 2 }, "no page has a cursor that was not sent yet", 0]
  ])("is observed if the cursor %s", ([, ms, options, answer, requests]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* observeAfter(ms, options), [answer, requests])
    }))

  it.live("is not that of a cursor with which a service begins again", () =>
    Effect.gen(function*() {
      const live = { appearPerHour: 60, changePerHour: 0, vanishPerHour: 0, speed: 0 }
      const [found] = yield* observeAfter(550, { live, order: "newest" }, { forgets: true })
      assert.strictEqual(found, "less than long")
    }))

  it.live("is not observed from a cursor that was sent before, which may be accepted once only", () =>
    Effect.gen(function*() {
      const [found] = yield* observeAfter(550, {}, { isUsed: true })
      assert.strictEqual(found, "no page has a cursor that was not sent yet")
    }))

  it.live("is observed after all other facts of a round", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const { facts } = yield* Sandbox.use(({ url }) =>
        Effect.flatMap(Sandbox.config(url), (config) =>
          // One round needs about 110 requests.
          probe(config, { to: join(folder, "facts.json"), budget: 130, pause: Duration.millis(60) }))
      ).pipe(Effect.provide(Sandbox.layer({})))
      const answerOf = ({ list, name }: KnownFact) => name === "cursor-life" && list === "payoutRequests"
      assert.match(facts.find(answerOf)?.answer ?? "", /^at least \d+ s$/, "a busy machine takes longer")
    }).pipe(Effect.scoped, Effect.provide(platform)))

  const addAll = (...answers: ReadonlyArray<string>) =>
    judge(answers.reduce(
      (evidence, answer) => cursorLife().add?.(evidence, { answer, seen: "", at: "" }) ?? evidence,
      noEvidence
    ))

  it.each<readonly [ReadonlyArray<string>, degree: string, answer: string]>([
    [["at least 10 s"], "likely", "at least 10 s"],
    [["at least 10 s", "at least 1 min"], "certain", "at least 10 s"],
    [["at least 1 min", "at least 10 s"], "certain", "at least 10 s"],
    [["at least 1 min", "at least 1 min", "at least 10 s"], "certain", "at least 1 min"],
    [["at least 10 s", "at least 10 s", "at least 1 min"], "likely", "at least 1 min"],
    [["less than 10 s", "less than 1 min"], "certain", "less than 1 min"],
    [["less than 1 min", "less than 10 s"], "certain", "less than 1 min"],
    [["less than 1 min", "less than 1 min", "at least 10 s"], "undecided", "at least 10 s"],
    [["at least 10 min", "less than 10 s"], "undecided", "less than 10 s"]
  ])("is, after %j, %s: %s", (answers, degree, answer) => {
    const judged = addAll(...answers)
    assert.deepStrictEqual([judged.degree, judged.answer], [degree, answer])
  })
})
