/** Hand-offs over real sockets, from both databases, with faults of the receiver and kills of the sender. */
import type * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { overSleptClock, overStandingClock } from "@payments/testkit/Clocks"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import {
  Array as Arr,
  Cause,
  Console,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  type Layer,
  Redacted,
  type Scope
} from "effect"
import { randomBytes } from "node:crypto"
import { basename, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Webhook } from "standardwebhooks"
import { afterAll, beforeAll } from "vitest"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import * as FileSink from "../../src/files/FileSink.ts"
import { selectionOf } from "../../src/handoff/Body.ts"
import { mostReady } from "../../src/handoff/Delivery.ts"
import { resumeHandoff, skipRefused } from "../../src/handoff/Intervention.ts"
import { makeLossAt } from "../../src/handoff/Loss.ts"
import type { Post } from "../../src/handoff/Post.ts"
import { replayHandoff } from "../../src/handoff/Replay.ts"
import type { Attempted } from "../../src/handoff/Sender.ts"
import { erase } from "../../src/personal/Erase.ts"
import type { Sink, SinkError } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import type { Maintenance } from "../../src/store/Store.ts"
import { farAway, keyOf, postTo, type Received, receiver, type Reply, secretText, sending } from "./Receiver.ts"
import { consumer, exporting, subscribed } from "./Subscribed.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

interface DestinationCase {
  readonly name: string
  readonly histories: number
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError, NodeServices.NodeServices>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
}

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    histories: isLongRun ? 400 : 20,
    layer: (folder) => SqliteSink.layer(join(folder, "payments.db")),
    open: (folder) => openMaintenance(join(folder, "payments.db"), "here")
  },
  {
    name: "file:FOLDER",
    histories: isLongRun ? 50 : 2,
    layer: (folder) => FileSink.layer(folder),
    open: (folder) => openMaintenance(join(folder, FileSink.copyFile), "here")
  },
  {
    name: "postgres://HOST",
    histories: isLongRun ? 100 : 4,
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder)))
  }
]

/** Opens a destination in which each of so many invoices has changed once. */
const withChanges = Effect.fnUntraced(function*(destination: DestinationCase, count: number) {
  const folder = yield* temporaryFolder
  const layer = destination.layer(folder)
  for (const amount of [1, 2]) yield* exporting(layer, Array.from({ length: count }, () => amount))
  const maintenance = yield* destination.open(folder)
  yield* subscribed(maintenance)
  return { folder, layer, maintenance, open: destination.open(folder) }
})

const numbersTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

const withoutRepeats = (received: ReadonlyArray<Received>) => {
  const byId = new Map<string, Received>()
  for (const one of received) {
    const known = byId.get(one.id)
    if (known === undefined) byId.set(one.id, one)
    else assert.strictEqual(one.body, known.body, "the same id means the same bytes")
  }
  return [...byId.values()]
}

/** What a receiver has applied if it passes over numbers that it has applied before. Fails if it would miss one. */
const applied = (received: ReadonlyArray<Received>, skipped: ReadonlySet<number> = new Set()) => {
  let last = 0
  for (const { numbers } of received) {
    for (const seq of numbers) {
      if (seq <= last) continue
      for (let missed = last + 1; missed < seq; missed++) assert.isTrue(skipped.has(missed), `${missed} before ${seq}`)
      last = seq
    }
  }
  return last
}

const patient = { giveUpAfter: Duration.days(3), ...farAway }

/** Runs a sender until it waits for its next attempt. */
const killedWhileWaiting = Effect.fnUntraced(function*<A, E>(maintenance: Maintenance, sender: Effect.Effect<A, E>) {
  const running = yield* Effect.forkChild(sender)
  while ((yield* maintenance.handoffs)[0]?.nextAttemptAt === undefined) yield* Effect.sleep("5 millis")
  yield* Fiber.interrupt(running)
})

/** Runs a sender until it is about to send. It goes on after `released`. */
const stalledBefore = Effect.fnUntraced(function*<A, E>(post: Post, run: (held: Post) => Effect.Effect<A, E>) {
  const [reached, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const held: Post = (headers, body) =>
    Deferred.succeed(reached, undefined).pipe(
      Effect.andThen(Deferred.await(released)),
      Effect.andThen(post(headers, body))
    )
  const stalled = yield* Effect.forkChild(Effect.exit(run(held)))
  yield* Deferred.await(reached)
  return { released, stalled }
})

const small = { changes: 3, bytes: 20_000 }

describe.each(destinations)("a hand-off from $name", (destination) => {
  it.live("sends every change once, in order, signed, with its exact texts, and moves the consumer", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const layer = destination.layer(folder)
      const large = "9007199254740993"
      yield* exporting(layer, [1, 1, 1])
      yield* exporting(layer, [2, large, 1, 5])
      const maintenance = yield* destination.open(folder)
      yield* subscribed(maintenance)
      const { paths, received, url } = yield* receiver(() => "ok")
      const text = secretText()
      const attempts: Array<Attempted> = []
      const done = yield* sending(maintenance, yield* postTo(url), {
        keys: [keyOf(text)],
        onAttempt: (attempted) => Effect.sync(() => void attempts.push(attempted))
      })
      assert.deepInclude(done, { state: "running", batch: undefined, attempts: 0 })
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3]])
      assert.deepStrictEqual(paths, ["/hook?a=b"])
      const [{ body = "", headers = {} } = {}] = received
      assert.include(body, `"before":{"id":"inv_1","amount":1},"after":{"id":"inv_1","amount":${large}}`)
      assert.include(body, `"change":"insert","id":"inv_3","fields":[],"before":null,"after":{"id":"inv_3","amount":5}`)
      assert.deepInclude(new Webhook(text).verify(body, headers), {
        list: "invoices",
        source: "north",
        first: 1,
        last: 3
      })
      assert.deepInclude(headers, {
        "content-type": "application/json",
        "content-length": String(Buffer.byteLength(body))
      })
      assert.deepStrictEqual(attempts.map(({ attempts: nth, bytes, verdict }) => [nth, bytes, verdict._tag]), [
        [1, Buffer.byteLength(body), "Accept"]
      ])
      assert.deepInclude((yield* maintenance.consumerStates)[0], { name: consumer, position: 3, lag: 0 })
      yield* sending(maintenance, yield* postTo(url))
      assert.lengthOf(received, 1)
    }).pipe(Effect.scoped))

  it.live("is repeated with the same ids and bytes in a replay", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 10)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      yield* sending(maintenance, post, { limits: small })
      const first = [...received]
      yield* moveConsumer(maintenance, { name: consumer, position: 0, when: "any" })
      // Larger batches do not change those that were sent.
      yield* sending(maintenance, post)
      assert.deepStrictEqual(
        received.slice(first.length).map(({ body, id }) => [id, body]),
        first.map(({ body, id }) => [id, body])
      )
      assert.lengthOf(first, 4)
    }).pipe(Effect.scoped))

  it.live("looks twice at most for batches that were sent before, until the first one that has its lists and kinds", () =>
    Effect.gen(function*() {
      const { layer, maintenance } = yield* withChanges(destination, 60)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      const limits = { changes: 2, bytes: 20_000 }
      const kinds = new Set(["update", "missing"] as const)
      yield* sending(maintenance, post, { limits, shape: { source: "north", isThin: false, kinds } })
      yield* exporting(layer, Array.from({ length: 60 }, () => 3))
      yield* sending(maintenance, post, { limits })
      const before = received.slice(30)
      assert.lengthOf(before, 30)
      yield* moveConsumer(maintenance, { name: consumer, position: 0, when: "any" })
      const looked: Array<number> = []
      const counted: Maintenance = {
        ...maintenance,
        handoffBatches: (name, from) => {
          looked.push(from.after)
          return maintenance.handoffBatches(name, from)
        }
      }
      // After a pause of a second, it would look again.
      yield* overStandingClock(() => sending(counted, post, { limits: { ...limits, changes: 3 } }))
      const replayed = received.slice(60)
      assert.deepStrictEqual(replayed.slice(0, 20).map(({ numbers }) => numbers.length), Array(20).fill(3))
      assert.deepStrictEqual(replayed.slice(20).map(({ id }) => id), before.map(({ id }) => id))
      // A read of changes may end after the first batch with its lists and kinds.
      assert.isAtMost(looked.filter((after) => after < 60 - 12 - 8).length, 2)
    }).pipe(Effect.scoped))

  it.live("reads few changes at a time if they are large, and sends all", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const layer = destination.layer(folder)
      const [text, count] = [randomBytes(300_000).toString("base64"), 40]
      for (const amount of ["1", "2", `3,"note":"${text}"`]) {
        yield* exporting(layer, Array.from({ length: count }, () => amount))
      }
      const maintenance = yield* destination.open(folder)
      yield* subscribed(maintenance)
      const reads: Array<{ readonly after: number; readonly rows: number; readonly bytes: number }> = []
      const counted: Maintenance = {
        ...maintenance,
        changes: (after, most, lists, limits) =>
          Effect.tap(maintenance.changes(after, most, lists, limits), (rows) => {
            const bytes = rows.reduce((sum, row) => sum + (row.before?.length ?? 0) + (row.after?.length ?? 0), 0)
            reads.push({ after, rows: rows.length, bytes })
            return Effect.void
          })
      }
      const { received, url } = yield* receiver(() => "ok")
      const shape = { source: "north", isThin: false, kinds: new Set(["update"] as const) }
      yield* sending(counted, yield* postTo(url), { shape })
      assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), numbersTo(2 * count))
      // Which changes are read together depends on the time since they were read before.
      for (const { after, bytes, rows } of reads) {
        assert.isTrue(rows <= 8 || bytes <= 4_000_000, `${rows} after ${after}`)
      }
      assert.isTrue(reads.some(({ rows }) => rows === 8))
    }).pipe(Effect.scoped))

  it.live("leaves nothing out if changes are committed after every read", () =>
    Effect.gen(function*() {
      const { layer, maintenance } = yield* withChanges(destination, 12)
      const { received, url } = yield* receiver(() => "ok")
      let amount = 2
      const growing: Maintenance = {
        ...maintenance,
        changes: (after, most, lists, limits) =>
          Effect.tap(maintenance.changes(after, most, lists, limits), () =>
            ++amount > 20
              ? Effect.void
              : Effect.orDie(exporting(layer, Array.from({ length: 12 }, () => amount))))
      }
      yield* sending(growing, yield* postTo(url), { limits: { changes: 2, bytes: 20_000 } })
      assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), numbersTo(12 * 19))
    }).pipe(Effect.scoped))

  it.live("begins a replay within a second while it sends", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 300)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      const slow: typeof post = (headers, body) => Effect.delay(post(headers, body), received.length > 99 ? 0 : 10)
      const running = yield* Effect.forkChild(sending(maintenance, slow, { limits: { changes: 2, bytes: 20_000 } }))
      while (received.length < 40) yield* Effect.sleep("5 millis")
      yield* moveConsumer(maintenance, { name: consumer, position: 10, when: "any" })
      const before = received.length
      yield* Fiber.join(running)
      const back = received.findIndex(({ numbers }, index) => index >= before && numbers[0] === 11)
      assert.isTrue(back >= before && back - before < 2 * mostReady, `${back} after ${before}`)
      assert.deepStrictEqual(
        received.slice(back).flatMap(({ numbers }) => numbers),
        numbersTo(300).slice(10)
      )
      assert.deepStrictEqual(withoutRepeats(received).flatMap(({ numbers }) => numbers), numbersTo(300))
    }).pipe(Effect.scoped))

  it.live("sends a change within a second of its commit, while it follows", () =>
    Effect.gen(function*() {
      const { layer, maintenance } = yield* withChanges(destination, 3)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      // The time that the sender waits. What a busy machine takes for the rest does not count.
      let waited = () => 0
      const following = yield* Effect.forkChild(overSleptClock((slept) => {
        waited = slept
        return sending(maintenance, post, { isFollowing: true })
      }))
      while (received.length < 1) yield* Effect.sleep("5 millis")
      const took: Array<number> = []
      for (const amount of [3, 4, 5]) {
        const count = received.length
        yield* exporting(layer, [amount, 2, 2])
        const before = waited()
        while (received.length === count) yield* Effect.sleep("5 millis")
        took.push(waited() - before)
      }
      yield* Fiber.interrupt(following)
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3], [4], [5], [6]])
      assert.isBelow(Math.max(...took), 1000)
    }).pipe(Effect.scoped))

  it.live("sends nothing that was erased meanwhile, not even in a replay, and then has another id", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const layer = destination.layer(folder)
      const canary = "c4n4ry-document"
      const person = (amount: number) => `${amount},"customerDocumentNumber":"${canary}"`
      for (const amount of [1, 2]) yield* exporting(layer, [person(amount), amount])
      const maintenance = yield* destination.open(folder)
      yield* subscribed(maintenance)
      const replies: Array<Reply> = ["late"]
      const { received, url } = yield* receiver(() => replies.shift() ?? "ok")
      const killed = yield* Effect.forkChild(sending(maintenance, yield* postTo(url)))
      while (received.length === 0) yield* Effect.sleep("5 millis")
      yield* Fiber.interrupt(killed)
      yield* erase(maintenance, {
        by: "test",
        criteria: [{ kind: "id", value: Redacted.make("inv_0") }],
        key: Redacted.make(new Uint8Array(32))
      })
      const post = yield* postTo(url)
      yield* sending(maintenance, post)
      yield* moveConsumer(maintenance, { name: consumer, position: 0, when: "any" })
      yield* sending(maintenance, post)
      const [before, after, erasure, ...replayed] = received
      assert.deepStrictEqual([before, after, erasure].map((one) => one?.numbers), [[1, 2], [1, 2], [3]])
      assert.include(before?.body, canary)
      assert.notStrictEqual(before?.id, after?.id)
      for (const { body } of received.slice(1)) assert.notInclude(body, canary)
      assert.include(erasure?.body, `"seq":3,`)
      assert.include(erasure?.body, `"changes":[{"seq":3,"change":"erased","id":"inv_0"}]`)
      assert.deepStrictEqual(
        replayed.map(({ body, id }) => [id, body]),
        [after, erasure].map((one) => [one?.id, one?.body])
      )
    }).pipe(Effect.scoped))

  it.live("sends an erasure also if its kind is not chosen, and nothing erased a second after it, from many ready batches", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const layer = destination.layer(folder)
      const canary = "c4n4ry-document"
      const [count, person] = [600, 340]
      const records = (amount: number) =>
        Array.from(
          { length: count },
          (_, index) => index === person ? `${amount},"customerDocumentNumber":"${canary}"` : amount
        )
      yield* exporting(layer, [1])
      yield* exporting(layer, records(2))
      const maintenance = yield* destination.open(folder)
      yield* subscribed(maintenance)
      let read = 0
      const counted: Maintenance = {
        ...maintenance,
        changes: (after, most, lists, limits) =>
          Effect.tap(
            maintenance.changes(after, most, lists, limits),
            (rows) => Effect.sync(() => void (read = Math.max(read, rows.at(-1)?.seq ?? 0)))
          )
      }
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      // The sender stops for a second when many batches are ready.
      const [reached, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const held: typeof post = (headers, body) =>
        Effect.suspend(() =>
          received.length < 60
            ? Effect.void
            : Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(released))
        ).pipe(Effect.andThen(post(headers, body)))
      const shape = { source: "north", isThin: false, kinds: new Set(["insert"] as const) }
      let before = 0
      yield* overStandingClock((advance) =>
        Effect.gen(function*() {
          const running = yield* Effect.forkChild(
            sending(counted, held, { shape, limits: { changes: 4, bytes: 20_000 } })
          )
          yield* Deferred.await(reached)
          before = received.length
          assert.isAtLeast(read, person + 1, "the record is read before it is erased")
          yield* erase(maintenance, {
            by: "test",
            criteria: [{ kind: "id", value: Redacted.make(`inv_${person}`) }],
            key: Redacted.make(new Uint8Array(32))
          })
          assert.lengthOf(received, before)
          advance(1000)
          yield* Deferred.succeed(released, undefined)
          yield* Fiber.join(running)
        })
      )
      yield* sending(maintenance, post, { shape })
      const later = received.slice(before)
      assert.isTrue(later.some(({ body }) => body.includes(`"id":"inv_${person}"`)), "the record is sent later")
      for (const { body } of later) assert.notInclude(body, canary)
      assert.deepStrictEqual(
        received.flatMap(({ body }) =>
          [...body.matchAll(/\{"seq":\d+,"change":"erased","id":"inv_\d+"\}/g)].map(String)
        ),
        [`{"seq":${count + 1},"change":"erased","id":"inv_${person}"}`]
      )
    }).pipe(Effect.scoped))

  it.live("passes over kinds and lists that are not sent, without a request", () =>
    Effect.gen(function*() {
      const { layer, maintenance } = yield* withChanges(destination, 10)
      yield* exporting(layer, [...Array.from({ length: 10 }, () => 2), 7])
      yield* exporting(layer, [...Array.from({ length: 10 }, () => 3), 7])
      const { received, url } = yield* receiver(() => "ok")
      const shape = { source: "north", isThin: true, kinds: new Set(["insert"] as const) }
      yield* sending(maintenance, yield* postTo(url), { shape })
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[11]])
      assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 21, lag: 0 })
      yield* moveConsumer(maintenance, { name: consumer, position: 0, when: "any" })
      yield* sending(maintenance, yield* postTo(url), { lists: [Lists.payinSources] })
      assert.lengthOf(received, 1)
      assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 21, lag: 0 })
    }).pipe(Effect.scoped))

  it.live("leaves nothing out if more is sent than when the batch in flight was chosen", () =>
    Effect.gen(function*() {
      const { layer, maintenance } = yield* withChanges(destination, 3)
      yield* exporting(layer, [2, 2, 2, 7])
      const replies: Array<Reply> = ["error"]
      const { received, url } = yield* receiver(() => replies.shift() ?? "ok")
      const post = yield* postTo(url)
      const inserts = { source: "north", isThin: false, kinds: new Set(["insert"] as const) }
      yield* killedWhileWaiting(maintenance, sending(maintenance, post, { shape: inserts, policy: patient }))
      assert.deepInclude((yield* maintenance.handoffs)[0]?.batch, { after: 0, first: 4, last: 4 })
      yield* sending(maintenance, post)
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3, 4]])
      yield* moveConsumer(maintenance, { name: consumer, position: 0, when: "any" })
      yield* sending(maintenance, post, { shape: inserts })
      assert.deepStrictEqual(received.slice(1).map(({ numbers }) => numbers), [[4]])
    }).pipe(Effect.scoped))

  it.live("sends a batch at once that waits for its next attempt, if somebody resumes it", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 3)
      const replies: Array<Reply> = ["error"]
      const { paths, received, url } = yield* receiver(() => replies.shift() ?? "ok")
      const sender = yield* Effect.forkChild(sending(maintenance, yield* postTo(url), { policy: patient }))
      while ((yield* maintenance.handoffs)[0]?.nextAttemptAt === undefined) yield* Effect.sleep("5 millis")
      assert.deepInclude(yield* resumeHandoff(maintenance, consumer), { state: "running", attempts: 0 })
      yield* Fiber.join(sender)
      assert.deepStrictEqual([paths.length, received.map(({ numbers }) => numbers)], [2, [[1, 2, 3]]])
      assert.strictEqual(
        (yield* Effect.flip(resumeHandoff(maintenance, "nobody"))).message,
        "there is no hand-off to nobody."
      )
    }).pipe(Effect.scoped))

  it.live("waits at one refused change for a decision, and passes over it only if somebody says why", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 10)
      const refused = new Set([6])
      const { received, url } = yield* receiver((numbers) => numbers.some((seq) => refused.has(seq)) ? "refuse" : "ok")
      const post = yield* postTo(url)
      const waiting = yield* sending(maintenance, post)
      assert.deepInclude(waiting, { state: "waiting", reason: "refused" })
      assert.strictEqual(waiting.batch?.last, 6)
      assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), numbersTo(5))
      assert.strictEqual((yield* sending(maintenance, post)).state, "waiting")
      const skip = { consumer, seq: 6, reason: "a test record", by: "operations" }
      for (const seq of [5, 7]) {
        const { message } = yield* Effect.flip(skipRefused(maintenance, { ...skip, seq }))
        assert.strictEqual(message, "the hand-off to ledger waits for a decision about change 6.")
      }
      assert.strictEqual((yield* resumeHandoff(maintenance, consumer)).state, "running")
      assert.strictEqual((yield* sending(maintenance, post)).state, "waiting")
      assert.deepInclude(yield* skipRefused(maintenance, skip), { state: "running", batch: undefined })
      assert.strictEqual((yield* Effect.flip(skipRefused(maintenance, skip)))._tag, "NotWaiting")
      assert.deepInclude(yield* sending(maintenance, post), { state: "running", mostChanges: undefined })
      assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), numbersTo(10).filter((seq) => seq !== 6))
      const skips = yield* maintenance.handoffSkips(consumer)
      assert.deepStrictEqual(skips.map(({ by, reason, seq }) => [seq, reason, by]), [[
        6,
        "a test record",
        "operations"
      ]])
    }).pipe(Effect.scoped))

  it.live("passes over nothing that is to be sent again, because somebody has moved the consumer back", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 5)
      const { received, url } = yield* receiver((numbers) => numbers.includes(4) ? "refuse" : "ok")
      const post = yield* postTo(url)
      yield* sending(maintenance, post)
      yield* moveConsumer(maintenance, { name: consumer, position: 1, when: "any" })
      const skip = { consumer, seq: 4, reason: "a test record", by: "operations" }
      assert.include(
        (yield* Effect.flip(skipRefused(maintenance, skip))).message,
        "was moved back. Resume the hand-off"
      )
      assert.deepStrictEqual(yield* maintenance.handoffSkips(consumer), [])
      yield* resumeHandoff(maintenance, consumer)
      assert.deepInclude(yield* sending(maintenance, post), { state: "waiting" })
      yield* skipRefused(maintenance, skip)
      yield* sending(maintenance, post)
      assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), [1, 2, 3, 2, 3, 5])
    }).pipe(Effect.scoped))

  it.live("does not wait for a decision about a change that was refused after somebody had begun a replay", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 5)
      yield* moveConsumer(maintenance, { name: consumer, position: 3, when: "any" })
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      let isReplayed = false
      const replaying: typeof post = (headers, body) =>
        Effect.gen(function*() {
          if (isReplayed) return yield* post(headers, body)
          isReplayed = true
          yield* Effect.orDie(replayHandoff(maintenance, { consumer, from: 1 }))
          return { _tag: "Status", status: 422, retryAfter: undefined } as const
        })
      const done = yield* sending(maintenance, replaying, { limits: { changes: 1, bytes: 20_000 } })
      assert.deepInclude(done, { state: "running", reason: undefined })
      assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), [1, 2, 3, 4, 5])
    }).pipe(Effect.scoped))

  it.live("passes over no change in a replay, also if somebody moves the consumer back meanwhile", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 5)
      yield* moveConsumer(maintenance, { name: consumer, position: 4, when: "any" })
      yield* maintenance.takeOverHandoff(consumer)
      const late: Maintenance = {
        ...maintenance,
        changeHandoff: (change) =>
          Effect.andThen(
            Effect.orDie(moveConsumer(maintenance, { name: consumer, position: 1, when: "any" })),
            maintenance.changeHandoff(change)
          )
      }
      const { message } = yield* Effect.flip(replayHandoff(late, { consumer, from: 4 }))
      assert.strictEqual(
        message,
        "ledger was sent the changes up to 1 only, so a replay begins with change 2 at the latest."
      )
      assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 1 })
    }).pipe(Effect.scoped))

  it.live("waits before the next attempt of a batch that many changes precede which are not sent", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const layer = destination.layer(folder)
      const records = (count: number, amount: number) => Array.from({ length: count }, () => amount)
      yield* exporting(layer, records(1100, 1))
      yield* exporting(layer, records(1103, 1))
      yield* exporting(layer, records(1103, 2))
      yield* exporting(layer, records(1104, 2))
      const maintenance = yield* destination.open(folder)
      yield* subscribed(maintenance)
      const { paths, received, url } = yield* receiver((numbers) => numbers.some((seq) => seq > 3) ? "error" : "ok")
      const shape = { source: "north", isThin: false, kinds: new Set(["insert"] as const) }
      const options = { shape, limits: { changes: 1, bytes: 20_000 }, policy: patient }
      yield* killedWhileWaiting(
        maintenance,
        sending(maintenance, yield* postTo(url), options)
      )
      assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), [1, 2, 3])
      assert.lengthOf(paths, 4)
      yield* Effect.timeoutOption(sending(maintenance, yield* postTo(url), options), "300 millis")
      assert.lengthOf(paths, 4)
    }).pipe(Effect.scoped))

  it.live("stops at once if the receiver is gone, follows no redirect, and goes on when it is resumed", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 4)
      const replies: Array<Reply> = ["redirect", "gone"]
      const { paths, received, url } = yield* receiver(() => replies.shift() ?? "ok")
      const post = yield* postTo(url)
      assert.deepInclude(yield* sending(maintenance, post), { state: "stopped", reason: "gone", attempts: 2 })
      assert.deepInclude(yield* sending(maintenance, post), { state: "stopped" })
      assert.deepStrictEqual(paths, ["/hook?a=b", "/hook?a=b"])
      assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 0 })
      yield* resumeHandoff(maintenance, consumer)
      yield* sending(maintenance, post)
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3, 4]])
    }).pipe(Effect.scoped))

  it.live("begins no further batch after somebody has stopped it, and keeps that one was accepted", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 7)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      const stopping: typeof post = (headers, body) =>
        Effect.tap(post(headers, body), () =>
          Effect.orDie(maintenance.changeHandoff({
            consumer,
            epoch: undefined,
            change: (stored) => ({ ...stored, state: "stopped", reason: "gone" })
          })))
      const done = yield* sending(maintenance, stopping, { limits: small })
      assert.deepInclude(done, { state: "stopped", batch: undefined })
      assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 3 })
      yield* resumeHandoff(maintenance, consumer)
      yield* sending(maintenance, post, { limits: small })
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3], [4, 5, 6], [7]])
    }).pipe(Effect.scoped))

  it.live("gives up after its time, and keeps when the next attempt is due over a restart", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 1)
      const { paths, url } = yield* receiver(() => "error")
      const post = yield* postTo(url)
      yield* killedWhileWaiting(maintenance, sending(maintenance, post, { policy: patient }))
      const [{ attempts = 0, nextAttemptAt = "" } = {}] = yield* maintenance.handoffs
      assert.deepStrictEqual([attempts, paths.length], [1, 1])
      assert.isAbove(Date.parse(nextAttemptAt), Date.now())
      yield* Effect.timeoutOption(sending(maintenance, post, { policy: patient }), "300 millis")
      assert.lengthOf(paths, 1)
      const stopped = yield* sending(maintenance, post, {
        policy: { giveUpAfter: Duration.zero, firstWait: Duration.zero, longestWait: Duration.zero }
      })
      assert.deepInclude(stopped, { state: "stopped", reason: "gaveUp", attempts: 2 })
    }).pipe(Effect.scoped))

  it.live("gives up a batch as soon as its time has passed, also if the settings made it shorter meanwhile", () =>
    Effect.gen(function*() {
      const { maintenance } = yield* withChanges(destination, 1)
      const { url } = yield* receiver(() => "error")
      const post = yield* postTo(url)
      yield* killedWhileWaiting(maintenance, sending(maintenance, post, { policy: patient }))
      const shorter = { ...patient, giveUpAfter: Duration.seconds(1) }
      const stopped = yield* Effect.timeout(sending(maintenance, post, { policy: shorter }), "1 minute")
      assert.deepInclude(stopped, { state: "stopped", reason: "gaveUp", attempts: 2 })
    }).pipe(Effect.scoped))

  it.live("ends when another sender takes it over, or its consumer is removed, and stores nothing more", () =>
    Effect.gen(function*() {
      const { maintenance, open } = yield* withChanges(destination, 5)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      const { released, stalled } = yield* stalledBefore(post, (held) => sending(maintenance, held, { limits: small }))
      yield* sending(yield* open, post, { limits: small })
      const before = yield* maintenance.handoffs
      yield* Deferred.succeed(released, undefined)
      const ended = yield* Fiber.join(stalled)
      assert.include(Exit.isFailure(ended) ? Cause.pretty(ended.cause) : "", "HandoffTakenOver")
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3], [4, 5], [1, 2, 3]])
      assert.deepStrictEqual(withoutRepeats(received).flatMap(({ numbers }) => numbers), numbersTo(5))
      assert.deepStrictEqual(yield* maintenance.handoffs, before)
      yield* maintenance.removeConsumer(consumer)
      assert.deepStrictEqual(yield* maintenance.handoffs, [])
      yield* subscribed(maintenance)
      const { generation = "" } = yield* maintenance.changeRange
      const selection = selectionOf({ source: "north", isThin: false }, Lists.all)
      assert.deepStrictEqual(
        yield* maintenance.handoffBatches(consumer, { generation, after: 0, selection, count: 9 }),
        []
      )
    }).pipe(Effect.scoped))

  it.live("ends if its consumer was removed and created again, although the epochs begin again, and stores nothing more", () =>
    Effect.gen(function*() {
      const { maintenance, open } = yield* withChanges(destination, 5)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      const { released, stalled } = yield* stalledBefore(
        post,
        (held) => sending(maintenance, held, { limits: small, isFollowing: true })
      )
      const other = yield* open
      yield* other.removeConsumer(consumer)
      yield* subscribed(other)
      yield* sending(other, post, { limits: small })
      const before = yield* maintenance.handoffs
      assert.deepInclude(before[0], { epoch: 1 })
      yield* Deferred.succeed(released, undefined)
      const ended = yield* Effect.timeout(Fiber.join(stalled), "1 minute")
      assert.include(Exit.isFailure(ended) ? Cause.pretty(ended.cause) : "", "HandoffTakenOver")
      // Only the request that had begun.
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3], [4, 5], [1, 2, 3]])
      assert.deepStrictEqual(yield* maintenance.handoffs, before)
    }).pipe(Effect.scoped))

  it.live("stops if the destination was restored, and goes on once the consumer has said where it stands", () =>
    Effect.gen(function*() {
      const { layer, maintenance } = yield* withChanges(destination, 5)
      const { received, url } = yield* receiver(() => "ok")
      const post = yield* postTo(url)
      yield* sending(maintenance, post)
      yield* maintenance.beginGeneration({ reason: "restored", after: 3, now: new Date().toISOString() })
      yield* exporting(layer, Array.from({ length: 5 }, () => 3))
      assert.deepInclude(yield* sending(maintenance, post), { state: "stopped", reason: "restored" })
      const { generation } = yield* maintenance.changeRange
      yield* moveConsumer(maintenance, { name: consumer, position: 3, generation, when: "any" })
      yield* resumeHandoff(maintenance, consumer)
      yield* sending(maintenance, post)
      assert.deepStrictEqual(received.map(({ numbers }) => numbers), [[1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 9, 10]])
    }).pipe(Effect.scoped))

  it.live("loses and reorders nothing if the sender dies before or after any of its writes", () =>
    Effect.gen(function*() {
      for (const isAfter of [false, true]) {
        for (let nth = 1, isOver = false; !isOver; nth++) {
          const { maintenance } = yield* withChanges(destination, 7)
          const { received, url } = yield* receiver((numbers) =>
            numbers.includes(5) && numbers.length > 1 ? "refuse" : "ok"
          )
          let writes = 0
          const dying: Maintenance = {
            ...maintenance,
            changeHandoff: (change) =>
              Effect.suspend(() => {
                const isLast = ++writes === nth
                if (isLast && !isAfter) return Effect.interrupt
                return isLast
                  ? Effect.andThen(maintenance.changeHandoff(change), Effect.interrupt)
                  : maintenance.changeHandoff(change)
              })
          }
          const post = yield* postTo(url)
          yield* Effect.exit(sending(dying, post, { limits: small }))
          isOver = writes < nth
          assert.deepInclude(yield* sending(maintenance, post, { limits: small }), {
            state: "running",
            batch: undefined
          })
          assert.deepStrictEqual(withoutRepeats(received).flatMap(({ numbers }) => numbers), numbersTo(7))
          assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 7, lag: 0 })
          if (isOver) assert.isAbove(nth, 5)
        }
      }
    }).pipe(Effect.scoped))
})

interface Figures {
  requests: number
  repeats: number
  kills: number
  pairs: number
  skipped: number
}

const faults: ReadonlyArray<Reply> = ["error", "redirect", "busy", "lost", "late", "endless"]

/** Plays one history of exports, faults, kills, second senders, replaced keys and refusals. */
const play = (destination: DestinationCase, history: number, figures: Figures) =>
  Effect.gen(function*() {
    const dice = diceOf(seed, "handoff", destination.name, history)
    const folder = yield* temporaryFolder
    const layer = destination.layer(folder)
    const amounts = Array.from({ length: 1 + dice.below(20) }, () => 1)
    yield* exporting(layer, amounts)
    const maintenance = yield* destination.open(folder)
    yield* subscribed(maintenance)
    const [canRefuse, faultRate] = [dice.chance(0.4), dice.below(5) / 10]
    const refused = new Set<number>()
    let isCalm = false
    const { received, url } = yield* receiver((numbers) => {
      figures.requests++
      if (numbers.some((seq) => refused.has(seq))) return "refuse"
      if (isCalm || !dice.chance(faultRate)) return "ok"
      return canRefuse && dice.chance(0.2) ? "recanted" : dice.pick(faults)
    })
    const allTexts = [secretText()]
    /** The last two secrets while one is replaced, else the last one. */
    let valid = 1
    const keys = () => Arr.map(Arr.takeRight(allTexts, valid) as Arr.NonEmptyArray<string>, keyOf) // there is one
    const [post, lasting] = [yield* postTo(url, "40 millis"), yield* postTo(url)]
    const skipped = new Set<number>()

    const send = Effect.gen(function*() {
      const limits = { changes: 1 + dice.below(8), bytes: 100 + dice.below(5000) }
      // A sender may be suspended for a moment before a request.
      const slow = dice.chance(0.3)
      const paused: typeof post = (headers, body) => Effect.delay(post(headers, body), slow ? dice.below(30) : 0)
      const running = sending(maintenance, paused, { limits, keys: keys() })
      return yield* dice.chance(0.5)
        ? Effect.tap(
          Effect.timeoutOption(running, dice.below(20)),
          ({ _tag }) => Effect.sync(() => _tag === "None" ? figures.kills++ : undefined)
        )
        : running
    })

    const decide = Effect.gen(function*() {
      const [stored] = yield* maintenance.handoffs
      if (stored?.state === "stopped") yield* resumeHandoff(maintenance, consumer)
      const seq = stored?.batch?.last
      if (stored?.state !== "waiting" || seq === undefined) return
      if (!refused.has(seq) || dice.chance(0.3)) return yield* resumeHandoff(maintenance, consumer)
      yield* skipRefused(maintenance, { consumer, seq, reason: "drawn", by: "test" })
      skipped.add(seq)
      figures.skipped++
      return
    })

    for (let step = 0; step < 8; step++) {
      if (dice.chance(0.6)) {
        for (let times = dice.below(10); times > 0; times--) {
          const index = dice.below(amounts.length)
          amounts[index] = (amounts[index] ?? 0) + 1
        }
        yield* exporting(layer, amounts)
        const { last } = yield* maintenance.changeRange
        if (canRefuse && last > 0 && dice.chance(0.3)) {
          const [{ position = 0 } = {}] = yield* maintenance.consumerStates
          if (last > position) refused.add(position + 1 + dice.below(last - position))
        }
      }
      if (dice.chance(0.2)) {
        allTexts.push(secretText())
        valid = 1 + dice.below(2)
      }
      const senders = dice.chance(0.25) ? 2 : 1
      if (senders === 2) figures.pairs++
      const sent = Array.from({ length: senders }, () => Effect.exit(send))
      for (const exit of yield* Effect.all(sent, { concurrency: "unbounded" })) {
        if (Exit.isFailure(exit)) assert.include(Cause.pretty(exit.cause), "HandoffTakenOver")
      }
      yield* decide
    }
    isCalm = true
    const { last } = yield* maintenance.changeRange
    for (let rounds = 0; (yield* maintenance.consumerStates)[0]?.position !== last; rounds++) {
      assert.isBelow(rounds, 100)
      yield* sending(maintenance, lasting, { keys: keys() })
      yield* decide
    }
    for (const { body, headers } of received) {
      assert.isTrue(allTexts.some((text) => isVerified(text, body, headers)), "a receiver has one of the secrets")
    }
    const unique = withoutRepeats(received)
    figures.repeats += received.length - unique.length
    const end = applied(unique, skipped)
    for (let seq = end + 1; seq <= last; seq++) assert.isTrue(skipped.has(seq), `${seq} of ${last}`)
    if (!canRefuse) assert.deepStrictEqual(unique.flatMap(({ numbers }) => numbers), numbersTo(last))
  }).pipe(
    Effect.scoped,
    Effect.onError(() => Console.error(`history ${history} of ${destination.name}, seed ${seed}`))
  )

const isVerified = (text: string, body: string, headers: Received["headers"]): boolean => {
  try {
    new Webhook(text).verify(body, headers)
    return true
  } catch {
    return false // the library throws for a signature of another secret
  }
}

describe("a destination that was restored while a sender had nothing to send", () => {
  it.live.each([0, 1])(
    "begins a generation and stops, also if another sender has been there (%s)",
    (others) =>
      Effect.gen(function*() {
        const [destination] = destinations
        if (destination === undefined) return assert.fail("no destination")
        const { folder, layer, maintenance } = yield* withChanges(destination, 5)
        const { received, url } = yield* receiver(() => "ok")
        const post = yield* postTo(url)
        const before = (yield* maintenance.changeRange).generation
        const options = { isFollowing: true, lossAt: makeLossAt() }
        const running = yield* Effect.forkChild(Effect.exit(sending(maintenance, post, options)))
        while ((yield* maintenance.consumerStates)[0]?.position !== 5) yield* Effect.sleep("5 millis")
        yield* Effect.sleep("500 millis")
        // The last two changes are lost, and what was stored about them.
        const database = new DatabaseSync(join(folder, "payments.db"), { timeout: 5000 })
        database.exec(
          `BEGIN IMMEDIATE; DELETE FROM changes WHERE seq > 3; UPDATE sqlite_sequence SET seq = 3 WHERE name = 'changes'; DELETE FROM handoff_batches;
        UPDATE consumers SET position = 3; UPDATE handoffs SET batch_first = NULL, epoch = epoch + ${others}; COMMIT`
        )
        database.close()
        while ((yield* maintenance.changeRange).generation === before) yield* Effect.sleep("5 millis")
        yield* exporting(layer, [2, 2, 2, 3, 3])
        yield* Fiber.interrupt(running)
        assert.deepInclude(yield* sending(maintenance, post), { state: "stopped", reason: "restored" })
        assert.deepStrictEqual(received.flatMap(({ numbers }) => numbers), numbersTo(5))
      }).pipe(Effect.scoped)
  )
})

describe("an older destination that was put in place during a delivery", () => {
  it.live("ends the sender, and the next one begins a generation and stops, although the position was sent, not stored", () =>
    Effect.gen(function*() {
      const [destination] = destinations
      if (destination === undefined) return assert.fail("no destination")
      const { folder, layer, maintenance } = yield* withChanges(destination, 40)
      const older = () => {
        const database = new DatabaseSync(join(folder, "payments.db"), { timeout: 5000 })
        database.exec(
          `BEGIN IMMEDIATE; DELETE FROM changes WHERE seq > 20; UPDATE sqlite_sequence SET seq = 20 WHERE name = 'changes';
          DELETE FROM handoff_batches; UPDATE consumers SET position = 0; UPDATE handoffs SET batch_first = NULL, epoch = 1; COMMIT`
        )
        database.close()
      }
      yield* maintenance.takeOverHandoff(consumer)
      const before = (yield* maintenance.changeRange).generation
      const { received, url } = yield* receiver((numbers) => {
        if (numbers.includes(31)) older()
        return "ok"
      })
      const post = yield* postTo(url)
      const options = { lossAt: makeLossAt(), limits: small }
      const { message } = yield* Effect.flip(sending(maintenance, post, options))
      assert.include(message, "or the destination was restored.")
      assert.deepInclude(yield* sending(maintenance, post, options), { state: "stopped", reason: "restored" })
      assert.notStrictEqual((yield* maintenance.changeRange).generation, before)
      yield* exporting(layer, Array.from({ length: 40 }, () => 3))
      yield* sending(maintenance, post, options)
      assert.isAtLeast(received.at(-1)?.numbers[0] ?? 0, 31)
      assert.deepStrictEqual(applied(received), received.at(-1)?.numbers.at(-1))
    }).pipe(Effect.scoped))
})

describe(`hand-offs with faults, kills, second senders, refusals and replaced keys (seed ${seed})`, () => {
  it.live.each(destinations)(
    "lose, reorder and alter nothing: $histories histories in $name",
    (destination) =>
      Effect.gen(function*() {
        const figures: Figures = { requests: 0, repeats: 0, kills: 0, pairs: 0, skipped: 0 }
        for (let history = 1; history <= destination.histories; history++) yield* play(destination, history, figures)
        yield* Console.log(`hand-offs from ${destination.name}: ${JSON.stringify(figures)}`)
        if (destination.histories < 20) return
        for (const name of ["requests", "repeats", "kills", "pairs", "skipped"] as const) {
          assert.isAbove(figures[name], 0, name)
        }
      }),
    900_000
  )
})
