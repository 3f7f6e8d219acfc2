/** Runs the statements of `docs/postgres-roles.md`, and checks what each of the roles may and may not do. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Destination, erase, openScanner } from "@payments/copy"
import { layerTest } from "@payments/core/testing"
import { roleStatements } from "@payments/testkit/postgres/PostgresRoles"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { Effect, Layer, Redacted, Result } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import { Client } from "pg"
import { afterAll, beforeAll } from "vitest"
import { accessProblem } from "../../../../packages/copy/src/postgres/PostgresAccess.ts"
import { parse } from "../../../../packages/copy/src/postgres/PostgresUrl.ts"
import { runInProcess } from "../program/InProcess.ts"

/** The owner of the databases, who is no superuser. */
const admin = "administrator"

type Role = "payments_migrate" | "payments_write" | "payments_read"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
  await as(user, `CREATE ROLE ${admin} LOGIN CREATEROLE`, "postgres")
  await as(user, `CREATE DATABASE finance OWNER ${admin}`, "postgres")
  await as(user, `CREATE DATABASE existing OWNER ${admin}`, "postgres")
  await as(admin, roleStatements.roles)
  // In PostgreSQL 14, the owner of a database does not own its schema `public`.
  await as(user, roleStatements.roles.slice(roleStatements.roles.indexOf("REVOKE")))
})
afterAll(() => server.stop())

/** Runs statements as a user. Returns the rows of the last one. */
const as = async (role: string, sql: string, database = "finance") => {
  const client = new Client({ host: "127.0.0.1", port: server.port, user: role, database })
  await client.connect()
  try {
    const results = [await client.query(sql)].flat()
    const rows: ReadonlyArray<Record<string, unknown>> = results.at(-1)?.rows ?? []
    return rows
  } finally {
    await client.end()
  }
}

/** Returns the code with which the server refuses statements, or undefined if it accepts them. */
const refusal = (role: Role, sql: string) =>
  Effect.promise(() => as(role, sql).then(() => undefined, ({ code }) => code))

const urlOf = (role: string, database = "finance") =>
  `postgres://${role}@127.0.0.1:${server.port}/${database}?schema=payments`

const parsed = (role: string, database?: string) => Result.getOrThrow(parse(urlOf(role, database)))

const api = (amount: number, invoices = 3) =>
  layerTest({
    payoutRequests: [{ id: "por_1" }, `{"id":"por_2","amount":"12"}`],
    invoices: Array.from({ length: invoices }, (_, index) => ({ id: `inv_${index}`, amount }))
  })

const personalKey = Redacted.make(new TextEncoder().encode("a key of pseudonyms and erasures"))

/** Runs `payments` as a role. */
const run = (role: string, args: ReadonlyArray<string>, service = api(1), database?: string) =>
  runInProcess(service, [
    ...args,
    args[0] === "migrate" || args[0] === "export" ? "--to" : "--from",
    urlOf(role, database)
  ])

/** Runs `payments` as a role. Asserts the exit code. Returns stdout. */
const succeeds = (role: string, args: ReadonlyArray<string>, service = api(1), code = 0, database?: string) =>
  Effect.map(run(role, args, service, database), (result) => {
    assert.strictEqual(result.code, code, `${role} ${args.join(" ")}: ${result.err}`)
    return result.out
  })

/** Asserts that the program refuses a role with a message. */
const isRefused = (role: Role, args: ReadonlyArray<string>, message: string | RegExp) =>
  Effect.map(run(role, args), ({ code, err }) => {
    assert.strictEqual(code, 9, `${role} ${args.join(" ")}: ${err}`)
    assert.match(err, new RegExp(message))
  })

const reads: ReadonlyArray<ReadonlyArray<string>> = [
  ["status"],
  ["verify"],
  ["changes"],
  ["changes", "consumers"],
  ["quarantine"],
  ["query", "settled-by-day"],
  ["query", "SELECT id, last_seen_at FROM invoices_seen"],
  ["find", "inv_1"]
]

/** Reads passes of the invoices as the writer. */
const readPasses = Effect.gen(function*() {
  const destination = yield* Destination.parse(urlOf("payments_write"))
  const services = yield* Layer.build(
    Layer.merge(api(3, 4), Layer.provide(Destination.layer(destination), NodeServices.layer))
  )
  const scanner = yield* Effect.provide(openScanner("invoices"), services)
  assert.deepInclude(yield* scanner.head(1), { kind: "head", inserted: 1, updated: 3, returned: 1 })
  yield* scanner.window(["2024-01-01"])
}).pipe(Effect.scoped)

/** Asserts which rights the writer and the reader have on each table and view. */
const assertPrivileges = Effect.gen(function*() {
  const rights = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
  const has = (role: Role) =>
    `array_to_string(ARRAY(SELECT r FROM unnest('{${rights.join()}}'::text[]) AS r
      WHERE has_table_privilege('${role}', c.oid, r)), ' ')`
  const rows = yield* Effect.promise(() =>
    as(
      user,
      `SELECT c.relname AS name, ${has("payments_write")} AS write, ${has("payments_read")} AS read FROM pg_class AS c
      WHERE c.relnamespace = 'payments'::regnamespace AND c.relkind IN ('r', 'v') ORDER BY 1`
    )
  )
  const hidden = new Set(["known_keys", "leases"])
  assert.isAbove(rows.length, 15)
  assert.deepStrictEqual(
    rows,
    rows.map(({ name }) => ({
      name,
      write: "SELECT INSERT UPDATE DELETE",
      read: hidden.has(String(name)) ? "" : "SELECT"
    }))
  )
})

describe("the roles of docs/postgres-roles.md", () => {
  it.live("migrate, write and read, and may do nothing else", () =>
    Effect.gen(function*() {
      // Without tables, only the owner of the schema can create them.
      yield* isRefused("payments_write", ["export"], /lacks a privilege.*payments migrate.*\(42501\)/)
      yield* isRefused("payments_read", ["status"], /nothing has been exported/)
      const created = yield* succeeds("payments_migrate", ["migrate", "--dry-run"])
      assert.match(created, /: tables of version \d+ would be created\n$/)
      assert.deepStrictEqual(
        yield* Effect.promise(() => as(user, "SELECT FROM pg_tables WHERE schemaname = 'payments'")),
        []
      )
      // Two at the same moment both succeed.
      const both = yield* Effect.all([1, 2].map(() => succeeds("payments_migrate", ["migrate"])), { concurrency: 2 })
      assert.include(both, created.replace(" would be", ""))
      assert.match(
        yield* succeeds("payments_migrate", ["migrate"]),
        /the tables have version \d+, which needs no change/
      )
      yield* Effect.promise(() => as(admin, roleStatements.restriction))

      // One record is quarantined.
      yield* succeeds("payments_write", ["export"], api(1), 10)
      yield* succeeds("payments_write", ["export", "--missing-limit", "100%"], api(2, 2), 10)
      yield* succeeds("payments_write", ["export", "--missing-limit", "100%"], api(2, 2), 10)
      for (const args of reads) yield* succeeds("payments_read", args)
      assert.include(yield* succeeds("payments_read", ["verify"]), "invoices: matches the certificate")
      assert.include(
        yield* succeeds("payments_read", ["query", "SELECT count(*) FROM invoices WHERE missing_since IS NOT NULL"]),
        "1"
      )
      yield* readPasses
      yield* succeeds("payments_write", ["changes", "ack", "ledger", "3"])
      yield* succeeds("payments_write", ["changes", "--consumer", "ledger", "--ack"])
      yield* succeeds("payments_write", [
        "prune",
        "--keep-changes",
        "1ms",
        "--keep-scans",
        "1ms",
        "--keep-missing",
        "1ms"
      ])
      yield* succeeds("payments_write", ["changes", "consumers", "--remove", "ledger"])
      // A reader needs one right for that, also if the consumer has a hand-off.
      yield* succeeds("payments_write", ["changes", "ack", "books", "3"])
      yield* Effect.promise(() =>
        as(
          user,
          `INSERT INTO payments.handoffs (consumer, epoch, state, attempts) VALUES ('books', 1, 'running', 0);
          GRANT DELETE ON payments.consumers TO payments_read`
        )
      )
      yield* succeeds("payments_read", ["changes", "consumers", "--remove", "books"])
      assert.deepStrictEqual(yield* Effect.promise(() => as(user, "SELECT * FROM payments.handoffs")), [])
      yield* Effect.promise(() => as(user, "REVOKE DELETE ON payments.consumers FROM payments_read"))
      yield* isRefused("payments_read", ["changes", "consumers", "--remove", "books"], /lacks a privilege/)
      yield* assertPrivileges

      yield* isRefused("payments_read", ["export"], /lacks a privilege/)
      yield* isRefused("payments_read", ["changes", "ack", "ledger", "3"], /lacks a privilege/)
      yield* isRefused("payments_read", ["prune", "--keep-scans", "1ms"], /lacks a privilege/)
      for (
        const [role, sql] of [
          ["payments_migrate", "CREATE SCHEMA other"],
          ["payments_migrate", "CREATE TABLE public.other ()"],
          ["payments_migrate", "CREATE ROLE other"],
          ["payments_write", "CREATE TABLE payments.other ()"],
          ["payments_write", "CREATE TABLE public.other ()"],
          ["payments_write", "CREATE SCHEMA other"],
          ["payments_write", "ALTER TABLE payments.invoices ADD COLUMN other text"],
          ["payments_write", "CREATE INDEX ON payments.invoices (status)"],
          ["payments_write", "DROP VIEW payments.invoices_seen"],
          ["payments_write", "TRUNCATE payments.invoices"],
          ["payments_write", "GRANT SELECT ON payments.invoices TO PUBLIC; SET ROLE payments_migrate"],
          ["payments_read", "CREATE TABLE payments.other ()"],
          ["payments_read", "INSERT INTO payments.consumers VALUES ('x', 0, now(), now())"],
          ["payments_read", "UPDATE payments.invoices SET raw = '{}'"],
          ["payments_read", "DELETE FROM payments.changes"],
          ["payments_read", "SELECT fingerprint FROM payments.known_keys"],
          ["payments_read", "SELECT owner FROM payments.leases"]
        ] as const
      ) {
        assert.strictEqual(yield* refusal(role, sql), "42501", `${role}: ${sql}`)
      }
    }))

  it.live("cover the tables and columns of a later version, which the writer waits for", () =>
    Effect.gen(function*() {
      // The tables as a version without one column and one list would have left them.
      yield* Effect.promise(() =>
        as(
          user,
          `ALTER TABLE payments.invoices DROP COLUMN payment_url CASCADE; DROP TABLE payments.payin_sources CASCADE;
          DELETE FROM payments.list_columns WHERE name = 'payment_url' OR list = 'payin-sources'`
        )
      )
      const additions = "payin_sources, invoices.payment_url"
      const before = yield* Effect.promise(() => as(user, "SELECT * FROM payments.scans"))
      yield* isRefused(
        "payments_write",
        ["export"],
        /may not change the tables. Run payments migrate as the role that owns/
      )
      assert.deepStrictEqual(yield* Effect.promise(() => as(user, "SELECT * FROM payments.scans")), before)
      assert.include(yield* succeeds("payments_migrate", ["migrate", "--dry-run"]), `: ${additions} would be added\n`)
      const { out } = yield* run("payments_migrate", ["migrate", "--format", "json"])
      assert.deepInclude(JSON.parse(out), { dryRun: false, additions: additions.split(", ") })
      yield* assertPrivileges
      yield* succeeds("payments_write", ["export"], api(2, 2), 10)
      for (const args of reads) yield* succeeds("payments_read", args)
    }))

  it.live("take over a schema that one user has owned, and migrate it before the writer writes", () =>
    Effect.gen(function*() {
      const database = "existing"
      yield* Effect.promise(() =>
        as(admin, "CREATE ROLE payments LOGIN; GRANT CREATE ON DATABASE existing TO payments")
      )
      // A released version has filled it.
      const dump = gunzipSync(readFileSync(join(import.meta.dirname, "../fixtures/0.1.0/postgres/payments.sql.gz")))
      yield* Effect.promise(() => as("payments", dump.toString(), database))
      // The roles exist already.
      const [, rights = ""] = /CREATE SCHEMA .*?;\n(.*)/s.exec(roleStatements.roles) ?? []
      for (const sql of [roleStatements.takeover, rights, roleStatements.restriction]) {
        yield* Effect.promise(() => as(admin, sql, database))
      }
      const exporting = ["export", "--rebind", "--missing-limit", "100%"]
      const refused = yield* run("payments_write", exporting, api(2), database)
      assert.deepStrictEqual([refused.code, refused.out], [9, ""])
      assert.match(
        refused.err,
        /its tables have version 5, and this program needs version \d+\. .* Run payments migrate as/
      )
      yield* succeeds("payments_read", ["status"], api(1), 0, database)
      const problemOf = (role: Role) => accessProblem(parsed(role, database))
      assert.include((yield* problemOf("payments_write"))?.message, "its tables have version 5")
      assert.isUndefined(yield* problemOf("payments_migrate"))
      assert.match(
        yield* succeeds("payments_migrate", ["migrate"], api(1), 0, database),
        /: tables migrated from version 5 to version \d+\n$/
      )
      yield* succeeds("payments_write", exporting, api(2), 10, database)
      for (const args of reads) yield* succeeds("payments_read", args, api(1), 0, database)

      const eraseAs = Effect.fnUntraced(function*(role: Role) {
        const maintenance = yield* Destination.maintenance({ _tag: "Postgres", url: parsed(role, database) })
        const criterion = { kind: "id", value: Redacted.make("pis_3") } as const
        return yield* erase(maintenance, { criteria: [criterion], key: personalKey, by: "a test" })
      }, Effect.scoped)
      assert.include((yield* Effect.flip(eraseAs("payments_read"))).message, "lacks a privilege")
      assert.deepInclude((yield* eraseAs("payments_write"))[0], { kind: "id", records: 1 })
    }))
})
