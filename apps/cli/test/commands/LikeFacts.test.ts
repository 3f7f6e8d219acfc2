/** A sandbox that serves as a service was observed gives a probe the same answers as that service. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { type KnownFact, knownFacts, probe } from "@payments/copy/facts"
import { Lists } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox, type SandboxOptions } from "@payments/sandbox"
import { canBeDecided, drawRules, type HiddenRules } from "@payments/testkit/HiddenRules"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Duration, Effect, Layer } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { likeFacts, repeatedOfAddress, repeatedOfList } from "../../src/commands/LikeFacts.ts"

const factsOf = (options: SandboxOptions): Effect.Effect<ReadonlyArray<KnownFact>, unknown> =>
  Effect.gen(function*() {
    const file = join(yield* temporaryFolder, "facts.json")
    const { url } = yield* Sandbox
    const config = yield* Sandbox.config(url)
    return (yield* probe(config, { to: file, budget: 260, pause: Duration.zero })).facts
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.mergeAll(NodeServices.layer, layerHttpClient, Sandbox.layer(options)))
  )

/** Usual rules, rare rules, and lists with different rules take turns. */
const draw = (run: number): { readonly options: SandboxOptions; readonly usual: HiddenRules | undefined } => {
  const dice = diceOf(seed, "like", run)
  const rules = drawRules(dice, "quiet", { oddities: run % 3 === 1 })
  if (run % 3 < 2) return { options: rules.options, usual: run % 3 === 0 ? rules : undefined }
  const perList = Lists.map(() => {
    const { behaviour, count, order } = drawRules(dice, "quiet", { oddities: true }).options
    return { behaviour, count, order }
  })
  return { options: { ...rules.options, perList }, usual: undefined }
}

/**
 * Answers that are all right for one service, as in `HiddenRules.ts`. Which of them is seen depends on the values of the first
 * records, on how many records a service hides without a filter, or on how long a probe takes.
 */
const bothRight = [
  { start: "filter-", answers: ["records that begin with it", "only matching records"] },
  { start: "absent-", answers: ["other records", "everything"] },
  { start: "cursor-life", answers: ["at least 10 s", "at least 1 min", "at least 10 min"] }
]

const isSame = (name: string, one: string | undefined, other: string | undefined): boolean =>
  one === other ||
  bothRight.some(({ answers, start }) =>
    name.startsWith(start) && answers.includes(one ?? "") && answers.includes(other ?? "")
  )

describe("a sandbox like the facts of another service", () => {
  it.live(`gives the same certain answers (PAYMENTS_SEED=${seed})`, () =>
    Effect.gen(function*() {
      for (let run = 0; run < (isLongRun ? 30 : 3); run++) {
        const { options, usual } = draw(run)
        const facts = yield* factsOf(options)
        const certain = facts.filter(({ degree }) => degree === "certain")
        const { records, seed: ofRecords } = options
        const others = yield* factsOf({ records, seed: ofRecords, ...likeFacts(facts) })
        const pairs = facts.map((fact, index) => [fact, others[index] ?? fact] as const)
        const found = pairs.flatMap(([{ answer, degree, list, name }, other]) =>
          degree === "certain" && other.degree === "certain" && !isSame(name, answer, other.answer)
            ? [`${list} ${name}: ${answer}, then ${other.answer}`]
            : []
        )
        const of = `run ${run}: ${JSON.stringify(options)}`
        assert.deepStrictEqual(found, [], of)
        const lost = pairs.filter(([one, other]) => one.degree === "certain" && other.degree !== "certain")
        assert.isBelow(lost.length, certain.length / 10, of)
        if (usual === undefined) continue
        const decidable = facts.filter(({ list, name }) => canBeDecided(usual, Lists[list], name))
        const decided = decidable.filter(({ degree }) => degree === "certain")
        assert.isAtLeast(decided.length, decidable.length * 0.9, of)
        assert.isAtLeast(decidable.length, facts.length / 2, of)
      }
    }), 600_000)

  const known = (name: string, answer: string, seen = "", list: Lists.ListName = "invoices"): KnownFact => ({
    list,
    name,
    answer,
    seen,
    section: "",
    question: "",
    degree: "certain",
    agreeing: 2,
    observations: 2,
    usedBy: undefined,
    contradicted: undefined,
    acceptance: undefined,
    firstAt: undefined,
    lastAt: undefined
  })

  it.each<readonly [shown: string, facts: ReadonlyArray<KnownFact>, served: object]>([
    ["a limit that is treated as none", [known("limit-1000", "another limit", "20 records")], {
      behaviour: { largeLimit: "default" }
    }],
    ["a largest limit", [known("limit-1000", "another limit", "250 records")], {
      behaviour: { largeLimit: "clamp", largestLimit: 250 }
    }],
    ["a largest limit between two", [known("limit-101", "obeyed"), known("limit-1000", "refused")], {
      behaviour: { largeLimit: "refuse", largestLimit: 500 }
    }],
    ["the size of all pages of a scan", [known("page-records", "50", "50 records in each of 7 pages")], {
      behaviour: { largeLimit: "clamp", largestLimit: 50 }
    }],
    ["short pages of a scan", [known("short-pages", "yes", "7 to 100 records in a page")], {
      faults: [{ fault: "shortPage", records: 7, rate: 0.3, list: "invoices" }]
    }],
    ["short pages of a service whose first ones are full", [
      known("limit-100", "obeyed"),
      known("short-pages", "yes", "7 to 100 records in a page")
    ], { faults: [{ fault: "shortPage", records: 7, rate: 0.3, pages: "later", list: "invoices" }] }],
    ["a default limit", [known("default-limit", "37")], { assumedLimit: 37, behaviour: { defaultLimit: 37 } }],
    ["a bound of a default limit", [known("default-limit", "37 or more")], {}],
    ["the order of the whole list", [known("list-order", "createdAt, newest first")], { order: "newest" }],
    ["an order that only the first records have", [
      known("order", "createdAt, newest first"),
      known("list-order", "not by createdAt")
    ], { order: "newest", misplaced: 0.5 }],
    ["where new records appear", [known("places", "first")], { order: "newest" }],
    ["new records at the end of a list that begins with the newest", [
      known("list-order", "createdAt, newest first"),
      known("places", "last")
    ], { order: "newest", misplaced: 1 }],
    ["the life of a cursor, within its bounds", [known("cursor-life", "less than 1 min")], {
      faults: [{ fault: "cursorExpires", cursorMs: 10_000, list: "invoices" }]
    }],
    ["the life of a cursor between two bounds", [known("cursor-life", "between 6 h and 1 day")], {
      faults: [{ fault: "cursorExpires", cursorMs: 6 * 3_600_000, list: "invoices" }]
    }],
    ["cursors of a snapshot", [known("cursor-snapshot", "no"), known("cursor-place", "the records that follow")], {
      cursors: "snapshot"
    }],
    [
      "cursors that are a count",
      [known("cursor-snapshot", "yes"), known("cursor-place", "records of the page again")],
      {
        cursors: "offset"
      }
    ],
    ["cursors that are another position", [known("cursor-snapshot", "yes")], { cursors: "keyset" }],
    ["no end of a cursor's life", [known("cursor-life", "at least 1 h")], {}],
    ["an unknown name of the limit, which then shows nothing about limits", [
      known("limit-1", "more"),
      known("limit-text", "another limit")
    ], { invoiceParameters: { limit: "unknown-limit" } }],
    ["an unknown name of the cursor", [known("next-page", "refused"), known("same-cursor", "refused")], {
      invoiceParameters: { cursor: "unknown-cursor" }
    }],
    ["records that only a filter shows, also if it is ignored", [known("absent-contract", "other records")], {
      behaviour: { absentValue: "everything", hiddenStatus: "pending" }
    }],
    ["a count of what was not read yet", [known("count", "the page and what follows")], { count: "unread" }],
    ["no count", [known("count", "no integer")], {
      faults: [{ fault: "envelope", member: "count", list: "invoices" }]
    }],
    ["a clock", [known("clock", "it is behind", "by 75 s")], {
      faults: [{ fault: "clock", aheadSeconds: -75, list: "invoices" }]
    }],
    ["no date", [known("clock", "no Date")], {
      faults: [{ fault: "header", name: "date", value: "", list: "invoices" }]
    }],
    ["another compression", [known("compression", "zstd")], {
      faults: [{ fault: "compress", encoding: "zstd", list: "invoices" }]
    }],
    ["an unknown path, and errors", [known("unknown-path", "410"), known("error-parameter", "text/html")], {
      behaviour: { unknownPath: 410, errors: "html" }
    }],
    ["what nobody can repeat", [known("two-filters", "a refusal"), known("error-key", "another type")], {}]
  ])("repeats %s", (_shown, facts, served) => {
    const { perList = {}, ...options } = likeFacts(facts)
    const all: object = { behaviour: {}, faults: [], invoiceParameters: {}, ...served }
    assert.deepStrictEqual<object>({ ...options, ...perList.invoices }, all)
  })

  it("repeats what was observed at one list of a base address in all its lists", () => {
    const { faults, perList } = likeFacts([
      known("error-key", "text/plain", "", "payoutRequests"),
      known("conditional", "304", "", "payoutRequests"),
      known("none-key", "403", "", "payoutRequests")
    ])
    assert.deepStrictEqual(
      [perList?.payoutRequests?.behaviour, perList?.payinSources?.behaviour, perList?.invoices?.behaviour],
      [{ missingKey: 403, errors: "text" }, { errors: "text" }, {}]
    )
    assert.deepStrictEqual(faults?.map(({ list }) => list), ["payoutRequests", "payinSources"])
  })

  it("repeats each fact, or the docs say that it does not", () => {
    const page = readFileSync(join(import.meta.dirname, "../../../../docs/sandbox.md"), "utf8")
    const [, section = ""] = page.split("## How do I serve as a service was observed?")
    const inDocs = section.match(/(?<=`)[a-z][\w-]*(?=`)/g) ?? []
    const exported = ["list-order", "places", "page-records", "short-pages"].map((name) => [name, { observations: [] }])
    const names = new Set(knownFacts({ invoices: Object.fromEntries(exported) }).map(({ name }) => name))
    const entries = [...Object.keys({ ...repeatedOfList, ...repeatedOfAddress }), ...inDocs]
    const missing = [...names].filter((name) =>
      !entries.some((entry) => entry.endsWith("-") ? name.startsWith(entry) : name === entry)
    )
    assert.deepStrictEqual(missing, [])
    assert.isAbove(names.size, 50)
  })
})
