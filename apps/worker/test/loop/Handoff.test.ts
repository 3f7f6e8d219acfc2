/** A worker that hands changes off to a receiver over a socket. */
import { assert, describe, it } from "@effect/vitest"
import { Destination } from "@payments/copy"
import { resumeHandoff, skipRefused } from "@payments/copy/handoff"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { noTimers, recordConnections, rowsOf } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { type Reply, secretText } from "../../../../packages/copy/test/handoff/Receiver.ts"
import { startWorker } from "./RunningWorker.ts"
import { assertSigned, handedOff, numbersOf } from "./WorkerReceiver.ts"

type Worker = Effect.Success<ReturnType<typeof startWorker>>

const handoffOf = (worker: Worker, consumer = "ledger") =>
  Effect.map(worker.readiness, ({ body }) => body.sources[0]?.handoffs.find((one) => one.consumer === consumer))

/** The numbers of the changes, as the destination has them. */
const feedOf = (file: string): ReadonlyArray<number> =>
  rowsOf(file, "SELECT seq FROM changes ORDER BY seq").map(({ seq }) => Number(seq))

/** Advances the world until the destination has more changes than before. */
const change = Effect.fnUntraced(function*(worker: Worker, file: string, advance: Effect.Effect<unknown>) {
  const before = feedOf(file).length
  yield* advance
  yield* worker.until(Effect.sync(() => feedOf(file).length), (now) => now > before)
})

/** Waits until the receiver has stored every change, and no other, in order. */
const untilEqual = (worker: Worker, file: string, received: Parameters<typeof numbersOf>[0]) =>
  worker.until(
    Effect.sync(() => [numbersOf(received), feedOf(file)] as const),
    ([arrived, feed]) => feed.length > 0 && JSON.stringify(arrived) === JSON.stringify(feed)
  )

const maintaining = <A, E>(
  file: string,
  use: (maintenance: Effect.Success<ReturnType<typeof Destination.maintenance>>) => Effect.Effect<A, E>
) => Effect.scoped(Effect.flatMap(Destination.maintenance({ _tag: "Sqlite", file }), use))

describe("a worker with a consumer that has a URL", () => {
  it.live.each([["sqlite"], ["files"]])(
    "creates the consumer, and hands each change off, in order and signed: %s",
    ([kind]) =>
      Effect.gen(function*() {
        const { advance, args, env, file, keys, received } = yield* handedOff({ isFolder: kind === "files" })
        const worker = yield* startWorker(args, env)
        yield* worker.untilUpToDate
        for (let round = 0; round < 3; round++) yield* change(worker, file, advance)
        yield* untilEqual(worker, file, received)
        assertSigned(received, readFileSync(keys, "utf8"))
        const handoff = yield* worker.until(
          handoffOf(worker),
          (now) => now?.lagChanges === 0 && now.answer === "200"
        )
        assert.deepInclude(handoff, { state: "running", reason: null, lagSeconds: 0, problem: null, attempts: 0 })
        assert.strictEqual(handoff?.origin, new URL(handoff?.origin ?? "").origin)
        assert.deepStrictEqual(yield* worker.end("SIGTERM"), [0, null])
        assert.notInclude(worker.out(), "hook")
      }).pipe(Effect.scoped)
  )

  it.live("connects to the service and to the receiver only", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, folder, received, serviceUrl, url } = yield* handedOff()
      const connections = join(folder, "connections.txt")
      const worker = yield* startWorker(args, {
        ...env,
        NODE_OPTIONS: `--require "${recordConnections}"`,
        CONNECTIONS: connections
      })
      yield* worker.untilUpToDate
      yield* change(worker, file, advance)
      yield* untilEqual(worker, file, received)
      // The worker looks up the address on which it listens. Nothing else is connected or looked up.
      const connected = readFileSync(connections, "utf8").trimEnd().split("\n")
      const hosts = [serviceUrl, url].map((text) => new URL(text).host)
      assert.deepStrictEqual(new Set(connected), new Set([...hosts, "lookup 127.0.0.1"]))
    }).pipe(Effect.scoped))

  it.live("loses nothing when it is killed, and repeats only what was not answered", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, received } = yield* handedOff({ more: "max_changes = 3\n", delayMs: () => 20 })
      for (let kill = 0; kill < 4; kill++) {
        const worker = yield* startWorker(args, env)
        yield* worker.untilUpToDate
        const before = received.length
        yield* change(worker, file, advance)
        yield* worker.until(Effect.sync(() => received.length), (now) => now >= before + 2)
        yield* worker.end("SIGKILL")
      }
      const worker = yield* startWorker(args, env)
      yield* untilEqual(worker, file, received)
    }).pipe(Effect.scoped))

  it.live("waits at SIGTERM for the answer to the request in flight, and does not repeat it", () =>
    Effect.gen(function*() {
      let held: PromiseWithResolvers<void> | undefined
      const given = yield* handedOff({ more: "max_changes = 2\n", delayMs: () => held?.promise ?? 0 })
      const { advance, args, env, file, folder, received } = given
      const seen = join(folder, "sigterm")
      // The worker awaits the answer for 3 s at most. Here that time does not pass.
      const first = yield* startWorker(args, { ...env, ...noTimers(2000), SIGTERM_SEEN: seen })
      yield* first.untilUpToDate
      yield* change(first, file, advance)
      yield* untilEqual(first, file, received)
      held = Promise.withResolvers()
      const before = received.length
      yield* change(first, file, advance)
      yield* first.until(Effect.sync(() => received.length), (now) => now > before)
      first.child.kill("SIGTERM")
      yield* first.until(Effect.sync(() => existsSync(seen)), (isSeen) => isSeen)
      yield* Effect.sleep("2 seconds")
      first.assertRuns()
      held.resolve()
      assert.deepStrictEqual(yield* first.ended, [0, null])
      assert.lengthOf(received, before + 1)
      held = undefined
      const second = yield* startWorker(args, env)
      yield* untilEqual(second, file, received)
      const ids = received.map(({ id }) => id)
      assert.strictEqual(new Set(ids).size, ids.length)
    }).pipe(Effect.scoped))

  it.live("stops at 410, says so, and goes on after somebody resumes it; its lists go on meanwhile", () =>
    Effect.gen(function*() {
      let reply: Reply = "gone"
      const { advance, args, env, file, received } = yield* handedOff({ replyTo: () => reply })
      const worker = yield* startWorker(args, env)
      yield* worker.untilUpToDate
      yield* change(worker, file, advance)
      const [line] = yield* worker.untilLogged("hand-off stopped", 1)
      assert.deepInclude(line?.annotations, {
        reason: "gone",
        answer: "410",
        next: "payments handoff resume ledger --source north"
      })
      assert.deepInclude(yield* handoffOf(worker), { state: "stopped", reason: "gone", answer: "410" })
      yield* change(worker, file, advance)
      const metrics = yield* Effect.promise(() =>
        fetchOnce(`http://127.0.0.1:${String(worker.port)}/metrics`).then((response) => response.text())
      )
      assert.include(metrics, `payments_handoff_stopped{source="north",consumer="ledger",reason="gone"} 1`)
      assert.include(metrics, `payments_handoff_attempts_total{source="north",consumer="ledger",result="refused"} 1`)
      assert.deepStrictEqual(received, [])
      reply = "ok"
      yield* maintaining(file, (maintenance) => resumeHandoff(maintenance, "ledger"))
      yield* untilEqual(worker, file, received)
      yield* worker.untilLogged("hand-off resumed", 1)
      assert.lengthOf(worker.log("hand-off stopped"), 1)
    }).pipe(Effect.scoped))

  it.live("waits for a decision about a refused change, which a person passes over", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, received } = yield* handedOff({
        replyTo: (numbers) => numbers.includes(2) ? "refuse" : "ok"
      })
      const worker = yield* startWorker(args, env)
      yield* worker.untilUpToDate
      yield* change(worker, file, advance)
      const [line] = yield* worker.untilLogged("hand-off waits for a decision", 1)
      assert.deepInclude(line?.annotations, {
        seq: 2,
        next:
          "payments handoff resume ledger --source north, or payments handoff skip ledger 2 --reason TEXT --source north"
      })
      assert.deepInclude(yield* handoffOf(worker), { state: "waiting", reason: "refused", seq: 2 })
      yield* maintaining(
        file,
        (maintenance) => skipRefused(maintenance, { consumer: "ledger", seq: 2, reason: "known", by: "test" })
      )
      yield* worker.until(
        Effect.sync(() => [numbersOf(received), feedOf(file).filter((seq) => seq !== 2)] as const),
        ([arrived, feed]) => feed.length > 1 && JSON.stringify(arrived) === JSON.stringify(feed)
      )
      yield* worker.untilLogged("hand-off resumed", 1)
    }).pipe(Effect.scoped))

  it.live("sets a refused change aside with order = per-record, and sends the others", () =>
    Effect.gen(function*() {
      let reply: Reply = "refuse"
      const { advance, args, env, file, received } = yield* handedOff({
        more: "order = \"per-record\"\n",
        replyTo: (numbers) => numbers.includes(2) ? reply : "ok"
      })
      const worker = yield* startWorker(args, env)
      yield* worker.untilUpToDate
      yield* change(worker, file, advance)
      const [line] = yield* worker.untilLogged("hand-off sets changes aside, which wait for a decision", 1)
      assert.deepInclude(line?.annotations, { consumer: "ledger", next: "payments handoff list --source north" })
      yield* worker.until(handoffOf(worker), (handoff) => handoff?.lagChanges === 0)
      const refused = yield* handoffOf(worker)
      assert.deepInclude(refused, { state: "running", reason: null, resentAt: null })
      assert.strictEqual(refused?.undecided, refused?.setAside)
      assert.notInclude(numbersOf(received), 2)
      reply = "error"
      yield* maintaining(file, (maintenance) => resumeHandoff(maintenance, "ledger"))
      yield* worker.until(handoffOf(worker), (handoff) => handoff?.undecided === 0 && handoff.resentAt !== null)
      yield* worker.end("SIGTERM")
      const next = yield* startWorker(args, env)
      const [again] = yield* next.untilLogged("hand-off sends changes again that are set aside", 1)
      assert.deepInclude(again?.annotations, { consumer: "ledger", setAside: refused?.setAside })
      reply = "ok"
      yield* maintaining(file, (maintenance) => resumeHandoff(maintenance, "ledger"))
      yield* next.until(
        Effect.sync(() => numbersOf(received).toSorted((one, other) => one - other)),
        (arrived) => JSON.stringify(arrived) === JSON.stringify(feedOf(file))
      )
      yield* next.until(handoffOf(next), (handoff) => handoff?.setAside === 0)
    }).pipe(Effect.scoped))

  it.live("shows what is set aside also after a change to a strict order, and sends it once somebody resumes it", () =>
    Effect.gen(function*() {
      let isRefused = true
      const given = yield* handedOff({ replyTo: (numbers) => isRefused && numbers.includes(2) ? "refuse" : "ok" })
      const { advance, args, env, file, received, table, write } = given
      write(`${table("ledger")}order = "per-record"\n`)
      const first = yield* startWorker(args, env)
      yield* first.untilUpToDate
      yield* change(first, file, advance)
      yield* first.until(handoffOf(first), (handoff) => handoff?.setAside === 1 && handoff.lagChanges === 0)
      yield* first.end("SIGTERM")
      write()
      // A sender looks for changes by itself after 30 s. Here that time does not pass.
      const second = yield* startWorker(args, { ...env, ...noTimers(5000) })
      yield* second.untilLogged("hand-off sets changes aside, which wait for a decision", 1)
      assert.deepInclude(yield* handoffOf(second), { state: "running", setAside: 1 })
      isRefused = false
      yield* maintaining(file, (maintenance) => resumeHandoff(maintenance, "ledger"))
      yield* second.until(Effect.sync(() => numbersOf(received)), (arrived) => arrived.includes(2))
      yield* second.until(handoffOf(second), (handoff) => handoff?.setAside === null)
      yield* change(second, file, advance)
      yield* second.until(Effect.sync(() => numbersOf(received).at(-1)), (last) => last === feedOf(file).at(-1))
      assert.deepStrictEqual(numbersOf(received).toSorted((one, other) => one - other), feedOf(file))
    }).pipe(Effect.scoped))

  it.live("says once that it creates a removed consumer again, because the settings name it", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, received } = yield* handedOff({ more: "start = \"now\"\n" })
      const worker = yield* startWorker(args, env)
      yield* worker.untilUpToDate
      yield* change(worker, file, advance)
      yield* untilEqual(worker, file, received)
      const text =
        "the consumer no longer exists, and is created again, because the settings name it: changes before now are not sent"
      assert.deepStrictEqual(worker.log(text), [])
      yield* maintaining(file, (maintenance) => maintenance.removeConsumer("ledger"))
      const [line] = yield* worker.untilLogged(text, 1)
      assert.deepInclude(line?.annotations, { consumer: "ledger", start: "now" })
      assert.deepStrictEqual(worker.log("hand-off waits"), [])
      yield* worker.until(handoffOf(worker), (handoff) => handoff?.position === feedOf(file).at(-1))
      yield* change(worker, file, advance)
      // What another list has committed before the consumer was created again is not sent.
      yield* worker.until(Effect.sync(() => numbersOf(received).at(-1)), (last) => last === feedOf(file).at(-1))
      assert.lengthOf(worker.log(text), 1)
    }).pipe(Effect.scoped))

  it.live("stops if an older destination is put in place while it sends, and waits for no other program", () =>
    Effect.gen(function*() {
      let file = ""
      const given = yield* handedOff({
        more: "max_changes = 2\n",
        replyTo: (numbers) => {
          if (numbers.includes(15)) {
            const database = new DatabaseSync(file, { timeout: 60_000 })
            database.exec(
              `BEGIN IMMEDIATE; DELETE FROM changes WHERE seq > 8; UPDATE sqlite_sequence SET seq = 8 WHERE name = 'changes';
              DELETE FROM handoff_batches; UPDATE consumers SET position = 0; UPDATE handoffs SET batch_first = NULL, epoch = 0; COMMIT`
            )
            database.close()
          }
          return "ok"
        }
      })
      const { advance, args, env } = given
      file = given.file
      // A sender that waits for another program looks after it every 2 s or more. Here that time does not pass.
      const worker = yield* startWorker(args, { ...env, ...noTimers(2000) })
      yield* worker.untilUpToDate
      yield* change(worker, file, advance)
      const [line] = yield* worker.untilLogged("hand-off stopped", 1)
      assert.deepInclude(line?.annotations, { consumer: "ledger", reason: "restored" })
      assert.deepStrictEqual(worker.log("hand-off waits"), [])
    }).pipe(Effect.scoped))

  it.live("waits for keys that cannot be read, and uses new ones within seconds", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, keys, received } = yield* handedOff()
      const old = readFileSync(keys, "utf8")
      // The worker may read the file at any moment.
      const write = (text: string) => {
        writeFileSync(`${keys}.new`, text, { mode: 0o600 })
        renameSync(`${keys}.new`, keys)
      }
      write("no key, hidden")
      const worker = yield* startWorker(args, env)
      yield* worker.untilUpToDate
      yield* change(worker, file, advance)
      const [line] = yield* worker.untilLogged("hand-off waits", 1)
      assert.match(String(line?.annotations["error"]), /payments\.toml:8: secret_file has no key in line 1/)
      yield* worker.until(handoffOf(worker), (handoff) => handoff?.problem !== null)
      write(old)
      yield* untilEqual(worker, file, received)
      yield* worker.until(handoffOf(worker), (handoff) => handoff?.problem === null)
      const next = secretText()
      write(`${next}\n${old}`)
      yield* Effect.sleep("6 seconds")
      // Changes that were found meanwhile may have the old signature.
      yield* untilEqual(worker, file, received)
      const count = received.length
      yield* change(worker, file, advance)
      yield* untilEqual(worker, file, received)
      assertSigned(received.slice(count), next)
      assertSigned(received, old)
      assert.notInclude(worker.out(), "hidden")
      for (const secret of [old, next]) assert.notInclude(worker.out(), secret.trim().replace("whsec_", ""))
    }).pipe(Effect.scoped))

  it.live("begins with the next change, or ends with its table in the settings, which does not remove the consumer", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, received, table, write } = yield* handedOff()
      write()
      const first = yield* startWorker(args, env)
      yield* first.untilUpToDate
      yield* change(first, file, advance)
      yield* untilEqual(first, file, received)
      // A second consumer begins after what there is. More changes may be found meanwhile.
      const [count, last] = [received.length, Math.max(...numbersOf(received))]
      write(table("ledger") + table("late").replace("ledger.keys\"", "ledger.keys\"\nstart = \"now\""))
      first.child.kill("SIGHUP")
      yield* first.until(
        handoffOf(first, "late"),
        (late) => late?.state === "running" && late.lagChanges === 0 && late.position === feedOf(file).length
      )
      assert.deepStrictEqual(numbersOf(received.slice(count)).filter((seq) => seq <= last), [])
      write(table("late"))
      first.child.kill("SIGHUP")
      const [line] = yield* first.untilLogged(
        "the settings no longer name a consumer, which still keeps changes from being removed",
        1
      )
      assert.deepInclude(line?.annotations, {
        consumer: "ledger",
        next: "payments changes consumers --remove ledger --source north"
      })
      assert.deepInclude(yield* handoffOf(first), { state: "removed", origin: null })
      const { body } = yield* first.readiness
      assert.include((body.sources[0]?.lists[0]?.consumers ?? []).map(({ name }) => name), "ledger")
    }).pipe(Effect.scoped))

  it.live("of which only one has the locks sends from there, and the other goes on after it is killed", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, received } = yield* handedOff({ more: "max_changes = 2\n" })
      const first = yield* startWorker(args, env)
      yield* first.untilUpToDate
      yield* change(first, file, advance)
      const second = yield* startWorker(args, env)
      yield* second.untilLogged("standby: waits for the locks", 1)
      yield* untilEqual(first, file, received)
      assert.strictEqual((yield* handoffOf(second))?.state, "inactive")
      const epochOf = () => rowsOf(file, "SELECT epoch FROM handoffs").map(({ epoch }) => Number(epoch))
      assert.deepStrictEqual(epochOf(), [1])
      yield* first.end("SIGKILL")
      yield* second.untilLogged("scan begun", 1)
      yield* change(second, file, advance)
      yield* untilEqual(second, file, received)
      assert.deepStrictEqual(epochOf(), [2])
    }).pipe(Effect.scoped))
})

describe("two workers that start together", () => {
  it.live("hand each change off in order, although each may have the lock of some lists, and do not fight", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, received } = yield* handedOff({ more: "max_changes = 3\ntimeout = \"1s\"\n" })
      const start = startWorker(args, env)
      const [first, second] = yield* Effect.all([start, start], { concurrency: 2 })
      yield* first.untilUpToDate
      const epochOf = () => rowsOf(file, "SELECT epoch FROM handoffs").map(({ epoch }) => Number(epoch))
      for (let round = 0; round < 4; round++) {
        yield* change(first, file, advance)
        yield* Effect.sleep("1 second")
      }
      yield* untilEqual(first, file, received)
      const [epoch = 0] = epochOf()
      assert.isAtMost(epoch, 3)
      // Nothing is to be sent, so neither takes the hand-off over.
      yield* Effect.sleep("16 seconds")
      assert.deepStrictEqual(epochOf(), [epoch])
      yield* change(second, file, advance)
      yield* untilEqual(second, file, received)
      assert.isAtMost(epochOf()[0] ?? 0, epoch + 1)
    }).pipe(Effect.scoped))
})
