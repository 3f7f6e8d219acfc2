/** The receivers of the docs: each applies every change once, also if it is killed. Runs those whose language is installed. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { sign } from "@payments/copy/handoff"
import { layerTest } from "@payments/core/testing"
import { freePort } from "@payments/testkit/FreePort"
import { rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn, spawnSync } from "@payments/testkit/TestProcess"
import { Effect, Fiber } from "effect"
import { once } from "node:events"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { runInProcess } from "../program/InProcess.ts"
import { handingOff, keyOf, newSecret } from "./HandedOff.ts"

const worker = join(import.meta.dirname, "../../../worker/dist/payments-worker.js")

const folderOfReceivers = join(import.meta.dirname, "../../../../docs/receivers")

interface Stored {
  readonly seq: number
  readonly amount: string | null
}

const inDatabase = (file: string): ReadonlyArray<Stored> =>
  rowsOf(file, "SELECT seq, amount FROM changes ORDER BY seq").map(({ amount, seq }) => ({
    seq: Number(seq),
    amount: typeof amount === "string" ? amount : null
  }))

const inLines = (file: string): ReadonlyArray<Stored> =>
  readFileSync(file, "utf8").split("\n").slice(0, -1).map((line) => ({
    seq: Number(JSON.parse(line).seq),
    amount: /"amount":(-?\d+)/.exec(line)?.[1] ?? null
  }))

const receivers = [
  { file: "receiver.ts", program: process.execPath, args: ["--no-warnings"], version: "--version", read: inDatabase },
  { file: "receiver.py", program: "python3", args: [], version: "--version", read: inDatabase },
  { file: "receiver.go", program: "go", args: [], version: "version", read: inLines }
]

/** Returns why a program cannot be run, for the title of its tests. */
const absence = (program: string, version: string): string | undefined =>
  spawnSync(program, [version], { encoding: "utf8" }).status === 0 ? undefined : `skipped: ${program} is not installed`

const listens = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = connect(port, "127.0.0.1")
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.once("error", () => resume(Effect.succeed(false)))
  })

/** Sends the head of a request, and nothing of its body. Returns the first line of the answer. */
const statusLine = (port: number, headers: string) =>
  Effect.callback<string>((resume) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`POST / HTTP/1.1\r\nHost: a\r\n${headers}\r\n`))
    socket.once("data", (data: Buffer) => {
      resume(Effect.succeed(data.toString("latin1").split("\r\n")[0] ?? ""))
      socket.destroy()
    })
    socket.once("error", (error) => resume(Effect.die(error)))
  })

describe.each(receivers)("docs/receivers/$file", ({ args, file, program, read, version }) => {
  const why = absence(program, version)
  const source = join(folderOfReceivers, file)

  /** The program and arguments that run the receiver. A kill of `go run` would leave the program that it has built. */
  const command: readonly [string, ReadonlyArray<string>] = program === "go"
    ? [join(tmpdir(), `receiver-${process.pid}`), []]
    : [program, [...args, source]]
  const env = { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "" }
  if (program === "go" && why === undefined) {
    beforeAll(() => {
      const { status, stderr } = spawnSync("go", ["build", "-o", command[0], source], { encoding: "utf8", env })
      assert.strictEqual(status, 0, stderr)
    }, 300_000)
    afterAll(() => rmSync(command[0]))
  }

  const title = (text: string) => why === undefined ? text : `${text} (${why})`

  /** Starts the receiver. Returns its process when it listens. */
  const start = Effect.fnUntraced(function*(port: number, settings: Record<string, string>) {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(command[0], [...command[1]], {
          stdio: ["ignore", "inherit", "inherit"],
          env: { ...env, ...settings, PORT: String(port) }
        })
      ),
      (started) => Effect.sync(() => started.kill("SIGKILL"))
    )
    yield* Effect.repeat(Effect.delay(listens(port), "20 millis"), { until: (is) => is })
    return child
  })

  const setUp = Effect.gen(function*() {
    const folder = yield* temporaryFolder
    return {
      to: `sqlite:${join(folder, "payments.db")}`,
      database: join(folder, "received"),
      secret: newSecret(),
      port: yield* Effect.promise(freePort)
    }
  })

  it.live.skipIf(why !== undefined)(
    title("applies each change once although it is killed, with exact amounts"),
    () =>
      Effect.gen(function*() {
        const { database, port, secret, to } = yield* setUp
        const count = 300
        for (const amount of [1n, 9_007_199_254_740_993n]) {
          const invoices = Array.from({ length: count }, (_, index) => `{"id":"inv_${index}","amount":${amount}}`)
          const { code, err } = yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", to])
          // A record whose amount JSON numbers cannot hold is quarantined, and its exact text is exported.
          assert.strictEqual(code, amount === 1n ? 0 : 10, err)
        }
        // The first key is not in use any more.
        const settings = { SECRET: `${newSecret()}\n${secret}\n`, DATABASE: database }
        let child = yield* start(port, settings)
        const sending = yield* Effect.forkChild(handingOff(to, `http://127.0.0.1:${port}/hook`, secret))
        for (let kill = 0; kill < 3; kill++) {
          const before = existsSync(database) ? read(database).length : 0
          yield* Effect.repeat(Effect.delay(Effect.sync(() => read(database).length), "5 millis"), {
            until: (rows) => rows > before || rows === count
          })
          const exited = once(child, "exit")
          child.kill("SIGKILL")
          yield* Effect.promise(() => exited)
          child = yield* start(port, settings)
        }
        assert.strictEqual((yield* Fiber.join(sending)).state, "running")
        assert.deepStrictEqual(
          read(database),
          Array.from({ length: count }, (_, index) => ({ seq: index + 1, amount: "9007199254740993" }))
        )
      }).pipe(Effect.scoped),
    300_000
  )

  it.skipIf(why !== undefined)(title("does not start without a key that it can use"), () => {
    for (const secret of ["", " ", "whsk_AAAA"]) {
      const { status, stderr, stdout } = spawnSync(command[0], [...command[1]], {
        encoding: "utf8",
        timeout: 120_000,
        env: { ...env, SECRET: secret, DATABASE: "/dev/null" }
      })
      assert.strictEqual(status, 1, secret)
      assert.include(stderr, "SECRET needs keys")
      assert.notInclude(stdout + stderr, "AAAA")
    }
  })

  it.live.skipIf(why !== undefined)(
    title("refuses altered bytes, another key and an old time, and accepts a test"),
    () =>
      Effect.gen(function*() {
        const { database, port, secret } = yield* setUp
        yield* start(port, { SECRET: secret, DATABASE: database })
        const bodyOf = (generation: string, ...changes: ReadonlyArray<string>) =>
          Buffer.from(
            `{"type":"payments.changes","list":"invoices","generation":"${generation}","first":1,"last":9,"changes":[${changes}],"schemaVersion":1}`
          )
        const missing = `{"seq":1,"change":"missing","id":"a","fields":[],"before":{"amount":1},"after":null}`
        const body = bodyOf("g", missing)
        // oxlint-disable-next-line no-restricted-properties -- receivers compare it with the wall clock
        const now = () => Math.floor(Date.now() / 1000)
        const send = (headers: Record<string, string>, sent: Buffer) =>
          Effect.promise(() =>
            fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers, body: new Uint8Array(sent) }).then((
              { status }
            ) => status)
          )
        const signed = (timestamp = now(), key = secret, text = body) => ({
          ...sign({ id: "msg_1", timestamp, body: text }, [keyOf(key)])
        })
        for (const at of [0, 40, body.length - 1]) {
          const altered = Buffer.from(body)
          altered[at] = (altered[at] ?? 0) ^ 1
          assert.strictEqual(yield* send(signed(), altered), 401)
        }
        assert.strictEqual(yield* send(signed(now(), newSecret()), body), 401)
        assert.strictEqual(yield* send(signed(now() - 400), body), 401)
        assert.strictEqual(yield* send(signed(now() + 400), body), 401)
        assert.strictEqual(yield* send({}, body), 401)
        // The length alone decides, so nothing of the body is read.
        assert.match(yield* statusLine(port, "Content-Length: 99000000\r\n"), /^HTTP\/1\.[01] 413 /)
        assert.match(yield* statusLine(port, "Transfer-Encoding: chunked\r\n"), /^HTTP\/1\.[01] 413 /)
        const test = Buffer.from(`{"type":"payments.test","source":"main","changes":[],"schemaVersion":1}`)
        assert.strictEqual(yield* send(signed(now(), secret, test), test), 204)
        assert.strictEqual(yield* send(signed(), body), 204)
        assert.strictEqual(yield* send(signed(), body), 204)
        // A batch with some repeats is applied without them, and another generation has its own numbers.
        const partial = bodyOf("g", missing, `{"seq":2,"change":"erased","id":"a"}`)
        const insert =
          `{"seq":1,"change":"insert","id":"a","fields":[],"before":null,"after":{"amount":-9007199254740993}}`
        for (const one of [partial, bodyOf("h", insert), bodyOf("h", insert)]) {
          assert.strictEqual(yield* send(signed(now(), secret, one), one), 204)
        }
        assert.deepStrictEqual(read(database).map(({ amount, seq }) => `${seq} ${amount ?? ""}`).toSorted(), [
          "1 ",
          "1 -9007199254740993",
          "2 "
        ])
      }).pipe(Effect.scoped),
    300_000
  )
})

it.live("docs/receivers/receiver.ts gets each change once from a worker that is killed", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const { KEY, ...files } = {
      KEY: newSecret(),
      secret: join(folder, "ledger.secret"),
      config: join(folder, "payments.toml"),
      copy: join(folder, "payments.db"),
      database: join(folder, "received.db")
    }
    const [count, port] = [400, yield* Effect.promise(freePort)]
    for (const amount of [1, 2]) {
      const invoices = Array.from({ length: count }, (_, index) => ({ id: `inv_${index}`, amount }))
      const { code, err } = yield* runInProcess(layerTest({ invoices }), ["export", "--to", `sqlite:${files.copy}`])
      assert.strictEqual(code, 0, err)
    }
    // The records of the test have another source than that of the file.
    const copy = new DatabaseSync(files.copy)
    copy.exec("UPDATE destination SET source = 'https://payments.example.com/'")
    copy.close()
    writeFileSync(files.secret, `${KEY}\n`, { mode: 0o600 })
    writeFileSync(
      files.config,
      `[sources.main]\nbase_url = "https://payments.example.com"\napi_key_env = "NONE"\nto = "sqlite:${files.copy}"\nevery = "30d"\n[sources.main.handoff.ledger]\nurl = "http://127.0.0.1:${port}/"\nsecret_file = "ledger.secret"\nmax_changes = 2\n`
    )
    const starting = (program: string, args: ReadonlyArray<string>, env: Record<string, string>) =>
      Effect.acquireRelease(
        Effect.sync(() =>
          spawn(program, [...args], { stdio: "ignore", env: { PATH: process.env["PATH"] ?? "", ...env } })
        ),
        (started) => Effect.sync(() => started.kill("SIGKILL"))
      )
    yield* starting(process.execPath, [join(folderOfReceivers, "receiver.ts")], {
      SECRET: KEY,
      DATABASE: files.database,
      PORT: String(port)
    })
    yield* Effect.repeat(Effect.delay(listens(port), "20 millis"), { until: (is) => is })
    const run = [worker, "run", "--config", files.config, "--port", "0"]
    for (let kill = 0; kill < 3; kill++) {
      const started = yield* starting(process.execPath, run, { NONE: "sandbox_x" })
      const before = inDatabase(files.database).length
      yield* Effect.repeat(Effect.delay(Effect.sync(() => inDatabase(files.database).length), "5 millis"), {
        until: (rows) => rows > before || rows === count
      })
      const exited = once(started, "exit")
      started.kill("SIGKILL")
      yield* Effect.promise(() => exited)
    }
    yield* starting(process.execPath, run, { NONE: "sandbox_x" })
    yield* Effect.repeat(Effect.delay(Effect.sync(() => inDatabase(files.database).length), "50 millis"), {
      until: (rows) => rows === count
    })
    assert.deepStrictEqual(
      inDatabase(files.database),
      Array.from({ length: count }, (_, index) => ({ seq: index + 1, amount: "2" }))
    )
  }).pipe(Effect.scoped), 300_000)
