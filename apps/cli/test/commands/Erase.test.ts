/** Erasures and rewrites with the built program. The service returns the erased person again with every scan. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute } from "@payments/testkit/Folder"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query, schemaOf } from "@payments/testkit/postgres/PostgresTest"
import { payments as built, runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { ConfigProvider, Effect, type Scope } from "effect"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { runInProcess, withoutColors } from "../program/InProcess.ts"
import { testServices } from "../program/Tree.ts"

const key = "0123456789abcdef0123456789abcdef"

const personOf = (name: string) => ({
  customerId: `cus_${name}`,
  customerDetails: { name: `Name of ${name}`, documentNumber: `number-${name}`, email: `${name}@example.org` }
})

/** The records of a service. Each version has other states. */
const recordsAt = (version: number) => {
  const state = { status: `version ${version}`, amount: 100, segment: { note: "about canary" } }
  return {
    payoutRequests: [
      { id: "por_1", ...personOf("canary"), ...state },
      { id: "por_2", ...personOf("other"), amount: 5 }
    ],
    payinSources: [{ id: "pis_1", ...personOf("canary"), description: "for canary", ...state }],
    invoices: [{ id: "inv_1", customerDocumentNumber: "number-canary", contract: "canary", ...state }, { id: "inv_2" }]
  }
}

/** Starts a service with the records of a version, which the test may change. */
const service = Effect.gen(function*() {
  const state = { version: 1 }
  const { url } = yield* scriptedServer((request, response) => {
    const { invoices, payinSources, payoutRequests } = recordsAt(state.version)
    const path = request.url ?? ""
    const records = /payout/i.test(path) ? payoutRequests : /payin/i.test(path) ? payinSources : invoices
    pageOf(response, records.map((record) => JSON.stringify(record)), null)
  })
  return { state, env: { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "key", PAYMENTS_PERSONAL_KEY: key } }
})

/** Runs the command line in this process, which is faster, with the environment of the program. */
const payments = (args: ReadonlyArray<string>, { env }: { readonly env: Readonly<Record<string, string>> }) =>
  // The API takes its settings from the command line.
  Effect.map(runInProcess(testServices.api as never, args), ({ code, err, out }) => ({
    code,
    stdout: out,
    stderr: err
  })).pipe(Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ XDG_CONFIG_HOME: "/dev/null", ...env }))))

/** A destination, and everything that it stores. */
interface Target {
  readonly url: string
  readonly content: Effect.Effect<string>
}

const ofFiles = (urlOf: (folder: string) => string): Effect.Effect<Target, never, Scope.Scope> =>
  Effect.map(temporaryFolder, (folder) => {
    const filesIn = (path: string) =>
      readdirSync(path, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile())
    return {
      url: urlOf(folder),
      content: Effect.sync(() =>
        filesIn(folder).map(({ name, parentPath }) => readFileSync(join(parentPath, name), "latin1")).join("\n")
      )
    }
  })

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const targets: ReadonlyArray<readonly [name: string, open: Effect.Effect<Target, never, Scope.Scope>]> = [
  ["sqlite", ofFiles((folder) => `sqlite:${folder}/p.db`)],
  ["file", ofFiles((folder) => `file:${folder}/files?format=csv`)],
  [
    "postgres",
    Effect.map(temporaryFolder, (folder) => {
      const schema = schemaOf(folder).toLowerCase().replaceAll("-", "_")
      const rows = (sql: string) => Effect.promise(() => query(server, sql))
      return {
        url: `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=${schema}`,
        content: Effect.gen(function*() {
          const tables = yield* rows(`SELECT tablename AS name FROM pg_tables WHERE schemaname = '${schema}'`)
          const texts = yield* Effect.forEach(
            tables,
            ({ name }) => rows(`SELECT t::text AS text FROM ${schema}.${String(name)} AS t`)
          )
          return texts.flat().map(({ text }) => String(text)).join("\n")
        })
      }
    })
  ]
]

const from = (url: string): string => url.replace(/\?format=.*/, "")

describe.concurrent("payments erase", () => {
  it.live.each(targets)(
    "removes a person from everything, also from later exports (%s)",
    ([, open]) =>
      Effect.gen(function*() {
        const { content, url } = yield* open
        const { env, state } = yield* service
        const run = (...args: ReadonlyArray<string>) => payments(args, { env })
        for (const version of [1, 2]) {
          state.version = version
          assert.deepInclude(yield* run("export", "--to", url), { code: 0, stderr: "" })
        }
        assert.include(yield* content, "number-canary")
        yield* run("changes", "ack", "reports", "0", "--from", from(url))
        const folder = yield* temporaryFolder
        writeFileSync(join(folder, "number"), "number-canary\n")
        const erase = ["erase", "--from", from(url), "--document-number", `@${join(folder, "number")}`, "--by", "dpo"]

        const dry = yield* run(...erase, "--dry-run", "--format", "json")
        assert.deepStrictEqual([dry.code, JSON.parse(dry.stdout)], [0, {
          dryRun: true,
          lists: [
            { list: "payout-requests", records: 1 },
            { list: "payin-sources", records: 1 },
            { list: "invoices", records: 1 }
          ],
          schemaVersion: 1
        }])
        assert.include(yield* content, "number-canary")

        const erased = yield* built(erase, { env })
        assert.deepStrictEqual([erased.code, erased.stdout.split("\n").map((line) => line.trim().split(/ +/))], [0, [
          ["erasure", "kind", "rows", "changes", "quarantined"],
          ["1", "document-number", "3", "3", "0"],
          [""]
        ]])
        assert.include(erased.stderr, "Later exports into this destination recognize the value")
        assert.include(erased.stderr, "Some records have only a customer id.")
        assert.match(erased.stderr, /The consumer reports has \d+ changes left to read/)
        assert.strictEqual(
          /\n {2}VACUUM \(FULL, ANALYZE\) \w+\.payout_requests, .*\w+\.scans, pg_catalog\.pg_statistic;\n/.test(
            erased.stderr
          ),
          url.startsWith("postgres")
        )
        assert.strictEqual(erased.stderr.includes("older ones were removed"), url.startsWith("file"))

        const assertErased = Effect.fnUntraced(function*(what: string) {
          const found = yield* content
          assert.notInclude(found, "canary", what)
          for (const text of ["number-other", "por_1", "version 2"]) assert.include(found, text, what)
          assert.deepInclude(yield* run("verify", "--from", from(url)), { code: 0, stderr: "" }, what)
        })
        yield* assertErased("after the erasure")
        for (const version of [2, 3]) {
          state.version = version
          assert.deepInclude(yield* run("export", "--to", url), { code: 0, stderr: "" })
        }
        const found = yield* content
        assert.notInclude(found, "canary", "after two more exports")
        assert.include(found, "version 3", "the state still arrives")

        const again = yield* run(...erase)
        assert.deepStrictEqual([again.code, again.stdout.split("\n")[1]?.trim().split(/ +/)], [
          0,
          ["2", "document-number", "0", "0", "0"]
        ])
        assert.match(again.stderr, /^Nothing to erase was found\. Later exports/)
        const protocol = yield* run("erasures", "--from", from(url), "--format", "json")
        const entries: ReadonlyArray<Record<string, unknown>> = JSON.parse(protocol.stdout)
        assert.deepStrictEqual(
          entries.map((
            { by, changes, erasure, kind, quarantined, rows }
          ) => [erasure, kind, by, rows, changes, quarantined]),
          [[1, "document-number", "dpo", 3, 3, 0], [2, "document-number", "dpo", 0, 0, 0]]
        )
        assert.isTrue(entries.every(({ completed_at }) => typeof completed_at === "string"))
        assert.notInclude(protocol.stdout, "canary")
      }).pipe(Effect.scoped)
  )

  it.live("refuses mistakes before it reads or writes anything", () =>
    Effect.gen(function*() {
      const { env } = yield* service
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      assert.strictEqual((yield* payments(["export", "--to", to], { env })).code, 0)
      const refused = Effect.fnUntraced(
        function*(code: number, problem: RegExp, args: ReadonlyArray<string>, more = {}) {
          const result = yield* payments(["erase", "--from", to, ...args], { env: { ...env, ...more } })
          assert.deepStrictEqual([result.code, result.stdout], [code, ""], args.join(" "))
          assert.match(result.stderr, problem)
        }
      )
      yield* refused(2, /There is nobody to erase/, [])
      yield* refused(2, /Only one value can come from standard input/, ["--id", "@-", "--customer-id", "@-"])
      yield* refused(2, /--id is empty/, ["--id", " "])
      yield* refused(2, /Invalid value for --by/, ["--id", "a", "--by", "a\u001b[2J"])
      yield* refused(3, /An erasure needs the personal key/, ["--id", "a"], { PAYMENTS_PERSONAL_KEY: "" })
      yield* refused(3, /PAYMENTS_PERSONAL_KEY has fewer than 32 characters/, ["--id", "a"], {
        PAYMENTS_PERSONAL_KEY: "short"
      })
      const protocol = yield* payments(["erasures", "--from", to], { env })
      assert.deepInclude(protocol, { code: 0, stdout: "", stderr: "Nothing was erased.\n" })
      assert.strictEqual((yield* payments(["erase", "--from", to, "--id", "inv_2"], { env })).code, 0)
      yield* refused(3, /is not the one of its suppression list/, ["--id", "a"], { PAYMENTS_PERSONAL_KEY: `${key}0` })
      const customer = yield* payments(["erase", "--from", to, "--customer-id", "cus_other", "--dry-run"], { env })
      assert.include(customer.stderr, "Invoices have no customer id.")
      const spaced = yield* payments(["erase", "--from", to, "--customer-id", "cus_other ", "--dry-run"], { env })
      assert.deepStrictEqual([spaced.code, /[1-9]/.test(spaced.stdout)], [0, false])
      assert.include(spaced.stderr, "A value of --customer-id begins or ends with white space.")
      assert.notInclude(spaced.stderr, "cus_other")
    }).pipe(Effect.scoped))
})

describe.concurrent("payments rewrite", () => {
  it.live("changes no destination of another source, and erases nobody there", () =>
    Effect.gen(function*() {
      const { env } = yield* service
      const folder = yield* temporaryFolder
      const to = `sqlite:${folder}/p.db`
      assert.strictEqual((yield* payments(["export", "--to", to], { env })).code, 0)
      const config = join(folder, "payments.toml")
      const sourceOf = (name: string, url: string, more = "") =>
        `[sources.${name}]\nbase_url = "${url}"\napi_key_env = "K"\npersonal_key_env = "P"\npersonal = "omit"\n${more}`
      writeFileSync(
        config,
        [
          sourceOf("elsewhere", "http://127.0.0.1:9"),
          sourceOf("account", env.PAYMENTS_BASE_URL, "account = \"b\"\n"),
          sourceOf("own", env.PAYMENTS_BASE_URL)
        ].join("")
      )
      const run = (...args: ReadonlyArray<string>) =>
        payments(args, { env: { PAYMENTS_CONFIG: config, K: "key", P: key } })
      const person = ["erase", "--from", to, "--customer-id", "cus_canary"]
      for (const command of [["rewrite", "--to", to], person]) {
        for (const dryRun of [[], ["--dry-run"]]) {
          for (const source of ["elsewhere", "account"]) {
            const { code, stderr, stdout } = yield* run("--source", source, ...command, ...dryRun)
            assert.deepStrictEqual([code, stdout], [9, ""], `${source} ${command.join(" ")}`)
            assert.include(stderr, "it has the data of another source")
          }
        }
      }
      const environment = yield* payments(["rewrite", "--to", to], {
        env: { ...env, PAYMENTS_PERSONAL: "omit", PAYMENTS_ACCOUNT: "b" }
      })
      assert.deepStrictEqual([environment.code, environment.stdout], [9, ""])
      const malformed = yield* payments(person, { env: { ...env, PAYMENTS_BASE_URL: "elsewhere" } })
      assert.strictEqual(malformed.code, 3)
      assert.include(malformed.stderr, "PAYMENTS_BASE_URL")
      const found = yield* payments(["find", "number-canary", "--from", to, "--format", "csv"], { env })
      assert.strictEqual(found.stdout.split("\n").length, 5, "nothing has changed")
      const dry = yield* payments([...person, "--dry-run"], { env: { PAYMENTS_PERSONAL_KEY: key } })
      assert.strictEqual(dry.code, 0, "without an address, the key decides")
      assert.strictEqual((yield* run("--source", "own", "rewrite", "--to", to)).code, 0)
    }).pipe(Effect.scoped))

  it.live("is named by status and verify until it is complete", () =>
    Effect.gen(function*() {
      const { env } = yield* service
      const folder = yield* temporaryFolder
      const to = `file:${folder}`
      const run = (...args: ReadonlyArray<string>) => payments(args, { env })
      assert.strictEqual((yield* run("export", "--to", to)).code, 0)
      const copy = join(folder, "copy.db")
      const table = () => Effect.map(run("status", "--from", to, "--format", "table"), ({ stdout }) => stdout)
      const members = () => Effect.map(run("status", "--from", to), ({ stdout }) => stdout.match(/"isRewriting":\w+/g))
      assert.notInclude(yield* table(), "rewrite")
      assert.deepStrictEqual(yield* members(), Array.from({ length: 3 }, () => `"isRewriting":false`))
      execute(copy, "UPDATE personal SET rewriting = '{}'; UPDATE revisions SET revision = revision + 1")
      assert.include(yield* table(), "a rewrite of personal data has begun and is not complete")
      assert.deepStrictEqual(yield* members(), Array.from({ length: 3 }, () => `"isRewriting":true`))
      const compared = yield* run("diff", to, to)
      assert.include(
        compared.stderr.replaceAll(/\s+/g, " "),
        "A rewrite of personal data is not complete, so records may differ"
      )
      const verified = yield* run("verify", "--from", to)
      assert.include(verified.stdout, "does not contain the last rewrite yet; payments rewrite completes it")
      assert.notInclude(verified.stdout, "the next export")
    }).pipe(Effect.scoped))

  it.live("says before a dry run of an earlier version's tables that they have to be migrated", () =>
    Effect.gen(function*() {
      const { env } = yield* service
      const folder = yield* temporaryFolder
      const to = `sqlite:${folder}/p.db`
      assert.strictEqual((yield* payments(["export", "--to", to], { env })).code, 0)
      execute(
        join(folder, "p.db"),
        "DROP TABLE facts; DROP TABLE personal; DROP TABLE suppressed; DROP TABLE erasures; DROP TABLE rows_pruned;\
        ALTER TABLE scans RENAME COLUMN request TO asked; ALTER TABLE scans RENAME COLUMN totals TO tally; PRAGMA user_version = 5"
      )
      for (const command of [["rewrite", "--to", to], ["erase", "--from", to, "--id", "a"]]) {
        for (const dryRun of [[], ["--dry-run"]]) {
          const { code, stderr } = yield* payments([...command, ...dryRun], {
            env: { ...env, PAYMENTS_PERSONAL: "omit" }
          })
          assert.strictEqual(code, 9, stderr)
          assert.include(stderr, "run payments migrate")
        }
      }
    }).pipe(Effect.scoped))

  it.live("is what payments doctor advises if an export would be refused", () =>
    Effect.gen(function*() {
      const { env } = yield* service
      const folder = yield* temporaryFolder
      const to = `sqlite:${folder}/p.db`
      const doctor = Effect.fnUntraced(function*(more = {}) {
        const { stdout } = yield* payments(["doctor", "--to", to, "--format", "json"], { env: { ...env, ...more } })
        const findings: ReadonlyArray<Record<string, unknown>> = JSON.parse(stdout)
        const { exitCode, found } = findings.find(({ check }) => check === "destination") ?? {}
        return `${String(exitCode)} ${String(found)}`
      })
      assert.strictEqual((yield* payments(["export", "--to", to], { env })).code, 0)
      assert.include(yield* doctor(), "0 ")
      assert.match(yield* doctor({ PAYMENTS_PERSONAL: "omit" }), /^9 .*another rule .*payments rewrite$/)
      assert.strictEqual((yield* payments(["erase", "--from", to, "--id", "inv_2"], { env })).code, 0)
      assert.match(yield* doctor({ PAYMENTS_PERSONAL_KEY: `${key}0` }), /^3 .*not the one of its suppression list/)
      assert.match(yield* doctor({ PAYMENTS_PERSONAL_KEY: "" }), /^3 .*needs the personal key/)
      // An earlier version that counted the contract as nobody's has erased the invoice.
      const classes = Object.fromEntries(
        Lists.all.flatMap((list) =>
          Lists.fieldMeanings(list).map(({ identifies, path }) => [`${list.label} ${path.join(".")}`, identifies])
        )
      )
      const rule = JSON.stringify({
        version: 2,
        preset: "keep",
        undocumented: "keep",
        fields: {},
        documented: {},
        classes: { ...classes, "invoices contract": "nobody" }
      })
      execute(join(folder, "p.db"), `UPDATE personal SET rule = '${rule}'`)
      const problem = /this version counts as personal: contract\. Remove them as its rule says: payments rewrite/
      assert.match(yield* doctor(), /^9 /)
      assert.match(yield* doctor(), problem)
      const worker = join(import.meta.dirname, "../../../worker/dist/payments-worker.js")
      const checked = yield* runProgram(process.execPath, [worker, "check", "--to", to], { env })
      // This service ignores filters, which is a finding with a lower code.
      assert.notStrictEqual(checked.code, 0)
      assert.match(checked.stdout.replaceAll(/\s+/g, " "), problem)
      const refused = yield* payments(["export", "--to", to], { env })
      assert.strictEqual(refused.code, 9)
      assert.match(refused.stderr, problem)
      const preview = yield* payments(["rewrite", "--to", to, "--dry-run"], { env })
      assert.match(preview.stderr, /Erased records still have fields .*lose them: contract\.\s.*without --dry-run/s)
      const rewritten = yield* payments(["rewrite", "--to", to], { env })
      assert.strictEqual(rewritten.code, 0, rewritten.stderr)
      assert.include(rewritten.stderr, "The rule of the destination is still \"keep every field\".")
      for (const command of [["export", "--to", to], ["verify", "--from", to]]) {
        const { code, stderr } = yield* payments(command, { env })
        assert.strictEqual(code, 0, stderr)
      }
    }).pipe(Effect.scoped))

  it.live.each(targets)(
    "carries another rule out; a person is found by the pseudonym (%s)",
    ([, open]) =>
      Effect.gen(function*() {
        const { content, url } = yield* open
        const { env, state } = yield* service
        const run = (rule: string, ...args: ReadonlyArray<string>) =>
          payments(args, { env: { ...env, PAYMENTS_PERSONAL: rule } })
        for (const version of [1, 2]) {
          state.version = version
          assert.strictEqual((yield* run("keep", "export", "--to", url)).code, 0)
        }
        const refused = yield* run("pseudonymize", "export", "--to", url)
        assert.deepStrictEqual([refused.code, refused.stdout], [9, ""])
        assert.match(refused.stderr, /another rule \(keep every field\).*payments rewrite/)
        const dry = yield* run("pseudonymize", "rewrite", "--to", url, "--dry-run", "--format", "json")
        assert.deepInclude(JSON.parse(dry.stdout), { from: "keep", same: false, unfinished: false })
        assert.deepInclude(JSON.parse(dry.stdout).fields, {
          field: "customerDetails.documentNumber",
          from: "keep",
          to: "pseudonymize"
        })
        assert.include(yield* content, "number-canary")
        const rewritten = yield* run("pseudonymize", "rewrite", "--to", url)
        assert.strictEqual(rewritten.code, 0, rewritten.stderr)
        assert.match(
          rewritten.stdout,
          /^rows  changes  quarantined\n +4 +3 +0\n$/
        )
        assert.notMatch(yield* content, /canary|other@/)
        assert.deepInclude(yield* run("keep", "verify", "--from", from(url)), { code: 0, stderr: "" })
        const exported = yield* run("pseudonymize", "export", "--to", url)
        assert.deepStrictEqual([exported.code, exported.stderr], [0, ""])
        assert.match(exported.stdout, /payout-requests +2 +0 +0 +2 /)
        assert.deepInclude(yield* run("pseudonymize", "rewrite", "--to", url), {
          code: 0,
          stdout: "",
          stderr: "The destination has this rule already.\n"
        })
        const find = yield* run("pseudonymize", "find", "number-canary", "--from", from(url))
        assert.deepStrictEqual(find.stdout.match(/"id":"\w+_\d"/g)?.filter((_, index) => index % 2 === 0).length, 3)
        const keyless = yield* payments(["find", "number-canary", "--from", from(url)], {
          env: { ...env, PAYMENTS_PERSONAL_KEY: "" }
        })
        assert.match(keyless.stderr, /^The copy has pseudonyms of a personal key, which is not set/)
      }).pipe(Effect.scoped)
  )
})

describe("payments export", () => {
  it.live("says that held records wait for a decision", () =>
    Effect.gen(function*() {
      const { env } = yield* service
      const held = yield* payments(["export", "invoices", "--to", `sqlite:${yield* temporaryFolder}/p.db`], {
        env: { ...env, PAYMENTS_UNDOCUMENTED: "hold" }
      })
      assert.strictEqual(held.code, 10)
      assert.include(
        held.stderr,
        "invoices: records that do not match the document or wait for a decision about a field: 1; list them with"
      )
    }).pipe(Effect.scoped))
})

describe("on a terminal", () => {
  it.live.each([60, 80, 160])("prints lines that fit into %i columns", (width) =>
    withoutColors(
      Effect.gen(function*() {
        const to = `sqlite:${yield* temporaryFolder}/p.db`
        const api = layerTest(recordsAt(1))
        assert.strictEqual((yield* runInProcess(api, ["export", "--to", to])).code, 0)
        for (const args of [["erasures", "--from", to], ["rewrite", "--to", to, "--dry-run"]]) {
          const { code, err, out } = yield* runInProcess(api, args, true, width)
          assert.strictEqual(code, 0)
          for (const line of `${out}${err}`.split("\n")) assert.isAtMost(line.length, width, line)
        }
      }).pipe(Effect.scoped)
    ))
})
