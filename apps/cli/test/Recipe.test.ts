/** Runs the recipe of docs/export.md that copies the changes into another PostgreSQL table, exactly as it is on the page. */
import { assert, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Effect } from "effect"
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { startServer, user } from "../../../packages/export/test/PostgresServer.ts"
import { query } from "../../../packages/export/test/PostgresTest.ts"
import { runInProcess } from "./InProcess.ts"
import { binary, payments, runProgram, temporaryFolder } from "./Program.ts"

const page = readFileSync(join(import.meta.dirname, "../../../docs/export.md"), "utf8")
const [, recipe = ""] = page.split("### How do I copy the changes into another PostgreSQL table?\n")
const blocks = (language: string) =>
  Array.from(
    recipe.split("\n## ")[0]?.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms")) ?? [],
    ([, body = ""]) => body
  )
const [script = ""] = blocks("js")
const [, firstCopy = "", eachTime = ""] = blocks("sh")

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
      symlinkSync(join(import.meta.dirname, "../node_modules"), join(folder, "node_modules"))
      mkdirSync(join(folder, "bin"))
      symlinkSync(process.execPath, join(folder, "bin/node"))
      writeFileSync(join(folder, "bin/payments"), `#!/bin/sh\nexec node "${binary}" "$@"\n`)
      chmodSync(join(folder, "bin/payments"), 0o755)
      writeFileSync(join(folder, "apply-changes.mjs"), script)
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
        const rows = yield* Effect.forEach(["payout_requests", "payin_sources", "invoices"], (table) =>
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
      assert.deepInclude(yield* shell(firstCopy), { code: 0, stdout: "" })
      yield* assertCopied

      // Inserts, updates, and two scans without some records.
      const second = { ...first, payoutRequests: [`{"id":"=por_1","status":"paid"}`], invoices: invoices([9, 2, 4, 5]) }
      yield* exporting(second)
      // Runs without the acknowledgement, and killed runs: the next run gets the same changes.
      const withoutAck = eachTime.replace("payments changes ack", ": payments changes ack")
      assert.strictEqual((yield* shell(withoutAck)).code, 0)
      yield* assertCopied
      yield* exporting({ ...second, invoices: invoices([9, 7]) })
      const applying =
        `payments changes --consumer warehouse | (sleep 0.3; exec node apply-changes.mjs) & sleep 0.4; kill -9 $!`
      for (let kills = 0; kills < 2; kills++) yield* shell(applying)
      yield* exporting({ ...second, invoices: invoices([9, 7]) })
      assert.deepInclude(yield* shell(eachTime), { code: 0, stderr: "" })
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
      assert.deepInclude(yield* shell(eachTime), { code: 0, stderr: "" })
      yield* assertCopied
      assert.deepInclude(yield* shell(eachTime), { code: 0, stderr: "No changes.\n" })
    }).pipe(Effect.scoped),
  60_000
)
