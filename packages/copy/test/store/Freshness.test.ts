import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { spawnSync } from "@payments/testkit/TestProcess"
import { DateTime, Deferred, Duration, Effect, Fiber, Layer, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import { readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import * as Destination from "../../src/destination/Destination.ts"
import { defaultFormat } from "../../src/files/FileSink.ts"
import {
  ageOf,
  freshnessOf,
  isFresh,
  openScanner,
  overviewOf,
  scan,
  type ScanEvent,
  type ScanOptions,
  Sink
} from "../../src/index.ts"
import { stateQuery } from "../../src/sql/SqlState.ts"
import { render } from "../../src/sql/SqlStatement.ts"
import { style } from "../../src/sqlite/SqliteSql.ts"
import { batchOf, recordOf } from "../session/Batches.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

/** An empty destination, and access to its tables. */
interface TestDestination {
  readonly destination: Destination.StoredDestination
  /** Runs a statement. `prefix` precedes the names of the tables. */
  readonly run: (statement: (prefix: string) => string) => Effect.Effect<void>
  /** Replaces the content of a lock file. */
  readonly replaceLock: (content: string) => Effect.Effect<void>
  /** Leaves what a killed process leaves behind: a holder without a lock. */
  readonly leaveHolder: (holder: string) => Effect.Effect<void>
}

const sqliteIn = (file: string, destination: Destination.StoredDestination): TestDestination => ({
  destination,
  run: (statement) => Effect.sync(() => execute(file, statement(""))),
  replaceLock: (content) => Effect.sync(() => writeFileSync(`${file}.payout-requests.lock`, content)),
  leaveHolder: (holder) =>
    Effect.sync(() => {
      writeFileSync(`${file}.payout-requests.holder`, holder)
      execute(file, `UPDATE holders SET holder = '${holder}'`)
    })
})

const kinds = {
  "sqlite:": Effect.map(temporaryFolder, (folder) => {
    const file = join(folder, "payments.db")
    return sqliteIn(file, { _tag: "Sqlite", file })
  }),
  "file:": Effect.map(
    temporaryFolder,
    (folder) => sqliteIn(join(folder, "copy.db"), { _tag: "Files", folder, format: defaultFormat })
  ),
  "postgres:": Effect.sync((): TestDestination => {
    const schema = `t_${randomUUID()}`
    const run: TestDestination["run"] = (statement) =>
      Effect.asVoid(Effect.promise(() => query(server, statement(`"${schema}".`))))
    return {
      destination: { _tag: "Postgres", url: urlOf(server, schema) },
      run,
      replaceLock: () => Effect.die("PostgreSQL has no lock file"),
      leaveHolder: (holder) =>
        run((s) => `UPDATE ${s}leases SET holder = '${holder}', expires = clock_timestamp() - interval '1 second'`)
    }
  })
}

const list = Lists.payoutRequests

const payout = (index: number, fields = "") => `{"id":"por_${index}","status":"PAID","amount":${index}${fields}}`
const payouts = (count: number) => Array.from({ length: count }, (_, index) => payout(index))

const run = (
  { destination }: TestDestination,
  records: ReadonlyArray<string>,
  options: ScanOptions = {}
) =>
  scan("payoutRequests", { limit: 10, largestBatch: 10, missingLimit: 1, ...options }).pipe(
    Effect.provide(Layer.merge(Destination.layer(destination), layerTest({ payoutRequests: records }))),
    Effect.provide(NodeServices.layer)
  )

const freshnessIn = ({ destination }: TestDestination) =>
  Effect.gen(function*() {
    const [freshness] = yield* freshnessOf(yield* Destination.reader(destination), [list])
    return freshness ?? (yield* Effect.die("no list"))
  }).pipe(Effect.scoped)

const overviewIn = ({ destination }: TestDestination, of: Lists.AnyList = list) =>
  Effect.scoped(Effect.flatMap(Destination.reader(destination), (reader) => overviewOf(reader, of)))

/** Runs an export until a page is committed, and keeps it running until the scope closes. */
const runUntilPage = (destination: TestDestination, records: ReadonlyArray<string>, pages: number) =>
  Effect.gen(function*() {
    const reached = yield* Deferred.make<void>()
    const onEvent = (event: ScanEvent) =>
      event._tag === "Committed" && event.progress.pages === pages
        ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
        : Effect.void
    const fiber = yield* Effect.forkScoped(run(destination, records, { onEvent }))
    yield* Effect.raceFirst(Deferred.await(reached), Fiber.join(fiber))
    return fiber
  })

describe.each(Object.keys(kinds) as ReadonlyArray<keyof typeof kinds>)("the freshness of %s", (kind) => {
  const inDestination = (
    title: string,
    use: (destination: TestDestination) => Effect.Effect<void, unknown, Scope.Scope>
  ) => it.live(title, () => Effect.scoped(Effect.flatMap(kinds[kind], use)))

  inDestination("is that of the last complete scan, with exact counts", (destination) =>
    Effect.gen(function*() {
      const before = DateTime.toEpochMillis(yield* DateTime.now)
      yield* run(destination, [...payouts(25), `{"id":"por_bad","amount":"1"}`, `{"amount":1}`])
      const first = yield* freshnessIn(destination)
      assert.deepInclude(first, {
        list: "payout-requests",
        rows: 26,
        missing: 0,
        quarantined: 2,
        running: undefined,
        holder: undefined,
        headProblem: undefined,
        consumers: []
      })
      assert.deepInclude(first.completeScan?.certificate, { scan: 1, records: 27, distinct: 26 })
      assert.strictEqual(first.completeScan?.certificate?.completedAt, first.completeScan?.endedAt)
      const age = Duration.toMillis(ageOf(first, yield* DateTime.now) ?? Duration.infinity)
      assert.isTrue(age >= 0 && age <= DateTime.toEpochMillis(yield* DateTime.now) - before)
      // Two complete scans without 5 records mark them missing. The complete scan without bad records empties the quarantine.
      for (const _ of [1, 2]) yield* run(destination, payouts(20))
      assert.deepInclude(yield* freshnessIn(destination), { rows: 26, missing: 6, quarantined: 0 })
      assert.strictEqual((yield* freshnessIn(destination)).completeScan?.scan, 3)
    }))

  inDestination(
    "of a list without a scan is undefined, which is older than any limit",
    (destination) =>
      Effect.gen(function*() {
        yield* run(destination, payouts(5))
        const others = yield* Effect.scoped(Effect.flatMap(
          Destination.reader(destination.destination),
          (reader) => freshnessOf(reader, [Lists.invoices, Lists.payinSources])
        ))
        assert.deepStrictEqual(others.map((other) => [other.list, other.rows]), [["invoices", 0], ["payin-sources", 0]])
        const now = yield* DateTime.now
        for (const other of others) {
          assert.isUndefined(ageOf(other, now))
          assert.isFalse(isFresh(other, Duration.infinity, now))
        }
      })
  )

  inDestination(
    "names the process that runs a scan, until the scan is interrupted",
    (destination) =>
      Effect.gen(function*() {
        yield* run(destination, payouts(5))
        const fiber = yield* runUntilPage(destination, payouts(45), 3)
        const running = yield* freshnessIn(destination)
        assert.deepInclude(running.running, { scan: 2, kind: "full", pages: 3, records: 30 })
        assert.include(running.holder, `process ${process.pid} on `)
        assert.strictEqual(running.completeScan?.scan, 1)
        yield* Fiber.interrupt(fiber)
        const interrupted = yield* freshnessIn(destination)
        assert.deepInclude(interrupted, { holder: undefined, rows: 30 })
        assert.deepStrictEqual(interrupted.running?.scan, 2)
        yield* run(destination, payouts(45))
        assert.deepInclude(yield* freshnessIn(destination), { running: undefined, rows: 45 })
      })
  )

  inDestination("names no holder that was killed", (destination) =>
    Effect.gen(function*() {
      yield* run(destination, payouts(5))
      yield* destination.leaveHolder("process 1 on another machine since 2026-01-01T00:00:00.000Z")
      assert.isUndefined((yield* freshnessIn(destination)).holder)
    }))

  inDestination(
    "is read repeatedly while another program exports, and delays none",
    (destination) =>
      Effect.gen(function*() {
        yield* run(destination, payouts(5))
        const reader = yield* Destination.reader(destination.destination)
        yield* Effect.forkScoped(Effect.forever(Effect.delay(freshnessOf(reader, [list]), "1 millis")))
        for (let round = 1; round <= 5; round++) {
          const { records } = yield* run(destination, payouts(50 * round), { onLocked: "refuse" })
          assert.strictEqual(records, 50 * round)
        }
      })
  )

  inDestination(
    "counts what a head pass has written, but its age is that of the full scan",
    (destination) =>
      Effect.gen(function*() {
        yield* run(destination, payouts(25))
        const before = yield* freshnessIn(destination)
        const records = [payout(25), `{"id":"por_bad","amount":"1"}`, ...payouts(25)]
        const passed = yield* openScanner("payoutRequests", { limit: 10 }).pipe(
          Effect.flatMap(({ head }) => head(1)),
          Effect.scoped,
          Effect.provide(Layer.merge(
            Destination.layer(destination.destination).pipe(Layer.provide(NodeServices.layer)),
            layerTest({ payoutRequests: records })
          ))
        )
        assert.deepInclude(passed, { inserted: 2, quarantined: 1 })
        assert.deepStrictEqual(yield* freshnessIn(destination), { ...before, rows: 27, lastChange: 2 })
        assert.strictEqual((yield* overviewIn(destination)).days.reduce((sum, { insert }) => sum + insert, 0), 2)
      })
  )

  inDestination("does not come from a scan of a part", (destination) =>
    Effect.gen(function*() {
      yield* run(destination, payouts(5))
      yield* destination.run((s) =>
        `INSERT INTO ${s}scans (list, kind, part, request, state, first_row, totals, started_at, ended_at)
        SELECT list, 'part', '["status","PAID"]', request, state, first_row, totals, started_at, ended_at FROM ${s}scans`
      )
      assert.strictEqual((yield* freshnessIn(destination)).completeScan?.scan, 1)
    }))

  inDestination("is unknown if the last scan began in the future", (destination) =>
    Effect.gen(function*() {
      yield* run(destination, payouts(5))
      const now = yield* DateTime.now
      const at = (minutes: number) =>
        Effect.gen(function*() {
          const start = DateTime.formatIso(DateTime.add(now, { minutes }))
          yield* destination.run((s) => `UPDATE ${s}scans SET started_at = '${start}' WHERE scan = 1`)
          return ageOf(yield* freshnessIn(destination), now)
        })
      assert.deepStrictEqual(yield* at(-61), Duration.minutes(61))
      // Synchronized clocks of two machines may differ by half a second.
      assert.deepStrictEqual(yield* at(0.5 / 60), Duration.zero)
      assert.isUndefined(yield* at(0.25))
      // The next scan is later by its number, although its start is earlier.
      yield* run(destination, payouts(5))
      const age = ageOf(yield* freshnessIn(destination), yield* DateTime.now) ?? Duration.infinity
      assert.isBelow(Duration.toMillis(age), 60_000)
    }))

  inDestination(
    "has the consumers with their lag, and why head passes are stopped",
    (destination) =>
      Effect.gen(function*() {
        yield* run(destination, payouts(5))
        yield* run(destination, payouts(12))
        yield* destination.run((s) =>
          `INSERT INTO ${s}consumers (name, position, created_at, moved_at)
        VALUES ('warehouse', 3, '2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z'),
          ('ahead', 9, '2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z')`
        )
        yield* destination.run((s) =>
          `INSERT INTO ${s}head_passes VALUES ('payout-requests', '2026-01-01T00:00:00.000Z', 'not newest first')`
        )
        const movedAt = "2026-01-02T00:00:00.000Z"
        const { consumers, generation: current, headProblem } = yield* freshnessIn(destination)
        const generation = current?.generation
        assert.deepStrictEqual(consumers, [
          { name: "ahead", generation, position: 9, lag: 0, movedAt },
          { name: "warehouse", generation, position: 3, lag: 4, movedAt }
        ])
        assert.strictEqual(headProblem, "not newest first")
      })
  )

  inDestination("is also known to the sink that exports, in its thread", (destination) =>
    Effect.gen(function*() {
      yield* run(destination, payouts(25))
      const built = yield* Layer.build(Destination.layer(destination.destination)).pipe(
        Effect.provide(NodeServices.layer)
      )
      const { inspect, lock } = yield* Effect.provideContext(Sink, built)
      yield* lock(list, "refuse")
      const [own] = yield* inspect?.freshness([list]) ?? Effect.die("no inspection")
      assert.include(own?.holder, `process ${process.pid} on `)
      assert.deepStrictEqual(own, yield* freshnessIn(destination))
      const overview = yield* inspect?.overview(list) ?? Effect.die("no inspection")
      assert.deepStrictEqual(overview, { ...yield* overviewIn(destination), at: overview.at })
    }))
})

describe.each(Object.keys(kinds) as ReadonlyArray<keyof typeof kinds>)("the overview of %s", (kind) => {
  const inDestination = (
    title: string,
    use: (destination: TestDestination) => Effect.Effect<void, unknown, Scope.Scope>
  ) => it.live(title, () => Effect.scoped(Effect.flatMap(kinds[kind], use)))

  inDestination(
    "counts the changes of each day by kind, also after they are removed",
    (destination) =>
      Effect.gen(function*() {
        const rounds: ReadonlyArray<ReadonlyArray<string>> = [
          payouts(20),
          [...payouts(20).with(1, payout(1, `,"fee":1`)).with(2, payout(2, `,"fee":1`)), payout(20)],
          payouts(18),
          payouts(18),
          payouts(19)
        ]
        for (const records of rounds) yield* run(destination, records)
        const counted = { insert: 1, update: 4, missing: 3, returned: 1 }
        const { days } = yield* overviewIn(destination)
        assert.strictEqual(days.length, 30)
        assert.isTrue(days.slice(1).every(({ day }, index) => day > (days[index]?.day ?? "")))
        // The runs may span midnight.
        const sum = (change: keyof typeof counted) => days.reduce((total, day) => total + day[change], 0)
        assert.deepStrictEqual(
          { insert: sum("insert"), update: sum("update"), missing: sum("missing"), returned: sum("returned") },
          counted
        )
        assert.strictEqual(days.at(-1)?.day, DateTime.formatIsoDateUtc(yield* DateTime.now))
        yield* destination.run((s) => `DELETE FROM ${s}changes`)
        assert.deepStrictEqual((yield* overviewIn(destination)).days, days)
        // A day of the future, after a clock was set back, and a day that is too old are left out.
        yield* destination.run((s) =>
          `INSERT INTO ${s}change_counts VALUES ('payout-requests', '2999-01-01', 'insert', 1),
          ('payout-requests', '2020-01-01', 'insert', 1), ('invoices', '${days[3]?.day}', 'insert', 1)`
        )
        assert.deepStrictEqual((yield* overviewIn(destination)).days, days)
        assert.strictEqual((yield* overviewIn(destination, Lists.invoices)).days[3]?.insert, 1)
      })
  )

  inDestination(
    "sums amounts by status exactly, beyond 64 bits, without missing rows",
    (destination) =>
      Effect.gen(function*() {
        const most = Number.MAX_SAFE_INTEGER
        const of = (count: number, from: number, fields: string) =>
          Array.from({ length: count }, (_, index) => `{"id":"por_${from + index}"${fields}}`)
        const records = [
          ...of(3000, 0, `,"status":"PAID","amount":${most},"fee":-${most},"amountSent":null`),
          ...of(2, 3000, `,"status":"OPEN","amount":-1,"fee":-4294967296`),
          ...of(1, 3002, `,"status":null,"amount":7`)
        ]
        yield* run(destination, [...records, ...of(1, 3003, `,"status":"GONE","amount":9`)], { limit: 100 })
        for (const _ of [1, 2]) yield* run(destination, records, { limit: 100, largestBatch: 1000 })
        const { otherStatuses, statuses } = yield* overviewIn(destination)
        const exact = (BigInt(most) * 3000n).toString()
        assert.deepStrictEqual(statuses, [
          { status: "PAID", rows: 3000, sums: { amount: exact, amount_sent: "0", fee: `-${exact}` } },
          { status: "OPEN", rows: 2, sums: { amount: "-2", amount_sent: "0", fee: "-8589934592" } },
          { status: null, rows: 1, sums: { amount: "7", amount_sent: "0", fee: "0" } }
        ])
        assert.deepStrictEqual(otherStatuses, { rows: 0, sums: { amount: "0", amount_sent: "0", fee: "0" } })
        // The certificate of the last scan has the same sums: no row that it saw is missing.
        const { completeScan } = yield* freshnessIn(destination)
        const total = statuses.reduce((sum, { sums }) => sum + BigInt(sums["amount"] ?? ""), 0n)
        assert.strictEqual(completeScan?.certificate?.sums["amount"], String(total))
      })
  )

  inDestination("names 20 of 1,000 statuses and bounds their length", (destination) =>
    Effect.gen(function*() {
      const long = "x".repeat(10_000)
      const records = [
        ...Array.from({ length: 1000 }, (_, index) =>
          JSON.stringify({ id: `a${index}`, status: `s${index}`, amount: 1 })),
        ...Array.from({ length: 30 }, (_, index) =>
          JSON.stringify({ id: `b${index}`, status: "\u001b[2J\u0007\r\n<script>", amount: 2 })),
        ...Array.from({ length: 20 }, (_, index) =>
          JSON.stringify({ id: `c${index}`, status: `${long}${index}`, amount: 3 })),
        ...Array.from({ length: 10 }, (_, index) =>
          JSON.stringify({ id: `d${index}`, status: `s${index}`, amount: 1 }))
      ]
      yield* run(destination, records, { limit: 100, largestBatch: 1000 })
      const { otherStatuses, statuses } = yield* overviewIn(destination)
      assert.strictEqual(statuses.length, 20)
      assert.deepStrictEqual(
        statuses.slice(0, 3).map(({ rows, status, sums }) => [status, rows, sums["amount"]]),
        [["\u001b[2J\u0007\r\n<script>", 30, "60"], ["x".repeat(100), 20, "60"], ["s0", 2, "2"]]
      )
      const named = statuses.reduce((sum, { rows }) =>
        sum + rows, 0)
      assert.strictEqual(named + otherStatuses.rows, 1060)
      assert.strictEqual(otherStatuses.sums["amount"], String(otherStatuses.rows))
    }))
})

describe("the freshness of an SQLite destination", () => {
  it.live("is read through indexes, so that it costs the same on any number of rows and scans", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      yield* run(sqliteIn(file, { _tag: "Sqlite", file }), payouts(5))
      const plan = rowsOf(file, `EXPLAIN QUERY PLAN ${render(stateQuery(list, true), style).text}`)
        .map(({ detail }) => String(detail))
      // Only the results of subqueries are scanned, and an index of missing rows only.
      const scanned = plan.filter((step) => step.startsWith("SCAN"))
      const allowed =
        /^SCAN (?:main\.)?(?:q|quarantined|complete|running|CONSTANT ROW|payout_requests USING .*INDEX missing_.*)(?: LEFT-JOIN)?$/
      assert.deepStrictEqual(scanned.filter((step) => !allowed.test(step)), [])
      assert.isNotEmpty(plan.filter((step) => step.includes("INDEX scans_of_a_part (list=? AND part=? AND state=?)")))
    }).pipe(Effect.scoped))

  it.live("says that the holder is unknown if the lock file cannot be read", () =>
    Effect.gen(function*() {
      const destination = yield* kinds["sqlite:"]
      yield* run(destination, payouts(5))
      yield* destination.replaceLock("no database".repeat(100))
      assert.strictEqual((yield* freshnessIn(destination)).holder, "unknown: the lock file cannot be read")
    }).pipe(Effect.scoped))

  it.live("is read by the process that has the lock without releasing the lock or keeping files open", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const { inspect, lock } = yield* Effect.provideContext(
        Sink,
        yield* Layer.build(Destination.layer({ _tag: "Sqlite", file })).pipe(Effect.provide(NodeServices.layer))
      )
      yield* lock(list, "refuse")
      const reader = yield* Destination.reader({ _tag: "Sqlite", file })
      const openFiles = () => readdirSync("/dev/fd").length
      let before = 0
      for (let round = 0; round < 100; round++) {
        if (round === 10) before = openFiles()
        const [own] = yield* inspect?.freshness([list]) ?? Effect.die("no inspection")
        const [other] = yield* freshnessOf(reader, [list])
        assert.deepStrictEqual(own, other)
        assert.include(own?.holder, `process ${process.pid} on `)
      }
      assert.isAtMost(openFiles(), before)
      const script = `const { DatabaseSync } = require("node:sqlite")
        new DatabaseSync(process.argv[1], { timeout: 0 }).exec("BEGIN EXCLUSIVE")`
      const { stderr } = spawnSync(process.execPath, ["-e", script, `${file}.payout-requests.lock`], {
        encoding: "utf8"
      })
      assert.include(stderr, "database is locked")
    }).pipe(Effect.scoped))

  it.live("counts 100,000 statuses in bounded memory, and lets a commit of the same thread pass meanwhile", () =>
    Effect.gen(function*() {
      const destination = yield* kinds["sqlite:"]
      yield* run(destination, payouts(5))
      yield* destination.run((s) =>
        `WITH RECURSIVE n (i) AS (SELECT 5 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
        INSERT INTO ${s}payout_requests (row, id, status, amount, raw, hash, first_seen_at, changed_at)
        SELECT i, i, i, 1, '', '', '', '' FROM n`
      )
      const built = yield* Layer.build(Destination.layer(destination.destination)).pipe(
        Effect.provide(NodeServices.layer)
      )
      const { begin, inspect, lock } = yield* Effect.provideContext(Sink, built)
      yield* lock(list, "refuse")
      const session = yield* begin(list, { source: "memory", limit: 10, parameters: {} })
      const order: Array<string> = []
      const overview = (inspect?.overview(list) ?? Effect.die("no inspection")).pipe(
        Effect.tap(() => Effect.sync(() => order.push("overview")))
      )
      const reading = yield* Effect.forkChild(overview, { startImmediately: true })
      yield* session.commit(batchOf(list, [recordOf(list, "new", `{"id":"new"}`)], "next"))
      order.push("commit")
      const { otherStatuses, statuses } = yield* Fiber.join(reading)
      assert.deepStrictEqual(order, ["commit", "overview"])
      assert.deepStrictEqual(statuses.map(({ rows }) => rows), [5, ...Array.from({ length: 19 }, () => 1)])
      assert.deepStrictEqual([otherStatuses.rows, otherStatuses.sums["amount"]], [99_996 - 19, String(99_996 - 19)])
    }).pipe(Effect.scoped))
})
