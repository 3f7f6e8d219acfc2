/** Every JSON output is printed once by the program, and has the members of its schema and no other. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Destination, moveConsumer } from "@payments/copy"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { layerTest, type TestLists } from "@payments/core/testing"
import { chosenConfig } from "@payments/program"
import { mismatchOf } from "@payments/testkit/contract/CheckedOutput"
import { connect } from "@payments/testkit/programs/McpClient"
import { binary, node, payments, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn } from "@payments/testkit/TestProcess"
import { ConfigProvider, Effect, Layer, Schedule } from "effect"
import { Completions } from "effect/cli"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { payments as commandLine } from "../../src/cli.ts"
import { shellWords } from "../../src/completions/ShellWords.ts"
import { all, outputs } from "../../src/contract/Outputs.ts"
import { examplesIn, pageFiles } from "../docs/ConsoleExamples.ts"
import { runInProcess } from "../program/InProcess.ts"
import { everyCommand, testServices } from "../program/Tree.ts"
import { checkRun } from "./CheckedRun.ts"

const huge = "9007199254740993"

const first: TestLists = {
  payoutRequests: [`{"id":"p","customerId":"c","status":"paid","amount":5}`],
  payinSources: [{ id: "s" }],
  invoices: [
    `{"id":"a","status":"paid","reference":"r","amount":5,"settlementDate":"2024-05-01","extra":1}`,
    { id: "b", status: "paid", amount: 7 },
    `{"id":"bad","amount":"x"}`
  ]
}

const second: TestLists = {
  ...first,
  invoices: [`{"id":"a","status":"refunded","reference":"r","amount":6}`, { id: "b", amount: 7 }]
}

/** Runs a command with each format of JSON that it has. Adds the outputs that it prints to `seen`. */
const runner = (seen: Set<string>, env: Readonly<Record<string, string>>) => {
  const provider = ConfigProvider.layer(ConfigProvider.fromEnvRecord(env))
  const service = PaymentsApi.layer.pipe(
    Layer.provide(layerHttpClient),
    Layer.provide(chosenConfig),
    Layer.provide(provider)
  )
  return Effect.fnUntraced(function*(
    words: string,
    { api = service, codes = [0], format }: {
      readonly api?: Layer.Layer<PaymentsApi> | typeof service
      readonly codes?: ReadonlyArray<number>
      readonly format?: "json" | "ndjson"
    } = {}
  ) {
    const args = [...words.split(" "), ...format === undefined ? [] : ["--format", format]]
    // The settings of the service are those of the command line, which the run provides.
    const run = yield* Effect.provide(runInProcess(api as Layer.Layer<PaymentsApi>, args), provider)
    assert.include(codes, run.code, `${words}\n${run.err}`)
    checkRun(args, run, seen)
    return run
  })
}

const rows = ["json", "ndjson"] as const

/** Commands that read a copy, and their exit codes. The ones with rows also have lines. */
const reading: ReadonlyArray<readonly [words: string, codes?: ReadonlyArray<number>]> = [
  ["status --from COPY"],
  ["changes --from COPY"],
  ["changes consumers --from COPY"],
  ["quarantine --from COPY"],
  ["query --tables --from COPY"],
  ["query --questions"],
  ["query invoices-by-status --from COPY"],
  ["find r --from COPY"],
  ["find r"],
  ["find nothing --from COPY"],
  ["diff COPY OTHER", [11]],
  ["diff COPY COPY"],
  ["reconcile --from COPY --with s.csv", [11]],
  ["doctor"],
  ["config"],
  ["facts"],
  ["facts --from COPY"],
  ["invoices list"],
  ["invoices list --max 1"],
  ["erasures --from COPY"]
]

/** Commands that print one document. */
const documents: ReadonlyArray<readonly [words: string, codes?: ReadonlyArray<number>]> = [
  ["verify --from COPY"],
  ["changes ack reader 1 --from COPY"],
  ["prune --from COPY --keep-changes 90d --keep-scans 90d --keep-missing 90d"],
  ["migrate --to COPY"],
  ["restored --from OTHER"],
  ["rewrite --to MINE --dry-run"],
  ["rewrite --to MINE"],
  ["erase --from MINE --id a --dry-run"],
  ["erase --from MINE --id a"],
  ["invoices list --query length(@)"],
  ["query invoices-by-status --envelope --from COPY"],
  ["source add north --base-url https://example.com --key-env KEY --config sources.toml"],
  ["source remove north --config sources.toml"],
  ["commands"],
  ["conformance --pages 1 --pause 1ms", [0, 8]],
  ["probe --budget 5 --pause 1ms"]
]

describe("the JSON outputs", () => {
  it.live("are printed with the members of their schemas", () =>
    Effect.gen(function*() {
      const seen = new Set<string>()
      const folder = yield* temporaryFolder
      const before = process.cwd()
      process.chdir(folder)
      yield* Effect.addFinalizer(() => Effect.sync(() => process.chdir(before)))
      const env = {
        ...yield* sandboxEnv({ records: 120, hostileText: 0 }),
        XDG_CONFIG_HOME: folder,
        HOME: folder,
        PAYMENTS_PERSONAL_KEY: "0123456789abcdef0123456789abcdef"
      }
      const run = runner(seen, env)
      writeFileSync("s.csv", "reference,amount\nr,6\nz,1\n")
      writeFileSync("sources.toml", "")
      const [copy, other, mine] = [`sqlite:${folder}/copy.db`, `sqlite:${folder}/other.db`, `sqlite:${folder}/mine.db`]
      const placed = (words: string) =>
        words.replaceAll("COPY", copy).replaceAll("OTHER", other).replaceAll("MINE", mine)
      yield* run(`export --to ${copy}`, { api: layerTest(first), codes: [10], format: "json" })
      yield* run(`export --to ${copy}`, { api: layerTest(second), codes: [0, 10], format: "json" })
      yield* run(`export --to ${other}`, { api: layerTest(first), codes: [10], format: "json" })
      yield* run(`export --to ${mine}`, { format: "json" })
      yield* run(`export invoices --to -`, { api: layerTest(second), format: "json" })
      yield* run(`changes --from ${copy} --consumer reader --ack`, { format: "ndjson" })
      for (const [words, codes] of reading) {
        for (const format of rows) yield* run(placed(words), { format, ...codes === undefined ? {} : { codes } })
      }
      const omitting = runner(seen, { ...env, PAYMENTS_PERSONAL: "omit" })
      for (const [words, codes] of documents) {
        const runOne = words.startsWith("rewrite") ? omitting : run
        yield* runOne(placed(words), { format: "json", ...codes === undefined ? {} : { codes } })
      }
      const { out } = yield* run("facts", { format: "json" })
      const { items } = JSON.parse(out) as {
        readonly items: ReadonlyArray<{ readonly fact: string; readonly answer: string | null }>
      } // its schema says so
      const observed = items.find(({ answer }) => answer !== null)?.fact ?? ""
      for (const format of rows) yield* run(`facts accept ${observed}`, { format })
      for (const format of rows) yield* run(`erasures --from ${mine}`, { format })
      yield* run(`changes consumers --remove reader --from ${copy}`, { format: "json" })
      // An error and a note are on stderr.
      yield* run("invoices list --limit x", { codes: [2], format: "json" })
      yield* run(`find paid --limit 1 --from ${other}`, { format: "json" })
      yield* sandboxOutputs(seen)
      yield* handoffOutputs(seen, { run, to: mine, baseUrl: env.PAYMENTS_BASE_URL })
      yield* agentOutputs(seen, copy)
      assert.deepStrictEqual(all.map(({ name }) => name).filter((name) => !seen.has(name)), [])
    }).pipe(Effect.scoped), 300_000)

  it("are valid in the examples of the documents, whose output is that of the program", () => {
    const checked = pageFiles.flatMap((file) => examplesIn(readFileSync(file, "utf8"))).map(({ command, output }) => {
      const [line = ""] = command.split(/ (?:2?>|;|&&) ?/)
      if (!line.startsWith("payments ") || line.includes(" | ")) return 0
      const isMessage = (text: string) => /^\{"(?:error|note|summary)":/.test(text)
      const lines = output.split("\n")
      return checkRun(shellWords(line).slice(1), {
        // Text on stderr may stand between the lines.
        code: 1,
        out: lines.filter((text) => !isMessage(text)).join("\n"),
        err: lines.filter(isMessage).join("\n")
      })
    })
    assert.isAbove(checked.filter((values) => values > 0).length, 5)
  })

  it.live("belong to commands that exist, and every command with JSON has one", () =>
    Effect.gen(function*() {
      const root = Completions.fromCommand(yield* Effect.promise(() => commandLine(testServices, [])))
      const commands = everyCommand(root).map(({ command, path }) => ({ name: path.slice(1).join(" "), command }))
      const known = new Set(commands.map(({ name }) => name))
      for (const { commands: own, name } of all) {
        for (const command of own) assert.isTrue(known.has(command), `${name}: there is no command ${command}`)
      }
      const printing = new Set(all.flatMap((output) => output.commands))
      for (const { command, name } of commands) {
        const format = command.flags.find((flag) => flag.name === "format")
        const hasJson = format?.type._tag === "Choice" && format.type.values.includes("json")
        if (hasJson) assert.isTrue(printing.has(name), `payments ${name} prints JSON that has no schema`)
      }
    }))

  it.live("keep the digits of amounts, and the array of rows of a statement as it is", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const to = `sqlite:${folder}/p.db`
      const query = ["query", "--from", to, "--format", "json"]
      yield* runInProcess(layerTest(first), ["export", "--to", to])
      const sql = `SELECT ${huge} AS amount, 1 AS "schemaVersion", amount AS amount FROM payout_requests`
      const { out } = yield* runInProcess(layerTest({}), [...query, sql])
      assert.strictEqual(out, `[\n{"amount":${huge},"schemaVersion":1,"amount_2":5}\n]\n`)
      const wrapped = yield* runInProcess(layerTest({}), [...query, "--envelope", sql])
      assert.strictEqual(
        wrapped.out,
        `{"items":[\n{"amount":${huge},"schemaVersion":1,"amount_2":5}\n],"columns":["amount","schemaVersion","amount_2"],"schemaVersion":1}\n`
      )
      const none = yield* runInProcess(layerTest({}), [...query, "--envelope", "SELECT id FROM invoices WHERE 1 = 0"])
      assert.deepStrictEqual(JSON.parse(none.out), { schemaVersion: 1, items: [], columns: ["id"] })
      const refused = yield* runInProcess(layerTest({}), ["query", "--from", to, "--envelope", "SELECT 1"])
      assert.strictEqual(refused.code, 2)
    }).pipe(Effect.scoped))
})

/** The address of a sandbox, and a request in its log. */
const sandboxOutputs = Effect.fnUntraced(function*(seen: Set<string>) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(node, [binary, "sandbox", "--port", "0", "--log", "--format", "json"], { env: {} })),
    (running) => Effect.sync(() => running.kill("SIGKILL"))
  )
  const [out] = yield* Effect.promise(() => once(child.stdout, "data"))
  checkRun(["sandbox", "--format", "json"], { code: 0, out: String(out), err: "" }, seen)
  const { url } = JSON.parse(String(out)) as { readonly url: string } // its schema says so
  const logged = once(child.stderr, "data")
  yield* Effect.promise(() => fetch(`${url}/v0/payout-requests`))
  const [err] = yield* Effect.promise(() => logged)
  checkRun(["sandbox"], { code: 0, out: "", err: String(err) }, seen)
})

/** What the commands about a hand-off print, and what a receiver prints of a test. */
const handoffOutputs = Effect.fnUntraced(function*(
  seen: Set<string>,
  { baseUrl, run, to }: {
    readonly run: ReturnType<typeof runner>
    readonly to: string
    readonly baseUrl: string
  }
) {
  const destination = yield* Destination.parse(to, "argument")
  const maintenance = yield* Destination.isStored(destination)
    ? Effect.provide(Destination.maintenance(destination), NodeServices.layer)
    : Effect.die(new Error("nothing is stored"))
  yield* moveConsumer(maintenance, { name: "ledger", position: 0, when: "create" })
  yield* maintenance.takeOverHandoff("ledger")
  const write = (url: string) =>
    writeFileSync(
      "handoff.toml",
      `[sources.main]\nbase_url = "${baseUrl}"\napi_key_env = "PAYMENTS_API_KEY"\nto = "${to}"\n[sources.main.handoff.ledger]\nurl = "${url}"\nsecret_file = "ledger.secret"\n`
    )
  write("http://127.0.0.1:9/")
  const named = "--config handoff.toml --source main"
  yield* run(`handoff rotate ledger ${named}`, { format: "json" })
  for (const format of rows) yield* run(`handoff list ${named}`, { format })
  yield* run(`handoff resume ledger ${named}`, { format: "json" })
  yield* run(`handoff replay ledger 1 ${named}`, { format: "json" })
  writeFileSync("empty", "")
  yield* run("handoff verify --headers empty --body empty --secret-file ledger.secret", { codes: [11], format: "json" })
  const args = ["sandbox", "receiver", "--port", "0", "--secret-file", "ledger.secret", "--format", "ndjson"]
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(node, [binary, ...args], { env: {} })),
    (running) => Effect.sync(() => running.kill("SIGKILL"))
  )
  let out = ""
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()))
  yield* Effect.promise(() => once(child.stdout, "data"))
  write(String(JSON.parse(out).url))
  yield* run(`handoff test ledger ${named}`, { format: "json" })
  yield* Effect.repeat(Effect.sync(() => out.split("\n").length > 2), {
    until: (isShown) => isShown,
    schedule: Schedule.spaced("20 millis")
  })
  const ended = once(child, "close")
  child.kill("SIGINT")
  const [code] = yield* Effect.promise(() => ended)
  assert.strictEqual(code, 130)
  checkRun(args, { code: 0, out, err: "" }, seen)
  assert.lengthOf(out.trimEnd().split("\n"), 3, "its address, the test and the summary")
})

/** An answer of the server for agents, and an error of a call. */
const agentOutputs = Effect.fnUntraced(function*(seen: Set<string>, copy: string) {
  const { client } = yield* connect(["--from", copy])
  const call = (sql: string) => Effect.promise(() => client.callTool({ name: "query", arguments: { sql } }))
  const { structuredContent } = yield* call("SELECT id FROM invoices")
  assert.isUndefined(mismatchOf(structuredContent, [outputs.mcpAnswer], seen))
  const { content } = yield* call("SELECT nothing")
  const [text] = content as ReadonlyArray<{ readonly text: string }> // the answer of a tool is text
  assert.isUndefined(mismatchOf(JSON.parse(text?.text ?? ""), [outputs.mcpError], seen))
})

it.live("payments commands says what the help, the schemas and the exit codes say", () =>
  Effect.gen(function*() {
    const { code, stdout } = yield* payments(["commands", "--format", "json"], {})
    assert.strictEqual(code, 0)
    const document = JSON.parse(stdout) as {
      readonly commands: ReadonlyArray<{
        readonly command: string
        readonly flags: ReadonlyArray<{ readonly name: string }>
        readonly formats: ReadonlyArray<string>
        readonly outputs: ReadonlyArray<object>
      }>
      readonly exitCodes: ReadonlyArray<
        { readonly code: number; readonly name: string; readonly reasons: ReadonlyArray<string> }
      >
      readonly globalFlags: ReadonlyArray<{ readonly name: string }>
    } // its schema says so
    const root = Completions.fromCommand(yield* Effect.promise(() => commandLine(testServices, [])))
    const paths = everyCommand(root).map(({ path }) => path.slice(1).join(" ")).filter((path) => path !== "")
    assert.deepStrictEqual(document.commands.map(({ command }) => command), paths)
    const status = document.commands.find(({ command }) => command === "status")
    assert.deepStrictEqual(status?.flags.map(({ name }) => name), [
      "from",
      "max-age",
      "max-open",
      "fail-on-held-back",
      "resource",
      "format"
    ])
    assert.deepStrictEqual(status?.formats, ["table", "csv", "json", "ndjson"])
    assert.deepStrictEqual(status?.outputs, [{ name: "status", schemaVersion: 1 }])
    assert.includeDeepMembers([...document.exitCodes], [
      { code: 0, name: "done", reasons: [] },
      { code: 4, name: "notAuthorized", reasons: ["Unauthorized", "Forbidden"] },
      { code: 12, name: "stale", reasons: ["Stale"] },
      { code: 130, name: "interrupted", reasons: ["Interrupted"] }
    ])
    const reasonsOf = new Map(document.exitCodes.map(({ code: exitCode, reasons }) => [exitCode, reasons]))
    assert.deepStrictEqual(reasonsOf.get(9)?.slice(0, 2), ["Failed", "Locked"])
    assert.deepStrictEqual(reasonsOf.get(8), [
      "MalformedResponse",
      "PaginationFault",
      "FilterNotApplied",
      "RedirectRefused",
      "UnexpectedStatus"
    ])
    assert.include(reasonsOf.get(2) ?? [], "InvalidRequest")
    assert.include(reasonsOf.get(9) ?? [], "Output")
    assert.sameMembers(document.globalFlags.map(({ name }) => name), [
      "help",
      "version",
      "source",
      "config",
      "log-level"
    ])
    assert.notInclude(paths.join(), "candidates")
    const { stdout: table } = yield* payments(["commands"], {})
    assert.match(table, /^changes consumers +table, csv, json, ndjson +List the consumers/m)
  }))
