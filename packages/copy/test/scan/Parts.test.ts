import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi, PaymentsError, Reason } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { textsOf } from "@payments/testkit/RenderedFiles"
import { Deferred, Effect, Fiber, Layer, Option, Stream } from "effect"
import { join } from "node:path"
import * as FileSink from "../../src/files/FileSink.ts"
import {
  Destination,
  scan,
  type ScanEvent,
  scanParts,
  type ScanStart,
  Sink,
  verify,
  verifyFiles
} from "../../src/index.ts"
import * as Certificate from "../../src/port/Certificate.ts"
import { batchOf, recordOf } from "../session/Batches.ts"

const days = ["2024-05-01", "2024-05-02"]
/** Makes a hundred invoices, half of them for each day. */
const invoices = (amounts: (index: number) => number) =>
  Array.from({ length: 100 }, (_, index) => ({
    id: `inv_${index}`,
    amount: amounts(index),
    settlementDate: index < 50 ? "2024-05-01" : "2024-05-02"
  }))

/** A run of the whole list or of the parts of these days, which may be interrupted after a number of commits. */
interface Run {
  readonly of: "whole" | ReadonlyArray<string>
  readonly amounts: (index: number) => number
  readonly interruptAfter?: number
}

const run = Effect.fnUntraced(function*(folder: string, { amounts, interruptAfter, of }: Run) {
  const reached = yield* Deferred.make<void>()
  let pages = 0
  const options = {
    limit: 10,
    largestBatch: 10,
    onEvent: ({ _tag }: ScanEvent) =>
      _tag === "Committed" && ++pages === interruptAfter
        ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
        : Effect.void
  }
  const scans = of === "whole"
    ? Effect.map(scan("invoices", options), (summary) => [summary])
    : scanParts("invoices", { ...options, field: "settlementDate", values: of, concurrency: 1 })
  const fiber = yield* Effect.forkChild(
    Effect.provide(scans, Layer.merge(FileSink.layer(folder), layerTest({ invoices: invoices(amounts) })))
  )
  if (interruptAfter === undefined) return yield* Fiber.join(fiber)
  yield* Deferred.await(reached)
  yield* Fiber.interrupt(fiber)
  return []
})

const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
  Effect.flatMap(temporaryFolder, use).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const changesIn = (folder: string, kind: string) =>
  rowsOf(join(folder, FileSink.copyFile), `SELECT id FROM changes WHERE kind = '${kind}' ORDER BY seq`)
    .map(({ id }) => String(id))

const sequences: ReadonlyArray<readonly [name: string, runs: ReadonlyArray<Run>, last: ScanStart]> = [
  ["the first load, after a part", [
    { of: "whole", amounts: (index) => index, interruptAfter: 3 },
    { of: ["2024-05-01"], amounts: (index) => index < 5 ? -1 : index },
    { of: "whole", amounts: (index) => index < 5 ? -1 : index }
  ], "overtaken"],
  ["the whole list, after a part", [
    { of: "whole", amounts: (index) => index },
    { of: "whole", amounts: (index) => index < 5 ? -1 : index, interruptAfter: 2 },
    { of: ["2024-05-02"], amounts: (index) => index < 5 ? -1 : index > 90 ? -2 : index },
    { of: "whole", amounts: (index) => index < 5 ? -1 : index > 90 ? -2 : index > 30 ? -3 : index }
  ], "overtaken"],
  ["a part, after the whole list", [
    { of: "whole", amounts: (index) => index },
    { of: ["2024-05-01"], amounts: (index) => index < 10 ? -1 : index, interruptAfter: 2 },
    { of: "whole", amounts: (index) => index < 10 ? -1 : index },
    { of: ["2024-05-01"], amounts: (index) => index < 10 ? -1 : index < 50 ? -2 : index }
  ], "overtaken"],
  ["a part, after another part", [
    { of: "whole", amounts: (index) => index },
    { of: ["2024-05-01"], amounts: (index) => index < 10 ? -1 : index, interruptAfter: 2 },
    { of: ["2024-05-02"], amounts: (index) => index < 10 ? -1 : index > 90 ? -2 : index },
    { of: ["2024-05-01"], amounts: (index) => index < 10 ? -1 : index > 90 ? -2 : index < 50 ? -3 : index }
  ], "resumed"]
]

describe("an interrupted scan", () => {
  it.live.each(sequences)(
    "of %s, leaves consistent rows, files and certificates",
    ([, runs, last]) =>
      inFolder((folder) =>
        Effect.gen(function*() {
          let summaries: Effect.Success<ReturnType<typeof run>> = []
          for (const nextRun of runs) {
            summaries = yield* run(folder, nextRun)
            const reader = yield* Destination.reader({ _tag: "Sqlite", file: join(folder, FileSink.copyFile) })
            assert.deepStrictEqual((yield* verify(reader, Lists.invoices)).differences, [])
            assert.deepStrictEqual(yield* verifyFiles(folder), [])
          }
          assert.deepStrictEqual(summaries.map(({ start }) => start), [last])
          const stored = rowsOf(join(folder, FileSink.copyFile), "SELECT raw FROM invoices").map(({ raw }) =>
            String(raw)
          )
          assert.deepStrictEqual([...yield* textsOf(folder, Lists.invoices)].toSorted(), stored.toSorted())
          const { amounts } = runs.at(-1) ?? { amounts: () => 0 }
          if (last === "overtaken") {
            assert.deepStrictEqual(
              stored.toSorted(),
              invoices(amounts).map((invoice) => JSON.stringify(invoice)).toSorted()
            )
          }
        }).pipe(Effect.scoped)
      )
  )
})

describe("parts of a list", () => {
  it.live("record changes that they or a later scan of the whole list find, and none for a first load", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, { of: days, amounts: (index) => index })
        assert.deepStrictEqual([changesIn(folder, "insert"), changesIn(folder, "update")], [[], []])
        yield* run(folder, { of: "whole", amounts: (index) => index < 2 ? -1 : index })
        assert.deepStrictEqual(changesIn(folder, "update"), ["inv_0", "inv_1"])
        yield* run(folder, { of: ["2024-05-02"], amounts: (index) => index > 98 ? -2 : index })
        assert.deepStrictEqual(changesIn(folder, "update"), ["inv_0", "inv_1", "inv_99"])
      })
    ))

  it.live("have no certificate if a record repeats that another part may have changed in between", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const sink = yield* Sink
        yield* sink.lock(Lists.invoices, "refuse")
        const begin = (value: string) =>
          sink.begin(Lists.invoices, {
            source: "memory",
            limit: 10,
            parameters: {},
            part: { field: "settlementDate", value }
          })
        const batch = (cursor: string | null, amounts: Record<string, number>) =>
          batchOf(
            Lists.invoices,
            Object.entries(amounts).map(([id, amount]) => recordOf(Lists.invoices, id, JSON.stringify({ id, amount }))),
            cursor
          )
        const left = yield* begin("concurrent 1")
        const right = yield* begin("concurrent 2")
        yield* left.commit(batch("a", { inv_1: 1, inv_2: 2 }))
        yield* right.commit(batch("b", { inv_1: 10, inv_3: 3 }))
        yield* left.commit(batch(null, { inv_1: 100 }))
        yield* right.commit(batch(null, { inv_4: 4 }))
        // An interrupted part is resumed after another part.
        yield* Effect.scoped(
          Effect.flatMap(begin("interrupted"), ({ commit }) => commit(batch("c", { inv_5: 5, inv_6: 6 })))
        )
        yield* Effect.scoped(
          Effect.flatMap(begin("meanwhile"), ({ commit }) => commit(batch(null, { inv_5: 50 })))
        )
        const resumed = yield* begin("interrupted")
        assert.strictEqual(resumed.start, "resumed")
        yield* resumed.commit(batch(null, { inv_5: 500 }))
        // A part that shares no record with another part.
        const alone = yield* begin("alone")
        yield* alone.commit(batch("d", { inv_7: 7, inv_8: 8 }))
        yield* alone.commit(batch(null, { inv_7: 70 }))
        const again = yield* begin("alone")
        yield* again.commit(batch("e", { inv_7: 7 }))
        yield* again.commit(batch(null, { inv_7: 700 }))
        // The other part restarts in between: the records that it has seen are unknown, but its rows stay.
        const victim = yield* begin("with a restarted part")
        const restarted = yield* begin("restarted")
        yield* victim.commit(batch("f", { inv_9: 9 }))
        yield* restarted.commit(batch("g", { inv_9: 90 }))
        yield* restarted.restart
        yield* victim.commit(batch(null, { inv_9: 900 }))
        yield* restarted.commit(batch(null, { inv_9: 900 }))
        const sums = rowsOf(join(folder, FileSink.copyFile), "SELECT part, certificate FROM scans ORDER BY scan").map(
          ({ certificate, part }) => [
            JSON.parse(String(part))[1],
            Option.getOrUndefined(Certificate.fromJson(String(certificate)))?.sums["amount"]
          ]
        )
        assert.deepStrictEqual(sums, [
          ["concurrent 1", undefined],
          ["concurrent 2", "17"],
          ["interrupted", undefined],
          ["meanwhile", "50"],
          ["alone", "78"],
          ["alone", "700"],
          ["with a restarted part", undefined],
          ["restarted", "900"]
        ])
      }).pipe(Effect.provide(FileSink.layer(folder)), Effect.scoped)
    ))

  it.live("retry a first page if the service has responded to another part", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        let asked = 0
        const failing = Layer.effect(
          PaymentsApi,
          Effect.map(PaymentsApi, (api): PaymentsApi["Service"] => ({
            ...api,
            invoices: {
              ...api.invoices,
              pages: (query) =>
                Stream.mapEffect(api.invoices.pages(query), (page) =>
                  Effect.suspend(() => ++asked === 6 ? Effect.fail(unavailable) : Effect.succeed(page)))
            }
          }))
        ).pipe(Layer.provide(layerTest({
          invoices: invoices((index) =>
            index
          )
        })))
        const summaries = yield* scanParts("invoices", {
          field: "settlementDate",
          values: [...days, ...days],
          limit: 10,
          concurrency: 1
        }).pipe(Effect.provide(Layer.merge(FileSink.layer(folder), failing)))
        assert.deepStrictEqual(summaries.map(({ records }) => records), [50, 50])
      })
    ))
})

const unavailable = new PaymentsError({
  list: "invoices",
  reason: new Reason.ServerFailure({ status: 503, retryAfter: undefined }),
  attempts: 1,
  status: 503,
  requestId: undefined,
  body: undefined,
  position: undefined
})
