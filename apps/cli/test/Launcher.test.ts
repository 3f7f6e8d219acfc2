import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { cpSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { binary, payments, runProgram, sandboxEnv, temporaryFolder } from "./Program.ts"

describe("the built program", () => {
  it.live("runs without node_modules and without a package.json", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      cpSync(join(binary, ".."), folder, { recursive: true })
      const { code, stderr, stdout } = yield* runProgram(process.execPath, [join(folder, "payments.js"), "--version"])
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
      const help = yield* runProgram(process.execPath, [join(folder, "payments.js"), "export", "--help"])
      assert.strictEqual(help.code, 0)
      assert.include(help.stdout, "--to DESTINATION")
    }).pipe(Effect.scoped))

  it.live.each(["20.19.0", "22.18.0", "18.0.0"])(
    "reports in one line that Node %s is too old",
    (version) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const preload = join(folder, "old.cjs")
        writeFileSync(
          preload,
          `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`
        )
        const { code, stderr, stdout } = yield* runProgram(process.execPath, [
          "--require",
          preload,
          binary,
          "--version"
        ])
        assert.deepStrictEqual([code, stdout, stderr], [
          3,
          "",
          `payments: needs Node 22.19 or later; this is Node ${version}.\n`
        ])
      }).pipe(Effect.scoped)
  )

  it.live.each<readonly [variable: string, value: string]>([
    ["NODE_DEBUG", "undici"],
    ["NODE_DEBUG", "fetch"],
    ["NODE_DEBUG", "http"],
    ["NODE_DEBUG", "*"],
    ["NODE_DEBUG_NATIVE", "*"]
  ])(
    "refuses to run with %s=%s, because Node would print request addresses",
    ([variable, value]) =>
      Effect.gen(function*() {
        const env = { ...yield* sandboxEnv({ records: 3 }), [variable]: value }
        const { code, stderr, stdout } = yield* payments(["invoices", "list", "--contract", "canary-5ecret"], { env })
        assert.deepStrictEqual([code, stdout], [3, ""])
        assert.include(
          stderr,
          "payments: NODE_DEBUG or NODE_DEBUG_NATIVE is set: Node would print cursors and filter values. Unset it.\n"
        )
        assert.notInclude(stderr, "canary")
      }).pipe(Effect.scoped)
  )

  it.live("has help for every command and flag", () =>
    Effect.gen(function*() {
      for (
        const command of [
          [],
          ["payout-requests", "list"],
          ["payin-sources", "list"],
          ["invoices", "list"],
          ["export"],
          ["changes"],
          ["quarantine"],
          ["query"],
          ["verify"],
          ["sandbox"],
          ["conformance"],
          ["start"]
        ]
      ) {
        const { code, stdout } = yield* payments([...command, "--help"])
        assert.strictEqual(code, 0)
        for (const flag of stdout.matchAll(/^ {2}(--[a-z-]+.*)$/gm)) {
          assert.match(flag[1] ?? "", /\s{2,}\S/, `${command.join(" ")} ${flag[1]}`)
        }
      }
    }))
})
