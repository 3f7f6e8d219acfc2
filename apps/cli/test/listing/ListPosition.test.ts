/** `--cursor-file` when a run is interrupted and when the file cannot be written. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { binary, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { Effect, Fiber, Latch } from "effect"
import { readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const invoices = Array.from({ length: 40 }, (_, index) => `{"id":"inv_${index}"}`)
const linesOf = (text: string) => text.split("\n").filter((line) => line !== "")

describe("--cursor-file", () => {
  it.live("saves the position of the printed records, also if the listing is interrupted right after a page", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "position.json")
      const api = layerTest({ invoices })
      const args = ["invoices", "list", "--all", "--limit", "5", "--cursor-file", file]
      for (const pages of [1, 2, 5]) {
        rmSync(file, { force: true })
        const reached = yield* Latch.make()
        let printed = ""
        const run = yield* Effect.forkChild(runInProcess(api, args, false, 0, (out) =>
          Effect.suspend(() => {
            printed = out
            return linesOf(out).length === 5 * pages ? Effect.asVoid(reached.open) : Effect.void
          })))
        yield* reached.await
        yield* Fiber.interrupt(run)
        const rest = yield* runInProcess(api, args)
        assert.deepStrictEqual(linesOf(printed + rest.out), invoices)
      }
    }).pipe(Effect.scoped))

  it.live("saves the position if a later page fails or the reader closes the pipe", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const args = ["invoices", "list", "--all", "--limit", "5", "--cursor-file", join(folder, "failed.json")]
      const failing = layerTest({ invoices, faults: [{ fault: "status", status: 403, nth: 3 }] })
      const failed = yield* runInProcess(failing, args)
      assert.deepStrictEqual([failed.code, linesOf(failed.out)], [4, invoices.slice(0, 10)])
      const rest = yield* runInProcess(layerTest({ invoices }), args)
      assert.deepStrictEqual(linesOf(failed.out + rest.out), invoices)
      const env = yield* sandboxEnv({ records: 5000 })
      const run = (script: string) =>
        runProgram("bash", ["-c", `set -o pipefail; ${script}`], {
          env: { ...env, NODE: process.execPath, BINARY: binary },
          cwd: folder
        })
      const list = `"$NODE" "$BINARY" invoices list --all`
      const all = linesOf((yield* run(list)).stdout)
      assert.strictEqual((yield* run(`${list} --cursor-file ./p.json | head -n 150`)).code, 0)
      // A page that was written into the pipe counts as printed, read or not. A page that was written in part is repeated.
      const more = linesOf((yield* run(`${list} --cursor-file ./p.json`)).stdout)
      assert.deepStrictEqual(more, all.slice(all.length - more.length))
      assert.isAtLeast(all.length - more.length, 100)
      assert.strictEqual(more.length % 100, 0)
    }).pipe(Effect.scoped))

  it.live("exits with code 9 if the position cannot be written, and leaves no incomplete file", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 5 })
      const list = (folder: string, before: string) =>
        runProgram("bash", ["-c", `${before}; exec "$NODE" "$BINARY" invoices list --cursor-file ./position.json`], {
          env: { ...env, NODE: process.execPath, BINARY: binary },
          cwd: folder
        })
      const folder = yield* temporaryFolder
      // No file may grow: every write fails, as on a full disk.
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
