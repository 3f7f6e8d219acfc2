/** The life of a cursor, over HTTP with short steps, and how its bounds are added. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, makePaces, type PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { overStandingClock } from "@payments/testkit/Clocks"
import { Duration, Effect, FileSystem, Layer, Redacted, type Scope } from "effect"
import { HttpClient } from "effect/http"
import { join } from "node:path"
import { type KnownFact, probe } from "../../src/facts.ts"
import { type Ask, cursorOf, makeAsk, notObserved } from "../../src/facts/Ask.ts"
import { cursorLife } from "../../src/facts/CursorFacts.ts"
import { evidenceIn } from "../../src/facts/FactsFile.ts"
import { openFacts } from "../../src/facts/FactStore.ts"
import { type Keeper, keepersOf, type KeptCursor } from "../../src/facts/KeptCursor.ts"
import { judge, noEvidence } from "../../src/port/Judgement.ts"

const platform = Layer.merge(NodeServices.layer, layerHttpClient)

const steps = [{ text: "short", ms: 500 }, { text: "long", ms: 60_000 }]

const askOf = (
  config: PaymentsConfig["Service"],
  list: Lists.AnyList,
  options: Partial<Parameters<typeof makeAsk>[0]> = {}
) =>
  Effect.map(
    Effect.all([HttpClient.HttpClient, makePaces(config)]),
    ([client, paces]) => makeAsk({ client, config, list, paces, pause: Duration.zero, take: Effect.void, ...options })
  )

/**
 * Requests a first page, and observes when its cursor has the age. Returns the answer or the reason, and the number of requests
 * of the observation.
 */
const observeAfter = (
  ms: number,
  options: Parameters<typeof Sandbox.layer>[0],
  { forgets = false, isUsed = false }: { readonly forgets?: boolean; readonly isUsed?: boolean } = {}
) =>
  overStandingClock((pass) =>
    Sandbox.use(({ advance, counters, url }) =>
      Effect.gen(function*() {
        const config = yield* Sandbox.config(url)
        const http = yield* askOf(config, Lists.invoices)
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
        pass(ms)
        // New records give the first page another cursor.
        if (forgets) yield* Effect.orDie(advance(3_600_000))
        const before = (yield* counters).requests
        const found = yield* cursorLife(steps).observe(ask).pipe(
          Effect.match({ onFailure: ({ reason }) => reason, onSuccess: ({ answer }) => answer })
        )
        return [found, (yield* counters).requests - before]
      })
    ).pipe(Effect.provide(Sandbox.layer(options)), Effect.provide(layerHttpClient))
  )

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
      assert.match(facts.find(answerOf)?.answer ?? "", /^at least \d+ (s|min)$/, "a busy machine takes longer")
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it("keeps both bounds, however often one of them is observed", () => {
    const answers = ["less than 1 day", "less than 1 day", ...Array.from({ length: 100 }, () => "at least 1 h")]
    assert.deepInclude(addAll(...answers), { degree: "certain", answer: "between 1 h and 1 day" })
  })

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
    [["at least 10 s", "at least 10 s", "at least 1 min"], "certain", "at least 10 s"],
    [["at least 10 s", "at least 1 day", "at least 1 day"], "certain", "at least 1 day"],
    [["less than 10 s", "less than 1 min"], "certain", "less than 1 min"],
    [["less than 1 min", "less than 10 s"], "certain", "less than 1 min"],
    [["less than 1 min", "less than 1 min", "at least 10 s"], "certain", "less than 1 min"],
    [["at least 10 s", "less than 1 min"], "undecided", "less than 1 min"],
    [["at least 10 s", "less than 1 min", "at least 5 s"], "certain", "at least 5 s"],
    [["less than 1 min", "less than 1 min", "at least 10 s", "at least 10 s"], "certain", "between 10 s and 1 min"],
    [["at least 10 min", "less than 10 s"], "undecided", "less than 10 s"],
    [["at least 10 min", "at least 10 min", "less than 10 s", "less than 5 s"], "undecided", "less than 10 s"],
    [
      ["at least 10 min", "at least 10 min", "less than 10 s", "less than 5 s", "less than 5 s"],
      "certain",
      "less than 5 s"
    ]
  ])("is, after %j, %s: %s", (answers, degree, answer) => {
    const judged = addAll(...answers)
    assert.deepStrictEqual([judged.degree, judged.answer], [degree, answer])
  })
})

const day = 24 * 3_600_000

/** Probes on some days, with a file of facts. Returns how sure the life of a cursor is, and the answer. */
const makeRuns = Effect.fnUntraced(function*(pass: (ms: number) => void) {
  let today = 0
  const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
  const file = join(folder, "facts.json")
  const { setFaults, url } = yield* Sandbox
  const config = yield* Sandbox.config(url)
  return {
    file,
    config,
    setFaults,
    runAfter: (days: number) =>
      Effect.gen(function*() {
        pass((days - today) * day)
        today = days
        const { facts } = yield* probe(config, { to: file, budget: 400, pause: Duration.zero })
        const life = facts.find(({ list, name }) => name === "cursor-life" && list === "payoutRequests")
        return [life?.degree, life?.answer]
      })
  }
})

describe("a cursor that a run keeps for later ones", () => {
  const withRuns = <A, E>(
    options: Parameters<typeof Sandbox.layer>[0],
    use: (
      runs: Effect.Success<ReturnType<typeof makeRuns>>
    ) => Effect.Effect<A, E, HttpClient.HttpClient | NodeServices.NodeServices | Sandbox | Scope.Scope>
  ) =>
    overStandingClock((pass) =>
      Effect.flatMap(makeRuns(pass), use).pipe(
        Effect.scoped,
        Effect.provide(Layer.merge(Sandbox.layer(options), platform))
      )
    )

  it.live("shows over days how long it is accepted, as a bracket", () =>
    withRuns({}, ({ config, file, runAfter, setFaults }) =>
      Effect.gen(function*() {
        yield* runAfter(0)
        const first = yield* askOf(config, Lists.payoutRequests)
        const cursor = cursorOf(yield* first.send({ limit: "7" }))
        const text = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file))
        assert.include(text, "\"kept\":")
        assert.isString(cursor)
        assert.notInclude(text, String(cursor))
        assert.deepStrictEqual(yield* runAfter(2), ["certain", "at least 1 day"])
        assert.deepStrictEqual(yield* runAfter(4), ["certain", "at least 1 day"])
        assert.deepStrictEqual(yield* runAfter(6), ["certain", "at least 3 days"])
        yield* setFaults([{ fault: "cursorExpires", cursorMs: 7 * day }])
        assert.deepStrictEqual(yield* runAfter(8), ["certain", "at least 3 days"])
        assert.deepStrictEqual(yield* runAfter(17), ["certain", "between 3 days and 30 days"])
      })))

  it.live("shows nothing by a refusal, if a service accepts a cursor once only", () =>
    withRuns({ behaviour: { cursorUse: "once" } }, ({ runAfter }) =>
      Effect.gen(function*() {
        yield* runAfter(0)
        assert.deepStrictEqual(yield* runAfter(2), ["likely", "at least 1 day"])
        assert.deepStrictEqual(yield* runAfter(4), ["certain", "at least 1 day"])
        assert.deepStrictEqual(yield* runAfter(60), ["certain", "at least 1 day"])
      })))

  it.live("is opened with the same key only, and only for its list", () =>
    withRuns({}, ({ config, file }) =>
      Effect.gen(function*() {
        const store = yield* openFacts(file, config)
        const kept: KeptCursor = { cursor: "the cursor ✓", between: [1, 2], use: "none" }
        yield* (yield* keepersOf(config, store))(Lists.payoutRequests).keep(kept)
        const facts = yield* store.read
        const sealed = evidenceIn(facts, Lists.payoutRequests.label, "cursor-life").kept ?? ""
        const moved = {
          ...store,
          read: Effect.succeed({
            ...facts,
            [Lists.payinSources.label]: { "cursor-life": { observations: [], kept: sealed } }
          })
        }
        const keeperOf = yield* keepersOf(config, moved)
        assert.deepStrictEqual(keeperOf(Lists.payoutRequests).earlier(), kept)
        assert.isUndefined(keeperOf(Lists.payinSources).earlier())
        const otherKey = { ...config, apiKey: Redacted.make("another key of the service") }
        assert.isUndefined((yield* keepersOf(otherKey, store))(Lists.payoutRequests).earlier())
      })))

  it.live("is not sent again if a run was killed after it was sent", () =>
    withRuns({}, ({ config }) =>
      Effect.gen(function*() {
        const stored: Array<KeptCursor | undefined> = []
        let kept: KeptCursor | undefined = { cursor: "from-an-earlier-run", between: [0, 0], use: "none" }
        const keeper: Keeper = {
          earlier: () => kept,
          hasOne: () => true,
          keep: (cursor) => Effect.sync(() => void stored.push(kept = cursor))
        }
        const ask = yield* askOf(config, Lists.invoices, { keeper, take: Effect.fail(notObserved("killed")) })
        assert.strictEqual((yield* Effect.flip(cursorLife().observe(ask))).reason, "killed")
        assert.deepStrictEqual(stored.map((cursor) => cursor?.use), ["sent"])
      })))
})
