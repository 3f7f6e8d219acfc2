/**
 * Opens the destinations that released versions wrote (`fixtures/make.ts`) with the current code: it reads them, and continues
 * their interrupted scan.
 */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Sandbox } from "@payments/sandbox"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { labels, payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import { Client } from "pg"
import { afterAll, beforeAll } from "vitest"
import { contentOf, destinations } from "../fixtures/Content.ts"
import { runInProcess } from "../program/InProcess.ts"

const fixtures = join(import.meta.dirname, "../fixtures")
const versions = readdirSync(fixtures).filter((name) => /^\d/.test(name))

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

/** Unpacks the files of a fixture into a folder. */
const unpack = (version: string, kind: string, folder: string) => {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const file of readdirSync(join(fixtures, version, kind))) {
    const bytes = gunzipSync(readFileSync(join(fixtures, version, kind, file)))
    writeFileSync(join(folder, file.slice(0, -".gz".length)), bytes, { mode: 0o600 })
  }
}

/** Restores the dump into a database of its own. Returns its URL. */
const restore = async (version: string, folder: string) => {
  unpack(version, "postgres", folder)
  const database = `upgrade_${version.replaceAll(".", "_")}`
  const at = { host: "127.0.0.1", port: server.port, user }
  const run = async (client: Client, sql: string) => {
    await client.connect()
    await client.query(sql)
    await client.end()
  }
  await run(new Client({ ...at, database: "postgres" }), `CREATE DATABASE ${database}`)
  await run(new Client({ ...at, database }), readFileSync(join(folder, "payments.sql"), "utf8"))
  return `postgres://${user}@127.0.0.1:${server.port}/${database}`
}

/** Runs a command that needs no service. */
const read = Effect.fnUntraced(function*(from: string, ...args: ReadonlyArray<string>) {
  const { code, err, out } = yield* runInProcess(layerTest({}), [...args, "--from", from])
  assert.strictEqual(code, 0, err)
  return out
})

const linesOf = (out: string): ReadonlyArray<Record<string, unknown>> =>
  out.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))

/** Returns the numbers of the changes that the fixture's consumer has not read. */
const unreadBy = (from: string) =>
  Effect.map(read(from, "changes", "--consumer", "ledger"), (out) => linesOf(out).map(({ seq }) => seq))

/** Returns what `payments migrate` would do. */
const pendingIn = (to: string) =>
  Effect.map(
    runInProcess(layerTest({}), ["migrate", "--dry-run", "--format", "json", "--to", to]),
    ({ out }) => JSON.parse(out)
  )

const opens = (to: string) =>
  Effect.gen(function*() {
    const pending = yield* pendingIn(to)
    assert.isBelow(pending.from, pending.to)
    const verified = yield* read(to, "verify")
    for (const label of labels) assert.match(verified, new RegExp(`^${label}: matches the certificate`, "m"))
    assert.include(yield* read(to, "quarantine"), `"id":"por_6"`)
    assert.strictEqual(yield* read(to, "erasures"), "")
    assert.deepStrictEqual(yield* unreadBy(to), [9, 10])
    const before = linesOf(yield* read(to, "status"))
    assert.deepInclude(before.find(({ list }) => list === "invoices")?.["running"], { pages: 1, records: 100 })

    const { requests, url } = yield* Sandbox
    // The test's service has another address than the one that filled the fixture.
    const env = { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_fixture", PAYMENTS_TO: to }
    const exported = yield* payments(["export", "--rebind", "--missing-limit", "50%"], { env })
    // A quarantined record makes an export incomplete.
    assert.strictEqual(exported.code, 10, exported.stderr)
    assert.include(exported.stderr, "invoices: resumes after 100 records of an earlier run\n")
    const ofInvoices = (yield* requests).filter(({ list }) => list === "invoices")
    assert.lengthOf(ofInvoices, 1, "only the second page is read")

    const counts = labels.map((label) =>
      `(SELECT count(*) FROM ${label.replace("-", "_")} WHERE missing_since IS NULL) AS "${label}"`
    )
    const sql = `SELECT ${counts.join()}, raw FROM payin_sources WHERE id = 'pis_3'`
    assert.strictEqual(
      yield* read(to, "query", sql, "--format", "ndjson"),
      `{"payout-requests":7,"payin-sources":8,"invoices":120,"raw":"{\\"id\\":\\"pis_3\\",\\"reference\\":\\"r0\\",\\"large\\":9007199254740993}"}\n`
    )
    yield* read(to, "verify")
    // The export has recorded six updates and the payout request that two complete scans have not returned.
    assert.deepStrictEqual(yield* unreadBy(to), [9, 10, 11, 12, 13, 14, 15, 16, 17])
    assert.deepInclude(yield* pendingIn(to), { from: pending.to, to: pending.to, additions: [] })
  }).pipe(Effect.provide(Sandbox.layer({ lists: contentOf(3) })))

describe.each(versions)("a destination of version %s", (version) => {
  for (const [kind, urlIn] of Object.entries(destinations)) {
    it.live(`${kind}: is read, and its interrupted scan continues`, () =>
      Effect.gen(function*() {
        const folder = join(yield* temporaryFolder, "copy")
        unpack(version, kind, folder)
        yield* opens(urlIn(folder))
      }).pipe(Effect.scoped))
  }

  it.live("postgres: is read, and its interrupted scan continues", () =>
    Effect.gen(function*() {
      const folder = join(yield* temporaryFolder, "copy")
      yield* opens(yield* Effect.promise(() => restore(version, folder)))
    }).pipe(Effect.scoped))
})
