/** `--cursor-file`, when a run is cut and when the file cannot be written. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Effect, Fiber, Latch } from "effect"
import { readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { smallFileSystem } from "../../../packages/export/test/SmallFileSystem.ts"
import { payment } from "./InProcess.ts"
import { binary, runProgram, sandboxEnv, temporaryFolder } from "./Program.ts"

const invoices = Array.from({ length: 40 }, (_, index) => `{"id":"inv_${index}"}`)
const linesOf = (text: string) => text.split("\n").filter((line) => line !== "")

describe("--cursor-file", () => {
  it.live("keeps the position of what was printed, also when the listing is interrupted right after a page", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "position.json")
      const api = layerTest({ invoices })
      const args = ["invoices", "list", "--all", "--limit", "5", "--cursor-file", file]
      for (const pages of [1, 2, 5]) {
        rmSync(file, { force: true })
        const reached = yield* Latch.make()
        let printed = ""
        const run = yield* Effect.forkChild(payment(api, args, false, 0, (out) =>
          Effect.suspend(() => {
            printed = out
            return linesOf(out).length === 5 * pages ? Effect.asVoid(reached.open) : Effect.void
          })))
        yield* reached.await
        yield* Fiber.interrupt(run)
        const rest = yield* payment(api, args)
        assert.deepStrictEqual(linesOf(printed + rest.out), invoices)
      }
    }).pipe(Effect.scoped))

  it.live("says with exit code 9 that the position cannot be written, and leaves nothing half written", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 5 })
      const list = (folder: string, before: string) =>
        runProgram("bash", ["-c", `${before}; exec "$NODE" "$BINARY" invoices list --cursor-file ./position.json`], {
          env: { ...env, NODE: process.execPath, BINARY: binary },
          cwd: folder
        })
      const folder = yield* temporaryFolder
      // No file may grow: the system refuses to write into it, as a full disk does.
      const limited = yield* list(folder, "ulimit -f 0")
      assert.deepStrictEqual([limited.code, linesOf(limited.stdout).length], [9, 5])
      assert.match(
        limited.stderr,
        /^payments: --cursor-file: the position cannot be written to \.\/position\.json: the file would be larger than .* \(EFBIG\)\. .*\n$/
      )
      assert.deepStrictEqual(readdirSync(folder), [])
      const small = yield* smallFileSystem(64)
      if (small === undefined) return
      yield* small.fill(0)
      const full = yield* list(small.folder, ":")
      assert.strictEqual(full.code, 9)
      assert.include(full.stderr, "there is no space left (ENOSPC)")
    }).pipe(Effect.scoped))
})
