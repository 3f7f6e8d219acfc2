/** `payments handoff` and `payments sandbox receiver`, over a real destination, a real sender and real sockets. */
import { assert, describe, it } from "@effect/vitest"
import { publicKeyText, sign } from "@payments/copy/handoff"
import { layerTest } from "@payments/core/testing"
import { listening } from "@payments/testkit/Listening"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Deferred, Effect, Fiber } from "effect"
import { generateKeyPairSync } from "node:crypto"
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { runInProcess } from "../program/InProcess.ts"
import { consumer, handingOff, keyOf, newSecret } from "./HandedOff.ts"

/** Exports invoices with this amount. The first export makes no changes. */
const exporting = Effect.fnUntraced(function*(config: string, count: number, amount: number) {
  const { code, err } = yield* runInProcess(
    layerTest({ invoices: Array.from({ length: count }, (_, index) => ({ id: `inv_${index}`, amount })) }),
    ["export", "invoices", "--config", config]
  )
  assert.strictEqual(code, 0, err)
})

/** A folder with a destination of 10 changes, a sources file with a hand-off of it, and its key. */
const prepared = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const to = `sqlite:${join(folder, "payments.db")}`
  const keyFile = join(folder, "ledger.secret")
  const config = join(folder, "payments.toml")
  const secret = newSecret()
  writeFileSync(keyFile, `${secret}\n`, { mode: 0o600 })
  const write = (url: string, more = `secret_file = "ledger.secret"`) =>
    writeFileSync(
      config,
      `[sources.main]\nbase_url = "https://payments.example.com"\napi_key_env = "KEY"\nto = "${to}"\n[sources.main.handoff.${consumer}]\nurl = "${url}"\n${more}\n`
    )
  write("http://127.0.0.1:9/hook?token=canary-5ecret")
  yield* exporting(config, 10, 1)
  yield* exporting(config, 10, 2)
  // The records of the test have another source than that of the file.
  const database = new DatabaseSync(join(folder, "payments.db"))
  database.exec("UPDATE destination SET source = 'https://payments.example.com/'")
  database.close()
  return { folder, to, keyFile, config, secret, write }
})

const run = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
  const { code, err, out } = yield* runInProcess(layerTest({}), args)
  assert.notMatch(out + err, /wh(?:sec|sk)_[\w+/]/)
  assert.notInclude(out + err, "canary-5ecret")
  return { code, err, out }
})

/** A receiver that answers with the statuses in turn, the last one from then on. Returns what it has got. */
const answering = Effect.fnUntraced(function*(statusOf: (numbers: ReadonlyArray<number>) => number) {
  const requests: Array<{ readonly id: string; readonly body: string; readonly numbers: ReadonlyArray<number> }> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString()
      const { changes }: { readonly changes: ReadonlyArray<{ readonly seq: number }> } = JSON.parse(body)
      const numbers = changes.map(({ seq }) => seq)
      requests.push({ id: String(request.headers["webhook-id"]), body, numbers })
      response.writeHead(statusOf(numbers)).end("canary-5ecret")
    })
  })
  return { url: `http://127.0.0.1:${yield* listening(server)}/hook`, requests }
})

/** Runs the receiver until it is interrupted. Returns its URL, and a function that ends it and returns its output. */
const receiving = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
  const url = yield* Deferred.make<string>()
  let output = { out: "", err: "" }
  const fiber = yield* Effect.forkChild(
    runInProcess(
      layerTest({}),
      ["sandbox", "receiver", "--port", "0", "--format", "ndjson", ...args],
      false,
      0,
      (out, screen) => {
        output = screen
        const [first = ""] = out.split("\n")
        return out.includes("\n") ? Effect.asVoid(Deferred.succeed(url, String(JSON.parse(first).url))) : Effect.void
      }
    )
  )
  const failed = Effect.flatMap(Fiber.join(fiber), ({ err }) => Effect.die(new Error(err)))
  return {
    url: yield* Effect.raceFirst(Deferred.await(url), failed),
    end: Effect.map(Fiber.interrupt(fiber), () => output.out.trimEnd().split("\n").map((line) => JSON.parse(line)))
  }
})

const linesOf = (file: string) => readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line))

describe("payments sandbox receiver", () => {
  it.live("shows what arrives, and keeps each change once although it fails", () =>
    Effect.gen(function*() {
      const { folder, keyFile, secret, to } = yield* prepared
      const file = join(folder, "received.ndjson")
      const faults = `[{"fault":"status","status":500,"to":2,"applied":true},{"fault":"close","nth":4}]`
      const { end, url } = yield* receiving("--secret-file", keyFile, "--to", file, "--faults", faults)
      const other = yield* run("sandbox", "receiver", "--port", "0", "--secret-file", keyFile, "--to", file)
      assert.deepStrictEqual([other.code, /another receiver writes/.test(other.err)], [2, true])
      assert.strictEqual((yield* handingOff(to, url, secret)).state, "running")
      assert.deepStrictEqual(linesOf(file).map(({ seq }) => seq), Array.from({ length: 10 }, (_, index) => index + 1))
      const [, first, second, ...more] = yield* end
      assert.deepStrictEqual([first.delivery, first.status, first.applied, first.faults], ["new", 500, 3, ["status"]])
      assert.deepStrictEqual([second.delivery, second.applied, second.id], ["repeat", 0, first.id])
      const { summary } = more.at(-1)
      assert.deepStrictEqual(
        [summary.new, summary.outOfOrder, summary.refused, summary.applied, summary.passedOver],
        [4, 0, 0, 10, 0]
      )
      assert.isAbove(summary.repeats, 1)
    }).pipe(Effect.scoped))

  it.live("refuses what another key has signed, and shows no text of a change unless it is asked to", () =>
    Effect.gen(function*() {
      const { folder, keyFile, secret, to } = yield* prepared
      const file = join(folder, "received.ndjson")
      const quiet = yield* receiving("--secret-file", keyFile, "--to", file)
      // A wrong key is not the fault of a change, so nothing is set aside for it.
      const state = yield* handingOff(to, quiet.url, newSecret(), "200 millis")
      assert.deepStrictEqual([state.state, state.reason], ["stopped", "gaveUp"])
      const [, refused] = yield* quiet.end
      assert.deepStrictEqual([refused.problem, refused.status, refused.applied], ["unsigned", 401, 0])
      assert.strictEqual(statSync(file).size, 0)
      yield* run("handoff", "resume", consumer, "--from", to)
      const shown = yield* receiving("--secret-file", keyFile, "--show-changes")
      yield* handingOff(to, shown.url, secret)
      assert.include(JSON.stringify(yield* shown.end), "\"amount\":2")
    }).pipe(Effect.scoped))

  it.live("has the keys of a hand-off of the sources file, also those that a command prints", () =>
    Effect.gen(function*() {
      const { config, keyFile, secret, to, write } = yield* prepared
      write("http://127.0.0.1:9/", `secret_command = ["cat", "${keyFile}"]`)
      const { end, url } = yield* receiving("--secret-of", consumer, "--config", config)
      assert.strictEqual((yield* handingOff(to, url, secret)).state, "running")
      assert.deepInclude((yield* end).at(-1).summary, { refused: 0, applied: 10 })
      for (const args of [["--secret-of", consumer, "--secret-file", keyFile], ["--secret-of", "other"]]) {
        const { code, err } = yield* run("sandbox", "receiver", "--port", "0", "--config", config, ...args)
        assert.strictEqual(code, 2, err)
      }
      write("http://127.0.0.1:9/", `secret_command = ["false"]`)
      const { code, err } = yield* run(
        "sandbox",
        "receiver",
        "--port",
        "0",
        "--config",
        config,
        "--secret-of",
        consumer
      )
      assert.strictEqual(code, 3, err)
      assert.include(err, "secret_command")
    }).pipe(Effect.scoped))

  it.live.each(
    [
      [[], "Give the keys of the hand-off"],
      [["--secret-file", "/nowhere/else"], "--secret-file cannot be used"],
      [["--secret-env", "whsec_canary-5ecret"], "--secret-env: the variable is not set"],
      [["--secret-file", "KEY", "--faults", "flakey"], "Did you mean flaky?"],
      [["--secret-file", "KEY", "--faults", `{"fault":"emptyPage"}`], "a receiver can have latency"],
      [["--secret-file", "KEY", "--to", "KEY"], "was not written by a receiver"]
    ] as const
  )("%s is refused", ([args, problem]) =>
    Effect.gen(function*() {
      const { keyFile } = yield* prepared
      const given = args.map((arg) => arg === "KEY" ? keyFile : arg)
      const { code, err } = yield* run("sandbox", "receiver", "--port", "0", ...given)
      assert.include([2, 3], code)
      assert.include(err, problem)
    }).pipe(Effect.scoped))
})

describe("payments handoff list, resume, skip and replay", () => {
  it.live("show and decide what the receiver refuses", () =>
    Effect.gen(function*() {
      const { config, secret, to } = yield* prepared
      const list = Effect.fnUntraced(function*() {
        const { code, err, out } = yield* run("handoff", "list", "--config", config, "--format", "json")
        assert.strictEqual(code, 0, err)
        return JSON.parse(out)
      })
      assert.deepStrictEqual(
        (yield* list()).map((row: { state: string; lag_seconds: null }) => [row.state, row.lag_seconds]),
        [["new", null]]
      )
      let refusedSeq: number | undefined = 5
      const { requests, url } = yield* answering((numbers) => numbers.includes(refusedSeq ?? 0) ? 422 : 200)
      yield* handingOff(to, url, secret)
      const [row] = yield* list()
      assert.deepStrictEqual(
        [row.source, row.state, row.reason, row.position, row.lag, row.refused_seq, row.to],
        ["main", "waiting", "refused", 4, 6, 5, "http://127.0.0.1:9"]
      )
      for (
        const [args, problem] of [
          [
            ["handoff", "replay", consumer, "6"],
            "ledger was sent the changes up to 4 only, so a replay begins with change 5"
          ],
          [["changes", "ack", consumer, "11"], "there is no change 11 yet: the last one is 10."],
          [
            ["changes", "ack", consumer, "7"],
            "the worker moves the consumer ledger, and has not sent the changes after 4 yet. To pass"
          ],
          [
            ["changes", "--consumer", consumer, "--ack"],
            "the worker moves the consumer ledger, and has not sent the changes after 4 yet."
          ]
        ] as const
      ) {
        const passing = yield* run(...args, "--config", config)
        assert.strictEqual(passing.code, 2, passing.err)
        assert.include(passing.err.replaceAll(/\s+/g, " "), problem)
      }
      assert.deepStrictEqual((yield* list()).map((one: { position: number }) => one.position), [4])
      const wrong = yield* run("handoff", "skip", consumer, "6", "--reason", "x", "--config", config)
      assert.deepStrictEqual([wrong.code, wrong.err], [
        2,
        `payments: the hand-off to ledger waits for a decision about change 5.\n`
      ])
      const unexplained = yield* run("handoff", "skip", consumer, "5", "--config", config)
      assert.include(unexplained.err, "Say why with --reason")
      const skip = yield* run("handoff", "skip", consumer, "5", "--reason", "gap", "--by", "me", "--config", config)
      assert.deepStrictEqual([skip.code, skip.out], [0, "ledger: passes over change 5, decided by me\n"])
      yield* handingOff(to, url, secret)
      const accepted = requests.filter(({ numbers }) => !numbers.includes(5)).flatMap(({ numbers }) => numbers)
      assert.deepStrictEqual(accepted, [1, 2, 3, 4, 6, 7, 8, 9, 10])
      assert.deepStrictEqual((yield* list()).map((one: { skips: number; lag: number }) => [one.skips, one.lag]), [[
        1,
        0
      ]])

      refusedSeq = undefined
      const before = new Map(requests.map(({ body, id }) => [id, body]))
      requests.length = 0
      const replay = yield* run("handoff", "replay", consumer, "1", "--config", config, "--format", "json")
      assert.deepStrictEqual([replay.code, JSON.parse(replay.out).position], [0, 0])
      yield* handingOff(to, url, secret)
      assert.deepStrictEqual(requests.flatMap(({ numbers }) => numbers), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      for (const { body, id } of requests) assert.strictEqual(before.get(id) ?? body, body)
      assert.isAtLeast(requests.filter(({ id }) => before.has(id)).length, 2, "stored batches keep their ids")

      const beyond = yield* run("handoff", "replay", consumer, "12", "--config", config)
      assert.deepStrictEqual([beyond.code, beyond.err], [
        2,
        "payments: there is no change 12 yet: the last one is 10.\n"
      ])
      yield* run("prune", "--from", to, "--keep-changes", "1ms")
      const removed = yield* run("handoff", "replay", consumer, "1", "--config", config)
      assert.strictEqual(removed.code, 10, removed.err)
      assert.include(removed.err, "were removed and cannot be read any more")
    }).pipe(Effect.scoped))

  it.live("say how a consumer reads the changes itself, after its hand-off was removed from the settings", () =>
    Effect.gen(function*() {
      const { secret, to } = yield* prepared
      const { url } = yield* answering((numbers) => numbers.includes(5) ? 422 : 200)
      yield* handingOff(to, url, secret)
      const ack = run("changes", "ack", consumer, "7", "--from", to)
      const refused = yield* ack
      const advice = `payments changes consumers --remove ${consumer}`
      assert.deepStrictEqual([refused.code, refused.err.includes(advice)], [2, true])
      assert.strictEqual((yield* run("changes", "consumers", "--remove", consumer, "--from", to)).code, 0)
      assert.strictEqual((yield* ack).code, 0)
    }).pipe(Effect.scoped))

  it.live("let the receiver say where it stands after a restore, also while a change waits", () =>
    Effect.gen(function*() {
      const { config, secret, to } = yield* prepared
      const { url } = yield* answering((numbers) => numbers.includes(5) ? 422 : 200)
      yield* handingOff(to, url, secret)
      const consumers = yield* run("changes", "consumers", "--config", config, "--format", "json")
      const [{ generation }] = JSON.parse(consumers.out)
      assert.strictEqual((yield* run("restored", "--config", config)).code, 0)
      const replay = yield* run("handoff", "replay", consumer, "8", "--config", config)
      assert.deepStrictEqual([replay.code, replay.err.includes(`changes ack ${consumer} SEQ --generation`)], [10, true])
      const ack = yield* run("changes", "ack", consumer, "7", "--generation", generation, "--config", config)
      assert.deepStrictEqual([ack.code, ack.err], [0, ""])
      const resume = yield* run("handoff", "resume", consumer, "--config", config)
      assert.deepStrictEqual([resume.code, resume.out], [0, "ledger: goes on after change 7\n"])
    }).pipe(Effect.scoped))

  it.live("show each hand-off that can be read, say which destination cannot be opened, and how to go on", () =>
    Effect.gen(function*() {
      const { config, folder, secret, to } = yield* prepared
      const { url } = yield* answering((numbers) => numbers.includes(5) ? 422 : 200)
      yield* handingOff(to, url, secret)
      const lines = readFileSync(config, "utf8")
      const table = (name: string, more: string) =>
        `[sources.${name}]\nbase_url = "https://payments.example.com"\napi_key_env = "KEY"\nto = "sqlite:${
          join(folder, `${name}.db`)
        }"\n${more}\n`
      const handoff = `[sources.north.handoff.books]\nurl = "https://books.example"\nsecret_file = "ledger.secret"`
      // A source without hand-offs may have no destination yet.
      writeFileSync(config, lines + table("north", handoff) + table("south", ""))
      const json = yield* run("handoff", "list", "--config", config, "--format", "json")
      assert.deepStrictEqual(JSON.parse(json.out).map((row: { source: string }) => row.source), ["main"])
      assert.deepStrictEqual([json.code, json.err.includes("north.db"), json.err.includes("south.db")], [
        9,
        true,
        false
      ])
      const shownWaiting = yield* run("handoff", "list", "--config", config, "--format", "table")
      assert.include(
        shownWaiting.err.replaceAll(/\s+/g, " "),
        `main/ledger waits for a decision about change 5: the receiver refuses a change. To go on: payments handoff resume ledger --source main --config ${config}, or payments handoff skip ledger 5 --reason TEXT --source main --config ${config}`
      )
      writeFileSync(config, lines)
      const status = yield* run("status", "--config", config, "--format", "table")
      assert.include(
        status.out.replaceAll(/\s+/g, " "),
        `the hand-off to ledger waits for a decision about change 5: the receiver refuses a change. To go on: payments handoff resume ledger --source main --config ${config},`
      )
      const pasted = yield* run("handoff", "resume", consumer, "--source", "main", "--config", config)
      assert.deepStrictEqual([pasted.code, pasted.out], [0, "ledger: goes on after change 4\n"])
      // The table of the last hand-off is removed.
      writeFileSync(config, lines.slice(0, lines.indexOf("[sources.main.handoff")))
      const removed = yield* run("handoff", "list", "--config", config, "--format", "json")
      assert.deepInclude(JSON.parse(removed.out)[0], { consumer, state: "removed", to: null })
      const shown = yield* run("handoff", "list", "--config", config, "--format", "table")
      assert.include(
        shown.err.replaceAll(/\s+/g, " "),
        `payments changes consumers --remove ledger --source main --config ${config}`
      )
      const none = yield* run("changes", "consumers", "--remove", consumer, "--source", "main", "--config", config)
      assert.strictEqual(none.code, 0, none.err)
    }).pipe(Effect.scoped))

  it.live("resume nothing that would stop again at once, and say what to do first", () =>
    Effect.gen(function*() {
      const { secret, to } = yield* prepared
      const { requests, url } = yield* answering((numbers) => numbers.includes(5) ? 410 : 200)
      yield* handingOff(to, url, secret)
      const database = new DatabaseSync(to.slice("sqlite:".length))
      const generation = String(database.prepare("SELECT generation FROM consumers").get()?.["generation"])
      // As after a restore, and as if changes were removed by hand.
      yield* run("restored", "--from", to)
      const restored = yield* run("handoff", "resume", consumer, "--from", to)
      assert.deepStrictEqual([restored.code, restored.out], [10, ""])
      assert.include(restored.err, `payments changes ack ledger SEQ --generation GENERATION --from ${to}`)
      assert.strictEqual(
        (yield* run("changes", "ack", consumer, "3", "--generation", generation, "--from", to)).code,
        0
      )
      database.exec(
        "DELETE FROM changes WHERE seq <= 5; INSERT INTO changes_pruned VALUES (1, 5, '2026-01-01T00:00:00.000Z')"
      )
      database.close()
      const removed = yield* run("handoff", "resume", consumer, "--from", to)
      assert.deepStrictEqual([removed.code, removed.out], [10, ""])
      assert.include(removed.err, `payments changes ack ledger 5 --from ${to}`)
      assert.strictEqual((yield* run("changes", "ack", consumer, "5", "--from", to)).code, 0)
      assert.strictEqual((yield* run("handoff", "resume", consumer, "--from", to)).code, 0)
      requests.length = 0
      yield* handingOff(to, url, secret)
      assert.deepStrictEqual(requests.flatMap(({ numbers }) => numbers), [6, 7, 8, 9, 10])
    }).pipe(Effect.scoped))

  it.live("refuse a name that is none, and one without a hand-off", () =>
    Effect.gen(function*() {
      const { to } = yield* prepared
      for (const [verb, ...more] of [["resume"], ["replay", "1"], ["skip", "1", "--reason", "x"]]) {
        const [seq = [], flags = []] = more[0] === undefined ? [] : [[more[0]], more.slice(1)]
        const none = yield* run("handoff", verb ?? "", consumer, ...seq, ...flags, "--from", to)
        assert.deepStrictEqual([none.code, none.err], [2, "payments: there is no hand-off to ledger.\n"])
        const wrong = yield* run("handoff", verb ?? "", "Ledger", ...seq, ...flags, "--from", to)
        assert.include(wrong.err, "Invalid value for NAME")
      }
      assert.include((yield* run("handoff", "list", "--from", to)).err, "No hand-offs.")
    }).pipe(Effect.scoped))
})

describe("payments handoff test", () => {
  it.live.each([[200, 0], [401, 4], [404, 5], [429, 6], [503, 7], [307, 8], [410, 5]] as const)(
    "a receiver that answers %s: exit code %s, and nothing of the answer",
    ([status, exitCode]) =>
      Effect.gen(function*() {
        const { config, write } = yield* prepared
        const { requests, url } = yield* answering(() => status)
        write(`${url}?token=canary-5ecret`)
        const { code, err, out } = yield* run("handoff", "test", consumer, "--config", config)
        assert.strictEqual(code, exitCode, err)
        assert.include(out + err, String(status))
        assert.strictEqual(err.includes("it may have another key"), status === 401)
        assert.strictEqual(err.includes("a redirect is never followed"), status === 307)
        assert.deepStrictEqual(requests.map(({ numbers }) => numbers), [[]])
        assert.strictEqual(JSON.parse(requests[0]?.body ?? "").type, "payments.test")
        const json = yield* run("handoff", "test", consumer, "--config", config, "--format", "json")
        assert.deepStrictEqual([json.code, JSON.parse(json.out).status], [exitCode, status])
      }).pipe(Effect.scoped)
  )

  it.live("is accepted by the receiver of the sandbox, and says that nobody listens", () =>
    Effect.gen(function*() {
      const { config, keyFile, write } = yield* prepared
      const { end, url } = yield* receiving("--secret-file", keyFile)
      write(url)
      assert.strictEqual((yield* run("handoff", "test", consumer, "--config", config)).code, 0)
      const [, received] = yield* end
      assert.deepStrictEqual([received.problem, received.delivery, received.status], [null, null, 200])
      const refused = yield* run("handoff", "test", consumer, "--config", config)
      assert.deepStrictEqual([refused.code, /the connection failed/.test(refused.err)], [7, true])
    }).pipe(Effect.scoped))
})

describe("payments handoff rotate", () => {
  it.live("adds a key before the old ones, then removes the old ones, and prints none", () =>
    Effect.gen(function*() {
      const { config, folder, keyFile, secret } = yield* prepared
      const keys = () => readFileSync(keyFile, "utf8").trimEnd().split("\n")
      const rotated = yield* run("handoff", "rotate", consumer, "--config", config)
      assert.strictEqual(rotated.code, 0, rotated.err)
      const [newest = "", ...older] = keys()
      assert.deepStrictEqual(older, [secret])
      keyOf(newest)
      assert.strictEqual(statSync(keyFile).mode & 0o777, 0o600)
      const finished = yield* run("handoff", "rotate", consumer, "--finish", "--config", config, "--format", "json")
      const { keys: left, publicKey } = JSON.parse(finished.out)
      assert.deepStrictEqual([left, publicKey, keys()], [1, null, [newest]])
      const many = yield* Effect.forEach(
        Array.from({ length: 4 }),
        () => run("handoff", "rotate", consumer, "--config", config),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual([many.map(({ code }) => code), keys().length], [[0, 0, 0, 0], 5])
      writeFileSync(keyFile, "notes\n")
      const other = yield* run("handoff", "rotate", consumer, "--config", config)
      assert.deepStrictEqual([other.code, readFileSync(keyFile, "utf8")], [3, "notes\n"])
      writeFileSync(keyFile, "")
      yield* run("handoff", "rotate", consumer, "--config", config)
      assert.lengthOf(keys(), 1)
      assert.isFalse(existsSync(join(folder, "ledger.secret.new")))
      const another = yield* run("handoff", "rotate", consumer, "--kind", "whsk", "--config", config)
      assert.strictEqual(another.code, 0, another.err)
      assert.deepStrictEqual(keys().map((line) => keyOf(line).scheme), ["v1a", "v1"])
      writeFileSync(keyFile, "")
      const first = yield* run("handoff", "rotate", consumer, "--kind", "whsk", "--config", config)
      assert.notInclude(first.out, "Give it")
      assert.include(first.out, publicKeyText(keyOf(keys()[0] ?? "")) ?? "whpk_")
      const finishing = yield* run("handoff", "rotate", consumer, "--finish", "--kind", "whsk", "--config", config)
      assert.deepStrictEqual([finishing.code, keys().length], [2, 1])
    }).pipe(Effect.scoped))

  it.live("of ed25519 prints the public key of the newest one, with which a receiver verifies, as test does", () =>
    Effect.gen(function*() {
      const { config, folder, keyFile, write } = yield* prepared
      const { privateKey } = generateKeyPairSync("ed25519")
      const seedText = privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32).toString("base64")
      writeFileSync(keyFile, `whsk_${seedText}\n`)
      const publicKeys = () =>
        readFileSync(keyFile, "utf8").trimEnd().split("\n").map((line) => publicKeyText(keyOf(line)) ?? "")
      const [old = ""] = publicKeys()
      const rotated = yield* run("handoff", "rotate", consumer, "--config", config)
      assert.strictEqual(rotated.code, 0, rotated.err)
      const [newest = "", second] = publicKeys()
      assert.deepStrictEqual([second, rotated.out.trimEnd().split("\n").slice(-2)], [old, [
        "The keys in the file are private. Give the receiver this public key of the newest one:",
        newest
      ]])
      assert.notInclude(rotated.out, "first one")
      // Nobody listens, and the keys are printed.
      const tested = yield* run("handoff", "test", consumer, "--config", config)
      assert.deepStrictEqual([tested.code, tested.out], [
        7,
        `ledger: its receiver verifies with a public key:\n${newest}\n${old}\n`
      ])
      const finished = yield* run("handoff", "rotate", consumer, "--finish", "--config", config, "--format", "json")
      assert.deepStrictEqual([JSON.parse(finished.out).publicKey, publicKeys()], [newest, [newest]])

      const publicFile = join(folder, "public")
      writeFileSync(publicFile, `${newest}\n`)
      const { end, url } = yield* receiving("--secret-file", publicFile)
      write(url)
      const accepted = yield* run("handoff", "test", consumer, "--config", config, "--format", "json")
      assert.deepStrictEqual([accepted.code, JSON.parse(accepted.out).publicKeys], [0, [newest]])
      const [, received] = yield* end
      assert.deepStrictEqual([received.problem, received.status], [null, 200])

      write("http://127.0.0.1:9/", `secret_command = ["cat", "ledger.secret"]`)
      const file = join(folder, "new.secret")
      const other = yield* run("handoff", "rotate", consumer, "--config", config, "--to", file, "--format", "json")
      const added = keyOf(readFileSync(file, "utf8"))
      assert.deepStrictEqual([added.scheme, JSON.parse(other.out).publicKey], ["v1a", publicKeyText(added)])
    }).pipe(Effect.scoped))

  it.live("writes a key for a variable to a new file only", () =>
    Effect.gen(function*() {
      const { config, folder, keyFile, write } = yield* prepared
      write("http://127.0.0.1:9/", `secret_env = "LEDGER"`)
      for (const args of [[], ["--finish"], ["--to", keyFile]]) {
        const { code, err } = yield* run("handoff", "rotate", consumer, "--config", config, ...args)
        assert.strictEqual(code, 2, err)
      }
      const file = join(folder, "new.secret")
      const rotate = (...args: ReadonlyArray<string>) => run("handoff", "rotate", consumer, "--config", config, ...args)
      // The variable may have its keys for the worker only.
      const unknown = yield* rotate("--to", file)
      assert.deepStrictEqual([unknown.code, existsSync(file)], [2, false])
      assert.include(unknown.err.replaceAll(/\s+/g, " "), "The present keys cannot be read:")
      assert.include(unknown.err.replaceAll(/\s+/g, " "), "--kind whsec or --kind whsk.")
      const { code, err } = yield* rotate("--to", file, "--kind", "whsec")
      assert.strictEqual(code, 0, err)
      assert.strictEqual(keyOf(readFileSync(file, "utf8").trim()).scheme, "v1")
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    }).pipe(Effect.scoped))
})

describe("payments handoff verify", () => {
  it.live("accepts the exact bytes, and says what is wrong with others", () =>
    Effect.gen(function*() {
      const { folder, keyFile, secret } = yield* prepared
      const body = Buffer.from(`{"a":9007199254740993,"name":"canary-5ecret \u00e9"}`)
      // oxlint-disable-next-line no-restricted-properties -- the command compares it with the wall clock
      const now = () => Math.floor(Date.now() / 1000)
      const headersOf = (timestamp: number) =>
        Object.entries(sign({ id: "msg_1", timestamp, body }, [keyOf(secret)])).map(([name, value]) =>
          `${name}: ${value}`
        )
      const [headers, bodyFile, request] = ["headers", "body", "request"].map((name) => join(folder, name)) as [
        string,
        string,
        string
      ] // of three names
      const verify = (...args: ReadonlyArray<string>) =>
        run("handoff", "verify", "--secret-file", keyFile, "--format", "json", ...args)
      const files = ["--headers", headers, "--body", bodyFile]
      writeFileSync(headers, `POST / HTTP/1.1\r\n${headersOf(now()).join("\r\n")}\r\n`)
      writeFileSync(bodyFile, body)
      const valid = yield* verify(...files)
      assert.deepStrictEqual([valid.code, JSON.parse(valid.out).valid, JSON.parse(valid.out).id], [0, true, "msg_1"])
      for (const end of ["\r\n", "\n"]) {
        writeFileSync(
          request,
          Buffer.concat([Buffer.from(["POST /x HTTP/1.1", ...headersOf(now()), "", ""].join(end)), body])
        )
        assert.strictEqual((yield* verify("--request", request)).code, 0)
      }
      for (let byte = 0; byte < body.length; byte++) {
        const altered = Buffer.from(body)
        altered[byte] = (altered[byte] ?? 0) ^ 1
        writeFileSync(bodyFile, altered)
        const { code, out } = yield* verify(...files)
        assert.deepStrictEqual([code, JSON.parse(out).problem], [11, "unsigned"])
      }
      writeFileSync(bodyFile, body)
      for (
        const [lines, problem] of [
          [headersOf(now() - 400), "tooOld"],
          [headersOf(now() + 400), "tooNew"],
          [headersOf(now()).slice(1), "incomplete"],
          [[], "incomplete"]
        ] as const
      ) {
        writeFileSync(headers, lines.join("\n"))
        assert.strictEqual(JSON.parse((yield* verify(...files)).out).problem, problem)
      }
      writeFileSync(headers, headersOf(now() - 400).join("\n"))
      assert.strictEqual((yield* verify(...files, "--tolerance", "1000")).code, 0)
      const text = yield* run("handoff", "verify", "--secret-file", keyFile, ...files)
      assert.deepStrictEqual([text.code, /signed too long ago/.test(text.err)], [11, true])
      for (const args of [[], ["--headers", headers], ["--request", "/nowhere"], ["--request", folder]]) {
        assert.strictEqual((yield* verify(...args)).code, 2)
      }
    }).pipe(Effect.scoped))
})
