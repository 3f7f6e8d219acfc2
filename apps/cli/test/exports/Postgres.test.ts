import { assert, describe, it } from "@effect/vitest"
import { guest, type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { binary, payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { cpSync } from "node:fs"
import { dirname, join } from "node:path"
import { afterAll, beforeAll } from "vitest"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

/** The default number of records in each list of the sandbox. */
const records = 1000

describe("payments export --to postgres:", () => {
  it.live("needs only the built folder, and reads the password from the environment", () =>
    Effect.gen(function*() {
      yield* Effect.promise(() => query(server, `CREATE ROLE ${guest.name} LOGIN PASSWORD '${guest.password}'`))
      yield* Effect.promise(() => query(server, `GRANT CREATE ON DATABASE postgres TO ${guest.name}`))
      const folder = yield* temporaryFolder
      cpSync(dirname(binary), folder, { recursive: true })
      const env = { ...(yield* sandboxEnv()), PGUSER: guest.name, PGPASSWORD: guest.password }
      const to = `postgres://127.0.0.1:${server.port}/postgres`
      const built = (args: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
        runProgram(process.execPath, [join(folder, "payments.js"), ...args], { cwd: folder, env: { ...env, ...more } })
      const first = yield* built(["export", "--to", `${to}?schema=built`])
      assert.deepStrictEqual([first.code, first.stderr.includes(guest.password)], [0, false])
      assert.include(first.stdout, `Rows: ${to}?schema=built`)
      const secret = to.replace("//", `//${guest.name}:${encodeURIComponent(guest.password)}@`)
      const again = yield* built(["export"], { PAYMENTS_TO: `${secret}?schema=built`, PGPASSWORD: "wrong" })
      assert.deepStrictEqual([again.code, again.stdout.includes(guest.password)], [0, false])
      assert.strictEqual((yield* built(["verify", "--from", `${to}?schema=built`])).code, 0)
      const changes = yield* built(["changes", "--from", `${to}?schema=built`])
      assert.deepStrictEqual([changes.code, changes.stderr], [0, "No changes.\n"])
      assert.deepStrictEqual(
        yield* Effect.promise(() => query(server, "SELECT count(*) AS n FROM built.invoices")),
        [{ n: BigInt(records) }]
      )
    }).pipe(Effect.scoped))

  it.live("refuses a password in an argument, and reports a server that it cannot reach", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv()
      const refused = yield* payments(["export", "--to", `postgres://${user}:hunter2@127.0.0.1/x`], { env })
      assert.deepStrictEqual([refused.code, refused.stdout], [2, ""])
      assert.match(refused.stderr, /^payments: .*PGPASSWORD.*\n$/)
      assert.notInclude(refused.stderr, "hunter2")
      const absent = yield* payments(["export", "--to", `postgres://${user}@127.0.0.1:1/x`], { env })
      assert.deepStrictEqual([absent.code, absent.stdout], [9, ""])
      assert.match(absent.stderr, /^payments: .*ECONNREFUSED.*\n$/)
    }).pipe(Effect.scoped))
})
