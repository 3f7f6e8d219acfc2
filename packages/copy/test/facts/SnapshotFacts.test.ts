/** What a cursor shows of a list that changes after it was issued, over HTTP. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, makePaces } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox, type SandboxOptions } from "@payments/sandbox"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Duration, Effect, FileSystem, Layer } from "effect"
import { HttpClient } from "effect/http"
import { join } from "node:path"
import { probe } from "../../src/facts.ts"
import { type Answer, type Ask, cursorOf, makeAsk, type Parameters } from "../../src/facts/Ask.ts"
import { cursorSnapshot } from "../../src/facts/SnapshotFacts.ts"

const platform = Layer.merge(NodeServices.layer, layerHttpClient)

const hourMs = 3_600_000

interface Circumstances {
  /** How much virtual time passes after the early pages, and after each request of the observation. */
  readonly meanwhileMs: number
  readonly betweenMs?: number
  /** Whether the first page is read again in the middle of it. */
  readonly isReadAgain?: boolean
  /** Whether a cache answers a request that was sent before. */
  readonly isCached?: boolean
}

/** Reads the first two pages of 100 invoices, lets time pass, and observes. Returns the answer or the reason, and the requests. */
const observe = (
  { live, ...options }: SandboxOptions,
  { betweenMs = 0, isCached = false, isReadAgain = true, meanwhileMs }: Circumstances
) =>
  Sandbox.use(({ advance, counters, url }) =>
    Effect.gen(function*() {
      const config = yield* Sandbox.config(url)
      const client = yield* HttpClient.HttpClient
      const [paces, list] = [yield* makePaces(config), Lists.invoices]
      const http = makeAsk({ client, config, list, paces, pause: Duration.zero, take: Effect.void })
      const cached = new Map<string, Answer>()
      const sendNew = (parameters: Parameters) =>
        Effect.gen(function*() {
          const known = isCached ? cached.get(parameters["cursor"] ?? "") : undefined
          const answer = known ?? (yield* http.send(parameters))
          cached.set(parameters["cursor"] ?? "none", answer)
          yield* Effect.orDie(advance(betweenMs))
          return answer
        })
      const ask: Ask = { ...http, send: sendNew }
      const first = yield* ask.get({ limit: "100" })
      const cursor = cursorOf(first)
      if (typeof cursor === "string") cached.set(cursor, yield* ask.get({ limit: "100", cursor }))
      yield* Effect.orDie(advance(meanwhileMs / 2))
      if (isReadAgain) yield* http.send({ limit: "100" })
      yield* Effect.orDie(advance(meanwhileMs / 2))
      const before = (yield* counters).requests
      const found = yield* cursorSnapshot.observe(ask).pipe(
        Effect.match({ onFailure: ({ reason }) => reason, onSuccess: ({ answer }) => answer })
      )
      return [found, (yield* counters).requests - before] as const
    })
  ).pipe(
    Effect.provide(
      Sandbox.layer({
        ...options,
        live: { speed: 0, appearPerHour: 20, changePerHour: 0, vanishPerHour: 0, ...live }
      })
    ),
    Effect.provide(layerHttpClient)
  )

const once = { behaviour: { cursorUse: "once" } } as const
const [none, changed] = [
  "no record has appeared behind the first page",
  "the list changed in between, or no answer fits"
]

describe("a cursor of a list that changes", () => {
  it.live.each<readonly [string, SandboxOptions, Circumstances, answer: string, requests: number]>([
    ["shows new records at the end", { records: 150 }, { meanwhileMs: hourMs }, "yes", 2],
    ["that is a count shows new records", { records: 150, cursors: "offset" }, { meanwhileMs: hourMs }, "yes", 2],
    ["of a snapshot shows none", { records: 150, cursors: "snapshot" }, { meanwhileMs: hourMs }, "no", 6],
    [
      "of a snapshot for one use shows none",
      { records: 150, cursors: "snapshot", ...once },
      {
        meanwhileMs: hourMs
      },
      "no",
      6
    ],
    [
      "shows new records in the middle of a long list",
      { records: 1000, order: "shuffled" },
      {
        meanwhileMs: 20 * hourMs
      },
      "yes",
      2
    ],
    [
      "of a snapshot of a long list shows none",
      { records: 1000, order: "shuffled", cursors: "snapshot" },
      {
        meanwhileMs: 20 * hourMs
      },
      "no",
      6
    ],
    [
      "of a list with smaller pages shows new records",
      {
        records: 80,
        behaviour: { largestLimit: 50, largeLimit: "clamp" }
      },
      { meanwhileMs: hourMs },
      "yes",
      2
    ],
    // A record appears with each request.
    [
      "for one use shows new records",
      { records: 120, ...once },
      { meanwhileMs: hourMs, betweenMs: hourMs / 20 },
      "yes",
      6
    ]
  ])("%s", ([, options, circumstances, answer, requests]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* observe(options, circumstances), [answer, requests])
    }))

  it.live.each<readonly [string, SandboxOptions, Circumstances, reason: string, requests: number]>([
    ["is quiet", { records: 150 }, { meanwhileMs: 0 }, none, 1],
    ["is quiet, with cursors for one use", { records: 150, ...once }, { meanwhileMs: 0 }, none, 3],
    ["is quiet and long", { records: 400 }, { meanwhileMs: 0 }, "the pages that were read have not changed", 0],
    [
      "gets records far behind",
      { records: 400 },
      {
        meanwhileMs: hourMs
      },
      "the pages that were read have not changed",
      0
    ],
    [
      "begins with the newest",
      { records: 150, order: "newest" },
      {
        meanwhileMs: hourMs
      },
      "new records are on the first page",
      0
    ],
    ["has one page", { records: 100 }, { meanwhileMs: hourMs }, "the list has one page of 100", 0],
    [
      "loses records",
      { records: 190, live: { appearPerHour: 0, vanishPerHour: 60 } },
      { meanwhileMs: hourMs },
      none,
      3
    ],
    [
      "has no other cursor",
      { records: 150, ...once, cursors: "snapshot" },
      {
        meanwhileMs: hourMs,
        isReadAgain: false
      },
      "no page has a cursor that was not sent yet",
      3
    ],
    // It may have appeared before the other cursor was issued.
    ["has cursors for one use", { records: 150, ...once }, { meanwhileMs: hourMs }, changed, 6],
    ["has a cache before it", { records: 150 }, { meanwhileMs: hourMs, isCached: true }, none, 0],
    [
      "has a cache before it, and cursors for one use",
      { records: 150, ...once },
      {
        meanwhileMs: hourMs,
        isCached: true
      },
      changed,
      5
    ],
    [
      "refuses each other cursor",
      {
        records: 150,
        cursors: "snapshot",
        faults: [{ fault: "status", status: 400, pages: "later", nth: 4 }]
      },
      { meanwhileMs: hourMs },
      "a cursor is refused, or gives the first page",
      4
    ],
    [
      "ignores the cursor",
      { records: 150, invoiceParameters: { cursor: "after" } },
      {
        meanwhileMs: hourMs
      },
      "a cursor gives no other records",
      0
    ]
  ])("is not judged if the list %s", ([, options, circumstances, reason, requests]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* observe(options, circumstances), [reason, requests])
    }))

  it.live(`is not mistaken, whatever changes with each request (PAYMENTS_SEED=${seed})`, () =>
    Effect.gen(function*() {
      const answers = new Map<string, number>()
      for (let run = 0; run < (isLongRun ? 2000 : 160); run++) {
        const dice = diceOf(seed, "snapshot", run)
        const cursors = dice.pick(["keyset", "offset", "snapshot", "snapshot"] as const)
        const rates = [0, 0, 20, 200, 2000]
        const options: SandboxOptions = {
          cursors,
          seed: run,
          records: dice.pick([110, 130, 150, 400]),
          order: dice.pick(run % 8 === 0 ? ["newest"] as const : ["oldest", "shuffled"] as const),
          count: dice.pick(["page", "total"] as const),
          live: {
            appearPerHour: dice.pick([20, 50, 200, 2000]),
            changePerHour: dice.pick(rates),
            vanishPerHour: dice.pick(rates)
          },
          behaviour: {
            cursorUse: dice.pick(["often", "once"] as const),
            invalidCursor: dice.pick(["refuse", "first page"] as const),
            ...(dice.chance(0.2) ? { hiddenStatus: "pending" } : {}),
            ...(dice.chance(0.2) ? { largestLimit: 50, largeLimit: "clamp" } as const : {})
          },
          faults: dice.pick(
            [
              [],
              [],
              [{ fault: "skip", records: 1, rate: 0.3 }],
              [{ fault: "reorder", rate: 0.3 }],
              [{ fault: "status", status: 400, rate: 0.1, pages: "later" }]
            ] as const
          )
        }
        const steps = [0, 0, 1000, hourMs / 20, hourMs / 2]
        const [found] = yield* observe(options, {
          meanwhileMs: dice.pick([hourMs / 4, hourMs, 2 * hourMs]),
          betweenMs: dice.pick(steps)
        })
        const wrong = cursors === "snapshot" ? "yes" : "no"
        assert.notStrictEqual(found, wrong, `run ${run}: ${JSON.stringify(options)}`)
        answers.set(found, (answers.get(found) ?? 0) + 1)
      }
      for (const answer of ["yes", "no"]) assert.isAbove(answers.get(answer) ?? 0, 2, JSON.stringify([...answers]))
    }), 600_000)

  it.live.each<readonly [SandboxOptions, answer: string]>([
    [{ cursors: "keyset" }, "yes"],
    [{ cursors: "offset" }, "yes"],
    [{ cursors: "snapshot" }, "no"],
    [{ cursors: "snapshot", ...once }, "no"]
  ])("is certain for a probe without a pause, with %j", ([options, answer]) =>
    Effect.gen(function*() {
      const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const live = { speed: 0, appearPerHour: 600, changePerHour: 600, vanishPerHour: 300 }
      const found = yield* Sandbox.use(({ advance, url }) =>
        Effect.gen(function*() {
          // Each request takes a second of the sandbox's time, on a fast machine and on a slow one.
          const ticking = HttpClient.tapRequest(yield* HttpClient.HttpClient, () => Effect.orDie(advance(1000)))
          const { facts } = yield* Effect.provideService(
            probe(yield* Sandbox.config(url), { to: join(folder, "facts.json"), budget: 400, pause: Duration.zero }),
            HttpClient.HttpClient,
            ticking
          )
          return facts.find(({ list, name }) => name === "cursor-snapshot" && list === "payoutRequests")
        })
      ).pipe(Effect.provide(Sandbox.layer({ records: 130, ...options, live })))
      assert.deepStrictEqual([found?.degree, found?.answer], ["certain", answer], found?.seen)
    }).pipe(Effect.scoped, Effect.provide(platform)))
})
