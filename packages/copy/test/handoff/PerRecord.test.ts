/** Hand-offs with `order = "per-record"`: a refused change is set aside, and only those of its record wait for it. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { overSleptClock } from "@payments/testkit/Clocks"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Cause, Console, Duration, Effect, Exit, Fiber } from "effect"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import { prune } from "../../src/ask/Retention.ts"
import { asidesOf, mostAside } from "../../src/handoff/Asides.ts"
import { withRoom } from "../../src/handoff/Decision.ts"
import { resumeHandoff, skipRefused } from "../../src/handoff/Intervention.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import { type Handoff, type HandoffAside, untried } from "../../src/store/HandoffStore.ts"
import type { Maintenance } from "../../src/store/Store.ts"
import { farAway, hasty, postTo, type Received, receiver, type Reply, sending } from "./Receiver.ts"
import { consumer, exporting, subscribed } from "./Subscribed.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const destinations = [
  {
    name: "sqlite:FILE",
    histories: isLongRun ? 300 : 20,
    layer: (folder: string) => SqliteSink.layer(join(folder, "payments.db")),
    open: (folder: string) => openMaintenance(join(folder, "payments.db"), "here")
  },
  {
    name: "postgres://HOST",
    histories: isLongRun ? 60 : 3,
    layer: (folder: string) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder: string) => PostgresSink.maintenance(urlOf(server, basename(folder)))
  }
]

const order = "per-record"

/** The records of all changes, by number. */
const recordsOf = (maintenance: Maintenance) =>
  Effect.map(maintenance.changes(0, 100_000, Lists.all), (rows) => new Map(rows.map(({ id, seq }) => [seq, id])))

/** The numbers that were accepted of each record, without repeats. */
const acceptedOf = (received: ReadonlyArray<Received>, records: ReadonlyMap<number, string>) => {
  const accepted = new Map<string, Array<number>>()
  for (const seq of received.flatMap(({ numbers }) => numbers)) {
    const own = accepted.get(records.get(seq) ?? "") ?? []
    accepted.set(records.get(seq) ?? "", own)
    // A receiver passes over what it has applied of the record.
    if (seq > (own.at(-1) ?? 0)) own.push(seq)
  }
  return accepted
}

describe.each(destinations)("a hand-off by record from $name", ({ histories, layer: layerIn, name, open }) => {
  /** Each of five invoices changes three times: changes 1 to 15. */
  const opened = Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const layer = layerIn(folder)
    for (const amount of [1, 2, 3, 4]) yield* exporting(layer, Array.from({ length: 5 }, () => amount))
    const maintenance = yield* open(folder)
    yield* subscribed(maintenance)
    const [refused, failing] = [new Set([3]), new Set<number>()]
    const isIn = (numbers: ReadonlyArray<number>, of: ReadonlySet<number>) => numbers.some((seq) => of.has(seq))
    const { received, url } = yield* receiver((numbers) =>
      isIn(numbers, refused) ? "refuse" : isIn(numbers, failing) ? "error" : "ok"
    )
    return { failing, layer, maintenance, received, refused, post: yield* postTo(url) }
  })

  const numbersOf = (received: ReadonlyArray<Received>) => received.flatMap(({ numbers }) => numbers)

  it.live("sets a refused change and the later ones of its record aside, and goes on with the others", () =>
    Effect.gen(function*() {
      const { layer, maintenance, post, received, refused } = yield* opened
      assert.deepInclude(yield* sending(maintenance, post, { order }), { state: "running", batch: undefined })
      assert.deepStrictEqual(numbersOf(received), [1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 14, 15])
      assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 15, lag: 0 })
      const asides = yield* maintenance.handoffAsides(consumer)
      assert.deepStrictEqual(asides.map(({ id, isRefused, seq }) => [seq, id, isRefused]), [
        [3, "inv_2", true],
        [8, "inv_2", false],
        [13, "inv_2", false]
      ])
      // Retention keeps the changes that are set aside. The next complete scan needs none of them.
      yield* exporting(layer, Array.from({ length: 5 }, () => 4))
      const { changes } = yield* Effect.delay(prune(maintenance, { keepChanges: Duration.zero }), "2 millis")
      assert.deepStrictEqual([changes.through, changes.heldBack], [2, [{
        by: "consumer",
        name: consumer,
        position: 2
      }]])
      // Later changes of the record wait too, also in a strict order.
      yield* exporting(layer, [4, 4, 5, 4, 5])
      yield* sending(maintenance, post)
      assert.deepStrictEqual(numbersOf(received).slice(12), [17])
      refused.clear()
      yield* sending(maintenance, post, { order })
      assert.lengthOf(yield* maintenance.handoffAsides(consumer), 4)
      yield* resumeHandoff(maintenance, consumer)
      yield* sending(maintenance, post, { order })
      assert.deepStrictEqual(numbersOf(received).slice(13), [3, 8, 13, 16])
      assert.deepStrictEqual(yield* maintenance.handoffAsides(consumer), [])
      yield* prune(maintenance, { keepChanges: Duration.zero })
      yield* exporting(layer, [4, 4, 6, 4, 5])
      yield* sending(maintenance, post, { order })
      assert.deepStrictEqual(numbersOf(received).slice(17), [18])
    }).pipe(Effect.scoped))

  it.live("repeats a stored batch with its id, also if the batch before it begins with a change that is set aside", () =>
    Effect.gen(function*() {
      const { maintenance, post, received, refused } = yield* opened
      const limits = { changes: 2, bytes: 20_000 }
      refused.clear()
      refused.add(13)
      yield* sending(maintenance, post, { order, limits })
      const first = new Map(received.map(({ id, numbers }) => [numbers.join(), id]))
      yield* moveConsumer(maintenance, { name: consumer, position: 2, when: "any" })
      const before = received.length
      yield* sending(maintenance, post, { order, limits })
      const again = new Map(received.slice(before).map(({ id, numbers }) => [numbers.join(), id]))
      // Changes 3, 8 and 13 are of one record. The batch of 3 and 4 now has 4 only.
      assert.deepStrictEqual([...again.keys()].slice(0, 5), ["4", "5,6", "7", "9,10", "11,12"])
      for (const numbers of ["5,6", "9,10", "11,12"]) {
        assert.strictEqual(again.get(numbers), first.get(numbers), numbers)
      }
    }).pipe(Effect.scoped))

  it.live("passes over a change that was set aside only if somebody says why, and then sends the next of its record", () =>
    Effect.gen(function*() {
      const { maintenance, post, received } = yield* opened
      yield* sending(maintenance, post, { order })
      const skip = { consumer, reason: "a test record", by: "operations" }
      for (
        const [seq, problem] of [
          [2, "the hand-off to ledger is running: no change waits for a decision."],
          [
            8,
            "change 8 is set aside and waits for no decision: it is sent again, after the earlier changes of its record."
          ]
        ] as const
      ) {
        const { message } = yield* Effect.flip(skipRefused(maintenance, { ...skip, seq }))
        assert.strictEqual(message, problem)
      }
      yield* skipRefused(maintenance, { ...skip, seq: 3 })
      yield* sending(maintenance, post, { order })
      assert.deepStrictEqual(numbersOf(received).slice(12), [8, 13])
      assert.deepStrictEqual(yield* maintenance.handoffAsides(consumer), [])
      assert.deepStrictEqual((yield* maintenance.handoffSkips(consumer)).map(({ seq }) => seq), [3])
      // It is refused and passed over again after a replay.
      yield* moveConsumer(maintenance, { name: consumer, position: 2, when: "any" })
      yield* sending(maintenance, post, { order })
      yield* skipRefused(maintenance, { ...skip, seq: 3, by: "finance" })
      const skips = yield* maintenance.handoffSkips(consumer)
      assert.deepStrictEqual(skips.map(({ by, seq }) => [seq, by]), [[3, "finance"]])
      yield* maintenance.removeConsumer(consumer)
    }).pipe(Effect.scoped))

  it.live("is not said to have passed over a change that was accepted meanwhile", () =>
    Effect.gen(function*() {
      const { maintenance, post, received, refused } = yield* opened
      yield* sending(maintenance, post, { order })
      // While somebody decides, somebody else sends it again, and it is accepted.
      const late: Maintenance = {
        ...maintenance,
        changeHandoff: (change) =>
          Effect.gen(function*() {
            refused.clear()
            yield* resumeHandoff(maintenance, consumer).pipe(Effect.orDie)
            yield* sending(maintenance, post, { order }).pipe(Effect.orDie)
            return yield* maintenance.changeHandoff(change)
          })
      }
      const { message } = yield* Effect.flip(
        skipRefused(late, { consumer, seq: 3, reason: "a test record", by: "operations" })
      )
      assert.strictEqual(message, "the hand-off to ledger is running: no change waits for a decision.")
      assert.deepStrictEqual(numbersOf(received).slice(12), [3, 8, 13])
      assert.deepStrictEqual(yield* maintenance.handoffSkips(consumer), [])
    }).pipe(Effect.scoped))

  /** Change 3 is set aside, and is sent again to a receiver that answers it with an error. */
  const failingAside = Effect.gen(function*() {
    const given = yield* opened
    yield* sending(given.maintenance, given.post, { order })
    given.refused.clear()
    given.failing.add(3)
    yield* resumeHandoff(given.maintenance, consumer)
    return given
  })

  it.live("leaves a change that was set aside to a decision if it is not accepted for too long", () =>
    Effect.gen(function*() {
      const { failing, maintenance, post, received } = yield* failingAside
      const policy = { ...hasty, giveUpAfter: Duration.seconds(2) }
      const ended = yield* overSleptClock(() => sending(maintenance, post, { order, policy }))
      assert.deepInclude(ended, { state: "running" })
      const [given] = yield* maintenance.handoffAsides(consumer)
      assert.deepInclude(given, { seq: 3, isRefused: true, nextAttemptAt: undefined })
      assert.isAtLeast(given?.attempts ?? 0, 2)
      failing.clear()
      yield* skipRefused(maintenance, { consumer, seq: 3, reason: "a test record", by: "operations" })
      yield* sending(maintenance, post, { order })
      assert.deepStrictEqual(numbersOf(received).slice(12), [8, 13])
    }).pipe(Effect.scoped))

  it.live("sends a change that was set aside again at once if somebody resumes it, also after a restart", () =>
    Effect.gen(function*() {
      const { failing, maintenance, post, received } = yield* failingAside
      const policy = { ...hasty, ...farAway }
      const following = sending(maintenance, post, { order, policy, isFollowing: true })
      const first = yield* Effect.forkChild(following)
      const asides = maintenance.handoffAsides(consumer)
      yield* Effect.repeat(Effect.delay(asides, "20 millis"), { until: ([one]) => one?.nextAttemptAt !== undefined })
      yield* Fiber.interrupt(first)
      const epochs = Effect.map(maintenance.handoffs, (all) => all.map(({ epoch }) => epoch))
      const before = yield* epochs
      const second = yield* Effect.forkChild(following)
      yield* Effect.repeat(Effect.delay(epochs, "20 millis"), { until: ([epoch]) => epoch !== before[0] })
      failing.clear()
      yield* Effect.sleep("100 millis")
      assert.deepStrictEqual(numbersOf(received).slice(12), [])
      yield* resumeHandoff(maintenance, consumer)
      yield* Effect.repeat(Effect.delay(asides, "20 millis"), { until: (left) => left.length === 0 })
      assert.deepStrictEqual(numbersOf(received).slice(12), [3, 8, 13])
      yield* Fiber.interrupt(second)
    }).pipe(Effect.scoped))

  it.live("leaves a change that was set aside to a decision as soon as its time has passed, also if it was made shorter", () =>
    Effect.gen(function*() {
      const { maintenance, post } = yield* failingAside
      const policy = { ...hasty, ...farAway }
      const asides = maintenance.handoffAsides(consumer)
      const first = yield* Effect.forkChild(sending(maintenance, post, { order, policy, isFollowing: true }))
      yield* Effect.repeat(Effect.delay(asides, "20 millis"), { until: ([one]) => one?.nextAttemptAt !== undefined })
      yield* Fiber.interrupt(first)
      const shorter = { ...policy, giveUpAfter: Duration.seconds(1) }
      yield* Effect.timeout(sending(maintenance, post, { order, policy: shorter }), "1 minute")
      assert.deepInclude((yield* asides)[0], { seq: 3, isRefused: true, attempts: 2 })
    }).pipe(Effect.scoped))

  it.live("begins again with the attempts of a change that was set aside, also if somebody resumes it during one", () =>
    Effect.gen(function*() {
      const { failing, maintenance, post } = yield* failingAside
      const attempts: Array<number | undefined> = []
      const resumedDuringSecond: typeof post = (headers, body) =>
        Effect.gen(function*() {
          const [aside] = yield* Effect.orDie(maintenance.handoffAsides(consumer))
          attempts.push(aside?.attempts)
          if (attempts.length === 2) yield* Effect.orDie(resumeHandoff(maintenance, consumer))
          if (attempts.length === 3) failing.clear()
          return yield* post(headers, body)
        })
      yield* sending(maintenance, resumedDuringSecond, { order })
      assert.deepStrictEqual(attempts.slice(0, 3), [0, 1, 0])
      assert.deepStrictEqual(yield* maintenance.handoffAsides(consumer), [])
    }).pipe(Effect.scoped))

  it.live("forgets what it has set aside of a list that is not sent any more", () =>
    Effect.gen(function*() {
      const { maintenance, post, received, refused } = yield* opened
      yield* sending(maintenance, post, { order })
      refused.clear()
      yield* sending(maintenance, post, { order, lists: [Lists.payoutRequests] })
      assert.deepStrictEqual(yield* maintenance.handoffAsides(consumer), [])
      assert.lengthOf(numbersOf(received), 12)
    }).pipe(Effect.scoped))

  it.live("forgets what it has set aside of a kind that is not sent any more, also if it was refused", () =>
    Effect.gen(function*() {
      const { maintenance, post, received, refused } = yield* opened
      yield* sending(maintenance, post, { order })
      const shape = { source: "north", isThin: false }
      yield* sending(maintenance, post, { order, shape: { ...shape, kinds: new Set(["update", "missing"] as const) } })
      assert.lengthOf(yield* maintenance.handoffAsides(consumer), 3)
      refused.clear()
      yield* sending(maintenance, post, { order, shape: { ...shape, kinds: new Set(["missing"] as const) } })
      assert.deepStrictEqual(yield* maintenance.handoffAsides(consumer), [])
      assert.lengthOf(numbersOf(received), 12)
    }).pipe(Effect.scoped))

  it.live("stands still when no more can be set aside, and loses nothing", () =>
    Effect.gen(function*() {
      const { maintenance, post, received, refused } = yield* opened
      yield* maintenance.takeOverHandoff(consumer)
      const { generation = "" } = yield* maintenance.changeRange
      const aside = {
        generation,
        list: "invoices",
        id: "inv_2",
        selection: "s",
        nonce: "n",
        storedAt: at,
        scannedAt: undefined,
        ...untried
      }
      const asides = Array.from(
        { length: mostAside - 2 },
        (_, index) => ({ ...aside, seq: 1000 + index, isRefused: true })
      )
      yield* maintenance.changeHandoff({ consumer, epoch: 1, change: (stored) => stored, asides })
      assert.deepInclude(yield* sending(maintenance, post, { order }), { state: "waiting", reason: "full" })
      assert.deepStrictEqual(numbersOf(received), [1, 2, 4, 5, 6, 7, 9, 10, 11, 12])
      assert.deepInclude((yield* maintenance.consumerStates)[0], { position: 12 })
      refused.clear()
      yield* skipRefused(maintenance, { consumer, seq: 1000, reason: "room", by: "test" })
      assert.deepInclude(yield* sending(maintenance, post, { order }), { state: "running" })
      assert.deepStrictEqual(numbersOf(received).slice(10), [14, 15])
    }).pipe(Effect.scoped))

  it.live("sends what is set aside again also while no more can be set aside, and then goes on", () =>
    Effect.gen(function*() {
      const { failing, layer, maintenance, post, received, refused } = yield* opened
      yield* sending(maintenance, post, { order })
      const [given] = yield* maintenance.handoffAsides(consumer)
      const others = Array.from({ length: mostAside - 3 }, (_, index) => ({ seq: 1000 + index, id: "inv_9" }))
      const asides = others.flatMap((one) => given === undefined ? [] : [{ ...given, ...one }])
      yield* maintenance.changeHandoff({ consumer, epoch: undefined, change: (stored) => stored, asides })
      // Change 16 is the next one of the record of change 3.
      yield* exporting(layer, [4, 4, 5, 4, 4])
      const full = { state: "waiting", reason: "full", batch: undefined } as const
      assert.deepInclude(yield* sending(maintenance, post, { order }), full)
      refused.clear()
      failing.add(3)
      if (given === undefined) return assert.fail("nothing is set aside")
      // As after a resume, but the others stay refused.
      yield* maintenance.changeHandoff({ consumer, epoch: undefined, change: withRoom, settledAside: given })
      const again = { change: (stored: Handoff) => stored, asides: [{ ...given, isRefused: false }] }
      yield* maintenance.changeHandoff({ consumer, epoch: undefined, ...again })
      assert.deepInclude(yield* sending(maintenance, post, { order }), full)
      failing.clear()
      const following = yield* Effect.forkChild(sending(maintenance, post, { order, isFollowing: true }))
      yield* Effect.repeat(Effect.delay(maintenance.handoffs, "20 millis"), {
        until: ([stored]) => stored?.state === "running"
      })
      yield* Effect.repeat(Effect.sleep("20 millis"), { until: () => numbersOf(received).length >= 16 })
      assert.deepStrictEqual(numbersOf(received).slice(12), [3, 8, 13, 16])
      yield* Fiber.interrupt(following)
    }).pipe(Effect.scoped))

  it.live("stands still for a refused change without room, and goes on as soon as there is room", () =>
    Effect.gen(function*() {
      const { maintenance, post, received, refused } = yield* opened
      yield* maintenance.takeOverHandoff(consumer)
      const { generation = "" } = yield* maintenance.changeRange
      const rest = { generation, list: "invoices", selection: "s", nonce: "n", storedAt: at, scannedAt: undefined }
      const asides = Array.from(
        { length: mostAside },
        (_, index) => ({ ...rest, ...untried, id: "inv_9", seq: 1000 + index, isRefused: true })
      )
      yield* maintenance.changeHandoff({ consumer, epoch: 1, change: (stored) => stored, asides })
      const { batch, ...stands } = yield* sending(maintenance, post, { order })
      assert.deepInclude(stands, { state: "waiting", reason: "full" })
      assert.deepStrictEqual([batch?.last, numbersOf(received)], [3, [1, 2]])
      yield* skipRefused(maintenance, { consumer, seq: 1000, reason: "room", by: "test" })
      refused.clear()
      yield* sending(maintenance, post, { order })
      assert.deepStrictEqual(numbersOf(received).slice(2, 5), [3, 4, 5])
    }).pipe(Effect.scoped))

  const at = "2026-01-01T00:00:00.000Z"

  /** Plays one history of exports, refusals, faults, kills, second senders, replays and decisions. */
  const play = Effect.fnUntraced(
    function*(history: number, figures: { aside: number; skipped: number; kills: number }) {
      const dice = diceOf(seed, "records", name, history)
      const folder = yield* temporaryFolder
      const layer = layerIn(folder)
      const amounts = Array.from({ length: 1 + dice.below(8) }, () => 1)
      yield* exporting(layer, amounts)
      const maintenance = yield* open(folder)
      yield* subscribed(maintenance)
      // The first sender may be killed before it exists.
      yield* maintenance.takeOverHandoff(consumer)
      const [refused, skipped] = [new Set<number>(), new Set<number>()]
      let isCalm = false
      const { received, url } = yield* receiver((numbers): Reply => {
        if (numbers.some((seq) => refused.has(seq))) return "refuse"
        return isCalm || !dice.chance(0.2) ? "ok" : dice.pick(["error", "lost", "late", "recanted"])
      })
      const [post, lasting] = [yield* postTo(url, "40 millis"), yield* postTo(url)]
      const send = Effect.gen(function*() {
        const limits = { changes: 1 + dice.below(6), bytes: 100 + dice.below(3000) }
        const running = sending(maintenance, post, { limits, order })
        const isKilled =
          (yield* Effect.timeoutOption(running, dice.chance(0.6) ? 5000 : dice.below(30)))._tag === "None"
        if (isKilled) figures.kills++
      })
      const decide = Effect.gen(function*() {
        const first = (yield* maintenance.handoffAsides(consumer)).find(({ isRefused }) => isRefused)
        const [stored] = yield* maintenance.handoffs
        figures.aside += first === undefined ? 0 : 1
        if (stored?.state !== "running" || dice.chance(0.3)) yield* resumeHandoff(maintenance, consumer)
        if (first === undefined || !dice.chance(0.4)) return
        if (!refused.has(first.seq)) return
        // A sender may just have been told to send it again.
        if (
          !(yield* maintenance.handoffAsides(consumer)).some(({ isRefused, seq }) => isRefused && seq === first.seq)
        ) return
        yield* skipRefused(maintenance, { consumer, seq: first.seq, reason: "drawn", by: "test" })
        skipped.add(first.seq)
        figures.skipped++
      })
      for (let step = 0; step < 8; step++) {
        for (let times = dice.below(12); times > 0; times--) {
          const index = dice.below(amounts.length)
          amounts[index] = (amounts[index] ?? 0) + 1
        }
        yield* exporting(layer, amounts)
        const { generation, last } = yield* maintenance.changeRange
        if (last > 0 && dice.chance(0.6)) refused.add(1 + dice.below(last))
        if (dice.chance(0.1)) {
          const [{ position = 0 } = {}] = yield* maintenance.consumerStates
          yield* moveConsumer(maintenance, {
            name: consumer,
            position: dice.below(position + 1),
            generation,
            when: "any"
          })
        }
        const sent = Array.from({ length: dice.chance(0.25) ? 2 : 1 }, () => Effect.exit(send))
        for (const exit of yield* Effect.all(sent, { concurrency: "unbounded" })) {
          if (Exit.isFailure(exit)) assert.include(Cause.pretty(exit.cause), "HandoffTakenOver")
        }
        yield* decide
      }
      isCalm = true
      refused.clear()
      const isOpen = Effect.map(
        Effect.all([maintenance.handoffAsides(consumer), maintenance.consumerStates]),
        ([asides, [state]]) => asides.length > 0 || state?.lag !== 0
      )
      for (let rounds = 0; yield* isOpen; rounds++) {
        assert.isBelow(rounds, 100)
        yield* resumeHandoff(maintenance, consumer)
        yield* sending(maintenance, lasting, { order })
      }
      const records = yield* recordsOf(maintenance)
      const accepted = acceptedOf(received, records)
      const bodies = new Map(received.map(({ body, id }) => [id, body]))
      for (const { body, id } of received) assert.strictEqual(bodies.get(id), body)
      for (const id of new Set(records.values())) {
        const own = [...records].flatMap(([seq, record]) => record === id ? [seq] : [])
        const missing = own.filter((seq) => !(accepted.get(id) ?? []).includes(seq))
        for (const seq of missing) assert.isTrue(skipped.has(seq), `${seq} of ${id} is lost or was overtaken`)
      }
    }
  )

  it.live(
    `loses and reorders nothing of a record in ${histories} random histories (seed ${seed})`,
    () =>
      Effect.gen(function*() {
        const figures = { aside: 0, skipped: 0, kills: 0 }
        for (let history = 1; history <= histories; history++) {
          yield* play(history, figures).pipe(
            Effect.scoped,
            Effect.onError(() => Console.error(`history ${history} of ${name}, seed ${seed}`))
          )
        }
        yield* Console.log(`hand-offs by record from ${name}: ${JSON.stringify(figures)}`)
        assert.isAbove(figures.aside, 0)
      }),
    900_000
  )
})

describe("changes that are set aside", () => {
  it("are divided by record, up to the last one that has room", () => {
    const row = (seq: number, id: string) => ({
      seq,
      id,
      generation: "g",
      list: "invoices",
      scan: 1,
      at: "",
      kind: "update" as const,
      fields: [],
      before: undefined,
      after: undefined,
      rechecked: undefined
    })
    const aside = (seq: number, isRefused: boolean): HandoffAside => ({
      generation: "g",
      seq,
      list: "invoices",
      id: "a",
      isRefused,
      selection: "s",
      nonce: "n",
      storedAt: "",
      scannedAt: undefined,
      ...untried
    })
    const rows = [row(5001, "a"), row(5002, "b"), row(5003, "a"), row(5004, "b"), row(5005, "a")]
    const seqs = (of: ReadonlyArray<{ readonly seq: number }>) => of.map(({ seq }) => seq - 5000)
    for (
      const [stored, sent, held, isFull] of [[0, [1, 2, 3, 4, 5], [], false], [1, [2, 4], [1, 3, 5], false], [
        mostAside - 2,
        [2, 4],
        [1, 3],
        true
      ], [mostAside, [], [], true]] as const
    ) {
      const asides = asidesOf(Array.from({ length: stored }, (_, index) => aside(index + 1, index === 0)))
      const divided = asides.divide(rows, rows, "g")
      assert.deepStrictEqual([seqs(divided.sent), seqs(divided.held), divided.isFull], [sent, held, isFull])
      assert.deepStrictEqual(asides.due, [])
    }
    assert.deepStrictEqual(asidesOf([aside(1, false), aside(2, true)]).due.map(({ seq }) => seq), [1])
  })
})
