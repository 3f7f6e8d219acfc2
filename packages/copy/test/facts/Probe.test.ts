/** Probes sandboxes whose hidden rules are known, and services that contradict themselves, move, fail or end. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, makePaces, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { drawRules, isRight } from "@payments/testkit/HiddenRules"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Duration, Effect, Fiber, FileSystem, Layer } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { layerStoreMemory } from "effect/persistence/RateLimiter"
import { join } from "node:path"
import { type KnownFact, knownFacts, probe, readFacts } from "../../src/facts.ts"

const platform = Layer.merge(NodeServices.layer, layerHttpClient)

interface Probed {
  readonly facts: ReadonlyArray<KnownFact>
  readonly requests: number
  readonly file: string
}

const folder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

/** The faults of these services depend on no rate, so a slower probe would only take longer. */
const slowDown = { factor: 1, recoveryPerSecond: 1, slowestPerSecond: 1000 }

/** Probes a sandbox with these options. */
const probeSandbox = (options: Parameters<typeof Sandbox.layer>[0], budget = 260) =>
  Effect.gen(function*() {
    const file = join(yield* folder, "facts.json")
    const probed = yield* Sandbox.use(({ url }) =>
      Effect.flatMap(
        Sandbox.config(url),
        (config) => probe({ ...config, slowDown }, { to: file, budget, pause: Duration.zero })
      )
    ).pipe(Effect.provide(Sandbox.layer(options)))
    return { ...probed, file } satisfies Probed
  })

const factOf = ({ facts }: Pick<Probed, "facts">, name: string, list: Lists.ListName = "invoices") => {
  const fact = facts.find((one) => one.name === name && one.list === list)
  return fact === undefined ? undefined : [fact.degree, fact.answer]
}

/** A service whose lists begin with two new records at each request, or at some. Cursors name the record before the next page. */
const growing = (absent: "everything" | "every second record", first = 1000, requestsBetween = 1) => {
  let [newest, requests] = [first, 0]
  const recordAt = (index: number) => ({
    id: `id-${index}`,
    createdAt: new Date(1.7e12 + index * 1000).toISOString(),
    ...Object.fromEntries(filterFields.map((field, at) => [field, `${field}-${index % (at + 20)}-long`]))
  })
  return Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request, url) =>
      Effect.sync(() => {
        if (++requests % requestsBetween === 0) newest += 2
        const sent = url.searchParams
        const [cursor, limit] = [sent.get("cursor"), Number(sent.get("limit") ?? 20)]
        const list = Array.from({ length: newest }, (_, at) => recordAt(newest - at))
        const [field, value] = [...sent].find(([name]) => filterFields.includes(name)) ?? []
        const matching = cursor === null && field !== undefined
          ? list.filter((record) => Object.entries(record).some((pair) => pair[0] === field && pair[1] === value))
          : list
        const selected = matching.length > 0
          ? matching
          : absent === "everything"
          ? list
          : list.filter((_, at) => at % 2 === 0)
        const start = cursor === null ? 0 : selected.findIndex(({ id }) => id === cursor) + 1
        const items = selected.slice(start, start + limit)
        const next = start + limit < selected.length ? items.at(-1)?.id : null
        const body = JSON.stringify({ items, cursor: next, count: selected.length })
        return HttpClientResponse.fromWeb(request, new Response(body, { status: 200 }))
      })
    )
  )
}

const filterFields = [...new Set(Lists.all.flatMap(({ filters }) => Object.keys(filters)))]

describe("a probe", () => {
  it.live.each<readonly [Parameters<typeof Sandbox.layer>[0], name: string, answer: string]>([
    [{ count: "page" }, "count", "the page"],
    [{ count: "total", records: 90 }, "count", "the list"],
    [{ count: "total", records: 400 }, "count", "the list"],
    [{ count: "remaining", records: 400 }, "count", "what follows the page"],
    [{ count: "unread", records: 150 }, "count", "the page and what follows"],
    [{ order: "newest" }, "order", "createdAt, newest first"],
    [{ order: "oldest" }, "order", "createdAt, oldest first"],
    [{ order: "shuffled" }, "order", "no date"],
    [{ cursors: "keyset" }, "cursor-limit", "a refusal"],
    [{ faults: [{ fault: "ignoreFilter", field: "contract" }] }, "absent-contract", "everything"],
    [{}, "absent-contract", "no record"],
    [{}, "conditional", "no ETag"],
    [{ faults: [{ fault: "etag" }] }, "conditional", "no"],
    [{ faults: [{ fault: "etag", conditional: true }, { fault: "compress", encoding: "gzip" }] }, "conditional", "304"],
    [{}, "end-of-list", "a null cursor"],
    [{}, "limit-text", "refused"],
    [{}, "unknown-parameter", "ignored"],
    [{}, "cursor-list", "a refusal"],
    [{}, "limit-101", "refused"],
    [{}, "page-size", "the same records"],
    [{ behaviour: { longPages: "brief" } }, "page-size", "the same records with other content"],
    [{ records: 150, behaviour: { hiddenStatus: "pending" } }, "hidden-records", "yes"],
    [{ records: 150 }, "parts-settlementDate", "complete and disjoint"],
    [{ records: 180, behaviour: { hiddenStatus: "pending" } }, "parts-settlementDate", "complete and disjoint"],
    [{ records: 150, behaviour: { dayFilter: "partial" } }, "parts-settlementDate", "records are missing"],
    [{ records: 150, behaviour: { dayFilter: "overlapping" } }, "parts-settlementDate", "records of other dates"],
    [{ records: 150, invoiceParameters: { settlementDate: "day" } }, "parts-settlementDate", "records of other dates"],
    [{ behaviour: { cursorLimit: "obey" } }, "cursor-limit", "the next records"],
    [{ invoiceParameters: { contract: "contract_id" } }, "name-contract", "contract_id"],
    [{ invoiceParameters: { limit: "pageSize" } }, "name-limit", "pageSize"],
    [{ invoiceParameters: { cursor: "after" } }, "name-cursor", "after"],
    [{ behaviour: { largestLimit: 50, largeLimit: "clamp" } }, "limit-100", "fewer"],
    [{ behaviour: { largestLimit: 200, largeLimit: "clamp" } }, "limit-101", "obeyed"],
    [{ behaviour: { largestLimit: 200, largeLimit: "clamp" } }, "limit-1000", "another limit"],
    [{ behaviour: { endCursor: "empty" } }, "end-of-list", "an empty cursor"],
    [{ behaviour: { endCursor: "absent" } }, "end-of-list", "no cursor"],
    [{ behaviour: { cursorUse: "once" } }, "same-cursor", "refused"],
    [{ behaviour: { cursorUse: "once", cursorLimit: "obey" } }, "cursor-limit", "the next records"],
    [{ behaviour: { errors: "html" } }, "error-key", "text/html"],
    [{ faults: [{ fault: "envelope", member: "count" }] }, "count", "no integer"]
  ])("of a service with %j is certain that %s is: %s", ([options, name, answer]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(factOf(yield* probeSandbox(options), name), ["certain", answer])
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("does not mistake the first page, given for a used cursor, for that of another limit", () =>
    Effect.gen(function*() {
      const behaviour = { cursorUse: "once", cursorLimit: "obey", invalidCursor: "first page" } as const
      const probed = yield* probeSandbox({ behaviour }, 400)
      assert.deepStrictEqual(factOf(probed, "cursor-limit"), ["certain", "the next records"])
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live.each<readonly [Parameters<typeof Sandbox.layer>[0], name: string]>([
    [{ records: 150, behaviour: { largestLimit: 200, largeLimit: "clamp" } }, "limit-1000"],
    [{ records: 150, assumedLimit: 30, behaviour: { hiddenStatus: "pending" } }, "default-limit"],
    [{ assumedLimit: 34, faults: [{ fault: "shortPage", records: 30, rate: 0.3 }] }, "default-limit"],
    [{ faults: [{ fault: "envelope", member: "count", value: "7" }] }, "count"],
    [{ behaviour: { cursorUse: "once", invalidCursor: "first page" } }, "same-cursor"],
    [{ records: 300 }, "parts-settlementDate"],
    [
      { records: 150, invoiceParameters: { settlementDate: "day" }, behaviour: { unknownParameter: "refuse" } },
      "parts-settlementDate"
    ],
    [{ count: "total", records: 1003 }, "count"],
    ...[7, 89, 91, 140].map((value) =>
      [{ records: 90, faults: [{ fault: "envelope", member: "count", value: `${value}` }] }, "count"] as const
    ),
    [{ records: 150, faults: [{ fault: "envelope", member: "count", value: "149" }] }, "count"],
    [{ invoiceParameters: { limit: "entries" }, behaviour: { unknownParameter: "refuse" } }, "configured-key"],
    [{ records: { payoutRequests: 400, payinSources: 400, invoices: 0 } }, "cursor-list"]
  ])("of a service with %j does not guess %s", ([options, name]) =>
    Effect.gen(function*() {
      assert.strictEqual(factOf(yield* probeSandbox(options), name)?.[0], "undecided")
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live.each<readonly [string, "everything" | "every second record", ReadonlyArray<readonly [string, string]>]>([
    ["is certain in spite of it", "everything", [
      ["absent-contract", "everything"],
      ["unknown-parameter", "ignored"],
      ["page-size", "the same records"],
      ["same-cursor", "accepted"],
      ["cursor-limit", "the next records"],
      ["cursor-place", "the records that follow"],
      ["cursor-filters", "the next page, without the filter"],
      ["name-cursor", "cursor"]
    ]],
    ["does not mistake a part for everything", "every second record", [["absent-contract", "other records"]]]
  ])("of a list that gets two records with each request %s", ([, absent, expected]) =>
    Effect.gen(function*() {
      const file = join(yield* folder, "facts.json")
      const config = yield* Sandbox.config("https://growing.localhost")
      const { facts } = yield* probe(config, { to: file, budget: 600, pause: Duration.zero }).pipe(
        Effect.provide(growing(absent))
      )
      const found = expected.map(([name]) => [name, ...factOf({ facts }, name) ?? []])
      if (absent === "everything") {
        assert.deepStrictEqual(found, expected.map(([name, answer]) => [name, "certain", answer]))
      } else assert.notDeepEqual(found, [["absent-contract", "certain", "everything"]])
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("of a short list that grows is certain that count is: the list", () =>
    Effect.gen(function*() {
      const file = join(yield* folder, "facts.json")
      const config = yield* Sandbox.config("https://growing.localhost")
      const probed = yield* probe(config, { to: file, budget: 600, pause: Duration.zero }).pipe(
        Effect.provide(growing("everything", 150, 3))
      )
      assert.deepStrictEqual(factOf(probed, "count"), ["certain", "the list"])
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("says how far the dates of a list without an order go back", () =>
    Effect.gen(function*() {
      const { facts } = yield* probeSandbox({ order: "shuffled" }, 20)
      const { seen } = facts.find(({ list, name }) => name === "order" && list === "payoutRequests") ?? {}
      assert.match(seen ?? "", /^100 records; createdAt goes back by up to [1-9]\d records and \d+d /)
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("does not say that a list obeys a limit that it does not reach", () =>
    Effect.gen(function*() {
      const probed = yield* probeSandbox({ records: 20 })
      assert.deepStrictEqual(factOf(probed, "limit-100"), ["undecided", undefined])
      assert.deepStrictEqual(factOf(probed, "limit-1"), ["certain", "obeyed"])
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("of a quiet service is certain of nine facts in ten within 200 requests", () =>
    Effect.gen(function*() {
      const { facts, requests } = yield* probeSandbox({}, 200)
      // One key shows neither whose records it reads nor another key, and a long list not its parts. Without pauses a cursor
      // does not expire, without permission there is no 429, and without TLS no choice of a version. Nothing appears in a
      // quiet list.
      const undecidable = new Set([
        "merchant",
        "cursor-key",
        "parts-settlementDate",
        "cursor-place",
        "cursor-snapshot",
        "cursor-life",
        "rate-limit",
        "http-version"
      ])
      const decidable = facts.filter(({ name }) => !undecidable.has(name))
      const certain = decidable.filter(({ degree }) => degree === "certain")
      assert.isAtMost(requests, 200)
      assert.isAtLeast(
        certain.length / decidable.length,
        0.9,
        decidable.filter((one) => !certain.includes(one)).map(({ list, name, seen }) => `${list} ${name}: ${seen}`)
          .join("; ")
      )
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live(`is certain of no wrong answer, also while the lists change and requests fail (PAYMENTS_SEED=${seed})`, () =>
    Effect.gen(function*() {
      const dice = diceOf(seed, "probe")
      const disturbances = ["quiet", "moving", "failing"] as const
      for (let run = 0; run < (isLongRun ? 99 : 3); run++) {
        const { options, truth } = drawRules(dice, disturbances[run % 3] ?? "quiet")
        const { facts } = yield* probeSandbox(options, 250)
        for (const { answer, degree, list, name } of facts) {
          if (degree !== "certain") continue
          const isWrong = isRight(truth, Lists.byName[list], name, answer) === false
          assert.isFalse(isWrong, `${list} ${name}: ${answer} with ${JSON.stringify(options)}`)
        }
      }
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("of a service that refuses some requests by chance is certain of no refusal", () =>
    Effect.gen(function*() {
      const refusals = [400, 404, 402, 430].map((status) => ({ fault: "status", status, rate: 0.06 }) as const)
      const accepting = { largeLimit: "obey", smallLimit: "default", textLimit: "default" } as const
      const { facts } = yield* probeSandbox({ seed: 2, behaviour: accepting, faults: refusals }, 600)
      const found = facts.filter(({ answer, degree, name }) =>
        degree === "certain" && ["refused", "a refusal"].includes(answer ?? "") && !name.startsWith("cursor-")
      )
      assert.deepStrictEqual(found.map(({ list, name }) => `${list} ${name}`), [])
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("stores what it has observed, and continues there within the next requests", () =>
    Effect.gen(function*() {
      const file = join(yield* folder, "facts.json")
      yield* Sandbox.use(({ url }) =>
        Effect.gen(function*() {
          const config = yield* Sandbox.config(url)
          const run = probe(config, { to: file, budget: 100, pause: Duration.zero })
          const first = yield* run
          assert.strictEqual(first.requests, 100)
          const second = yield* run
          const certain = (facts: ReadonlyArray<KnownFact>) => facts.filter(({ degree }) => degree === "certain").length
          assert.isAbove(certain(second.facts), certain(first.facts))
          assert.deepStrictEqual(certain(knownFacts((yield* readFacts(file, undefined)).facts)), certain(second.facts))
        })
      ).pipe(Effect.provide(Sandbox.layer({})))
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("refuses a file of another service, of a later version and with other content, and leaves it as it is", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = join(yield* folder, "facts.json")
      for (
        const [text, problem] of [
          [`{"version":1,"service":"other","facts":{}}`, "another service"],
          [`{"version":2,"service":"other","facts":{}}`, "later version"],
          [`{"version":1,"serv`, "damaged"]
        ] as const
      ) {
        yield* fs.writeFileString(file, text)
        const error = yield* Effect.flip(
          Sandbox.use(({ url }) =>
            Effect.flatMap(
              Sandbox.config(url),
              (config) => probe(config, { to: file, budget: 5, pause: Duration.zero })
            )
          ).pipe(Effect.provide(Sandbox.layer({ records: 0 })))
        )
        assert.strictEqual(error._tag, "FactsFileError")
        assert.include("problem" in error ? String(error.problem) : "", problem)
        assert.strictEqual(yield* fs.readFileString(file), text)
      }
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live.each<readonly [string, Parameters<typeof Sandbox.layer>[0]]>([
    ["an empty list", { records: 0 }],
    ["a list with one record", { records: 1 }],
    ["a service that refuses every key", { faults: [{ fault: "status", status: 401 }] }],
    ["a service that always fails", { faults: [{ fault: "status", status: 503 }] }]
  ])("of %s is certain of nothing that it could not see", ([, options]) =>
    Effect.gen(function*() {
      const { facts } = yield* probeSandbox(options, 300)
      for (const name of ["order", "count", "page-size", "limit-101", "filter-contract"]) {
        const [degree] = factOf({ facts }, name) ?? []
        assert.strictEqual(degree, "undecided", name)
      }
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("stores no part of a record, a cursor or a key, and no address", () =>
    Effect.gen(function*() {
      const { file } = yield* probeSandbox({ faults: [{ fault: "ignoreFilter", share: 0.5 }] })
      const text = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file))
      for (const secret of ["cus_", "con_", "payout-0", "sandbox_key", "127.0.0.1", "no-such-value"]) {
        assert.notInclude(text, secret)
      }
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("stores no key that a service returns as a header, a member or a type", () =>
    Effect.gen(function*() {
      const key = "sandbox_key"
      const { facts, file } = yield* probeSandbox({
        faults: [
          { fault: "header", name: "x-ratelimit-no-such-value", value: "1" },
          { fault: "body", status: 400, contentType: `text/${key}`, text: `{"${key}":{"${key}":1},"code":1}`, from: 30 }
        ]
      })
      const text = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file))
      assert.notInclude(text, key)
      assert.isAbove(facts.length, 0)
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("sends a request again that failed for the moment, and ends if the service wants a long pause", () =>
    Effect.gen(function*() {
      const passing = yield* probeSandbox({ faults: [{ fault: "status", status: 503, every: 3 }] })
      assert.deepStrictEqual(factOf(passing, "limit-101"), ["certain", "refused"])
      const soon = yield* probeSandbox({ faults: [{ fault: "status", status: 429, retryAfter: 1, nth: 3 }] }, 20)
      assert.strictEqual(soon.requests, 20)
      for (const wait of [{ retryAfter: 3600 }, { retryAfterDate: 3600 }]) {
        const { facts, requests } = yield* probeSandbox({
          faults: [{ fault: "status", status: 429, from: 3, ...wait }]
        })
        assert.strictEqual(requests, 3)
        assert.isTrue(facts.some(({ seen }) => seen.includes("wants no request for more than a minute")))
      }
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("slows the clients down that share its rate if the service answers 429", () =>
    Effect.gen(function*() {
      const file = join(yield* folder, "facts.json")
      yield* Sandbox.use(({ url }) =>
        Effect.gen(function*() {
          const config = { ...(yield* Sandbox.config(url)), maxRequestsPerSecond: 100 }
          const paces = yield* makePaces(config)
          const other = paces.of(Lists.payoutRequests, PaymentsConfig.keysOf(config).payments)
          yield* other.acquire
          const before = other.rate()
          yield* probe(config, { to: file, budget: 1, pause: Duration.zero })
          // A client reads the rate every second, or less often if it takes long.
          const rate = Effect.map(Effect.delay(other.acquire, "300 millis"), other.rate)
          yield* Effect.timeout(Effect.repeat(rate, { until: (now) => now < before * 0.95 }), "1 minute")
        })
      ).pipe(
        Effect.provide(Sandbox.layer({ faults: [{ fault: "status", status: 429 }] })),
        Effect.provide(layerStoreMemory)
      )
    }).pipe(Effect.scoped, Effect.provide(platform)))

  it.live("keeps what it has stored when it is interrupted", () =>
    Effect.gen(function*() {
      const file = join(yield* folder, "facts.json")
      yield* Sandbox.use(({ url }) =>
        Effect.gen(function*() {
          const config = yield* Sandbox.config(url)
          const fiber = yield* Effect.forkChild(probe(config, { to: file, budget: 500, pause: Duration.millis(1) }))
          const stored = Effect.map(
            readFacts(file, undefined),
            ({ facts }) => knownFacts(facts).filter(({ lastAt }) => lastAt !== undefined).length
          )
          const before = yield* Effect.repeat(Effect.delay(stored, "20 millis"), { until: (count) => count > 0 })
          yield* Fiber.interrupt(fiber)
          assert.isAtLeast(yield* stored, before)
        })
      ).pipe(Effect.provide(Sandbox.layer({})))
    }).pipe(Effect.scoped, Effect.provide(platform)))
})
