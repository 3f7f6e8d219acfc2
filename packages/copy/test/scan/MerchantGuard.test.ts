/** Which pages a guard admits by what is known about their merchant, and what has to decide about the others. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, type PaymentsApi } from "@payments/core"
import type { GuardedScan } from "../../src/scan/Evidence.ts"
import { admitOwn, evidenceFor, GuardState } from "../../src/scan/MerchantGuard.ts"
import type { PageBatch } from "../../src/scan/PageBatch.ts"
import { makeSourceGuard } from "../../src/scan/SourceGuard.ts"

/** A page with these merchant ids, whose request and answer have the numbers `at` and `at + 1`. */
const page = (merchants: ReadonlyArray<string>, at = 0, records = 1): PageBatch => ({
  pages: 1,
  records: Array.from({ length: records }, () => ({ id: undefined, text: "{}", amounts: [], problem: undefined })),
  undocumented: new Map(),
  next: null,
  attempts: 1,
  characters: 2 * records,
  merchants,
  keyFingerprint: async () => "key",
  sight: { records: 0, count: undefined, dates: {} },
  requested: at,
  received: at + 1
})

/** What is known before the pages. */
interface Known {
  readonly merchants?: ReadonlyArray<string>
  readonly isAdmitted?: boolean
  readonly isBlind?: boolean
  readonly certain?: number
  readonly scan?: Partial<GuardedScan>
}

const stateOf = ({ certain, isAdmitted, isBlind, merchants = [], scan }: Known) => {
  const source = makeSourceGuard()
  for (const merchant of merchants) source.known.add(merchant)
  if (certain !== undefined) source.certain.set("key", certain)
  const guard = new GuardState({
    list: Lists.payinSources,
    kind: "full",
    limit: 100,
    part: undefined,
    // Neither the API nor the destination is needed without a lookup.
    api: {} as PaymentsApi["Service"],
    location: "here",
    inspect: {} as GuardedScan["inspect"],
    preview: { owner: { salt: "", keys: [], merchants: [], bound: true, filled: [] }, resumeAt: undefined },
    rebind: false,
    source,
    ...scan
  })
  if (isAdmitted === true) guard.admitted.add("key")
  if (isBlind === true) guard.blind.add("key")
  return guard
}

const many = Array.from({ length: 1000 }, (_, index) => `m${index}`)

describe("pages of a key", () => {
  it.each<readonly [string, Known, ReadonlyArray<PageBatch>, number]>([
    ["no page, if nothing is known", {}, [page(["a"])], 0],
    ["all pages without ids, if the key was judged and no id is known", { isAdmitted: true }, [page([]), page([])], 2],
    ["the first ids after the key was judged, and no other ones", { isAdmitted: true }, [page(["a"]), page(["b"])], 1],
    ["pages with a known id", { merchants: ["a"] }, [page(["a"]), page(["a", "b"])], 2],
    [
      "an earlier page whose id is on a page with a known one",
      { merchants: ["a"] },
      [page(["b"]), page(["a", "b"])],
      2
    ],
    [
      "no page from the first one with unknown ids on",
      { merchants: ["a"] },
      [page(["a"]), page(["b"]), page(["a"])],
      1
    ],
    ["a page without ids before a page with a known one", { merchants: ["a"] }, [page([], 0), page(["a"], 2)], 2],
    ["no page without ids after the last known one", { merchants: ["a"] }, [page(["a"], 0), page([], 2)], 1],
    [
      "a page without ids that another list has shown to be certain",
      { merchants: ["a"], certain: 5 },
      [page([], 3)],
      1
    ],
    ["pages without ids of a judged key that reads none", { merchants: ["a"], isAdmitted: true, isBlind: true }, [
      page([])
    ], 1],
    ["no empty page at the end of a full scan", { merchants: ["a"], isAdmitted: true }, [page([], 0, 0)], 0],
    [
      "an empty page of a part",
      { merchants: ["a"], isAdmitted: true, scan: { part: { field: "status", value: "paid" } } },
      [page([], 0, 0)],
      1
    ],
    ["an empty page of a pass", { merchants: ["a"], isAdmitted: true, scan: { kind: "head" } }, [page([], 0, 0)], 1],
    ["all pages of a judged key, if the ids are too many to be merchants", { merchants: many, isAdmitted: true }, [
      page(["x"])
    ], 1]
  ])("are admitted as far as they are the source's: %s", (_, known, pages, count) => {
    assert.strictEqual(admitOwn(stateOf(known), "key", pages), count)
  })

  it("that show a known id make their key accepted, and earlier requests certain", () => {
    const guard = stateOf({ merchants: ["a"], certain: 3 })
    const { source } = guard.scan
    admitOwn(guard, "key", [page(["a"], 7), page(["a"], 5)])
    assert.deepStrictEqual([source.certain.get("key"), source.accepted.has("key"), guard.admitted.has("key")], [
      7,
      true,
      true
    ])
  })

  it.each<readonly [string, Known, PageBatch, ReturnType<typeof evidenceFor>]>([
    ["the key, if no merchant id is known", {}, page(["a"]), "key"],
    ["the ids, if one is known and the page has others", { merchants: ["a"] }, page(["b"]), "ids"],
    ["samples of other lists, if the page has none", { merchants: ["a"] }, page([]), "samples"],
    ["the key, if it reads no ids", { merchants: ["a"], isBlind: true }, page([]), "key"],
    ["the key, if the ids are too many to be merchants", { merchants: many }, page(["x"]), "key"]
  ])("that are not admitted are judged by %s", (_, known, first, evidence) => {
    assert.strictEqual(evidenceFor(stateOf(known), { key: "key", first }), evidence)
  })
})
