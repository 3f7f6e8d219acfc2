import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { run } from "@payments/program"
import { rowsIfAny } from "@payments/testkit/programs/Destinations"
import { rowsOf, runProgram, sandboxEnv, tables, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { services, size } from "@payments/testkit/programs/Services"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { spawn, spawnSync } from "@payments/testkit/TestProcess"
import { ConfigProvider, Effect, Layer, Queue } from "effect"
import { once } from "node:events"
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { worker } from "../../src/cli.ts"
import { binary, isUpToDate, logOf, startWorker } from "./RunningWorker.ts"

const counts = (file: string) => tables.map((table) => rowsOf(file, `SELECT count(*) AS n FROM ${table}`)[0]?.["n"])

const listen = (host: string, port: number) => NodeHttpServer.layer(createServer, { host, port })

describe.each(services)("payments-worker over %s", (_, api) => {
  it.live("keeps a database equal to all three lists", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const env = ConfigProvider.layer(
        ConfigProvider.fromEnvRecord({ PAYMENTS_TO: `sqlite:${file}`, PAYMENTS_ONCE: "true" })
      )
      for (let round = 0; round < 2; round++) {
        const code = yield* run(
          worker({
            api: () => api,
            server: listen,
            http: layerHttpClient,
            onEndless: Effect.void,
            reloads: Queue.sliding<void>(1),
            noReloads: Effect.void,
            version: "0.0.0"
          }),
          ["run"],
          { version: "0.0.0" }
        ).pipe(
          Effect.provide(Layer.merge(NodeServices.layer, env))
        )
        assert.deepStrictEqual([code, counts(file)], [0, tables.map(() => size)])
      }
    }).pipe(Effect.scoped))
})

describe("the built worker", () => {
  it.live("scans repeatedly, serves its health checks, and exits with code 0 within seconds of SIGTERM", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({
        records: 250,
        faults: [{ fault: "reset", rate: 0.02 }, { fault: "status", status: 500, rate: 0.02 }]
      })
      const running = yield* startWorker(["--to", `file:${folder}/files`, "--every", "1s"], env)
      yield* running.untilOk("/health/live")
      yield* running.untilUpToDate
      yield* running.untilLogged("scan complete", 6)
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
      for (const line of running.out().trim().split("\n")) {
        const members = Object.keys(JSON.parse(line))
        assert.deepStrictEqual(members.slice(0, 3), ["timestamp", "level", "message"])
        for (const nested of ["annotations", "spans", "fiberId"]) assert.notInclude(members, nested)
      }
      const complete = running.log("scan complete")
      assert.deepInclude(complete[0]?.annotations, { records: 250, inserted: 250, quarantined: 0 })
      assert.deepInclude(complete.at(-1)?.annotations, { unchanged: 250, inserted: 0 })
      assert.notInclude(running.out(), env.PAYMENTS_API_KEY)
      assert.include(readdirSync(join(folder, "files")), "manifest.json")
    }).pipe(Effect.scoped))

  it.live("writes warnings about its settings in the format of its log, and check writes them to stderr", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 3 })
      const source = `base_url = "${env.PAYMENTS_BASE_URL}"\napi_key_env = "PAYMENTS_API_KEY"\nto = "sqlite:p.db"`
      writeFileSync(join(cwd, "payments.toml"), `[sources.north]\n${source}\n`, { mode: 0o600 })
      const runWorker = (...args: ReadonlyArray<string>) =>
        runProgram(process.execPath, [binary, ...args, "--config", "payments.toml"], { env, cwd })
      const warning = "PAYMENTS_BASE_URL: ignored, because the sources come from"
      const [json = ""] = (yield* runWorker("run", "--once")).stdout.split("\n")
      assert.deepStrictEqual(Object.keys(JSON.parse(json)), ["timestamp", "level", "message", "schemaVersion"])
      assert.include(json, warning)
      const [text = ""] = (yield* runWorker("run", "--once", "--log-format", "text")).stdout.split("\n")
      assert.match(text, /^\S+Z WARN {2}PAYMENTS_BASE_URL: ignored/)
      const check = yield* runWorker("check")
      assert.match(check.stdout, /^north: settings: can be used\n/)
      assert.include(check.stderr, `payments-worker: ${warning}`)
    }).pipe(Effect.scoped))

  it.live("writes its log as text for people", () =>
    Effect.gen(function*() {
      const env = { ...yield* sandboxEnv({ records: 3 }), PAYMENTS_LOG_FORMAT: "text" }
      const { code, stdout } = yield* runProgram(process.execPath, [binary, "run", "--once", "--to", "sqlite:p.db"], {
        env,
        cwd: yield* temporaryFolder
      })
      assert.strictEqual(code, 0)
      assert.match(stdout, /^\S+Z INFO  scan complete  source=default  list=invoices  scan=\d .*records=3 /m)
    }).pipe(Effect.scoped))

  it.live("creates a new destination when its database or folder is moved away", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 20 })
      for (const [to, path] of [["sqlite:", "x.db"], ["file:", "files"]] as const) {
        const place = join(folder, path)
        const file = to === "sqlite:" ? place : join(place, "copy.db")
        const running = yield* startWorker(["--to", `${to}${place}`, "--every", "1s"], env)
        yield* running.untilLogged("scan complete", Lists.all.length)
        for (const times of [1, 2]) {
          renameSync(place, `${place}.${times}`)
          // The file or folder may be moved during a round or between two rounds.
          const isFilled = () =>
            tables.every((table) => rowsIfAny(file, `SELECT count(*) AS n FROM ${table}`)[0]?.["n"] === 20)
          yield* running.until(Effect.sync(isFilled), (filled) => filled)
        }
        yield* running.untilUpToDate
        assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
      }
    }).pipe(Effect.scoped))

  it.live("logs that its destination cannot be opened, and continues when it can", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "x.db")
      const env = yield* sandboxEnv({ records: 20 })
      const running = yield* startWorker(["--to", `sqlite:${file}`, "--every", "1s"], env)
      yield* running.untilUpToDate
      // The worker may create the file again before the folder is there.
      for (let isFolder = false; !isFolder;) {
        renameSync(file, `${file}.old`)
        isFolder = spawnSync("mkdir", [file]).status === 0
      }
      yield* running.until(
        Effect.sync(() => running.log("destination failed")),
        (lines) => lines.some(({ annotations }) => String(annotations["error"]).includes("it is a folder"))
      )
      yield* running.until(running.statusOf("/health/ready"), (status) => status === 503)
      rmSync(file, { recursive: true })
      yield* running.untilUpToDate
      assert.deepStrictEqual(counts(file), [20, 20, 20])
    }).pipe(Effect.scoped))

  it.live("reports a list that fails, scans the other lists, and logs the reason without the key", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const env = yield* sandboxEnv({ records: 20 })
      const wrong = { ...env, PAYMENTS_INVOICES_API_KEY: "canary-5ecret" }
      const running = yield* startWorker(["--to", `sqlite:${file}`, "--every", "1s"], wrong)
      yield* running.untilOk("/health/live")
      yield* running.untilLogged("scan failed", 2)
      const { body, status } = yield* running.readiness
      assert.deepStrictEqual([status, body.ready], [200, true], "the destination can be used")
      const lists = body.sources[0]?.lists ?? []
      assert.deepStrictEqual(lists.map(({ failure }) => failure?.reason ?? null), [null, null, "Unauthorized"])
      // The other lists may need longer than the second failure.
      yield* running.until(Effect.sync(() => counts(file)), (found) => found[0] === 20 && found[1] === 20)
      assert.deepStrictEqual(counts(file), [20, 20, 0])
      const [failed] = running.log("scan failed")
      assert.deepInclude(failed?.annotations, { list: "invoices", reason: "Unauthorized", exitCode: 4 })
      assert.notInclude(running.out(), "canary-5ecret")
    }).pipe(Effect.scoped))

  it.live("requests nothing for a list while a service has requested to wait for 25 hours", () =>
    Effect.gen(function*() {
      let requests = 0
      const service = yield* scriptedServer((_, response) => {
        requests++
        response.writeHead(429, { "retry-after": `${25 * 3600}` }).end()
      })
      const running = yield* startWorker(["--to", `sqlite:${yield* temporaryFolder}/p.db`, "--every", "1s"], {
        PAYMENTS_BASE_URL: service.url,
        PAYMENTS_API_KEY: "k"
      })
      yield* running.untilLogged("scan failed", Lists.all.length)
      // Without the wait, the schedule begins the next scans within a second.
      yield* Effect.sleep("1500 millis")
      assert.strictEqual(requests, Lists.all.length)
      assert.include(String(running.log("scan failed")[0]?.annotations["error"]), "requests a wait of 1d 1h")
    }).pipe(Effect.scoped))

  it.live("exits at once with a message and the documented code if it cannot work", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [one, other] = [yield* sandboxEnv({ records: 3 }), yield* sandboxEnv({ records: 3 })]
      const start = (args: ReadonlyArray<string>, env: Record<string, string>) =>
        runProgram(process.execPath, [binary, "run", ...args], { env, cwd: folder })
      const to = ["--to", `sqlite:${folder}/payments.db`]
      const noSettings = yield* start(to, {})
      assert.deepStrictEqual([noSettings.code, noSettings.stderr], [
        3,
        "payments-worker: PAYMENTS_BASE_URL is not set; PAYMENTS_API_KEY is not set, nor is PAYMENTS_API_KEY_FILE, which names a file that contains the key\n" +
        `payments-worker: check the settings with: payments-worker check ${to.join(" ")}\n`
      ])
      const checked = yield* runProgram(process.execPath, [binary, "check", ...to], { env: {}, cwd: folder })
      assert.strictEqual(checked.code, 3)
      assert.include(
        checked.stdout,
        "default: settings: PAYMENTS_BASE_URL is not set. Set it, or add a source to the sources file: payments source add.\n"
      )
      assert.include(checked.stdout, "names a file that contains the key. Set one of the two.\n")
      const debugged = yield* start(to, { ...one, NODE_DEBUG: "undici" })
      assert.deepStrictEqual([debugged.code, debugged.stdout], [3, ""])
      assert.match(debugged.stderr, /^payments-worker: NODE_DEBUG or NODE_DEBUG_NATIVE is set: [^\n]*\n$/)
      assert.strictEqual((yield* start([], one)).code, 2)
      assert.strictEqual((yield* start(["--to", "nowhere"], one)).code, 2)
      const stdout = yield* start(["--to", "-"], one)
      assert.deepStrictEqual([stdout.code, stdout.stdout], [2, ""])
      assert.include(stdout.stderr, "its stdout is its log")
      assert.strictEqual((yield* start([...to, "--every", "soon"], one)).code, 2)
      assert.strictEqual((yield* start([...to, "--once"], one)).code, 0)
      const foreign = yield* start([...to, "--every", "1h", "--port", "0"], other)
      assert.strictEqual(foreign.code, 9)
      const { port } = new URL(one.PAYMENTS_BASE_URL)
      const taken = yield* start([...to, "--port", port], one)
      assert.deepStrictEqual([taken.code, taken.stderr], [
        2,
        `payments-worker: 127.0.0.1 port ${port} is in use: another program listens there (EADDRINUSE). Stop it, or choose another port (--port; 0 selects a free port).\n`
      ])
    }).pipe(Effect.scoped))

  it.live("accepts each flag or its variable, and names the invalid one", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 3 })
      const to = `sqlite:${folder}/payments.db`
      const start = (args: ReadonlyArray<string>, more: Record<string, string>) =>
        runProgram(process.execPath, [binary, "run", ...args], { env: { ...env, ...more }, cwd: folder })
      for (
        const [name, wrong] of [
          ["every", "5"],
          ["every", "10ms"],
          ["patience", "long"],
          ["port", "65536"],
          ["port", "x"],
          ["host", ""]
        ] as const
      ) {
        const variable = `PAYMENTS_${name.toUpperCase()}`
        const byFlag = yield* start(["--to", to, `--${name}`, wrong], {})
        assert.deepStrictEqual([byFlag.code, byFlag.stdout], [2, ""], name)
        if (wrong === "") continue
        assert.match(byFlag.stderr, new RegExp(`^payments-worker: Invalid value for --${name}\\. Expected: .*\n$`))
        const byVariable = yield* start([], { PAYMENTS_TO: to, [variable]: wrong })
        assert.match(
          byVariable.stderr,
          new RegExp(`^payments-worker: Invalid value for ${variable}\\. Expected: .*\n$`)
        )
      }
      assert.strictEqual((yield* start([], { PAYMENTS_TO: to, PAYMENTS_ONCE: "maybe" })).code, 2)
      assert.strictEqual((yield* start(["--to", to, "--once", "--every", "5m"], {})).code, 2)
      assert.strictEqual((yield* start([], { PAYMENTS_TO: to, PAYMENTS_ONCE: "true", PAYMENTS_EVERY: "1h" })).code, 0)
    }).pipe(Effect.scoped))

  it.live("uses PAYMENTS_EVERY and PAYMENTS_HOST, prefers a flag to PAYMENTS_ONCE, and logs its address", () =>
    Effect.gen(function*() {
      const running = yield* startWorker(["--every", "1s"], {
        ...yield* sandboxEnv({ records: 3 }),
        PAYMENTS_TO: `sqlite:${yield* temporaryFolder}/p.db`,
        PAYMENTS_ONCE: "true",
        PAYMENTS_HOST: "::1"
      })
      assert.strictEqual(running.host, "::1")
      assert.notStrictEqual(running.port, 9464, "PAYMENTS_PORT is 0, so the port is not the default")
      yield* running.untilLogged("scan begun", 6)
      yield* running.untilOk("/health/live", "[::1]")
      assert.strictEqual(yield* running.statusOf("/health/live", "127.0.0.1"), 0)
      assert.deepStrictEqual(yield* running.end("SIGINT"), [130, null])
      assert.match(running.out(), /"message":"stopped"[^\n]*\n$/)
    }).pipe(Effect.scoped))

  it.live("with --once, exits with 130 after SIGTERM, and with 0 and no message if its log has no reader", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      let requests = 0
      const server = yield* scriptedServer((_request, _response, count) => {
        requests = count
      })
      const child = spawn(process.execPath, [binary, "run", "--once", "--to", `sqlite:${folder}/p.db`], {
        env: { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" },
        stdio: "ignore"
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
      while (requests === 0) yield* Effect.sleep("20 millis")
      const ended = once(child, "exit")
      child.kill("SIGTERM")
      assert.deepStrictEqual(yield* Effect.promise(() => ended), [130, null])
      const env = yield* sandboxEnv({ records: 3 })
      const unread = yield* runProgram("bash", [
        "-c",
        `set -o pipefail; "$NODE" "$BINARY" run --once --to sqlite:q.db | head -n 1`
      ], {
        env: { ...env, NODE: process.execPath, BINARY: binary },
        cwd: folder
      })
      assert.deepStrictEqual([unread.code, unread.stderr], [0, ""])
    }).pipe(Effect.scoped))

  it.live("logs the number of texts that a column cannot store, and no text", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const server = yield* scriptedServer((_, response) =>
        pageOf(response, [`{"id":"a","reference":"canary\\u0000"}`, `{"id":"b","reference":"canary\\ud800"}`], null)
      )
      const { code, stdout } = yield* runProgram(process.execPath, [binary, "run", "--once", "--to", "sqlite:p.db"], {
        env: { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" },
        cwd
      })
      assert.strictEqual(code, 0)
      const complete = logOf(stdout).filter(({ message }) => message === "scan complete")
      assert.deepStrictEqual(complete.map(({ annotations }) => annotations["replaced"]), [2, 2, 2])
      assert.notInclude(stdout, "canary")
    }).pipe(Effect.scoped))

  it.live("continues to scan after the reader of its log has ended", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      const env = yield* sandboxEnv({ records: 3 })
      const running = yield* startWorker(["--every", "1s", "--to", `sqlite:${file}`], env)
      yield* running.untilLogged("scan complete", 1)
      running.child.stdout.destroy()
      const scans = () => Number(rowsOf(file, "SELECT max(scan) AS n FROM scans WHERE state = 'complete'")[0]?.["n"])
      const before = scans()
      while (scans() < before + 6) {
        running.assertRuns()
        yield* Effect.sleep("50 millis")
      }
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))

  it.live("reports a failure until the list is complete again", () =>
    Effect.gen(function*() {
      let broken = false
      let invoiceRequests = 0
      const server = yield* scriptedServer((request, response) => {
        if (request.url?.startsWith("/v1/")) invoiceRequests++
        if (broken && request.url?.startsWith("/v1/")) setTimeout(() => response.writeHead(403).end(), 300)
        else pageOf(response, [`{"id":"a"}`], null)
      })
      const running = yield* startWorker(["--every", "1s", "--to", `sqlite:${yield* temporaryFolder}/p.db`], {
        PAYMENTS_BASE_URL: server.url,
        PAYMENTS_API_KEY: "k"
      })
      yield* running.untilUpToDate
      broken = true
      yield* running.until(running.readiness, ({ body }) => !isUpToDate(body))
      const before = invoiceRequests
      while (invoiceRequests < before + 2) {
        assert.isFalse(isUpToDate((yield* running.readiness).body))
        yield* Effect.sleep("20 millis")
      }
      broken = false
      yield* running.untilUpToDate
    }).pipe(Effect.scoped))

  it("does not include the sandbox", () => {
    const bundle = readdirSync(join(binary, ".."), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith("js")).map((name) => readFileSync(join(binary, "..", name), "utf8")).join("")
    assert.include(bundle, "@payments/copy/Sink")
    assert.notInclude(bundle, "@payments/sandbox")
  })
})
