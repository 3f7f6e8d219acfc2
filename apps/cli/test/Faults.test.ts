import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { pageOf, scriptedServer } from "../../../packages/core/test/ScriptedServer.ts"
import { smallFileSystem } from "../../../packages/export/test/SmallFileSystem.ts"
import { binary, payments, rowsOf, runProgram, sandboxEnv, temporaryFolder } from "./Program.ts"

const ours = Array.from({ length: 40 }, (_, index) => `{"id":"a${index}","amount":${index}}`)

const answers: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["an empty answer", []],
  ["the list of another merchant under the same address", ours.map((text) => text.replace(`"a`, `"b`))],
  ["a field that drifted in every record", ours.map((text) => text.replace(/"amount":\d+/, `"amount":"1,50"`))],
  ["an id that drifted in every record", ours.map((text) => text.replace(`"id"`, `"uid"`))],
  ["half of the list", ours.slice(20)]
]

describe("a list that is not what it was", () => {
  it.live.each(answers)(
    "%s ends every export with exit code 10, and nothing is taken for missing",
    ([, drifted]) =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "payments.db")
        let shown = ours
        const server = yield* scriptedServer((_, response) => pageOf(response, shown, null))
        const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
        const args = ["export", "invoices", "--to", `sqlite:${file}`]
        assert.strictEqual((yield* payments(args, { env })).code, 0)
        shown = [...drifted]
        for (let times = 0; times < 2; times++) {
          const { code, stderr } = yield* payments(args, { env })
          assert.strictEqual(code, 10, stderr)
          assert.deepStrictEqual(rowsOf(file, "SELECT id FROM invoices WHERE missing_since IS NOT NULL"), [])
          assert.deepStrictEqual(rowsOf(file, "SELECT id FROM changes WHERE kind = 'missing'"), [])
        }
        shown = ours
        yield* payments(args, { env })
        assert.deepStrictEqual(
          rowsOf(file, "SELECT raw FROM invoices WHERE id LIKE 'a%'").map(({ raw }) => String(raw)).toSorted(),
          ours.toSorted()
        )
      }).pipe(Effect.scoped)
  )

  it.live("the list of another account is refused with exit code 9, and what is there stays", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const env = yield* sandboxEnv({ records: 20 })
      const args = ["export", "invoices", "--to", `sqlite:${file}`]
      assert.strictEqual((yield* payments(args, { env })).code, 0)
      const before = rowsOf(file, "SELECT * FROM invoices")
      const { code, stderr } = yield* payments(args, { env: { ...env, PAYMENTS_ACCOUNT: "south" } })
      assert.deepStrictEqual([code, stderr.includes("another source")], [9, true])
      assert.deepStrictEqual(rowsOf(file, "SELECT * FROM invoices"), before)
    }).pipe(Effect.scoped))
})

describe("a destination that takes no more", () => {
  it.live.each(["sqlite:payments.db", "file:files"])(
    "%s ends the export with exit code 9 where files may not grow, and the next one goes on",
    (to) =>
      Effect.gen(function*() {
        const cwd = yield* temporaryFolder
        const env = yield* sandboxEnv({ records: 3000 })
        const args = ["export", "invoices", "--to", to]
        // In blocks of 1 KiB. What is written beyond fails with EFBIG, for the superuser too.
        const limited = yield* runProgram("bash", [
          "-c",
          `ulimit -f 900; exec "$0" "$@"`,
          process.execPath,
          binary,
          ...args
        ], { env, cwd })
        assert.strictEqual(limited.code, 9, limited.stderr)
        assert.strictEqual(limited.stderr.split("\n").length, 2, limited.stderr)
        const { code, stdout } = yield* payments(args, { env, cwd })
        assert.deepStrictEqual([code, stdout.includes("went on where an earlier run was cut")], [0, true])
        const file = join(cwd, to === "file:files" ? "files/copy.db" : "payments.db")
        assert.deepStrictEqual(rowsOf(file, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM invoices"), [
          { n: 3000, ids: 3000 }
        ])
      }).pipe(Effect.scoped)
  )

  it.live("a full file system ends the export with exit code 9 and a line that says so", () =>
    Effect.gen(function*() {
      const small = yield* smallFileSystem(700)
      // Where none can be mounted this has been said, and the limit above is what shows it.
      const cwd = small?.folder ?? (yield* temporaryFolder)
      const env = yield* sandboxEnv({ records: 3000 })
      const args = ["export", "invoices", "--to", "sqlite:payments.db"]
      const full = yield* payments(args, { env, cwd })
      assert.strictEqual(full.code, small === undefined ? 0 : 9, full.stderr)
      if (small === undefined) return
      assert.include(full.stderr, "there is no space left. What was committed is kept; run again when there is space.")
      yield* small.grow
      assert.strictEqual((yield* payments(args, { env, cwd })).code, 0)
      assert.deepStrictEqual(rowsOf(join(cwd, "payments.db"), "SELECT count(*) AS n FROM invoices"), [{ n: 3000 }])
    }).pipe(Effect.scoped))
})
