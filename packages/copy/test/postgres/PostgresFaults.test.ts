import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { freePort } from "@payments/testkit/FreePort"
import { type CommitAction, startProxy } from "@payments/testkit/postgres/CommitFaultProxy"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { briefTimes, query, recordsOf, rowsOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { makeTcpGate } from "@payments/testkit/TcpGate"
import { spawn } from "@payments/testkit/TestProcess"
import { Console, Duration, Effect, Fiber, Layer, Schedule } from "effect"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { afterAll, beforeAll } from "vitest"
import { scan, type ScanOptions, verify } from "../../src/index.ts"
import { connect } from "../../src/postgres/PostgresClient.ts"
import type { Times } from "../../src/postgres/PostgresLease.ts"
import { settingsOf } from "../../src/postgres/PostgresSettings.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const newSchema = () => `t_${randomUUID()}`

const run = (
  at: Pick<PostgresServer, "port">,
  schema: string,
  records: ReadonlyArray<string>,
  options: ScanOptions & { readonly times?: Times } = {}
) =>
  scan("payoutRequests", { limit: 10, largestBatch: 10, ...options }).pipe(
    Effect.provide(
      Layer.merge(PostgresSink.layer(urlOf(at, schema), options.times), layerTest({ payoutRequests: records }))
    )
  )

const proxied = (decide: () => CommitAction) =>
  Effect.acquireRelease(
    Effect.promise(() => startProxy(server.port, decide)),
    (proxy) => Effect.promise(() => proxy.close())
  )

/** Asserts that the destination has exactly these records and that they match its certificate. */
const assertRecords = Effect.fnUntraced(function*(schema: string, records: ReadonlyArray<string>) {
  const rows = yield* Effect.promise(() => rowsOf(server, schema, Lists.payoutRequests))
  assert.deepStrictEqual(rows.map(({ raw }) => raw).toSorted(), records.toSorted())
  const reader = yield* PostgresSink.reader(urlOf(server, schema))
  const verified = yield* verify(reader, Lists.payoutRequests)
  assert.isDefined(verified.certificate)
  assert.deepStrictEqual(verified.differences, [])
}, Effect.scoped)

describe("an export into PostgreSQL", () => {
  const faults = isLongRun ? 500 : 30

  it.live(
    `loses and duplicates nothing if its connection breaks around COMMIT, ${faults} times`,
    () =>
      Effect.gen(function*() {
        yield* Console.log(`seed ${seed}`)
        const dice = diceOf(seed, "cuts")
        const schema = newSchema()
        let faultCount = 0
        let consecutive = 0
        const proxy = yield* proxied(() => {
          const action = consecutive >= 3 || dice.chance(0.3)
            ? "pass"
            : dice.pick(["disconnectBefore", "disconnectAfter", "race"] as const)
          consecutive = action === "pass" ? 0 : consecutive + 1
          if (action !== "pass") faultCount++
          return action
        })
        let amounts = Array.from({ length: 100 }, () => 0)
        const currentRecords = () => amounts.map((amount, index) => `{"id":"por_${index}","amount":${amount}}`)
        yield* run(proxy, schema, currentRecords())
        for (let round = 1; round === 1 || faultCount < faults; round++) {
          const before = amounts
          amounts = amounts.map((amount) => dice.chance(0.5) ? amount : round)
          const { scan: number } = yield* run(proxy, schema, currentRecords())
          yield* assertRecords(schema, currentRecords())
          const changes = yield* Effect.promise(() =>
            query(server, `SELECT id FROM "${schema}".changes WHERE scan = $1 ORDER BY seq`, [BigInt(number)])
          )
          assert.deepStrictEqual(
            changes.map(({ id }) => id),
            amounts.flatMap((amount, index) => amount === before[index] ? [] : [`por_${index}`])
          )
        }
        const [sequence] = yield* Effect.promise(() =>
          query(server, `SELECT max(seq) = count(*) AS "hasNoGap" FROM "${schema}".changes`)
        )
        assert.deepStrictEqual(sequence, { hasNoGap: true })
      }).pipe(Effect.scoped),
    isLongRun ? 3_600_000 : 600_000
  )

  it.live("continues after a restart of the server", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* run(server, schema, recordsOf("before"))
      yield* run(server, schema, recordsOf("after"), {
        onEvent: (event) =>
          event._tag === "Committed" && event.progress.pages % 10 === 5
            ? Effect.promise(() => server.restart())
            : Effect.void
      })
      yield* assertRecords(schema, recordsOf("after"))
    }))

  it.live("fails if the server stays unreachable, and the next run resumes", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const proxy = yield* proxied(() => "pass")
      const error = yield* Effect.flip(
        run(proxy, schema, recordsOf("a"), {
          times: briefTimes,
          onEvent: (event) =>
            event._tag === "Committed" && event.progress.pages === 12
              ? Effect.promise(() => proxy.close())
              : Effect.void
        })
      )
      assert.strictEqual(error.reason._tag, "Unavailable")
      const summary = yield* run(server, schema, recordsOf("a"), { onLocked: "wait", times: briefTimes })
      assert.deepInclude(summary, { start: "resumed", pages: 30, records: 300 })
      yield* assertRecords(schema, recordsOf("a"))
    }).pipe(Effect.scoped))
})

/** Starts `PostgresWriter.ts` in a child process. `next` returns its next line of output. */
const startWriter = (port: number, schema: string, writer: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(
        process.execPath,
        [join(import.meta.dirname, "PostgresWriter.ts"), String(port), schema, writer],
        { stdio: ["ignore", "pipe", "inherit"] }
      )
      const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
      const next = Effect.promise(async () => (await lines.next()).value as string | undefined) // undefined at the end
      const ended = once(child, "exit")
      return { child, next, ended: Effect.promise(() => ended) }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

describe("a PostgreSQL server that accepts connections but does not respond", () => {
  it.live("is distinguished from a busy one, during a statement and in a transaction", () =>
    Effect.gen(function*() {
      const gate = yield* makeTcpGate(yield* Effect.promise(freePort))
      yield* gate.open(server.port)
      const settings = yield* settingsOf(urlOf(gate, newSchema()))
      const interval = Duration.millis(200)
      // A server that only answers slowly, on a busy machine, is not one that does not respond.
      const patient = yield* connect(settings, { interval, timeout: Duration.minutes(1) })
      const busy = yield* patient.query("SELECT 1 AS one FROM pg_sleep(1)")
      assert.strictEqual(busy.length, 1)
      const client = yield* connect(settings, { interval, timeout: Duration.seconds(2) })
      const inTransaction = yield* Effect.forkChild(
        Effect.flip(
          client.transaction((send) => Effect.andThen(send("SELECT 1"), Effect.andThen(gate.stall, send("SELECT 1"))))
        )
      )
      const singleStatement = yield* Effect.forkChild(Effect.flip(Effect.andThen(
        Effect.repeat(gate.droppedChunks, {
          until: (count) => count > 0,
          schedule: Schedule.spaced("20 millis")
        }),
        client.query("SELECT 1")
      )))
      for (const fiber of [inTransaction, singleStatement]) {
        const { message, reason } = yield* Fiber.join(fiber)
        assert.deepInclude(reason, { _tag: "Unavailable", code: "no answer" })
        assert.include(message, "accepts connections but does not respond")
      }
    }).pipe(Effect.scoped))
})

describe("a writer whose PostgreSQL lease another program has taken over", () => {
  const rounds = isLongRun ? 100 : 3
  const states = ["between transactions", "during COMMIT", "killed"] as const

  const takeover = Effect.fnUntraced(function*(number: number) {
    const dice = diceOf(seed, "takeover", number)
    const state = states[number % states.length] ?? states[0]
    const schema = newSchema()
    yield* run(server, schema, recordsOf("before"))
    let stallsCommit = false
    let onStall = () => {}
    const stalled = new Promise<void>((resolve) => onStall = resolve)
    const proxy = yield* proxied(() => {
      if (stallsCommit) onStall()
      return stallsCommit ? "stall" : "pass"
    })
    const { child, ended, next } = yield* startWriter(proxy.port, schema, "stopped")
    /** Lets the writer read and commit the next page. */
    const goOn = () => child.kill("SIGUSR2")
    assert.strictEqual(yield* next, "committed")
    for (let pages = 1 + dice.below(12); pages > 0; pages--) {
      goOn()
      assert.strictEqual(yield* next, "committed")
    }
    stallsCommit = state === "during COMMIT"
    if (state !== "between transactions") goOn()
    if (stallsCommit) yield* Effect.promise(() => stalled)
    // The kill comes before, during or after the next commit.
    if (state === "killed") yield* Effect.sleep(dice.below(15))
    child.kill(state === "killed" ? "SIGKILL" : "SIGSTOP")
    // The lease and the open transaction of the first writer both end by timeout.
    const summary = yield* run(server, schema, recordsOf("taker"), { onLocked: "wait", times: briefTimes })
    assert.strictEqual(summary.start, "resumed")
    const everything = () =>
      Effect.promise(() =>
        query(
          server,
          `SELECT (SELECT json_agg(t ORDER BY "row")::text FROM "${schema}".payout_requests AS t) AS rows,
            (SELECT json_agg(c ORDER BY seq)::text FROM "${schema}".changes AS c) AS changes,
            (SELECT json_agg(s ORDER BY scan)::text FROM "${schema}".scans AS s) AS scans`
        )
      )
    const before = yield* everything()
    if (state !== "killed") {
      stallsCommit = false
      child.kill("SIGCONT")
      let last: string | undefined
      goOn()
      for (let line = yield* next; line !== undefined; line = yield* next) {
        last = line
        goOn()
      }
      // If it was stopped while it reconnected, the time for retries is over.
      assert.include(["LeaseLost", "Unavailable", "Failed"], last)
    }
    yield* ended
    assert.deepStrictEqual(yield* everything(), before)
    yield* run(server, schema, recordsOf("last"), { times: briefTimes })
    yield* assertRecords(schema, recordsOf("last"))
  }, Effect.scoped)

  it.live(
    `commits nothing more after a pause between transactions or during COMMIT, or after SIGKILL; ${rounds} times`,
    () =>
      Effect.gen(function*() {
        yield* Console.log(`seed ${seed}`)
        yield* Effect.forEach(Array.from({ length: rounds }, (_, number) => number), takeover, { concurrency: 6 })
      }),
    isLongRun ? 3_600_000 : 600_000
  )
})
