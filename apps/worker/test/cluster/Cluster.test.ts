/** Workers that share their sources through a cluster, over a real PostgreSQL server. */
import { assert, describe, it } from "@effect/vitest"
import { connect, settingsOf } from "@payments/copy/postgres"
import type { LoadedSource } from "@payments/program/sources"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { roleStatements } from "@payments/testkit/postgres/PostgresRoles"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { makeProxy } from "@payments/testkit/TcpProxy"
import { Deferred, Duration, Effect, Layer, Logger, References, Tracer } from "effect"
import { appendFileSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, beforeAll } from "vitest"
import * as Cluster from "../../src/cluster/Cluster.ts"
import { createTables, type Fleet } from "../../src/cluster/Runners.ts"
import { outputs } from "../../src/contract/WorkerOutputs.ts"
import type { Placement } from "../../src/loop/Placement.ts"
import { initialState, Status } from "../../src/state/Status.ts"
import type { Snapshot } from "../../src/state/StatusSnapshot.ts"
import { binary, keptBy, startWorker } from "../loop/RunningWorker.ts"
import { makeSource, sourceIn, startSources, testStatus } from "../loop/TestSources.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

const databaseUrl = (port = server.port) => `postgres://${user}@127.0.0.1:${port}/postgres`

/** Writes a sources file. Each source has its own schema, whose name starts with `schema`. */
const writeSources = (folder: string, schema: string, url: string, names: ReadonlyArray<string>, more = "") => {
  const file = join(folder, "payments.toml")
  writeFileSync(
    file,
    `${more}\n[defaults]\nbase_url = "${url}"\napi_key_env = "KEY"\nevery = "1h"\nlists = ["invoices"]\n${
      names.map((name) => `[sources.${name}]\nto = "${databaseUrl()}?schema=${schema}_${name}"\n`).join("")
    }`
  )
  return file
}

const startRunner = (file: string, runner: string, prefix: string, nodeArgs: ReadonlyArray<string> = []) =>
  startWorker(
    ["--config", file, "--cluster", databaseUrl(), "--cluster-prefix", prefix, "--runner", runner],
    { KEY: "sandbox_test" },
    nodeArgs
  )

type Runner = Effect.Success<ReturnType<typeof startRunner>>

const runningIn = ({ sources }: Snapshot): ReadonlyArray<string> =>
  sources.filter(({ state }) => state === "running").map(({ name }) => name)
const runningAt = ({ readiness }: Runner) => Effect.map(readiness, ({ body }) => runningIn(body))

/** Waits until each of the runners runs some of the sources, and each source runs once. */
const untilShared = (runners: ReadonlyArray<Runner>, sources: ReadonlyArray<string>) =>
  Effect.forEach(runners, runningAt).pipe(
    Effect.delay("20 millis"),
    Effect.repeat({
      until: (shares) =>
        shares.every((share) => share.length > 0) && shares.flat().toSorted().join() === sources.toSorted().join()
    }),
    Effect.timeout("2 minutes")
  )

/** Asserts what `payments-worker runners` prints about runners with these sources, and about one that is pinned to another runner. */
const assertListed = Effect.fnUntraced(function*(
  args: ReadonlyArray<string>,
  shares: { readonly [runner: string]: ReadonlyArray<string> }
) {
  const list = (more: ReadonlyArray<string>) => runProgram(process.execPath, [binary, "runners", ...args, ...more], {})
  const { code, stderr, stdout } = yield* list(["--format", "json"])
  assert.deepStrictEqual([code, stderr], [0, ""])
  const { runners, sources } = keptBy(JSON.parse(stdout) as Fleet, outputs.runners) // its documented format
  assert.deepStrictEqual(
    runners.map(({ alive, runner, sources: own }) => [runner, alive, own.join()]),
    Object.entries(shares).map(([runner, own]) => [runner, true, own.toSorted().join()])
  )
  assert.deepStrictEqual(
    sources.map(({ runner, source }) => `${source} ${runner}`),
    [...Object.entries(shares).flatMap(([runner, own]) => own.map((source) => `${source} ${runner}`)), "pinned null"]
      .toSorted()
  )
  const table = yield* list([])
  assert.match(table.stdout, /^runner  state  sources  seen +version  started +process\na       alive  \d        /)
  assert.match(
    table.stdout,
    /\n\nsource  runner +since +takeovers  last runner\nfive    [ab] +20\d\d-\S+Z  \d          [ab]\n/
  )
  assert.match(table.stdout, /\npinned  - \(pinned to absent\)  - +0 +-\n/)
})

const names = ["one", "two", "three", "four", "five", "six"]

describe("a cluster of workers", () => {
  it.live(
    "shares the sources, hands them over on SIGTERM, and takes over those of a killed runner",
    () =>
      Effect.gen(function*() {
        const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
        const folder = yield* temporaryFolder
        const file = writeSources(folder, "shared", url, names)
        const other = writeSources(yield* temporaryFolder, "other", url, ["one", "two"])
        const [a, b, apart] = yield* Effect.all([
          startRunner(file, "a", "shared"),
          startRunner(file, "b", "shared"),
          startRunner(other, "a", "other")
        ], { concurrency: 3 })
        yield* Effect.all([untilShared([a, b], names), untilShared([apart], ["one", "two"])])
        yield* a.untilOk("/health/ready")
        yield* b.untilOk("/health/ready")
        appendFileSync(file, `[sources.pinned]\nto = "sqlite:pinned.db"\nrunner = "absent"\n`)
        yield* assertListed(["--config", file, "--cluster", databaseUrl(), "--cluster-prefix", "shared"], {
          a: yield* runningAt(a),
          b: yield* runningAt(b)
        })
        const [holder] = yield* Effect.promise(() => query(server, "SELECT holder FROM shared_one.leases"))
        assert.match(String(holder?.["holder"]), /^process \d+ on \S+ \(runner [ab]\) since \S+$/)
        // Both read the file again, while they run.
        const changed = [...names.slice(1), "seven", "eight"]
        writeSources(folder, "shared", url, changed)
        a.child.kill("SIGHUP")
        b.child.kill("SIGHUP")
        yield* Effect.all([a.untilLogged("settings read again", 1), b.untilLogged("settings read again", 1)])
        yield* untilShared([a, b], changed)
        assert.deepStrictEqual(yield* a.end("SIGTERM"), [0, null])
        yield* untilShared([b], changed)
        const c = yield* startRunner(file, "c", "shared")
        yield* untilShared([b, c], changed)
        assert.deepStrictEqual(yield* b.end("SIGKILL"), [null, "SIGKILL"])
        // More sources may have moved meanwhile. The leases say which ones the killed runner had.
        const held = changed.map((name) =>
          `SELECT '${name}' AS name FROM shared_${name}.leases WHERE holder LIKE '%(runner b)%' AND expires > now()`
        )
        const left = (yield* Effect.promise(() => query(server, held.join(" UNION ALL ")))).map(({ name }) =>
          String(name)
        )
        const [newer = assert.fail("the killed runner had a source")] = left
        // A runner of a later version has extended this destination.
        yield* Effect.promise(() => query(server, `UPDATE shared_${newer}.destination SET version = version + 1`))
        // A killed runner counts as alive for 15 s, and its leases last for 30 s. Here no time passes.
        yield* Effect.promise(() =>
          query(
            server,
            "UPDATE shared_runners SET last_heartbeat = now() - interval '1 minute' WHERE address LIKE 'b:%'"
          )
        )
        for (const name of left) {
          yield* Effect.promise(() => query(server, `UPDATE shared_${name}.leases SET expires = '-infinity'`))
        }
        yield* untilShared([c], changed.filter((name) => name !== newer))
        const [refused] = yield* c.untilLogged("source stopped", 1)
        assert.strictEqual(refused?.annotations["source"], newer)
        assert.include(refused?.annotations["error"], "it was written by a later version of this program")
        // A deployment with another prefix has its own runners, although the names are the same.
        assert.deepStrictEqual(yield* runningAt(apart), ["one", "two"])
        assert.deepStrictEqual(yield* apart.end("SIGTERM"), [0, null])
        assert.deepStrictEqual(yield* c.end("SIGTERM"), [0, null])
        for (const text of [a.out(), b.out(), apart.out()]) assert.notMatch(text, /"(ERROR|FATAL)"|cause/)
      }).pipe(Effect.scoped)
  )

  it.live("ends with code 0 on SIGTERM while it joins", () =>
    Effect.gen(function*() {
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      const file = writeSources(yield* temporaryFolder, "early", url, ["one"])
      const earlySignal = import.meta.resolve("@payments/testkit/programs/EarlySignal")
      for (const afterMs of [0, 100]) {
        const ended = yield* runProgram(
          process.execPath,
          ["--import", earlySignal, binary, "run", "--config", file, "--cluster", databaseUrl()],
          {
            env: {
              KEY: "sandbox_test",
              PAYMENTS_PORT: "0",
              EARLY_SIGNAL: "SIGTERM",
              EARLY_AFTER_MS: String(afterMs)
            }
          }
        )
        assert.deepStrictEqual([ended.code, ended.stderr], [0, ""], `${afterMs} ms`)
      }
    }).pipe(Effect.scoped))
})

describe("the health of a fleet", () => {
  it.live("shows a source without a runner, although the lists of the live runner are fresh", () =>
    Effect.gen(function*() {
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      const file = writeSources(yield* temporaryFolder, "fleet", url, ["one", "two"])
      appendFileSync(file, `runner = "absent"\nmax_age = "1h"\n`)
      const runner = yield* startRunner(file, "a", "fleet")
      const health = (path: string) =>
        Effect.promise(() =>
          fetchOnce(`http://127.0.0.1:${String(runner.port)}/health/${path}`).then(async (response) => ({
            status: response.status,
            body: await response.json() as Record<string, unknown> // an object, by its route
          }))
        )
      yield* runner.until(runner.readiness, ({ body }) => sourceIn(body, "one")?.lists[0]?.completeScan != null)
      assert.strictEqual((yield* health("fresh")).status, 200)
      const fleet = yield* health("fleet")
      keptBy(fleet.body, outputs.fleet)
      assert.deepInclude(fleet, { status: 503 })
      assert.deepInclude(fleet.body, {
        fleet: false,
        stale: [{
          source: "two",
          list: "invoices",
          ageSeconds: null,
          maxAgeSeconds: 3600,
          why: "no live runner has the source"
        }],
        withoutRunner: ["two"],
        runners: { one: "a", two: null }
      })
    }).pipe(Effect.scoped))

  it.live("has the ages of lists at destinations of sources elsewhere", () =>
    Effect.gen(function*() {
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      const file = `${yield* temporaryFolder}/p.db`
      const source = makeSource("one", url, file, { lists: ["invoices"], maxAge: Duration.hours(1) })
      const isComplete = (snapshot: Snapshot) => sourceIn(snapshot, "one")?.lists[0]?.completeScan != null
      yield* Effect.scoped(Effect.flatMap(startSources([source]), ({ until }) => until(isComplete)))
      const elsewhere: Placement = {
        run: ({ name }) =>
          Effect.andThen(
            Effect.flatMap(Status, (status) => status.set({ ...initialState(source, file), name, state: "elsewhere" })),
            Effect.never
          ).pipe(Effect.provideService(Status, shared)),
        failed: Effect.never,
        close: Effect.void
      }
      const shared = yield* Status
      const { status } = yield* startSources([source], {}, undefined, Effect.succeed(elsewhere))
      yield* Effect.repeat(Effect.andThen(Effect.sleep("10 millis"), status.current), {
        until: ({ sources }) => sources[0]?.state === "elsewhere"
      })
      assert.deepStrictEqual(sourceIn(yield* status.current, "one")?.lists, [])
      const [list] = sourceIn(yield* status.fleet, "one")?.lists ?? []
      assert.deepInclude(list, { list: "invoices", rows: 3, isFresh: true })
      assert.isAtLeast(list?.ageSeconds ?? -1, 0)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})

describe("payments-worker check", () => {
  it.live("checks the database of the cluster", () =>
    Effect.gen(function*() {
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      const file = writeSources(
        yield* temporaryFolder,
        "check",
        url,
        ["one"],
        `[cluster]\nurl = "${databaseUrl()}"\nprefix = "unused"`
      )
      const check = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
        runProgram(process.execPath, [binary, "check", "--config", file, ...args], {
          env: { KEY: "sandbox_test", ...env }
        })
      const good = yield* check([])
      assert.strictEqual(good.code, 0, good.stderr)
      assert.match(
        good.stdout,
        /^cluster postgres:\/\/127\.0\.0\.1:\d+\/postgres: can be used with the prefix unused; PostgreSQL 1\d/m
      )
      const tables = yield* Effect.promise(() =>
        query(server, "SELECT count(*)::int AS n FROM pg_tables WHERE tablename LIKE 'unused%'")
      )
      assert.deepStrictEqual(tables.map(({ n }) => n), [0], "it writes nothing")
      const wrong = yield* check([], { PAYMENTS_CLUSTER: databaseUrl().replace(user, "guest:canary") })
      assert.strictEqual(wrong.code, 9)
      assert.match(wrong.stdout, /^cluster postgres:.*: the server does not accept the user guest/m)
      assert.notInclude(wrong.stdout + wrong.stderr, "canary")
      // Two names of one server.
      const other = databaseUrl().replace("127.0.0.1", "localhost")
      appendFileSync(file, `[sources.two]\nto = "${other}?schema=check_one"\n`)
      const twice = yield* check([])
      assert.strictEqual(twice.code, 3)
      assert.match(
        twice.stdout,
        /^two: postgres:.*schema=check_one is also the destination of one\. Each source needs its own\.$/m
      )
    }).pipe(Effect.scoped))
})

// They mostly wait.
describe("a runner", { concurrent: true }, () => {
  /** If an operation takes more than a third of the expiration, a runner stops its sources. */
  const brief: Cluster.Times = { lockExpiration: Duration.seconds(18), refreshInterval: Duration.millis(100) }

  it.live("waits for the cluster's database, stops its sources while that is away, and goes on afterwards", () =>
    Effect.gen(function*() {
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      const folder = yield* temporaryFolder
      const proxy = yield* makeProxy(server.port)
      const pinned = (name: string, runner: string) => makeSource(name, url, join(folder, `${name}.db`), { runner })
      const shared = makeSource("shared", url, "", { to: { _tag: "Postgres", url: urlOf(server, "outage") } })
      const sources: ReadonlyArray<LoadedSource> = [shared, pinned("own", "a"), pinned("others", "b")]
      const joining = Cluster.join(
        { url: urlOf({ port: proxy.port }, "unused"), prefix: "outage", runner: "a" },
        brief
      )
      const messages: Array<unknown> = []
      const { until } = yield* startSources(sources, {}, undefined, joining).pipe(
        Effect.provide(Logger.layer([Logger.make(({ message }) => void messages.push(message))]))
      )
      const states = (now: Snapshot) => ["shared", "own", "others"].map((name) => sourceIn(now, name)?.state).join()
      // A pinned source needs no cluster.
      yield* until((now) => states(now) === "elsewhere,running,elsewhere")
      yield* proxy.start
      yield* until((now) => states(now) === "running,running,elsewhere")
      yield* proxy.stop
      yield* until((now) => states(now) === "elsewhere,running,elsewhere")
      yield* proxy.start
      yield* until((now) => states(now) === "running,running,elsewhere")
      const texts = messages.flat().map(String).filter((text) => text.includes("database"))
      assert.include(texts[0], "cluster waits: its database cannot be used yet")
      assert.deepStrictEqual(texts.filter((text) => !/^cluster waits|still does not answer/.test(text)), [
        "the cluster's database does not answer: the sources of this runner stop until it does",
        "the cluster's database answers again"
      ])
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))

  it.live("waits while the disk of the cluster's database is full", () =>
    Effect.gen(function*() {
      const settings = { url: urlOf(server, "unused"), prefix: "full", runner: "a" }
      yield* Effect.scoped(
        Effect.flatMap(Effect.flatMap(settingsOf(settings.url), connect), (client) => createTables(client, "full"))
      )
      const run = (sql: string) => Effect.promise(() => query(server, sql))
      yield* run(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$`)
      yield* run("CREATE TRIGGER full_disk BEFORE INSERT ON full_processes EXECUTE FUNCTION full_disk()")
      const waits = yield* Deferred.make<void>()
      const logger = Logger.make(({ message }) => {
        if (String(message).startsWith("cluster waits")) Deferred.doneUnsafe(waits, Effect.void)
      })
      const placement = yield* Effect.provide(Cluster.join(settings, brief), Logger.layer([logger]))
      yield* Deferred.await(waits)
      yield* run("DROP TRIGGER full_disk ON full_processes")
      const started = yield* Deferred.make<void>()
      const source = makeSource("one", "http://127.0.0.1", "", { to: { _tag: "Postgres", url: urlOf(server, "full") } })
      yield* Effect.raceFirst(
        placement.run(source, Effect.asVoid(Deferred.succeed(started, undefined))),
        placement.failed
      )
      yield* Deferred.await(started)
      yield* placement.close
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))

  it.live("needs a schema of its own, and with its tables no right to create any", () =>
    Effect.gen(function*() {
      const run = (sql: string) => Effect.promise(() => query(server, sql))
      yield* Effect.forEach(`${roleStatements.roles}${roleStatements.coordination}`.split(";"), run)
      const url = { ...urlOf(server, "unused"), user: "payments_write" }
      const start = Effect.gen(function*() {
        const placement = yield* Cluster.join({ url, prefix: "own", runner: "a" }, brief)
        const source = makeSource("one", "http://127.0.0.1", "", { to: { _tag: "Postgres", url } })
        yield* Effect.raceFirst(placement.run(source, Effect.void), placement.failed)
        yield* placement.close
      }).pipe(Effect.scoped)
      yield* start
      // Then another role may own the tables.
      yield* run(`REASSIGN OWNED BY payments_write TO payments_migrate`)
      const refused = yield* Effect.flip(start)
      assert.match(refused.message, /may not create the tables/)
      yield* run(`GRANT USAGE ON SCHEMA coordination TO payments_write`)
      for (const [rights, kind] of [["SELECT, INSERT, UPDATE, DELETE", "TABLES"], ["USAGE", "SEQUENCES"]]) {
        yield* run(`GRANT ${rights} ON ALL ${kind} IN SCHEMA coordination TO payments_write`)
      }
      yield* start
    }).pipe(Effect.provide(Layer.fresh(testStatus))))

  it.live("runs the loop of a source with the worker's own traces and logs", () =>
    Effect.gen(function*() {
      const placement = yield* Cluster.join({ url: urlOf(server, "unused"), prefix: "context", runner: "a" }, brief)
      const source = makeSource("one", "http://127.0.0.1", "", {
        to: { _tag: "Postgres", url: urlOf(server, "context") }
      })
      const references = Effect.all([
        References.TracerEnabled,
        References.MinimumLogLevel,
        Logger.CurrentLoggers,
        Tracer.ParentSpan
      ])
      const given = yield* references
      const found: Array<typeof given> = []
      yield* placement.run(source, Effect.map(references, (now) => void found.push(now)))
      assert.deepStrictEqual(found, [given])
      yield* placement.close
    }).pipe(
      Effect.withSpan("worker"),
      Effect.provideService(References.MinimumLogLevel, "Error"),
      Effect.scoped,
      Effect.provide(Layer.fresh(testStatus))
    ))
})

describe("a worker without a cluster", () => {
  it.live("loads nothing of it", () =>
    Effect.gen(function*() {
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      const folder = yield* temporaryFolder
      const file = writeSources(folder, "loaded", url, ["one"])
      const hook = join(folder, "hook.mjs")
      writeFileSync(
        hook,
        `import { registerHooks } from "node:module"
        import { appendFileSync } from "node:fs"
        registerHooks({ load: (url, context, next) => {
          appendFileSync(process.env.LOADED, url + "\\n")
          return next(url, context)
        } })`
      )
      const loadedBy = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
        const loaded = join(yield* temporaryFolder, "loaded")
        const worker = yield* startWorker(["--config", file, ...args], { KEY: "sandbox_test", LOADED: loaded }, [
          "--import",
          pathToFileURL(hook).href
        ])
        yield* worker.untilLogged("started", 1)
        yield* worker.end("SIGTERM")
        return readFileSync(loaded, "utf8").split("\n").filter((line) => /Cluster/.test(line)).length
      })
      assert.strictEqual(yield* loadedBy([]), 0)
      assert.isAbove(yield* loadedBy(["--cluster", databaseUrl(), "--cluster-prefix", "loaded"]), 0)
      assert.notMatch(
        readFileSync(join(import.meta.dirname, "../../dist/payments-worker-main.cjs"), "utf8"),
        /effect\/cluster/
      )
    }).pipe(Effect.scoped))
})
