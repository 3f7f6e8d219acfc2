import { assert, describe, it } from "@effect/vitest"
import { binary as payments, runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect } from "effect"
import { join } from "node:path"

const preload = import.meta.resolve("@payments/testkit/programs/EarlySignal")
const worker = join(import.meta.dirname, "../../../worker/dist/payments-worker.js")

/** Sends a program a signal while it starts, and returns its exit code. The service does not respond. */
const codeAfter = (signal: NodeJS.Signals, afterMs: number, ...args: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const cwd = yield* temporaryFolder
    const service = yield* scriptedServer(() => {})
    const ended = yield* runProgram(process.execPath, ["--import", preload, ...args], {
      cwd,
      env: {
        PAYMENTS_BASE_URL: service.url,
        PAYMENTS_API_KEY: "k",
        PAYMENTS_PORT: "0",
        EARLY_SIGNAL: signal,
        EARLY_AFTER_MS: String(afterMs)
      }
    })
    return ended.signal ?? ended.code
  }).pipe(Effect.scoped)

const moments = [-1, 0, 100, 200, 300, 500]

describe("a signal while a program starts", () => {
  it.live("stops an endless worker with code 0 on SIGTERM and 130 on SIGINT, at every moment", () =>
    Effect.gen(function*() {
      for (const ms of moments) {
        assert.strictEqual(yield* codeAfter("SIGTERM", ms, worker, "run", "--to", "sqlite:x.db"), 0, `${ms} ms`)
      }
      assert.strictEqual(yield* codeAfter("SIGINT", -1, worker, "run", "--to", "sqlite:x.db"), 130)
      // Without a sources file there is nothing to read again.
      assert.strictEqual(yield* codeAfter("SIGHUP", -1, worker, "run", "--to", "sqlite:x.db"), "SIGHUP")
    }))

  it.live("interrupts a worker with --once, and payments, with code 130", () =>
    Effect.gen(function*() {
      for (const ms of [-1, 100]) {
        assert.strictEqual(yield* codeAfter("SIGTERM", ms, worker, "run", "--once", "--to", "sqlite:x.db"), 130)
        assert.strictEqual(yield* codeAfter("SIGINT", ms, payments, "export", "--to", "sqlite:x.db"), 130)
      }
    }))

  it.live("does not hide a usage error", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* codeAfter("SIGTERM", -1, worker, "run", "--to", "nowhere"), 2)
    }))
})
