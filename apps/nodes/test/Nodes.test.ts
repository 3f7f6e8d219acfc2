/** The built programs do the same on the oldest and the newest Node that the packages promise. `npm run test:nodes` runs more. */
import { assert, describe, it } from "@effect/vitest"
import { connect } from "@payments/testkit/programs/McpClient"
import { binary, rowsOf, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { oldestNode } from "../../../packages/core/src/http/NodeVersion.ts"

const worker = join(import.meta.dirname, "../../worker/dist/payments-worker.js")

const nodeOf = (name: string) => join(import.meta.dirname, `../node_modules/node-${name}/bin/node`)
const [oldest, newest] = [nodeOf("oldest"), nodeOf("newest")]

/** More rows than one message of the query process contains. */
const records = 700

const allRows = "SELECT id, amount, raw FROM invoices ORDER BY id"
const groups = "SELECT status, count(*) AS n, exact_sum(amount) AS s FROM invoices GROUP BY status ORDER BY status"

describe("the promised Nodes", () => {
  it.live("are the oldest of the packages' engines, and one that is newer than this", () =>
    Effect.gen(function*() {
      const version = (node: string) => Effect.map(runProgram(node, ["--version"]), ({ stdout }) => stdout.trim())
      assert.strictEqual(yield* version(oldest), `v${oldestNode.major}.${oldestNode.minor}.0`)
      assert.isAbove(parseInt((yield* version(newest)).slice(1)), parseInt(process.versions.node))
    }))

  it.live("export, verify, query, find, list changes and answer agents alike", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const run = Effect.fnUntraced(function*(node: string, args: ReadonlyArray<string>, env = {}) {
        const { code, signal, stderr, stdout } = yield* runProgram(node, args, {
          env: { XDG_CONFIG_HOME: "/dev/null", ...env },
          cwd: folder,
          // A statement that repeats its rows never ends.
          killAfterMs: 300_000
        })
        assert.deepStrictEqual([code, signal], [0, null], `${node} ${args.slice(1).join(" ")}: ${stderr}`)
        return stdout
      })
      const from = ["--from", "sqlite:p.db"]
      // Each Node writes into a copy that the other one has created.
      const before = yield* sandboxEnv({ records: records - 20 })
      yield* run(oldest, [binary, "export", "--to", "sqlite:p.db"], before)
      yield* run(newest, [worker, "run", "--once", "--to", "sqlite:other.db"], before)
      const env = yield* sandboxEnv({ records })
      yield* run(newest, [binary, "export", "--to", "sqlite:p.db", "--rebind"], env)
      yield* run(oldest, [binary, "export", "--to", "sqlite:other.db", "--rebind"], env)

      const rows = rowsOf(join(folder, "p.db"), allRows)
      assert.strictEqual(rows.length, records)
      const id = String(rows[0]?.["id"])
      const resultsOn = Effect.fnUntraced(function*(node: string) {
        const lines = (yield* run(node, [binary, "query", allRows, ...from])).trimEnd().split("\n")
        assert.deepStrictEqual(lines.map((line) => JSON.parse(line).id), rows.map((row) => row["id"]))
        yield* run(node, [binary, "query", "invoices-by-status", "--html", "page.html", ...from])
        const { call } = yield* connect(from, { PWD: folder }, `cd "${folder}"`, { program: [node, binary] })
        const calls = [
          ["query", { sql: groups }],
          ["changes", {}],
          ["find", { text: id }],
          ["ask", { question: "invoices-by-status" }]
        ] as const
        const answers = []
        for (const [tool, given] of calls) {
          const { columns, data, total } = yield* Effect.promise(() => call(tool, given))
          answers.push({ columns, data, total })
        }
        return {
          lines,
          answers,
          // The minute in which a page was created.
          page: readFileSync(join(folder, "page.html"), "utf8").replace(/(?<=Created )[\d :-]+(?= UTC)/, "MINUTE"),
          printed: yield* Effect.forEach(
            [
              ["query", groups, "--format", "csv", ...from],
              ["query", "invoices-by-status", "--chart", ...from],
              ["find", id, ...from],
              ["changes", ...from],
              ["verify", ...from],
              ["diff", "sqlite:p.db", "sqlite:other.db"]
            ],
            (args) => run(node, [binary, ...args])
          )
        }
      })
      const results = yield* Effect.forEach([oldest, newest], resultsOn)
      assert.deepStrictEqual(results[0], results[1])
      const [, , found = "", changes = ""] = results[0]?.printed ?? []
      assert.include(results[0]?.page, "Created MINUTE UTC")
      assert.include(found, id)
      assert.strictEqual(changes.trimEnd().split("\n").length, 60)
    }).pipe(Effect.scoped), 900_000)
})
