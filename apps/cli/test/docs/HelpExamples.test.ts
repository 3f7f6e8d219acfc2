/** Every example of help runs, against a sandbox. */
import { assert, it } from "@effect/vitest"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { chosenConfig } from "@payments/program"
import { sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { ConfigProvider, type Duration, Effect, Layer, Option } from "effect"
import type { Command } from "effect/cli"
import { TestConsole } from "effect/testing"
import { randomBytes } from "node:crypto"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { payments as commandLine } from "../../src/cli.ts"
import { shellWords } from "../../src/completions/ShellWords.ts"
import { runInProcess } from "../program/InProcess.ts"
import { testServices } from "../program/Tree.ts"

const root = await commandLine(testServices, [])

const examplesOf = (command: Command.Command.Any): ReadonlyArray<string> => [
  ...command.examples.map((example) => example.command),
  ...command.subcommands.flatMap(({ commands }) => commands.flatMap(examplesOf))
]

/** Commands that end only when they are interrupted, or that pause between requests. */
const isLong = /--follow|payments (sandbox|mcp|conformance|probe)/

/** Examples that need other data than this folder has, and what they then print. */
const otherwise: { readonly [example: string]: string } = {
  "payments changes --from sqlite:./payments.db --after 120 --resource invoices --follow": "there is no change 120 yet",
  "payments changes ack reports 120 --from sqlite:./payments.db": "change 120 was read before",
  "payments changes ack reports 0 --back --from sqlite:./payments.db": "the stored position is change 0",
  "payments diff sqlite:./payments.db --at 120 --at 240 --resource invoices": "there is no change 120 yet",
  "payments diff sqlite:./payments.db postgres://127.0.0.1/payments": "postgres://127.0.0.1:5432/payments",
  "payments query invoices-by-status --at 2024-05-31 --from sqlite:./payments.db":
    "The first point that can be reconstructed",
  "payments export invoices --from sqlite:./payments.db --at 2024-05-31 --to - > invoices.ndjson":
    "The first point that can be reconstructed",
  "payments find ord-1001 --from sqlite:./payments.db --at 2024-05-31": "The first point that can be reconstructed",
  // The records of the sandbox are years old.
  "payments status --from sqlite:./payments.db --resource payout-requests --max-open 48h":
    "has a record that has been open for",
  "payments sandbox --like facts.json": "facts.json has no certain facts",
  // The lists of this test have one page.
  "payments facts accept count --from sqlite:./payments.db --by operations": "Nothing was observed of count there",
  "payments reconcile --from sqlite:./payments.db --with statement.csv --unit cents --map reference=Verwendungszweck,amount=Betrag":
    "statement.csv does not exist",
  "payments reconcile --from sqlite:./payments.db --with camt053.xml --group settlementDate --within 2d --unit cents":
    "camt053.xml does not exist",
  "payments restored --from sqlite:./payments.db --after 120": "there is no change 120",
  "payments handoff test ledger": "the connection failed",
  "payments handoff test ledger --source north --format json": "",
  "payments handoff resume ledger": "there is no hand-off to ledger",
  "payments handoff resume ledger --from sqlite:./payments.db": "there is no hand-off to ledger",
  "payments handoff skip ledger 120 --reason \"known gap, ticket 42\"": "there is no hand-off to ledger",
  "payments handoff skip ledger 120 --reason \"corrected by hand\" --by finance --format json":
    "there is no hand-off to ledger",
  "payments handoff replay ledger 100": "there is no change 100 yet",
  "payments handoff replay ledger 1 --from sqlite:./payments.db": "there is no hand-off to ledger",
  "payments handoff verify --headers headers.txt --body body.json --secret-file ledger.secret":
    "headers.txt cannot be read",
  "payments handoff verify --request request.http --secret-file ledger.secret --tolerance 86400":
    "request.http cannot be read",
  "payments source add north --to sqlite:./north.db": "There is no terminal to ask for the address",
  "payments source add north --base-url https://payments.example.com --to sqlite:./north.db":
    "There is no terminal to ask for the key"
}

it.live("every example of help runs", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const before = process.cwd()
    process.chdir(folder)
    yield* Effect.addFinalizer(() => Effect.sync(() => process.chdir(before)))
    const env = {
      ...yield* sandboxEnv({ records: 20, hostileText: 0 }),
      XDG_CONFIG_HOME: folder,
      HOME: folder,
      PAYMENTS_PERSONAL_KEY: "0123456789abcdef0123456789abcdef"
    }
    writeFileSync("id.txt", "cus_1\n")
    const secret = `whsec_${randomBytes(32).toString("base64")}\n`
    for (const file of ["ledger.secret", "payments/ledger.secret"]) {
      mkdirSync("payments", { recursive: true })
      writeFileSync(file, secret, { mode: 0o600 })
    }
    const service = PaymentsApi.layer.pipe(Layer.provide(layerHttpClient), Layer.provide(chosenConfig))
    const files = ["payments/payments.toml", "payments.toml"].map((name) => join(folder, name))
    const run = (
      args: ReadonlyArray<string>,
      settings: Readonly<Record<string, string>>,
      timeout = "2 minutes" as Duration.Input
    ) =>
      runInProcess(service as never, args).pipe( // the service takes its settings from the command line
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(settings))),
        Effect.timeoutOption(timeout)
      )
    assert.strictEqual(Option.getOrThrow(yield* run(["export", "--to", "sqlite:./payments.db"], env)).code, 0)
    assert.strictEqual(Option.getOrThrow(yield* run(["export", "--to", "file:./copy"], env)).code, 0)
    const examples = new Set(examplesOf(root).filter((example) => example.startsWith("payments ")))
    assert.isAbove(examples.size, 40)
    const check = Effect.fnUntraced(function*(example: string) {
      const isHandoff = (example.startsWith("payments handoff") && !/--from|verify/.test(example)) ||
        example.includes("--secret-of")
      const isSource = isHandoff || (/north|payments.toml/.test(example) && !example.includes("source add"))
      for (const file of files) {
        rmSync(file, { force: true })
        if (isSource) {
          const to = isHandoff || example.includes("status") ? `to = "sqlite:${folder}/payments.db"\n` : ""
          const handoff = isHandoff
            ? `[sources.north.handoff.ledger]\nurl = "http://127.0.0.1:9/"\nsecret_file = "ledger.secret"\n`
            : ""
          writeFileSync(
            file,
            `[sources.north]\nbase_url = "${env.PAYMENTS_BASE_URL}"\napi_key_env = "KEY"\n${to}${handoff}`
          )
        }
      }
      // The words of `payments` itself, without what the shell does.
      const [line = ""] = example.replaceAll("file:./payments ", "file:./copy ").split(/ [|<>] /)
      if (example.includes(" < ")) return
      const words = shellWords(line).slice(1)
      const errors = (yield* TestConsole.errorLines).length
      const ended = yield* run(
        // The documented port may be in use.
        words[0] === "sandbox" ? [...words, "--port", "0"] : words,
        isSource ? { XDG_CONFIG_HOME: folder, HOME: folder, KEY: "sandbox_x" } : env,
        isLong.test(example) ? "700 millis" : undefined
      )
      const printed = [...(yield* TestConsole.errorLines).slice(errors), Option.isSome(ended) ? ended.value.err : ""]
        .join("\n")
      if (Option.isNone(ended)) assert.match(example, isLong)
      else if (otherwise[example] === undefined) assert.strictEqual(ended.value.code, 0, `${example}\n${printed}`)
      else assert.include(printed, otherwise[example])
    })
    // The sources file is written for each example that needs it.
    const isAlone = (example: string) => !isLong.test(example) || example.includes("--secret-of")
    yield* Effect.forEach([...examples].filter(isAlone), check)
    yield* Effect.forEach([...examples].filter((example) => !isAlone(example)), check, { concurrency: "unbounded" })
    assert.deepStrictEqual(Object.keys(otherwise).filter((example) => !examples.has(example)), [])
  }).pipe(Effect.scoped, Effect.provide(TestConsole.layer)), 600_000)
