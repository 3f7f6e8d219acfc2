import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, type PaymentsApi, type PaymentsError } from "@payments/core"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { manifestOf, textsOf } from "@payments/testkit/RenderedFiles"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Console, Deferred, Duration, Effect, Fiber, type Layer, type Scope } from "effect"
import { createHash } from "node:crypto"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import { prune } from "../../src/ask/Retention.ts"
import { verify } from "../../src/ask/Verify.ts"
import * as FileSink from "../../src/files/FileSink.ts"
import { verifyFiles } from "../../src/files/VerifyFiles.ts"
import { RowSet } from "../../src/plan/RowSet.ts"
import * as Certificate from "../../src/port/Certificate.ts"
import { Sink, type SinkError } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { scan, scanParts } from "../../src/scan/Scan.ts"
import type { ScanEvent, ScanOptions, ScanSummary } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import { freshnessOf, overviewOf } from "../../src/store/Freshness.ts"
import type { Maintenance, Reader, ScanRow } from "../../src/store/Store.ts"
import { ChangeReplay, rowsIn } from "./ChangeReplay.ts"
import { ChangingList, type Shape } from "./ChangingList.ts"
import { recordingSink } from "./RecordingSink.ts"
import { ReferenceModel, type Traversal } from "./ReferenceModel.ts"

const shapes: ReadonlyArray<Shape> = (["newest", "oldest", "shuffled"] as const).flatMap((order) =>
  (["keyset", "offset"] as const).map((cursors) => ({ order, cursors }))
)
const parts = ["north", "south"] as const
const kinds = ["insert", "update", "missing", "returned"] as const

/** A kind of destination. Each history has its own folder, or a schema with the folder's name. */
interface DestinationCase {
  readonly name: string
  readonly histories: number
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError, NodeServices.NodeServices>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
  /** Further assertions after each run that was not interrupted. */
  readonly assertComplete?: (
    folder: string,
    model: ReferenceModel
  ) => Effect.Effect<void, SinkError, NodeServices.NodeServices>
}

/** Counts of events over all histories. */
interface Figures {
  scans: number
  interruptions: number
  resumed: number
  restarts: number
  parts: number
  heldBack: number
  /** Changes and scans that were removed between the runs. */
  removed: number
  /** Missing rows that were removed between the runs. */
  removedRows: number
  changes: ChangeReplay["counts"]
  /** Of the records that existed throughout a scan: how many the scan did not return, by the kind of cursor. */
  lost: Record<Shape["cursors"], number>
  throughout: Record<Shape["cursors"], number>
}

/** Plays one history, and compares the destination with the model after each of its runs, interrupted or not. */
const play = (destination: DestinationCase, number: number, figures: Figures) =>
  Effect.gen(function*() {
    const dice = diceOf(seed, destination.name, number)
    const shape = dice.pick(shapes)
    const folder = yield* temporaryFolder
    const list = new ChangingList(dice, shape, dice.below(60))
    const model = new ReferenceModel()
    const changes = new ChangeReplay()
    const layer = recordingSink(list, model, destination.layer(folder))
    const withOpened = <A, E, R>(use: (opened: Maintenance) => Effect.Effect<A, E, R>) =>
      Effect.scoped(Effect.flatMap(destination.open(folder), use))
    const checked = new Set<Traversal>()

    /** Returns the summaries of a run, or undefined if the run is interrupted after the given number of commits. */
    const run = (runs: Runs, options: RunOptions, interruptAfter = 0) =>
      Effect.gen(function*() {
        const reached = yield* Deferred.make<void>()
        let commits = 0
        const onEvent = (event: ScanEvent) => {
          if (event._tag === "Begun" && event.start === "resumed") figures.resumed++
          if (event._tag === "Begun" && event.part === undefined) {
            if (event.start !== "resumed") list.throughout = new Set(list.ids())
            if (list.isEmpty) list.throughout.clear()
          }
          // With concurrent scans, the end of one scan and the changes of another have no defined order.
          if (event._tag === "Begun" && options.concurrency === 1) {
            return Effect.orDie(withOpened((reader) => changes.replay(reader)))
          }
          if (event._tag === "Restarted") figures.restarts++
          return event._tag === "Committed" && ++commits === interruptAfter
            ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
            : Effect.void
        }
        const fiber = yield* Effect.forkChild(Effect.provide(runs({ ...options, onEvent }), layer))
        yield* Effect.raceFirst(Deferred.await(reached), Effect.ignore(Fiber.join(fiber)))
        if (!(yield* Deferred.isDone(reached))) return yield* Fiber.join(fiber)
        yield* Fiber.interrupt(fiber)
        figures.interruptions++
        return undefined
      })

    const check = (summaries: ReadonlyArray<ScanSummary> | undefined) =>
      withOpened(Effect.fnUntraced(function*(reader) {
        yield* assertRows(model, reader)
        yield* changes.replay(reader)
        assert.deepStrictEqual((yield* verify(reader, Lists.invoices)).differences, [])
        yield* assertFreshness(model, changes, reader)
        const scans = yield* reader.scans(Lists.invoices)
        for (const traversal of model.traversals) {
          if (!traversal.ended || checked.has(traversal)) continue
          checked.add(traversal)
          const { heldBack, missing, part, seen } = traversal
          const hasSameScan = (other: { readonly scan: number }) => other.scan === traversal.scan
          assertCertificate(model, traversal, scans.find(hasSameScan))
          const summary = summaries?.find(hasSameScan)
          if (summary !== undefined) assert.deepInclude(summary, { missing: missing.length, heldBack })
          figures.heldBack += heldBack
          if (part !== "") figures.parts++
          else {
            figures.scans++
            const unseen = [...list.throughout].filter((id) => !seen.has(id))
            figures.lost[shape.cursors] += unseen.length
            figures.throughout[shape.cursors] += list.throughout.size
            if (shape.cursors === "keyset") assert.deepStrictEqual(unseen, [])
          }
        }
      }))

    /** The next runs, if they are already determined. */
    const planned: Array<{ readonly inParts: boolean; readonly hidden?: string | undefined }> = []
    for (let left = 4 + dice.below(8); left >= 0; left--) {
      list.pace = dice.pick([0, 1, 4])
      list.isEmpty = dice.chance(0.08)
      list.hasRecordWithoutId = dice.chance(0.06)
      list.refusesCursor = dice.chance(0.1)
      if (dice.chance(0.1)) list.removeShare(dice.pick([0.05, 0.4]))
      if (dice.chance(0.3)) list.restoreRemoved()
      if (planned.length === 0 && dice.chance(0.1)) {
        // The service may be inconsistent: the whole list may have a record that a part lacks, or the reverse.
        const [hidden = ""] = list.ids()
        const wholeWithout = { inParts: false, hidden }
        planned.push(wholeWithout, { inParts: true }, { inParts: true, hidden }, wholeWithout, wholeWithout, {
          inParts: false
        })
      }
      // The last run is an uninterrupted run of the whole list.
      const interruptAfter = left > 0 && planned.length === 0 && dice.chance(0.4) ? 1 + dice.below(6) : 0
      const { hidden, inParts } = left === 0 ? { inParts: false } : planned.shift() ?? { inParts: dice.chance(0.35) }
      list.hide(hidden)
      const runs = inParts
        ? runParts(dice.pick([parts, parts.toReversed(), ["south"]]))
        : runWhole
      const options = {
        limit: dice.pick([5, 5, 5, 8]),
        largestBatch: dice.pick([1, 20]),
        concurrency: interruptAfter === 0 ? dice.pick([1, 2]) : 1
      }
      const summaries = yield* run(runs, options, interruptAfter)
      yield* check(summaries)
      if (dice.chance(0.3)) {
        yield* withOpened(Effect.fnUntraced(function*(opened) {
          yield* moveConsumer(opened, { name: "replay", position: changes.position, when: "forward" })
          const zero = Duration.zero
          const keepMissing = dice.chance(0.7) ? zero : undefined
          const before = yield* rowsIn(opened)
          // A row is missing for longer than 0 ms only in the next millisecond.
          const pruned = yield* Effect.delay(
            prune(opened, { keepChanges: zero, keepScans: zero, keepMissing }),
            "2 millis"
          )
          figures.removed += pruned.changes.removed + pruned.scans.removed
          figures.removedRows += pruned.rows.removed
          const kept = new Set((yield* rowsIn(opened)).map(({ row }) => row))
          const removed = before.filter(({ row }) => !kept.has(row))
          assert.strictEqual(removed.length, pruned.rows.removed)
          const needed = yield* neededRows(opened)
          for (const { id, missingSince, row } of before) {
            if (missingSince === undefined || keepMissing === undefined) assert.isTrue(kept.has(row), id)
            else assert.strictEqual(kept.has(row), needed.has(row) || row === before.at(-1)?.row, id)
          }
          for (const { id } of removed) {
            model.remove(id)
            changes.removed.add(id)
          }
          yield* assertRows(model, opened)
          yield* changes.replay(opened)
          yield* assertFreshness(model, changes, opened)
          assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
          // Files are rendered again when a scan ends.
          if (removed.length > 0) {
            yield* Effect.provide(
              Effect.flatMap(Sink, (sink) =>
                Effect.scoped(Effect.andThen(sink.lock(Lists.invoices, "refuse"), sink.publish(Lists.invoices)))),
              destination.layer(folder)
            )
          }
        }))
      }
      if (summaries !== undefined) {
        yield* destination.assertComplete?.(folder, model) ?? Effect.void
      }
    }
    for (const kind of kinds) {
      figures.changes[kind] += changes.counts[kind]
    }
  }).pipe(
    Effect.scoped,
    Effect.provide(NodeServices.layer),
    Effect.onError(() =>
      Console.error(`history ${number} of ${destination.name}, seed ${seed}`)
    )
  )

/** Returns the rows that the stored complete and running scans have seen. */
const neededRows = Effect.fnUntraced(function*(reader: Reader) {
  const scans = (yield* reader.scansFrom(Lists.invoices, 0)).filter(({ state }) =>
    state === "complete" || state === "running"
  )
  return new RowSet(yield* reader.seen(scans.map((needed) => needed.scan)))
})

interface RunOptions extends ScanOptions {
  /** The number of parts that are read concurrently. */
  readonly concurrency: number
}

type Runs = (
  options: RunOptions
) => Effect.Effect<ReadonlyArray<ScanSummary>, PaymentsError | SinkError, PaymentsApi | Sink>

const runWhole: Runs = (options) => Effect.map(scan("invoices", options), (summary) => [summary])

const runParts = (values: ReadonlyArray<string>): Runs => (options) =>
  scanParts("invoices", { ...options, field: "contract", values })

/** Asserts that the certificate matches the last text of each record that the traversal returned. */
const assertCertificate = (model: ReferenceModel, traversal: Traversal, row: ScanRow | undefined): void => {
  const { isRepeated, part, seen } = traversal
  assert.strictEqual(row?.state, "complete")
  const texts = [...seen.values()].map(({ text }) => text)
  const amount = texts.reduce((total, text) => total + Number(/"amount":(\d+)/.exec(text)?.[1] ?? 0), 0)
  const certificate = Certificate.ofScan(row)
  if (certificate === undefined) return assert.isTrue(part !== "" && isRepeated && model.isShared(traversal))
  assert.deepInclude(certificate, { distinct: seen.size, digest: digestOf(texts) })
  assert.strictEqual(Number(certificate.sums["amount"] ?? 0), amount)
}

const digestOf = (texts: ReadonlyArray<string>): string =>
  (texts.reduce((total, text) => total + BigInt(`0x${sha256(text).slice(0, 32)}`), 0n) % 2n ** 128n)
    .toString(16).padStart(32, "0")

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")

const assertRows = Effect.fnUntraced(function*(model: ReferenceModel, reader: Pick<Maintenance, "rows">) {
  const rows = yield* rowsIn(reader)
  assert.strictEqual(rows.length, model.texts.size)
  for (const { hash, id, missingSince, raw } of rows) {
    assert.include(model.texts.get(id) ?? [], raw)
    assert.strictEqual(hash, sha256(raw))
    assert.strictEqual(missingSince !== undefined, model.missing.has(id), `${id} is missing`)
  }
})

/** Asserts that the figures, which are read from indexes and counters, match the rows and the changes. */
const assertFreshness = Effect.fnUntraced(function*(model: ReferenceModel, changes: ChangeReplay, reader: Reader) {
  const [freshness] = yield* freshnessOf(reader, [Lists.invoices])
  assert.deepInclude(freshness, { rows: model.texts.size, missing: model.missing.size })
  const lastFull = model.traversals.findLast(({ ended, part }) => ended && part === "")
  assert.strictEqual(freshness?.completeScan?.scan, lastFull?.scan)
  const { days, otherStatuses, statuses } = yield* overviewOf(reader, Lists.invoices)
  const counts = { insert: 0, update: 0, missing: 0, returned: 0 }
  for (const day of days) for (const kind of kinds) counts[kind] += day[kind]
  assert.deepStrictEqual(counts, changes.counts)
  const present = statuses.reduce((sum, { rows }) => sum + rows, otherStatuses.rows)
  assert.strictEqual(present, model.texts.size - model.missing.size)
})

/** Asserts that the files are intact, have all rows, and have a certificate only if it matches the rendered rows. */
const assertFiles = Effect.fnUntraced(function*(folder: string, model: ReferenceModel) {
  assert.deepStrictEqual(yield* verifyFiles(folder), [])
  const rows = yield* Effect.scoped(Effect.flatMap(opened(join(folder, FileSink.copyFile)), rowsIn))
  assert.sameMembers([...yield* textsOf(folder, Lists.invoices)], rows.map(({ raw }) => raw))
  const certificate = manifestOf(folder).lists["invoices"]?.certificate
  if (certificate === undefined) return
  const texts = new Map(rows.map(({ id, raw }) => [id, raw]))
  const seen = model.traversals.findLast((traversal) => traversal.scan === certificate.scan)?.seen.keys() ?? []
  assert.strictEqual(certificate.digest, digestOf([...seen].map((id) => texts.get(id) ?? "")))
})

const opened = (file: string) => openMaintenance(file, "here")

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    histories: isLongRun ? 1000 : 50,
    layer: (folder) => SqliteSink.layer(join(folder, "payments.db")),
    open: (folder) => opened(join(folder, "payments.db"))
  },
  {
    name: "file:FOLDER",
    histories: isLongRun ? 200 : 10,
    layer: (folder) => FileSink.layer(folder),
    open: (folder) => opened(join(folder, FileSink.copyFile)),
    assertComplete: assertFiles
  },
  {
    name: "postgres://HOST",
    histories: isLongRun ? 100 : 5,
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder)))
  }
]

describe(`a list that changes during interrupted and resumed scans, whole and in parts (seed ${seed})`, () => {
  it.live.each(destinations)(
    "is stored with its last texts, every change is recorded, no row is wrongly missing, and keyset cursors lose no " +
      "record: $histories histories in $name",
    (destination) =>
      Effect.gen(function*() {
        const figures: Figures = {
          scans: 0,
          interruptions: 0,
          resumed: 0,
          restarts: 0,
          parts: 0,
          heldBack: 0,
          removed: 0,
          removedRows: 0,
          changes: { insert: 0, update: 0, missing: 0, returned: 0 },
          lost: { keyset: 0, offset: 0 },
          throughout: { keyset: 0, offset: 0 }
        }
        for (let number = 1; number <= destination.histories; number++) yield* play(destination, number, figures)
        const { lost, throughout } = figures
        yield* Console.log(
          `histories: ${
            JSON.stringify(figures)
          }; offset cursors did not return ${lost.offset} of ${throughout.offset} ` +
            "records that existed throughout a scan"
        )
        // A few histories need not contain every kind of event.
        if (destination.histories < 50) return
        const { changes, heldBack, interruptions, parts: partScans, removed, removedRows, restarts, resumed } = figures
        for (
          const count of [
            interruptions,
            resumed,
            restarts,
            partScans,
            heldBack,
            removed,
            removedRows,
            ...kinds.map((kind) => changes[kind])
          ]
        ) {
          assert.isAbove(count, 0, "the histories contain every kind of event")
        }
      }),
    1_200_000
  )
})
