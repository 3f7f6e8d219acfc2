/** The environment variables: all are known, and invalid ones are reported. */
import { assert, describe, it } from "@effect/vitest"
import { payments, runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { internalVariables, unknownVariables, variables } from "../../../../packages/program/src/settings/Variables.ts"
import manifest from "../../package.json" with { type: "json" }

const root = join(import.meta.dirname, "../../../..")

const worker = join(root, "apps/worker/dist/payments-worker.js")

const lines = (text: string) => text.split("\n").filter((line) => line !== "")

describe("the settings", () => {
  it("include every variable that the code or a test reads", () => {
    const sources = ["packages", "apps"].flatMap((group) =>
      readdirSync(join(root, group)).flatMap((name) =>
        ["src", "test"].flatMap((folder) => {
          const path = join(root, group, name, folder)
          try {
            return readdirSync(path, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts")).map(
              (file) => readFileSync(join(path, file), "utf8")
            )
          } catch {
            // This package has no folder of this name.
            return []
          }
        })
      )
    )
    const read = sources.flatMap((text) =>
      Array.from(
        text.matchAll(/(?:process\.env\[|Config\.\w+\(|text\(|secret\()"(PAYMENTS_\w+)"/g),
        ([, name = ""]) => name
      )
    )
    assert.isAbove(read.length, 10)
    assert.deepStrictEqual(read.filter((name) => !variables.includes(name) && !internalVariables.includes(name)), [])
  })

  it("are checked for misspelt names, except variables of Kubernetes and of tests", () => {
    assert.deepStrictEqual(
      unknownVariables([
        "PATH",
        ...variables,
        ...internalVariables,
        "PAYMENTS_SERVICE_HOST",
        "PAYMENTS_PORT_80_TCP_ADDR",
        "PAYMENTS_EVREY",
        "PAYMENTS_API_KEYFILE",
        "PAYMENTS_COLOUR"
      ]),
      [
        "PAYMENTS_API_KEYFILE is not a setting and has no effect. Did you mean PAYMENTS_API_KEY_FILE?",
        "PAYMENTS_COLOUR is not a setting and has no effect.",
        "PAYMENTS_EVREY is not a setting and has no effect. Did you mean PAYMENTS_EVERY?"
      ]
    )
  })
})

describe("both programs", () => {
  it.live("warn about a variable that looks like a setting but is none, and continue", () =>
    Effect.gen(function*() {
      const env = { PAYMENTS_EVREY: "5m", PAYMENTS_SEED: "1" }
      const cli = yield* payments(["invoices", "list"], { env })
      const other = yield* runProgram(process.execPath, [worker, "check"], { env })
      for (
        const [{ code, stderr, stdout }, name, expected] of [[cli, "payments", 3], [
          other,
          "payments-worker",
          2
        ]] as const
      ) {
        const [first] = lines(stderr)
        assert.deepStrictEqual(
          [code, stdout, first],
          [expected, "", `${name}: PAYMENTS_EVREY is not a setting and has no effect. Did you mean PAYMENTS_EVERY?`]
        )
      }
      // The version depends on no setting, and scripts capture it.
      for (const version of [payments(["--version"], { env }), runProgram(process.execPath, [worker, "-v"], { env })]) {
        const { code, stderr, stdout } = yield* version
        assert.deepStrictEqual([code, stdout, stderr], [0, `${manifest.version}\n`, ""])
      }
    }))

  it.live("list all invalid flags and variables at once, and create nothing", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = {
        PAYMENTS_BASE_URL: "ftp://example.com",
        PAYMENTS_TO: "mysql://x",
        PAYMENTS_PATIENCE: "long",
        PAYMENTS_ON_LOCKED: "maybe",
        PAYMENTS_PORT: "http",
        PAYMENTS_EVERY: "often"
      }
      const service = ["PAYMENTS_BASE_URL", "PAYMENTS_API_KEY"]
      const common = [...service, "destination", "PAYMENTS_PATIENCE", "PAYMENTS_ON_LOCKED", "--missing-limit"]
      for (
        const [ended, names] of [
          [yield* payments(["export", "--missing-limit", "half", "--concurrency", "many"], { env, cwd }), [
            ...common,
            "--concurrency"
          ]],
          [
            yield* runProgram(process.execPath, [worker, "run", "--missing-limit", "half"], { env, cwd }),
            [...common, "PAYMENTS_PORT", "PAYMENTS_EVERY"]
          ],
          [yield* payments(["verify", "--against-api"], { env, cwd }), [...service, "destination"]],
          [yield* payments(["conformance", "--pause", "5"], { env, cwd }), [...service, "--pause"]],
          [yield* payments(["invoices", "list", "--all", "--max", "5"], { env, cwd }), [...service, "--max"]],
          [yield* payments(["invoices", "list", "--limit", "x", "--payment-date", "y"], { env, cwd }), [
            ...service,
            "--limit",
            "--payment-date"
          ]]
        ] as const
      ) {
        assert.deepStrictEqual([ended.code, ended.stdout], [2, ""], ended.stderr)
        for (const name of names) assert.include(ended.stderr, name)
        for (const line of lines(ended.stderr)) assert.match(line, /^payments(-worker)?: /)
      }
      // If only the environment is invalid, the exit code is that of a configuration error.
      const only = yield* payments(["export", "--to", "sqlite:x.db"], { env: { PAYMENTS_BASE_URL: "ftp://x" }, cwd })
      assert.strictEqual(only.code, 3)
      assert.deepStrictEqual(readdirSync(cwd), [])
    }).pipe(Effect.scoped))
})
