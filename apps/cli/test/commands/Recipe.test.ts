/** Runs the recipe of docs/export.md that copies the changes into another PostgreSQL table, exactly as it is on the page. */
import { assert, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { binary, payments, runProgram, tables, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const page = readFileSync(join(import.meta.dirname, "../../../../docs/export.md"), "utf8")
const [, recipe = ""] = page.split("### How do I copy the changes into another PostgreSQL table?\n")
const blocks = (language: string) =>
  Array.from(
    recipe.split("\n## ")[0]?.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms")) ?? [],
    ([, body = ""]) => body
  )
const [script = ""] = blocks("js")
const [, eachTime = ""] = blocks("sh")

interface Records {
  readonly payoutRequests: ReadonlyArray<string>
  readonly payinSources: ReadonlyArray<string>
  readonly invoices: ReadonlyArray<string>
}

/** Values that a careless copy changes: long and exact numbers, NUL, half of a surrogate pair, text like a formula. */
const odd = `"rate":1.10,"large":9007199254740993,"huge":1e400,"text":"\\u0000 \\ud800 ✓ '; --","formula":"=1+1"`

it.live(
  "the recipe gives another table exactly the final state, also after repeated and killed runs",
  () =>
    Effect.gen(function*() {
      const server = yield* Effect.acquireRelease(
        Effect.promise(() => startServer()),
        ({ stop }) => Effect.promise(stop)
      )
      const run = (sql: string) => Effect.promise(() => query(server, sql))
      yield* run("CREATE DATABASE warehouse")
      const address = `postgres://${user}@127.0.0.1:${server.port}`
      const folder = yield* temporaryFolder
      symlinkSync(join(import.meta.dirname, "../../node_modules"), join(folder, "node_modules"))
      mkdirSync(join(folder, "bin"))
      symlinkSync(process.execPath, join(folder, "bin/node"))
      writeFileSync(join(folder, "bin/payments"), `#!/bin/sh\nexec node "${binary}" "$@"\n`)
      chmodSync(join(folder, "bin/payments"), 0o755)
      writeFileSync(join(folder, "copy-payments.mjs"), script)
      const env = {
        PATH: `${join(folder, "bin")}:${process.env["PATH"] ?? ""}`,
        PAYMENTS_TO: `${address}/postgres`,
        WAREHOUSE: `${address}/warehouse`
      }
      const shell = (commands: string) => runProgram("bash", ["-c", commands], { cwd: folder, env })
      const exporting = (records: Records) =>
        runInProcess(layerTest(records), ["export", "--to", env.PAYMENTS_TO, "--missing-limit", "100%"])

      /** Asserts that the copy has the rows of the destination. */
      const assertCopied = Effect.gen(function*() {
        const rows = yield* Effect.forEach(tables, (table) =>
          run(
            `SELECT '${table.replace("_", "-")}' AS list, id, raw::text, missing_since IS NOT NULL AS missing
          FROM payments.${table} ORDER BY id`
          ))
        const copied = yield* Effect.promise(() =>
          query(server, "SELECT list, id, record::text AS raw, is_missing AS missing FROM payments", [], "warehouse")
        )
        const sorted = (all: ReadonlyArray<unknown>) => all.map((row) => JSON.stringify(row)).toSorted()
        assert.deepStrictEqual(sorted(copied), sorted(rows.flat()))
      })

      const invoices = (amounts: ReadonlyArray<number>) =>
        amounts.map((amount, index) => `{"id":"inv_${index}","amount":${amount},${odd}}`)
      const first = {
        payoutRequests: [`{"id":"=por_1","status":"new"}`, `{"id":"por_2","status":"new"}`],
        payinSources: [`{"id":"pis_1"}`],
        invoices: invoices([1, 2, 3])
      }
      yield* exporting(first)
      yield* exporting({ ...first, invoices: invoices([1, 2, 4]) })
      const firstCopy = yield* shell(eachTime)
      assert.deepInclude(
        firstCopy,
        { code: 0, stdout: "6 rows and 0 changes copied, up to change 1\n" },
        firstCopy.stderr
      )
      yield* assertCopied

      // Inserts, updates, and two scans without some records.
      const second = { ...first, payoutRequests: [`{"id":"=por_1","status":"paid"}`], invoices: invoices([9, 2, 4, 5]) }
      yield* exporting(second)
      assert.strictEqual((yield* shell(eachTime)).code, 0)
      yield* assertCopied
      // Killed runs: the next one applies what they have not committed.
      yield* exporting({ ...second, invoices: invoices([9, 7]) })
      for (const seconds of [0.3, 0.6, 0.9]) {
        yield* shell(`node copy-payments.mjs & sleep ${seconds}; kill -9 $! || true`)
      }
      yield* exporting({ ...second, invoices: invoices([9, 7]) })
      assert.strictEqual((yield* shell(eachTime)).code, 0)
      yield* assertCopied
      assert.deepStrictEqual(
        (yield* run("SELECT id FROM payments.invoices WHERE missing_since IS NOT NULL ORDER BY id")).map(({ id }) =>
          id
        ),
        ["inv_2", "inv_3"]
      )

      // Missing records return, and the old changes are removed.
      assert.strictEqual((yield* payments(["prune", "--keep-changes", "1ms"], { env })).code, 0)
      yield* exporting({ ...first, invoices: invoices([9, 7, 8, 5]) })
      assert.strictEqual((yield* shell(eachTime)).code, 0)
      yield* assertCopied
      assert.include((yield* shell(eachTime)).stdout, "0 rows and 0 changes copied")

      // The destination is restored from a backup that lacks the last changes.
      const restored = yield* runInProcess(layerTest({}), ["restored", "--after", "3", "--from", env.PAYMENTS_TO])
      assert.strictEqual(restored.code, 0, restored.err)
      const refused = yield* shell(eachTime)
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "Copy it again: startAgain.")
      assert.strictEqual((yield* shell(`${eachTime.trim()} --start-again`)).code, 0)
      yield* assertCopied
    }).pipe(Effect.scoped)
)
