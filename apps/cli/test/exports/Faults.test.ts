import { assert, describe, it } from "@effect/vitest"
import {
  binary,
  payments,
  rowsOf,
  runProgram,
  sandboxEnv,
  temporaryFolder
} from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { Effect } from "effect"
import { join } from "node:path"

const original = Array.from({ length: 40 }, (_, index) => `{"id":"a${index}","amount":${index}}`)

const changedLists: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["an empty list", []],
  ["the list of another merchant at the same address", original.map((text) => text.replace(`"a`, `"b`))],
  ["a field of another type in every record", original.map((text) => text.replace(/"amount":\d+/, `"amount":"1,50"`))],
  ["an id of another name in every record", original.map((text) => text.replace(`"id"`, `"uid"`))],
  ["half of the list", original.slice(20)]
]

describe("a list that has changed as a whole", () => {
  it.live.each(changedLists)(
    "%s: every export exits with code 10 and marks no row missing",
    ([, changed]) =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "payments.db")
        let served = original
        const server = yield* scriptedServer((_, response) => pageOf(response, served, null))
        const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
        const args = ["export", "invoices", "--to", `sqlite:${file}`]
        assert.strictEqual((yield* payments(args, { env })).code, 0)
        served = [...changed]
        for (let times = 0; times < 2; times++) {
          const { code, stderr } = yield* payments(args, { env })
          assert.strictEqual(code, 10, stderr)
          assert.deepStrictEqual(rowsOf(file, "SELECT id FROM invoices WHERE missing_since IS NOT NULL"), [])
          assert.deepStrictEqual(rowsOf(file, "SELECT id FROM changes WHERE kind = 'missing'"), [])
        }
        served = original
        yield* payments(args, { env })
        assert.deepStrictEqual(
          rowsOf(file, "SELECT raw FROM invoices WHERE id LIKE 'a%'").map(({ raw }) => String(raw)).toSorted(),
          original.toSorted()
        )
      }).pipe(Effect.scoped)
  )

  it.live("the list of another account: exits with code 9 and changes no row", () =>
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

describe("a destination without space", () => {
  it.live.each(["sqlite:payments.db", "file:files"])(
    "%s: exits with code 9 if files may not grow, and the next export resumes",
    (to) =>
      Effect.gen(function*() {
        const cwd = yield* temporaryFolder
        const env = yield* sandboxEnv({ records: 3000 })
        const args = ["export", "invoices", "--to", to]
        // In blocks of 1 KiB. A write beyond the limit fails with EFBIG, also for the superuser.
        const limited = yield* runProgram("bash", [
          "-c",
          `ulimit -f 1000; exec "$0" "$@"`,
          process.execPath,
          binary,
          ...args
        ], { env, cwd })
        assert.strictEqual(limited.code, 9, limited.stderr)
        assert.strictEqual(limited.stderr.split("\n").length, 2, limited.stderr)
        const { code, stdout } = yield* payments(args, { env, cwd })
        assert.deepStrictEqual([code, stdout.includes("resumed where an earlier run was interrupted")], [0, true])
        const file = join(cwd, to === "file:files" ? "files/copy.db" : "payments.db")
        assert.deepStrictEqual(rowsOf(file, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM invoices"), [
          { n: 3000, ids: 3000 }
        ])
      }).pipe(Effect.scoped)
  )

  it.live("a full file system: prints the reason in one line and exits with code 9", () =>
    Effect.gen(function*() {
      const small = yield* smallFileSystem(700)
      // If no file system can be mounted, `smallFileSystem` has logged that. The test above covers the case by a limit.
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
