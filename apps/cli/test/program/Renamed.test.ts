/** Flags, environment variables and settings whose names have changed: examples, and those that have really changed. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { RenamedNames } from "@payments/program"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { ConfigProvider, Effect, Logger } from "effect"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { warningsOfVariables } from "../../../../packages/program/src/settings/Renamed.ts"
import { runInProcess } from "./InProcess.ts"

const variables = [{ from: "PAYMENTS_DESTINATION", to: "PAYMENTS_TO", until: "0.3.0" }]

const renamed = Effect.provideService(RenamedNames, {
  flags: [{ from: "--destination", to: "--to", until: "0.3.0" }],
  variables,
  settings: [{ from: "destination", to: "to", until: "0.3.0" }]
})

const api = layerTest({ invoices: [{ id: "inv_1", amount: 1 }] })

const warning = (from: string, to: string) =>
  `${from} is now called ${to}. Version 0.3.0 no longer accepts the old name.`

const environment = (values: Readonly<Record<string, string>>) =>
  Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(values)))

describe("an old name", () => {
  it.effect("of the filter by settlement time works", () =>
    Effect.gen(function*() {
      const invoices = layerTest({ invoices: [{ id: "a", settlementTime: "1" }, { id: "b", settlementTime: "2" }] })
      const { code, err, out } = yield* runInProcess(invoices, ["invoices", "list", "--settlement-cycle", "2"])
      assert.deepStrictEqual([code, out], [0, `{"id":"b","settlementTime":"2"}\n`])
      assert.include(err, `payments: ${warning("--settlement-cycle", "--settlement-time")}\n`)
    }))

  it.live("of a question works with a warning", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      yield* runInProcess(layerTest({ invoices: [{ id: "a", settlementTime: "1" }] }), ["export", "--to", from])
      const ask = (question: string) => runInProcess(api, ["query", question, "--from", from])
      const [old, current] = [yield* ask("settled-by-cycle"), yield* ask("settled-by-time")]
      assert.deepStrictEqual([old.code, old.out], [0, current.out])
      assert.include(old.err, warning("payments query settled-by-cycle", "payments query settled-by-time"))
    }).pipe(Effect.scoped))

  it.live("of a flag works with a warning, and other words stay", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "a.db")
      for (const words of [["--destination", `sqlite:${file}`], [`--destination=sqlite:${file}`]]) {
        const { code, err } = yield* renamed(runInProcess(api, ["export", "invoices", ...words]))
        assert.strictEqual(code, 0, err)
        assert.include(err, `payments: ${warning("--destination", "--to")}\n`)
      }
      assert.isTrue(existsSync(file))
      const current = yield* renamed(runInProcess(api, ["export", "invoices", "--to", `sqlite:${file}`]))
      assert.notInclude(current.err, "is now called")
      const after = yield* renamed(runInProcess(api, ["export", "--to", `sqlite:${file}`, "--", "--destination"]))
      assert.notInclude(after.err, "is now called")
      assert.strictEqual(after.code, 2)
      // Without an entry in the list, it is an unknown flag.
      assert.strictEqual((yield* runInProcess(api, ["export", "--destination", `sqlite:${file}`])).code, 2)
    }).pipe(Effect.scoped))

  it.live("of a variable works with a warning, and the new name has priority", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [old, current] = [join(folder, "old.db"), join(folder, "new.db")]
      const names = { PAYMENTS_DESTINATION: `sqlite:${old}` }
      const one = yield* renamed(runInProcess(api, ["export", "invoices"])).pipe(environment(names))
      assert.strictEqual(one.code, 0, one.err)
      assert.isTrue(existsSync(old))
      const both = { ...names, PAYMENTS_TO: `sqlite:${current}` }
      const two = yield* renamed(runInProcess(api, ["export", "invoices"])).pipe(environment(both))
      assert.strictEqual(two.code, 0, two.err)
      assert.isTrue(existsSync(current))
      assert.deepStrictEqual(warningsOfVariables(["PAYMENTS_DESTINATION"], variables), [
        warning("PAYMENTS_DESTINATION", "PAYMENTS_TO")
      ])
      assert.deepStrictEqual(warningsOfVariables(["PAYMENTS_DESTINATION", "PAYMENTS_TO"], variables), [
        "PAYMENTS_DESTINATION has no effect, because its new name PAYMENTS_TO is set too."
      ])
      assert.deepStrictEqual(warningsOfVariables(["PAYMENTS_TO"], variables), [])
    }).pipe(Effect.scoped))

  it.live("of a setting in the sources file works with a warning that names its line", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.toml")
      const logged: Array<string> = []
      const text = `[sources.north]\nbase_url = "https://api.example.com"\napi_key_env = "KEY"\n`
      const shown = (content: string) => {
        writeFileSync(file, content, { mode: 0o600 })
        return renamed(runInProcess(api, ["config", "--config", file])).pipe(
          Effect.provide(Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])),
          environment({ KEY: "sandbox_key" })
        )
      }
      const { code, err, out } = yield* shown(`${text}destination = "sqlite:old.db"\n`)
      assert.strictEqual(code, 0, err)
      assert.include(out, "old.db")
      assert.deepStrictEqual(logged, [`${file}:4: ${warning("destination", "to")}`])
      const wrong = yield* shown(`${text}destination = "redis://x"\n`)
      assert.include(wrong.err, "payments.toml:4: sources.north.to is no destination.")
      const both = yield* shown(`${text}destination = "sqlite:a.db"\nto = "sqlite:b.db"\n`)
      assert.include(both.err, "payments.toml:4: sources.north.destination is not a setting.")
    }).pipe(Effect.scoped))
})
