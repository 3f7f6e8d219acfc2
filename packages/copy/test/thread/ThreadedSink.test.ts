import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { execute } from "@payments/testkit/Folder"
import { seed } from "@payments/testkit/Seed"
import { Effect, Exit, Fiber, FileSystem, Layer, Schema, Scope } from "effect"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { Worker } from "node:worker_threads"
import * as Destination from "../../src/destination/Destination.ts"
import { tableOf } from "../../src/plan/Columns.ts"
import * as ErrorMessage from "../../src/port/ErrorMessage.ts"
import {
  AccessDenied,
  type Batch,
  type BatchRecord,
  Damaged,
  DestinationFailed,
  DestinationMoved,
  DiskFull,
  LeaseLost,
  Locked,
  LogInUse,
  NotADestination,
  OtherMerchant,
  OtherRule,
  OtherSource,
  PersonalDataChanged,
  RowsRemoved,
  type ScanRequest,
  Sink,
  SinkError,
  type SinkReason,
  Unavailable,
  WrongSetting
} from "../../src/port/Sink.ts"
import { fromBatch, toBatch, transferred } from "../../src/thread/BatchMessage.ts"
import { fromParameter, toParameter } from "../../src/thread/SinkCalls.ts"
import { batchOf, recordOf } from "../session/Batches.ts"
import { suite } from "../session/SinkTest.ts"

const rowsIn = (file: string, list: Lists.AnyList) => {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    return db.prepare(`SELECT id, raw FROM ${tableOf(list)}`).all()
      .map(({ id, raw }) => ({ id: String(id), raw: String(raw) }))
  } finally {
    db.close()
  }
}

const sqlite = (folder: string) =>
  Layer.provide(Destination.layer({ _tag: "Sqlite", file: join(folder, "payments.db") }), NodeServices.layer)

suite("sqlite:FILE in a worker thread", {
  layer: sqlite,
  read: (folder, list) => rowsIn(join(folder, "payments.db"), list),
  snapshots: false,
  execute: (folder, statement) => execute(join(folder, "payments.db"), statement(""))
})

const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, Scope.Scope>) =>
  FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped()).pipe(
    Effect.flatMap(use),
    Effect.scoped,
    Effect.provide(NodeServices.layer)
  )

const sinkIn = (folder: string) =>
  Effect.map(Layer.build(sqlite(folder)), (built) => Effect.provideContext(Sink, built)).pipe(Effect.flatten)

/** The threads of this process. */
const threads: Array<Worker> = []
process.on("worker", (worker) => threads.push(worker))

const request: ScanRequest = { source: "test", limit: 10, parameters: {} }
const list = Lists.payoutRequests

describe("a sink in a worker thread", () => {
  it.live("is used for stored destinations", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* sinkIn(folder)
        assert.isAtLeast(threads.length, 1)
      })
    ))

  it.live("names the holder of a lock, and cancels a wait for a lock that is interrupted", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const [one, other] = [yield* sinkIn(folder), yield* sinkIn(folder)]
        const held = yield* Scope.make()
        yield* Scope.provide(one.lock(list, "refuse"), held)
        const refused = yield* Effect.flip(Effect.scoped(other.lock(list, "refuse")))
        assert.include(refused.message, `process ${process.pid}`)
        const waiting = yield* Effect.forkChild(Effect.scoped(other.lock(list, "wait")))
        yield* Effect.sleep("200 millis")
        yield* Fiber.interrupt(waiting)
        yield* Scope.close(held, Exit.void)
        // The interrupted request does not have the lock.
        yield* Effect.scoped(one.lock(list, "refuse"))
      })
    ))

  it.live("fails a request with a defect after a bug, and continues", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const sink = yield* sinkIn(folder)
        yield* sink.lock(list, "refuse")
        const session = yield* sink.begin(list, request)
        const record = recordOf(list, "a", `{"id":"a"}`)
        const batch = (text: string): Batch => batchOf(list, [{ ...record, text }], null)
        const exit = yield* Effect.exit(session.commit(batch("no JSON")))
        assert.isTrue(Exit.hasDies(exit))
        const { inserted } = yield* session.commit(batch(`{"id":"a"}`))
        assert.strictEqual(inserted, 1)
        assert.strictEqual((yield* session.progress).inserted, 1)
      })
    ))

  it.live("fails every request with a defect when its thread ends, and uses a new thread for the next sink", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const sink = yield* sinkIn(folder)
        yield* sink.lock(list, "refuse")
        const waiting = yield* Effect.forkChild(Effect.exit(Effect.scoped(sink.lock(list, "wait"))))
        yield* Effect.sleep("200 millis")
        // An invalid message crashes the thread.
        yield* Effect.sync(() => threads.at(-1)?.postMessage(null))
        assert.isTrue(Exit.hasDies(yield* Fiber.join(waiting)))
        assert.isTrue(Exit.hasDies(yield* Effect.exit(sink.begin(list, request))))
        const again = yield* sinkIn(folder)
        yield* again.lock(list, "refuse")
        assert.strictEqual((yield* again.begin(list, request)).start, "first")
      })
    ))

  it.live("closes everything that it has opened", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          const sink = yield* sinkIn(folder)
          yield* sink.lock(list, "refuse")
          const session = yield* sink.begin(list, request)
          // The commit of an unchanged batch is delayed until the session closes.
          yield* session.commit(batchOf(list, [], "c"))
        }))
        const db = new DatabaseSync(join(folder, "payments.db"), { readOnly: true })
        assert.strictEqual(db.prepare("SELECT pages FROM scans").get()?.["pages"], 1)
        db.close()
        const again = yield* sinkIn(folder)
        yield* again.lock(list, "refuse")
        assert.strictEqual((yield* again.begin(list, request)).start, "resumed")
      })
    ))
})

describe(`messages between threads (seed ${seed})`, () => {
  const Text = Schema.String
  /** All records of a list have the same number of amounts. */
  const recordsWith = (amounts: number) =>
    Schema.Array(Schema.Struct({
      id: Schema.UndefinedOr(Text),
      text: Text,
      amounts: Schema.Array(Schema.NullOr(Schema.Int)).check(Schema.isBetweenLength(amounts, amounts)),
      problem: Schema.UndefinedOr(Schema.Struct({ path: Text, expected: Text }))
    }))
  const Undocumented = Schema.Record(Text, Schema.Int)

  it.prop(
    "carry a batch unchanged",
    [Schema.Union([0, 1, 3].map(recordsWith)), Schema.NullOr(Text), Schema.Int, Undocumented],
    ([drawn, checkpoint, pages, paths]) => {
      const records = drawn.map((one) => ({ ...one, amounts: one.amounts.map((amount) => amount ?? Number.NaN) }))
      const batch: Batch = {
        pages,
        records,
        undocumented: new Map(Object.entries(paths)),
        checkpoint,
        owner: undefined
      }
      assert.deepStrictEqual(toBatch(structuredClone(fromBatch(batch))), batch)
    },
    { arbitrary: { seed } }
  )

  it("carry a large batch unchanged, without a copy of its texts", () => {
    const letters = ["x", "é", "😀", "\u0000", "\ufeff"].map((letter) => ({
      id: letter,
      text: letter.repeat(2_000_000)
    }))
    const records = [...letters, { id: "empty", text: "" }].map((one) => ({ ...one, amounts: [], problem: undefined }))
    const large = (more: ReadonlyArray<BatchRecord> = []) => batchOf(list, [...records, ...more], null)
    const send = (batch: Batch) => {
      const message = fromBatch(batch)
      const moved = transferred(message)
      const back = toBatch(structuredClone(message, { transfer: [...moved] }))
      assert.deepStrictEqual(back.records.map(({ id }) => id), batch.records.map(({ id }) => id))
      assert.isTrue(back.records.every(({ text }, index) => text === batch.records[index]?.text))
      return moved
    }
    const moved = send(large())
    assert.isTrue(moved.length === 1 && moved[0]?.detached)
    // A lone surrogate has no UTF-8 form, so the texts are copied.
    assert.deepStrictEqual(
      send(large([{ id: "lone", text: "\ud83d", amounts: [], problem: undefined }])),
      []
    )
  })

  it("carry lists by their names, also those of other definitions", () => {
    const parameters = [Lists.invoices, [...Lists.all], { ...Lists.invoices, title: "other" }, [], ["id"], undefined]
    const back = parameters.map((one) => toParameter(structuredClone(fromParameter(one))))
    assert.strictEqual(back[0], Lists.invoices)
    assert.deepStrictEqual(back[1], [...Lists.all])
    assert.strictEqual(back[2], Lists.invoices)
    assert.deepStrictEqual(back.slice(3), [[], ["id"], undefined])
  })

  it("carry every error with all its fields", () => {
    const reasons: {
      readonly [Tag in SinkReason["_tag"]]: ReadonlyArray<Extract<SinkReason, { readonly _tag: Tag }>>
    } = {
      Locked: [new Locked({ label: "invoices", holder: "process 1" }), new Locked({ label: "invoices" })],
      LeaseLost: [new LeaseLost({ label: "invoices", loss: "lockRemoved" })],
      Moved: [new DestinationMoved({ problem: "payments.db was removed" })],
      RowsRemoved: [new RowsRemoved({ label: "invoices" })],
      OtherSource: [new OtherSource({ bound: "a", given: "b" })],
      OtherRule: [
        new OtherRule({ bound: "keep every field", given: "omit personal data", isRewriting: true }),
        new OtherRule({ bound: "a", given: "b", isRewriting: false, reclassified: ["customerName"] })
      ],
      PersonalDataChanged: [new PersonalDataChanged()],
      OtherMerchant: [
        new OtherMerchant({ by: "merchantId" }),
        new OtherMerchant({ by: "key", committed: new Map([["invoices", { label: "invoices", records: 3 }]]) })
      ],
      NotADestination: [
        new NotADestination({ problem: "it is none." }),
        new NotADestination({ problem: "it is empty.", isEmpty: true, isLater: false })
      ],
      WrongSetting: [new WrongSetting({ problem: "PGPORT is not a port." })],
      Damaged: [new Damaged({ problem: "a page is lost", advice: "Restore it." })],
      Denied: [new AccessDenied({ problem: "payments.db may not be read" })],
      Full: [new DiskFull()],
      LogInUse: [new LogInUse()],
      Unavailable: [new Unavailable({ code: "ECONNREFUSED" })],
      Failed: [
        new DestinationFailed({ code: "EACCES" }),
        new DestinationFailed({ code: "28P01", login: { user: "me", userFrom: "PGUSER", passwordFrom: "PGPASSWORD" } })
      ]
    }
    for (const reason of Object.values(reasons).flat()) {
      const error = new SinkError({ location: "sqlite:x", reason })
      const back = ErrorMessage.toError(structuredClone(ErrorMessage.fromError(error)))
      assert.deepStrictEqual({ ...back.reason }, { ...reason })
      assert.strictEqual(back.reason.constructor, reason.constructor)
      assert.strictEqual(back.message, error.message)
    }
  })
})
