/** `payments sandbox` and `payments conformance`, run as the docs describe. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { binary, payments, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn } from "@payments/testkit/TestProcess"
import { ConfigProvider, Effect } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

/** Starts the sandbox in another process and returns the settings that it prints. Closing the scope stops it. */
const running = (...args: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.callback<
      { readonly env: Record<string, string>; readonly stderr: () => string; readonly stop: () => void }
    >((resume) => {
      const child = spawn(process.execPath, [binary, "sandbox", "--port", "0", ...args], {
        env: {}
      })
      let out = ""
      let errors = ""
      child.stderr.on("data", (chunk: Buffer) => void (errors += chunk.toString()))
      child.stdout.on("data", (chunk: Buffer) => {
        out += chunk.toString()
        const env = Object.fromEntries(
          Array.from(out.matchAll(/^export (\w+)=(.*)$/gm), ([, name, value]) => [name, value])
        )
        if (env["PAYMENTS_API_KEY"] === undefined) return
        resume(Effect.succeed({ env, stderr: () => errors, stop: () => child.kill("SIGKILL") }))
      })
    }),
    ({ stop }) => Effect.sync(stop)
  )

describe("payments sandbox", () => {
  it.live("revokes the key on page 50, as the docs say", () =>
    Effect.gen(function*() {
      const { env } = yield* running("--records", "10000", "--faults", `{"fault":"status","status":401,"from":50}`)
      const { code, stderr, stdout } = yield* payments(["invoices", "list", "--all"], { env })
      assert.strictEqual(code, 4, stderr)
      assert.strictEqual(stdout.split("\n").length - 1, 4900)
      assert.include(stderr, "not authorized")
    }).pipe(Effect.scoped))

  it.live("accepts faults by the name of a scenario or from a file, and other names of invoice parameters", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "faults.json")
      writeFileSync(file, `[{"fault":"emptyPage","every":2},{"fault":"status","status":503,"nth":1}]`)
      for (const faults of ["flaky", file]) {
        const { env } = yield* running("--records", "300", "--faults", faults, "--invoice-params", "limit=size")
        const settings = { ...env, PAYMENTS_INVOICE_PARAMS: "limit=size" }
        const { code, stdout } = yield* payments(["invoices", "list", "--all"], { env: settings })
        assert.deepStrictEqual([code, stdout.split("\n").length - 1], [0, 300])
      }
    }).pipe(Effect.scoped))

  it.live("starts with ten million records at once", () =>
    Effect.gen(function*() {
      const { env } = yield* running("--records", "10000000", "--live", "--order", "newest")
      const { code, stdout } = yield* payments(["payout-requests", "list", "--limit", "5"], { env })
      assert.deepStrictEqual([code, stdout.split("\n").length - 1], [0, 5])
    }).pipe(Effect.scoped))

  it.live("warns if other machines can use it, and prints an address that this machine reaches", () =>
    Effect.gen(function*() {
      const started = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
        const { env, stderr } = yield* running(...args)
        return {
          env,
          errors: yield* Effect.repeat(Effect.delay(Effect.sync(stderr), 10), {
            until: (text) => /^Serving/m.test(text)
          })
        }
      })
      const { env, errors } = yield* started("--host", "0.0.0.0", "--control-port", "0", "--control-host", "::")
      assert.match(env["PAYMENTS_BASE_URL"] ?? "", /^http:\/\/127\.0\.0\.1:\d+$/)
      for (const flag of ["--host 0.0.0.0", "--control-host ::"]) {
        assert.include(errors, `Warning: with ${flag}, other machines can use the sandbox too.`)
      }
      assert.notInclude((yield* started("--host", "::1")).errors, "Warning")
    }).pipe(Effect.scoped))

  it.live.each<readonly [flag: string, value: string]>([
    ["--faults", "no-such-scenario"],
    ["--faults", `{"fault":"gremlin"}`],
    ["--faults", `{"fault":"reset","nht":1}`],
    ["--invoice-params", "nonsense"],
    ["--behaviour", "largeLimit=ignore"],
    ["--behaviour", "largelimit=clamp"],
    ["--like", "no-such-file.json"],
    ["--hostile-text", "2"],
    ["--speed", "5"]
  ])("refuses %s %s as a usage error", ([flag, value]) =>
    Effect.gen(function*() {
      const { code, stderr, stdout } = yield* payments(["sandbox", "--port", "0", flag, value])
      assert.deepStrictEqual([code, stdout], [2, ""])
      assert.include(stderr, flag)
    }))
})

describe("payments conformance", () => {
  it.live("exits with code 0 if every rule holds, and prints a table or JSON", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv()
      const table = yield* payments(["conformance", "--pause", "1ms"], { env })
      assert.strictEqual(table.code, 0, table.stderr)
      assert.match(table.stdout, /^invoices$/m)
      assert.match(table.stdout, /^ {2}holds {2}§4\.4\.3/m)
      const json = yield* payments(["conformance", "--pause", "1ms", "--format", "json"], { env })
      const findings: unknown = JSON.parse(json.stdout)
      assert.isTrue(Array.isArray(findings) && findings.length > 40)
    }).pipe(Effect.scoped))

  it.live("exits with code 8 and names the rule if one does not hold", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ faults: [{ fault: "ignoreFilter", field: "contract" }] })
      const { code, stderr, stdout } = yield* payments(["conformance", "--pause", "1ms"], { env })
      assert.strictEqual(code, 8)
      assert.match(stdout, /FAILS {2}§4\.3 +contract filters/)
      assert.match(stderr, /1 of \d+ rules do not hold/)
    }).pipe(Effect.scoped))

  it.live("prints no line that is wider than the terminal", () =>
    Effect.gen(function*() {
      const environment = ConfigProvider.fromEnvRecord(yield* sandboxEnv())
      for (const width of [60, 80, 120]) {
        const { code, out } = yield* runInProcess(layerTest({}), ["conformance", "--pause", "1ms"], true, width).pipe(
          Effect.provide(ConfigProvider.layer(environment))
        )
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(out.split("\n").filter((line) => line.length > width), [])
        assert.match(out, /^ {2}holds {2}§4\.4\.2 {2}a string cursor/m)
      }
    }).pipe(Effect.scoped))

  it.live("refuses a pause without a unit", () =>
    Effect.gen(function*() {
      const { code, stdout } = yield* payments(["conformance", "--pause", "5"])
      assert.deepStrictEqual([code, stdout], [2, ""])
    }))
})
