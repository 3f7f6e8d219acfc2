/** The command that prints a key: how it runs, what limits it, and what is said if it fails. */
import { assert, describe, it } from "@effect/vitest"
import type { Checked } from "@payments/core"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Clock, Duration, Effect, Fiber, Redacted } from "effect"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { makeKeyCommand } from "../../src/settings/KeyCommand.ts"

const canary = "canary-5ecret"

const run = (folder: string, command: ReadonlyArray<string>, time?: Duration.Duration) =>
  makeKeyCommand("api_key_command", command, folder, time).read

const keyIn = (result: Checked<Redacted.Redacted<string>>): string =>
  "value" in result ? Redacted.value(result.value) : `problem: ${result.problem}`

const node = (script: string) => [process.execPath, "-e", script]

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    // A process that has ended keeps its number until its parent has waited for it.
    const status = `/proc/${pid}/status`
    return !existsSync(status) || !/^State:\s+Z/m.test(readFileSync(status, "utf8"))
  } catch {
    return false
  }
}

/** A command that starts another process and waits for it. Both write their numbers into the folder. */
const family = ["sh", "-c", "sleep 1000 & echo $! > child; echo $$ > parent; wait"]

const numbersIn = (folder: string) =>
  ["parent", "child"].map((name) => Number(readFileSync(join(folder, name), "utf8")))

const untilStarted = (folder: string) =>
  Effect.repeat(Effect.sleep("10 millis"), {
    until: () => existsSync(join(folder, "parent")) && readFileSync(join(folder, "parent"), "utf8").endsWith("\n")
  })

const untilEnded = (pids: ReadonlyArray<number>) =>
  Effect.repeat(Effect.sleep("10 millis"), { until: () => !pids.some(isRunning) })

describe("a key command", () => {
  it.live("prints the key; white space around it is removed", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      assert.strictEqual(keyIn(yield* run(folder, ["printf", "\n  key-1 \r\n"])), "key-1")
    }).pipe(Effect.scoped))

  it.live("runs without a shell, in the folder of the file, without input", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      writeFileSync(join(folder, "key"), "key-in-file")
      assert.strictEqual(keyIn(yield* run(folder, ["cat", "key"])), "key-in-file")
      const hostile = "a$(touch x)`touch x`;touch x|touch x>x&&touch x"
      assert.strictEqual(keyIn(yield* run(folder, ["printf", "%s", hostile])), hostile)
      assert.strictEqual(keyIn(yield* run(folder, ["printf", "%s", "*"])), "*")
      assert.strictEqual(keyIn(yield* run(folder, ["touch x"])), "problem: cannot be started (ENOENT)")
      assert.deepStrictEqual(readdirSync(folder), ["key"])
      assert.strictEqual(keyIn(yield* run(folder, ["cat"])), "problem: printed nothing")
    }).pipe(Effect.scoped))

  it.live("that fails is reported by its exit code alone", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const print = `process.stdout.write("${canary}"); process.stderr.write("${canary}")`
      for (
        const [command, problem] of [
          [node(`${print}; process.exitCode = 3`), "failed with exit code 3"],
          [node(`${print}; process.kill(process.pid, "SIGTERM")`), "was ended by SIGTERM"],
          [["true"], "printed nothing"],
          [[folder], "cannot be started (EACCES)"],
          [[canary], "cannot be started (ENOENT)"],
          [["true", canary.repeat(200_000)], "cannot be started (E2BIG)"]
        ] as const
      ) {
        assert.deepStrictEqual(yield* run(folder, command), { problem })
      }
    }).pipe(Effect.scoped))

  it.live("that prints without end is ended", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      assert.deepStrictEqual(yield* run(folder, ["yes", canary]), { problem: "printed more than 64 KiB" })
      assert.strictEqual(keyIn(yield* run(folder, ["head", "-c", "65536", "/dev/zero"])), "\0".repeat(65_536))
    }).pipe(Effect.scoped))

  it.live("that does not end is killed with the processes that it started", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const real = yield* Clock.Clock
      const slept: Array<number> = []
      // The time of the command is over when it has started its process, however long that takes.
      const clock: Clock.Clock = Object.assign(Object.create(real), {
        sleep: (duration: Duration.Duration) => {
          slept.push(Duration.toSeconds(duration))
          return Effect.provideService(untilStarted(folder), Clock.Clock, real)
        }
      })
      const ended = yield* Effect.provideService(run(folder, family, Duration.seconds(2)), Clock.Clock, clock)
      assert.deepStrictEqual([ended, slept], [{ problem: "did not end within 2 s" }, [2]])
      yield* untilEnded(numbersIn(folder))
    }).pipe(Effect.scoped))

  it.live("is killed when the program is interrupted", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const fiber = yield* Effect.forkChild(run(folder, family))
      yield* untilStarted(folder)
      const pids = numbersIn(folder)
      assert.isTrue(pids.every(isRunning))
      yield* Fiber.interrupt(fiber)
      yield* untilEnded(pids)
    }).pipe(Effect.scoped))

  it.live("leaves a process that runs on, and no longer uses its output, alone", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const agent = ["sh", "-c", "sleep 1000 > /dev/null & echo $! > child; echo key-1"]
      assert.strictEqual(keyIn(yield* run(folder, agent)), "key-1")
      const pid = Number(readFileSync(join(folder, "child"), "utf8"))
      assert.isTrue(isRunning(pid))
      process.kill(pid)
    }).pipe(Effect.scoped))
})
