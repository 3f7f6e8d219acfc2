/** Runs whose reader closes the pipe early. */
import { assert, describe, it } from "@effect/vitest"
import { binary, payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { DatabaseSync } from "node:sqlite"

/** Pipes `payments` into another program. The exit code is that of `payments`. */
const piped = (command: string, reader: string, env: Readonly<Record<string, string>>, cwd: string) =>
  runProgram("bash", ["-c", `set -o pipefail; "$NODE" "$BINARY" ${command} | ${reader}`], {
    env: { ...env, NODE: process.execPath, BINARY: binary },
    cwd
  })

describe("a reader that closes the pipe early", () => {
  it.live("does not hide a difference that verify finds", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5000 })
      assert.strictEqual((yield* payments(["export", "invoices", "--to", "sqlite:p.db"], { env, cwd })).code, 0)
      const db = new DatabaseSync(`${cwd}/p.db`)
      db.exec("UPDATE invoices SET status = 'damaged'")
      db.close()
      const verified = yield* piped("verify --from sqlite:p.db", "head -n 1", {}, cwd)
      assert.deepStrictEqual(
        [verified.code, verified.stdout, verified.stderr],
        [11, "invoices: differs\n", ""]
      )
    }).pipe(Effect.scoped))

  it.live("does not hide a list that is older than allowed", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5 })
      assert.strictEqual((yield* payments(["export", "invoices", "--to", "sqlite:p.db"], { env, cwd })).code, 0)
      for (const format of ["table", "json"]) {
        const { code } = yield* piped(`status --from sqlite:p.db --max-age 1h --format ${format}`, "true", {}, cwd)
        assert.strictEqual(code, 12, format)
      }
    }).pipe(Effect.scoped))

  it.live("does not hide a list that could not be exported", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = { ...(yield* sandboxEnv({ records: 20 })), PAYMENTS_INVOICES_API_KEY: "wrong" }
      const exported = yield* piped("export --to sqlite:p.db", "true", env, cwd)
      assert.strictEqual(exported.code, 4, exported.stderr)
      assert.include(exported.stderr, "payments: invoices: not authorized")
    }).pipe(Effect.scoped))

  it.live("ends a listing and `changes` with code 0, because they have nothing else to do", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5000 })
      assert.strictEqual((yield* payments(["export", "invoices", "--to", "sqlite:p.db"], { env, cwd })).code, 0)
      const db = new DatabaseSync(`${cwd}/p.db`)
      db.exec("UPDATE invoices SET raw = json_set(raw, '$.status', 'old'), hash = 'old'")
      db.close()
      assert.strictEqual((yield* payments(["export", "invoices", "--to", "sqlite:p.db"], { env, cwd })).code, 0)
      for (const command of ["invoices list --all --format json", "changes --from sqlite:p.db --follow"]) {
        const { code, stderr } = yield* piped(command, "head -n 1", env, cwd)
        assert.deepStrictEqual([code, stderr], [0, ""], command)
      }
    }).pipe(Effect.scoped))
})
