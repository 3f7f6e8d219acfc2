import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Sandbox, type SandboxOptions, World } from "@payments/sandbox"
import { temporaryFolder } from "@payments/testkit/Folder"
import { whileReadingWith } from "@payments/testkit/programs/Destinations"
import { rowsOf, runProgram } from "@payments/testkit/programs/RunProgram"
import { isLongRun, seed } from "@payments/testkit/Seed"
import { spawn } from "@payments/testkit/TestProcess"
import { Console, Context, Effect, Fiber, Layer, Random } from "effect"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { join } from "node:path"

const binary = join(import.meta.dirname, "../../dist/payments-worker.js")

const kills = isLongRun ? 100 : 3
const records = isLongRun ? 5000 : 600
const minute = 60_000

/** Limits how many records vanish between two scans, so that no rows are held back, however long a scan takes. */
const movesPerKill = 40
const live = { speed: 0, appearPerHour: 600, changePerHour: 1200, vanishPerHour: 30 }

const kinds = [
  ["sqlite", (folder: string) => [`sqlite:${folder}/payments.db`, join(folder, "payments.db")], "sqlite"],
  ["file", (folder: string) => [`file:${folder}/files`, join(folder, "files/copy.db")], "files"]
] as const

describe(`a worker that is killed ${kills} times while records change (seed ${seed})`, () => {
  it.live.each(kinds)(
    "%s equals the service in the end, has vanished records marked missing, and a reader never sees an incomplete commit",
    ([, placeOf, readerKind]) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const [to = "", database = ""] = placeOf(folder)
        const options: SandboxOptions = { records, seed, live, hostileText: 0.02 }
        const sandbox = Context.get(yield* Layer.build(Sandbox.layer(options)), Sandbox)
        const env = { PAYMENTS_BASE_URL: sandbox.url, PAYMENTS_API_KEY: "sandbox_test", PAYMENTS_PORT: "0" }
        let now = 0
        let moves = movesPerKill
        const move = Effect.map(sandbox.advance(minute / 2), (time) => {
          now = time
          moves -= 1
        })
        const moving = yield* Effect.forkChild(Effect.forever(
          Effect.andThen(Effect.sleep("100 millis"), Effect.suspend(() => moves > 0 ? move : Effect.void))
        ))
        const newestScan = () => Number(rowsOf(database, "SELECT max(scan) AS n FROM scans")[0]?.["n"])
        const newest: Array<number> = []
        const whileReading = whileReadingWith(readerKind, readerKind === "sqlite" ? database : join(folder, "files"))
        yield* whileReading(Effect.gen(function*() {
          // The first load must be complete: later scans find missing records by comparing with it.
          assert.strictEqual(
            (yield* runProgram(process.execPath, [binary, "run", "--once", "--to", to], { env })).code,
            0
          )
          newest.push(newestScan())
          for (let kill = 0; kill < kills; kill++) {
            moves = movesPerKill
            const child = spawn(process.execPath, [binary, "run", "--to", to, "--every", "1s"], {
              env: { ...env },
              stdio: ["ignore", "pipe", "ignore"]
            })
            yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
            const ended = once(child, "exit")
            let log = ""
            child.stdout.on("data", (chunk: Buffer) => log += chunk.toString("utf8"))
            // Kill the worker after this many scans have begun or ended. Alternate between the first round and a later one.
            const steps = (kill % 2) * 6 + (yield* Random.nextIntBetween(1, 6))
            while (log.split(/"scan (?:begun|complete)"/).length <= steps) {
              assert.deepStrictEqual([child.exitCode, child.signalCode], [null, null], log)
              yield* Effect.sleep("10 millis")
            }
            yield* Effect.sleep(yield* Random.nextIntBetween(0, 200))
            child.kill("SIGKILL")
            assert.deepStrictEqual(yield* Effect.promise(() => ended), [null, "SIGKILL"])
            const scan = newestScan()
            // Some list began a second scan, so the newest scan number is higher than after the run before.
            if (steps > 6) assert.isAbove(scan, newest.at(-1) ?? scan, log)
            newest.push(scan)
          }
          yield* Fiber.interrupt(moving)
          // The first round completes the interrupted scans. The next two see no more changes, so records that both lack are
          // missing.
          for (let round = 0; round < 3; round++) {
            const { code } = yield* runProgram(process.execPath, [binary, "run", "--once", "--to", to], { env })
            assert.strictEqual(code, 0)
          }
        }))
        yield* Console.log(`the world moved by ${now / minute} minutes, over scans ${newest.join(" ")}`)
        const world = World.make({ ...options, live: { ...live, now: () => now } })
        let missing = 0
        for (const { label, name } of Lists.all) {
          const expected = world.snapshot(name).toSorted()
          const rows = rowsOf(database, `SELECT raw, missing_since FROM ${label.replaceAll("-", "_")}`)
          const present = rows.filter((row) => row["missing_since"] === null).map(({ raw }) => String(raw)).toSorted()
          const differing = expected.findIndex((text, index) => present[index] !== text)
          assert.deepStrictEqual([present.length, differing], [expected.length, -1], `${label}: ${differing}`)
          missing += rows.length - present.length
          if (readerKind === "files") assert.strictEqual(rowsIn(join(folder, "files"), label), rows.length)
        }
        assert.isAbove(missing, 0, "some records must have vanished")
      }).pipe(Effect.scoped, Random.withSeed(seed)),
    isLongRun ? 1_800_000 : 300_000
  )
})

const rowsIn = (folder: string, label: string): number => {
  const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as {
    readonly lists: { readonly [list: string]: { readonly files: ReadonlyArray<{ readonly records: number }> } }
  } // packages/copy tests that it matches its schema
  return (manifest.lists[label]?.files ?? []).reduce((sum, file) => sum + file.records, 0)
}
