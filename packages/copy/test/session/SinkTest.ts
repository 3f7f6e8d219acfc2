/** A test suite for every kind of destination. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import type { StoredRow } from "@payments/testkit/postgres/StoredRow"
import { Deferred, Effect, Exit, Fiber, FileSystem, Layer, Random, Schema } from "effect"
import { exitCodeOf } from "../../../program/src/outcome/ErrorTable.ts"
import { scan, type ScanEvent, type ScanSummary } from "../../src/index.ts"
import { type PersonalDestination, personalSuite } from "../personal/PersonalTest.ts"
import { ownerSuite } from "./OwnerTest.ts"

/** A kind of destination. */
export interface Destination extends PersonalDestination {
  /** Whether another destination of the same kind runs the tests of ownership and of personal data. */
  readonly isVariant?: boolean
}

const payout = (index: number, amount = index) =>
  `{"10":1.10,"id":"por_${index}","amount":${amount},"reference":null,"extra":{"n":9007199254740993,"e":1e400}}`

const payouts = (count: number) => Array.from({ length: count }, (_, index) => payout(index))

const expected = (records: ReadonlyArray<string>): ReadonlyArray<StoredRow> =>
  records.map((raw) => ({ raw, id: /"id":"([^"]*)"/.exec(raw)?.[1] ?? "" }))

const sorted = (rows: ReadonlyArray<StoredRow>) => rows.toSorted((left, right) => left.id.localeCompare(right.id))

/** Records per page, so few that a list has many pages. */
const limit = 10

/** Runs the suite over a destination. */
export const suite = (name: string, destination: Destination) => {
  if (destination.isVariant !== true) {
    ownerSuite(name, destination)
    personalSuite(name, destination)
  }
  const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
    FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped()).pipe(
      Effect.flatMap(use),
      Effect.scoped,
      Effect.provide(NodeServices.layer)
    )

  const from = (records: ReadonlyArray<string>, source = "memory") =>
    Layer.effect(PaymentsApi, Effect.map(PaymentsApi, (api) => ({ ...api, source }))).pipe(
      Layer.provide(layerTest({ payoutRequests: records }))
    )

  /** Runs an export as a process does: it opens the destination and closes it. */
  const run = (
    folder: string,
    records: ReadonlyArray<string>,
    onEvent?: (event: ScanEvent) => Effect.Effect<void>,
    source?: string
  ) =>
    scan("payoutRequests", { limit, largestBatch: limit, onEvent }).pipe(
      Effect.provide(Layer.merge(destination.layer(folder), from(records, source)))
    )

  const rows = (folder: string) =>
    Effect.promise(async () => sorted(await destination.read(folder, Lists.payoutRequests)))

  /** Runs an export and interrupts it after the commit of the given page. */
  const interruptAfter = (folder: string, records: ReadonlyArray<string>, pages: number) =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const fiber = yield* Effect.forkChild(run(folder, records, (event) =>
        event._tag === "Committed" && event.progress.pages === pages
          ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
          : Effect.void))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
    })

  describe(name, () => {
    it.live("stores every record once, with its exact text", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const summary = yield* run(folder, payouts(95))
          assert.deepInclude(summary, {
            pages: 10,
            records: 95,
            inserted: 95,
            updated: 0,
            unchanged: 0,
            quarantined: 0,
            start: "first"
          })
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(payouts(95))))
        })
      ))

    it.live("stores an empty list", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          assert.deepInclude(yield* run(folder, []), { pages: 1, records: 0 })
          assert.deepStrictEqual(yield* rows(folder), [])
        })
      ))

    it.live("rescans without duplicating a row, and stores what changed", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, payouts(30))
          const again = yield* run(folder, payouts(30))
          assert.deepInclude(again, { inserted: 0, updated: 0, unchanged: 30 })
          const changed = [...payouts(30).with(7, payout(7, 70)), payout(30)]
          const third = yield* run(folder, changed)
          assert.deepInclude(third, { inserted: 1, updated: 1, unchanged: 29 })
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(changed)))
        })
      ))

    it.live("detects a changed page after unchanged ones", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          /** The records of each run, and the expected counts. In most runs the fourth page differs from the run before. */
          const [before, gone] = [payouts(50), payouts(50).toSpliced(34, 1)]
          const older = Array.from({ length: 25 }, (_, index) => payout(index + 100))
          const readings: ReadonlyArray<readonly [ReadonlyArray<string>, Partial<ScanSummary>]> = [
            [before, { inserted: 50 }],
            [before, { unchanged: 50 }],
            [before.with(34, payout(34, 340)), { updated: 1, unchanged: 49 }],
            [before, { updated: 1, unchanged: 49 }],
            [before.with(33, payout(36)).with(36, payout(33)), { unchanged: 50 }],
            [[...before.slice(0, 30), ...before.slice(30, 40).toReversed(), ...before.slice(40)], { unchanged: 50 }],
            [before.toSpliced(34, 0, payout(34)), { repeats: 1, unchanged: 51 }],
            [before.toSpliced(34, 0, payout(34, 340)), { repeats: 1, updated: 2, unchanged: 49 }],
            [gone, { unchanged: 49, missing: 0 }],
            [gone, { unchanged: 49, missing: 1 }],
            [gone, { unchanged: 49, missing: 0 }],
            [before, { unchanged: 50, returned: 1 }],
            // New records come first, so the order of the list differs from the order of the rows.
            [[...older, ...before], { inserted: 25, unchanged: 50 }],
            [[...older, ...before], { unchanged: 75 }],
            [[...older, ...before].with(60, payout(35, 350)), { updated: 1, unchanged: 74 }],
            [[...older, ...before], { updated: 1, unchanged: 74 }],
            [[...older, ...before].toSpliced(60, 1), { unchanged: 74, missing: 0 }],
            [[...older, ...before].toSpliced(60, 1), { unchanged: 74, missing: 1 }],
            [[...older, ...before], { unchanged: 75, returned: 1 }]
          ]
          const none = { inserted: 0, updated: 0, returned: 0, repeats: 0, missing: 0, heldBack: 0 }
          for (const [index, [records, counted]] of readings.entries()) {
            assert.deepInclude(yield* run(folder, records), { ...none, ...counted }, `reading ${index}`)
          }
          assert.deepStrictEqual(yield* rows(folder), sorted(expected([...older, ...before])))
        })
      ))

    it.live("resumes after the last committed page of an interrupted run", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* interruptAfter(folder, payouts(95), 4)
          if (destination.snapshots) assert.deepStrictEqual(yield* rows(folder), [])
          const events: Array<ScanEvent> = []
          const summary = yield* run(folder, payouts(95), (event) => Effect.sync(() => void events.push(event)))
          assert.strictEqual(summary.start, "resumed")
          assert.deepInclude(summary, { pages: 10, records: 95, inserted: 95 })
          assert.strictEqual(events.filter(({ _tag }) => _tag === "Committed").length, 6)
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(payouts(95))))
        })
      ))

    it.live("shows readers, while a scan runs, the last complete list or the newest rows, and no row twice", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, payouts(40))
          const changed = Array.from({ length: 40 }, (_, index) => payout(index, index + 1))
          yield* interruptAfter(folder, changed, 2)
          const seen = yield* rows(folder)
          assert.strictEqual(new Set(seen.map(({ id }) => id)).size, 40)
          const mixed = [...changed.slice(0, 20), ...payouts(40).slice(20)]
          assert.deepStrictEqual(seen, sorted(expected(destination.snapshots ? payouts(40) : mixed)))
          yield* run(folder, changed)
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(changed)))
        })
      ))

    it.effect.prop("ends equal to the list after interruptions at any pages", {
      size: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 })),
      pagesPerRun: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 6 }))).check(
        Schema.isMaxLength(4)
      )
    }, ({ pagesPerRun, size }) =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const pages = Math.max(1, Math.ceil(size / limit))
          let committed = 0
          for (const pagesOfRun of pagesPerRun) {
            // The last page ends the scan, so nothing can be interrupted after it.
            if (committed + pagesOfRun >= pages) continue
            committed += pagesOfRun
            yield* interruptAfter(folder, payouts(size), committed)
          }
          yield* run(folder, payouts(size))
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(payouts(size))))
        })
      ), { arbitrary: { runs: 15 } })

    it.live.each(
      [
        ["every row, early", 3, (prefix: string) => `DELETE FROM ${prefix}payout_requests`],
        ["every row, before the last page", 9, (prefix: string) => `DELETE FROM ${prefix}payout_requests`],
        [
          "some rows that were read",
          9,
          (prefix: string) => `DELETE FROM ${prefix}payout_requests WHERE row BETWEEN 3 AND 4`
        ],
        ["the quarantine", 9, (prefix: string) => `DELETE FROM ${prefix}quarantine`],
        ["the scan", 5, (prefix: string) => `DELETE FROM ${prefix}scans`]
      ] as const
    )(
      "issues no certificate if another program removes %s during the scan, and the next run reads the list again",
      ([, pages, statement]) =>
        inFolder((folder) =>
          Effect.gen(function*() {
            const records = [...payouts(94), `{"id":"por_bad","amount":"1"}`].toReversed()
            yield* run(folder, records.slice(0, 20))
            const error = yield* Effect.flip(run(folder, records, (event) =>
              event._tag === "Committed" && event.progress.pages === pages
                ? Effect.promise(async () => void (await destination.execute(folder, statement)))
                : Effect.void))
            assert.strictEqual(error.reason._tag, "RowsRemoved")
            assert.strictEqual(exitCodeOf(error), 9)
            const again = yield* run(folder, records)
            assert.notStrictEqual(again.start, "resumed")
            // The removed rows do not count as missing.
            assert.deepInclude(again, { pages: 10, records: 95, quarantined: 1, repeats: 0, heldBack: 0 })
            assert.deepInclude(yield* run(folder, records), { unchanged: 95, missing: 0, heldBack: 0 })
            assert.deepStrictEqual(yield* rows(folder), sorted(expected(records)))
          })
        )
    )

    it.live("refuses the data of another source, and stays unchanged", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, payouts(5))
          const error = yield* Effect.flip(run(folder, payouts(9), undefined, "another merchant"))
          assert.strictEqual(error.reason._tag, "OtherSource")
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(payouts(5))))
        })
      ))

    it.live("is bound to a source by its first rows, not by a failed attempt", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const unreachable = Layer.effect(
            PaymentsApi,
            Effect.map(PaymentsApi, (api): PaymentsApi["Service"] => ({
              ...api,
              source: "a mistyped address",
              payoutRequests: { ...api.payoutRequests, pages: () => api.payoutRequests.pages({ limit: 0 }) }
            }))
          ).pipe(Layer.provide(layerTest({})))
          const attempt = scan("payoutRequests").pipe(
            Effect.provide(Layer.merge(destination.layer(folder), unreachable))
          )
          assert.strictEqual((yield* Effect.flip(attempt))._tag, "PaymentsError")
          yield* run(folder, payouts(5))
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(payouts(5))))
        })
      ))

    it.live("begins a new scan if the limit or the parameter names change", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const again = (more: { readonly limit: number; readonly name: string }) =>
            scan("payoutRequests", { limit: more.limit }).pipe(
              Effect.provide(Layer.merge(
                destination.layer(folder),
                Layer.effect(
                  PaymentsApi,
                  Effect.map(
                    PaymentsApi,
                    (api) => ({ ...api, payoutRequests: { ...api.payoutRequests, parameters: { limit: more.name } } })
                  )
                ).pipe(Layer.provide(from(payouts(95))))
              ))
            )
          yield* interruptAfter(folder, payouts(95), 4)
          assert.strictEqual((yield* again({ limit: 20, name: "limit" })).start, "otherRequest")
          yield* interruptAfter(folder, payouts(95), 4)
          assert.strictEqual((yield* again({ limit, name: "pageSize" })).start, "otherRequest")
          yield* interruptAfter(folder, payouts(95), 4)
          assert.strictEqual((yield* run(folder, payouts(95))).start, "resumed")
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(payouts(95))))
        })
      ))

    it.live("lets one export write a list at a time", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const reached = yield* Deferred.make<void>()
          const first = yield* Effect.forkChild(run(folder, payouts(30), (event) =>
            event._tag === "Committed"
              ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
              : Effect.void))
          yield* Deferred.await(reached)
          const error = yield* Effect.flip(run(folder, payouts(30)))
          assert.strictEqual(error.reason._tag, "Locked")
          yield* Fiber.interrupt(first)
          assert.isTrue(Exit.isSuccess(yield* Effect.exit(run(folder, payouts(30)))))
        })
      ))

    it.live("stores and reports a record that does not decode", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const bad = `{"id":"por_bad","amount":"12","reference":"r"}`
          const summary = yield* run(folder, [...payouts(3), bad, `{"amount":5}`])
          assert.deepInclude(summary, { records: 5, quarantined: 2, inserted: 4 })
          assert.deepStrictEqual(yield* rows(folder), sorted(expected([...payouts(3), bad])))
        })
      ))

    it.live("quarantines a record that is nested too deeply, and does not change the row with its id", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const arrays = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
          const nested = (id: string, levels: number) => `{"id":"${id}","extra":${arrays(levels - 1)}}`
          const objects = (levels: number) => `${`{"a":`.repeat(levels)}1${"}".repeat(levels)}`
          // PostgreSQL's json type accepts several thousand levels, limited by its stack.
          const deep = [nested("new", 501), nested("por_1", 10_000), `{"amount":${objects(200_000)}}`, arrays(200_000)]
          const stored = [...payouts(12), nested("flat", 500)]
          assert.deepInclude(yield* run(folder, stored), { inserted: 13, quarantined: 0 })
          const hostile = [...stored.toSpliced(1, 1), ...deep]
          const counted = {
            records: 16,
            inserted: 0,
            updated: 0,
            unchanged: 13,
            quarantined: 4,
            withoutId: 2,
            missing: 0
          }
          for (let times = 0; times < 3; times++) assert.deepInclude(yield* run(folder, hostile), counted)
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(stored)))
          // A record without an id prevents marking rows as missing. Without such records, a row is marked.
          const named = hostile.slice(1, 14)
          yield* run(folder, named)
          assert.deepInclude(yield* run(folder, named), { quarantined: 2, withoutId: 0, missing: 1 })
        })
      ))

    it.live("stores fields and values that contain SQL, formulas or JavaScript property names", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const hostile = [
            `{"id":"'); DROP TABLE payout_requests; --","__proto__":{"amount":1},"constructor":null}`,
            `{"id":"=cmd|' /C calc'!A0","reference":"\\u0000\\ud800\\u001b[31m"}`
          ]
          // One text contains both NUL and a lone surrogate. It is replaced and counted.
          assert.deepInclude(yield* run(folder, hostile), { inserted: 2, replaced: 1 })
          assert.deepStrictEqual(
            (yield* rows(folder)).map(({ raw }) => raw).toSorted(),
            hostile.toSorted()
          )
        })
      ))

    it.live("stores a list in any order", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = yield* Random.shuffle(payouts(50))
          yield* run(folder, records)
          assert.deepStrictEqual(yield* rows(folder), sorted(expected(records)))
        })
      ))
  })
}
