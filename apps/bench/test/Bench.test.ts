import { assert, describe, it } from "@effect/vitest"
import { median, meetsTarget, percentile95, render } from "../src/harness/Report.ts"
import { measureCli } from "../src/measures/cli.ts"
import { measureCore } from "../src/measures/core.ts"
import { measureExport } from "../src/measures/export.ts"
import { measureHandoff } from "../src/measures/handoff.ts"
import { measureHistory } from "../src/measures/history.ts"
import { measureReconcile } from "../src/measures/reconcile.ts"
import { measureSandbox } from "../src/measures/sandbox.ts"
import { measureWorker } from "../src/measures/worker.ts"

/** Milliseconds. Some of the tests start two dozen processes, which takes minutes on a busy machine. */
const timeout = 1_200_000

describe("the benchmark", { timeout }, () => {
  it("reads the same records with every client, and counts the requests to a failing server", async () => {
    const figures = await measureCore(
      { records: 2000, rounds: 1, slowRecords: 200, memoryFactor: 2, stormListings: 20 },
      () => {}
    )
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value)), render(figures))
    assert.isTrue(figures.filter(({ unit }) => unit === "records/s").every(({ value }) => value > 0))
    assert.isAtLeast(figures.find(({ unit }) => unit === "requests")?.value ?? -1, 0)
  })

  it("reads every page of the sandbox", async () => {
    const figures = await measureSandbox(
      { short: 200, long: 2000 },
      () => {}
    )
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value) && value > 0), render(figures))
  })

  it("exports into every destination, and resumes an export that was killed", async () => {
    const figures = await measureExport({ records: 500, long: 1000, rounds: 1 }, () => {})
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value) && value >= 0), render(figures))
  })

  it("queries a copy as it was before later changes, with the answers of that time", async () => {
    const figures = await measureHistory({ records: 500, rounds: 1 }, () => {})
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value) && value > 0), render(figures))
  })

  it("hands changes to receivers that apply, answer at once and hang", async () => {
    const figures = await measureHandoff({ records: 500, rounds: 1, seconds: 1, consumers: 10 }, () => {})
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value)), render(figures))
    assert.isTrue(figures.filter(({ unit }) => unit !== "MiB").every(({ value }) => value > 0), render(figures))
  })

  it("runs a worker over many sources", async () => {
    const figures = await measureWorker({ sources: 4, recordsPerList: 100, seconds: 2, every: 1 })
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value) && value > 0), render(figures))
  })

  it("starts the command line, and lists into a file", async () => {
    const figures = await measureCli({ records: 500, rounds: 1 }, () => {})
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value) && value > 0), render(figures))
  })

  it("reconciles a copy with statements that match and that do not", async () => {
    const figures = await measureReconcile({ records: 500, rounds: 1 }, () => {})
    assert.isTrue(figures.every(({ value }) => Number.isFinite(value) && value > 0), render(figures))
  })

  it("reports which targets are met", () => {
    const figure = { name: "a", unit: "×" } as const
    assert.isTrue(meetsTarget({ ...figure, value: 0.9, atLeast: 0.9 }))
    assert.isFalse(meetsTarget({ ...figure, value: 0.89, atLeast: 0.9 }))
    assert.isFalse(meetsTarget({ ...figure, value: 1.06, atMost: 1.05 }))
    assert.isUndefined(meetsTarget({ ...figure, value: 1 }))
    assert.include(render([{ ...figure, value: 0.5, atLeast: 0.9 }]), "MISSED")
  })

  it("computes medians and percentiles", () => {
    assert.deepStrictEqual([median([3, 1, 2]), median([4, 1, 2, 3])], [2, 2.5])
    const hundred = Array.from({ length: 100 }, (_, index) => 100 - index)
    assert.deepStrictEqual([percentile95(hundred), percentile95([7])], [95, 7])
  })
})
