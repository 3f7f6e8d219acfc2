import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Effect, Layer } from "effect"
import { randomUUID } from "node:crypto"
import { afterAll, beforeAll } from "vitest"
import { scan, Sink, verify } from "../../src/index.ts"
import { tableOf } from "../../src/plan/Columns.ts"
import type { BatchRecord } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { currentVersion } from "../../src/store/Migrations.ts"
import { batchOf, recordOf } from "../session/Batches.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const newSchema = () => `t_${randomUUID()}`

const ask = (sql: string) => Effect.promise(() => query(server, sql))

describe("content that PostgreSQL rejects", () => {
  const batch = (records: ReadonlyArray<BatchRecord>, cursor: string | null) => batchOf(Lists.invoices, records, cursor)
  const good = (id: string) => recordOf(Lists.invoices, id, `{"id":"${id}","amount":2}`)
  /** The problem that the check of a page would report. */
  const bad = (id: string) => ({
    ...good(id),
    text: `{"id":"${id}","extra":${"[".repeat(200_000)}${"]".repeat(200_000)}}`
  })
  const page = (from: string) => Array.from({ length: 9 }, (_, index) => good(`${from}${index}`))

  it.live("is found in a batch and quarantined, and the rest of the batch is written", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const request = { source: "memory", limit: 10, parameters: {} }
      const ended = yield* Effect.gen(function*() {
        const sink = yield* Sink
        yield* sink.lock(Lists.invoices, "refuse")
        const before = yield* sink.begin(Lists.invoices, request)
        yield* before.commit(batch([...page("a"), good("x")], null))
        const session = yield* sink.begin(Lists.invoices, request)
        // There is no checkpoint before the first page. The second page changes nothing, so its commit is delayed.
        yield* session.commit(batch([bad("x"), ...page("b"), bad("y")], "one"))
        yield* session.commit(batch(page("a"), "two"))
        yield* session.commit(batch([...page("c"), bad("c3")], "three"))
        return yield* session.commit(batch([bad("z"), good("last"), good("b1")], null))
      }).pipe(Effect.scoped, Effect.provide(PostgresSink.layer(urlOf(server, schema))))
      assert.deepInclude(ended, {
        pages: 4,
        records: 33,
        inserted: 19,
        unchanged: 12,
        repeats: 2,
        quarantined: 4,
        withoutId: 0
      })
      assert.deepStrictEqual(
        yield* ask(`SELECT id, expected, length(raw) AS length FROM "${schema}".quarantine ORDER BY id`),
        ["c3", "x", "y", "z"].map((id) => ({
          id,
          expected: "expected a record that the database can store",
          length: bad(id).text.length
        }))
      )
      const reader = yield* PostgresSink.reader(urlOf(server, schema))
      const verified = yield* verify(reader, Lists.invoices)
      assert.deepStrictEqual([verified.differences, verified.certificate?.distinct], [[], 29])
    }).pipe(Effect.scoped))

  it.live("is found once in a last batch that waits for look-ups", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const request = { source: "memory", limit: 10, parameters: {}, recheck: true, missingLimit: 1 }
      const skipped = ["s0", "s1", "s2", "s3", "s4"].map(good)
      const ended = yield* Effect.gen(function*() {
        const sink = yield* Sink
        yield* sink.lock(Lists.invoices, "refuse")
        const first = yield* sink.begin(Lists.invoices, request)
        yield* first.commit(batch([...page("a"), good("gone"), ...skipped], null))
        const second = yield* sink.begin(Lists.invoices, request)
        yield* second.commit(batch(page("a"), null))
        const session = yield* sink.begin(Lists.invoices, request)
        yield* session.commit(batch([...page("a"), ...page("b")], "one"))
        const last = batch([bad("x"), good("c"), bad("y")], null)
        const waiting = yield* session.commit(last)
        assert.deepInclude(waiting, { unseen: 6, pages: 1, records: 18, quarantined: 0 })
        const [gone = -1] = yield* session.unseen?.rows ?? Effect.succeed([])
        const rechecks = { missing: new Map([[gone, "{}"]]), found: 5, skipped: 5, unchecked: 0, heldBack: 0 }
        return yield* session.commit({ ...last, records: [...last.records, ...skipped], rechecks })
      }).pipe(Effect.scoped, Effect.provide(PostgresSink.layer(urlOf(server, schema))))
      assert.deepInclude(ended, {
        pages: 2,
        records: 26,
        inserted: 10,
        repeats: 0,
        quarantined: 2,
        missing: 1,
        skipped: 5
      })
      // The found records have no place in the list, although the first half of the divided batch has one of them.
      assert.deepStrictEqual(ended.places, { known: 9, fresh: 10, freshAtStart: 0, freshAtEnd: 10 })
      assert.deepStrictEqual(yield* ask(`SELECT id FROM "${schema}".quarantine ORDER BY id`), [{ id: "x" }, {
        id: "y"
      }])
      const reader = yield* PostgresSink.reader(urlOf(server, schema))
      assert.deepStrictEqual((yield* verify(reader, Lists.invoices)).differences, [])
    }).pipe(Effect.scoped))

  it.live("does not count as repeated in a pass", () =>
    Effect.gen(function*() {
      const sink = yield* Sink
      const request = { source: "memory", limit: 10, parameters: {} }
      yield* sink.lock(Lists.invoices, "refuse")
      const full = yield* sink.begin(Lists.invoices, request)
      yield* full.commit(batch(page("a"), null))
      const pass = yield* sink.passes?.begin(Lists.invoices, "window", request) ?? Effect.die("no passes")
      const progress = yield* pass.commit(batch([...page("a"), good("b"), bad("c")], null))
      assert.deepInclude(progress, { records: 11, inserted: 1, unchanged: 9, repeats: 0 })
    }).pipe(Effect.scoped, Effect.provide(PostgresSink.layer(urlOf(server, newSchema())))))
})

describe("a schema of version 7", () => {
  it.live("is read and verified as it is, and migrated by the next export", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const run = scan("invoices").pipe(Effect.provide(Layer.merge(
        PostgresSink.layer(urlOf(server, schema)),
        layerTest({ invoices: [`{"id":"a"}`, `{"id":"b","amount":2}`] })
      )))
      yield* run
      const answers = Effect.scoped(Effect.gen(function*() {
        const reader = yield* PostgresSink.reader(urlOf(server, schema))
        const { certificate, differences } = yield* verify(reader, Lists.invoices)
        const scans = yield* reader.scans(Lists.invoices)
        return [scans, yield* reader.scansFrom(Lists.invoices, 1), certificate, differences]
      }))
      const current = yield* answers
      for (const names of ["request TO asked", "totals TO tally"]) {
        yield* ask(`ALTER TABLE "${schema}".scans RENAME COLUMN ${names}`)
      }
      yield* withoutHandoffs(schema)
      yield* withoutRechecks(schema, Lists.all)
      yield* ask(`DROP TABLE "${schema}".facts`)
      yield* ask(`UPDATE "${schema}".destination SET version = 7`)
      assert.deepStrictEqual(yield* answers, current)
      assert.deepStrictEqual(yield* ask(`SELECT version FROM "${schema}".destination`), [{ version: 7 }])
      assert.deepInclude(yield* run, { start: "afterComplete", inserted: 0, missing: 0 })
      assert.deepStrictEqual(yield* ask(`SELECT version FROM "${schema}".destination`), [{ version: currentVersion }])
    }).pipe(Effect.scoped))
})

/** Removes what version 10 has added, with the views that use it. */
const withoutRechecks = (schema: string, lists: ReadonlyArray<Lists.AnyList>) =>
  Effect.forEach(
    ["changes", ...lists.map(tableOf)],
    (table) => ask(`ALTER TABLE "${schema}".${table} DROP COLUMN rechecked CASCADE`)
  )

/** Removes what version 11 has added. */
const withoutHandoffs = (schema: string) =>
  Effect.forEach(
    ["handoffs", "handoff_batches", "handoff_asides", "handoff_skips"],
    (table) => ask(`DROP TABLE "${schema}".${table}`)
  )

describe("a schema of version 1", () => {
  it.live("is migrated by the next export, with its quarantine and its readers", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const records = (text: string) => [`{"id":"a"}`, `{"id":"b","amount":"${text}"}`]
      const run = (text: string) =>
        scan("invoices").pipe(Effect.provide(Layer.merge(
          PostgresSink.layer(urlOf(server, schema)),
          layerTest({ invoices: records(text) })
        )))
      yield* run("1")
      yield* ask(`CREATE ROLE "A reader"`)
      yield* ask(`GRANT SELECT ON "${schema}".destination TO "A reader", PUBLIC`)
      yield* ask(`ALTER TABLE "${schema}".quarantine ALTER COLUMN raw TYPE json USING raw::json`)
      const laterLists = Lists.all.filter(({ name }) => !["payoutRequests", "payinSources", "invoices"].includes(name))
      const laterTables = [
        "list_columns",
        "program_version",
        "consumers",
        "changes_pruned",
        "head_passes",
        "change_counts",
        "personal",
        "suppressed",
        "erasures",
        "rows_pruned",
        "generations",
        "facts"
      ]
      yield* withoutHandoffs(schema)
      for (const table of laterTables) yield* ask(`DROP TABLE "${schema}".${table}`)
      for (const list of laterLists) yield* ask(`DROP TABLE "${schema}".${tableOf(list)} CASCADE`)
      yield* withoutRechecks(schema, Lists.all.filter((list) => !laterLists.includes(list)))
      yield* ask(`ALTER TABLE "${schema}".scans DROP COLUMN kind, DROP COLUMN last_change`)
      for (const names of ["request TO asked", "totals TO tally"]) {
        yield* ask(`ALTER TABLE "${schema}".scans RENAME COLUMN ${names}`)
      }
      for (const table of ["destination", "changes"]) {
        yield* ask(`ALTER TABLE "${schema}".${table} DROP COLUMN generation`)
      }
      yield* ask(
        `INSERT INTO "${schema}".scans (list, part, asked, state, first_row, tally, started_at)
        SELECT list, '["reference","r"]', asked, state, first_row, tally, started_at FROM "${schema}".scans`
      )
      yield* ask(
        `INSERT INTO "${schema}".changes (seq, list, scan, at, kind, id, fields)
        SELECT n, 'invoices', 1, CASE n WHEN 1 THEN '2026-01-01T23:59:59.999Z' ELSE '2026-01-02T00:00:00Z' END::timestamptz,
          'update', 'a', '[]' FROM generate_series(1, 3) AS n`
      )
      yield* ask(`UPDATE "${schema}".destination SET version = 1`)
      const refused = yield* Effect.flip(PostgresSink.reader(urlOf(server, schema)))
      assert.include(
        refused.message,
        "it was written by an earlier version of this program. Export into it first, or run payments migrate."
      )
      // A user's view depends on the type of the column, so the migration fails and changes nothing.
      yield* ask(`CREATE VIEW "${schema}".mine AS SELECT raw FROM "${schema}".quarantine`)
      const blocked = yield* Effect.flip(Effect.scoped(Layer.build(PostgresSink.layer(urlOf(server, schema)))))
      assert.include(blocked.message, "uses a column of quarantine whose type has to change. Drop it, run again")
      assert.deepStrictEqual(yield* ask(`SELECT version FROM "${schema}".destination`), [{ version: 1 }])
      yield* ask(`DROP VIEW "${schema}".mine`)
      yield* Effect.scoped(Layer.build(PostgresSink.layer(urlOf(server, schema))))
      assert.deepStrictEqual(
        yield* ask(`SELECT kind, last_change FROM "${schema}".scans ORDER BY scan`),
        ["full", "part"].map((kind) => ({ kind, last_change: null }))
      )
      assert.deepStrictEqual(
        yield* ask(`SELECT list, day::text, kind, changes FROM "${schema}".change_counts ORDER BY day`),
        [["2026-01-01", 1n], ["2026-01-02", 2n]].map(([day, changes]) => ({
          list: "invoices",
          day,
          kind: "update",
          changes
        }))
      )
      for (const table of laterTables) {
        const [readers] = yield* ask(
          `SELECT relacl::text[] @> ARRAY['"A reader"=r/${user}', '=r/${user}'] AS "areKept"
          FROM pg_class WHERE oid = '"${schema}".${table}'::regclass`
        )
        assert.deepStrictEqual(readers, { areKept: true }, table)
      }
      const kept = yield* ask(`SELECT id, raw, pg_typeof(raw)::text AS type FROM "${schema}".quarantine`)
      assert.deepStrictEqual(kept, [{ id: "b", raw: records("1")[1], type: "text" }])
      assert.deepInclude(yield* run("1"), { unchanged: 2, quarantined: 1 })
      const reader = yield* PostgresSink.reader(urlOf(server, schema))
      assert.deepStrictEqual((yield* verify(reader, Lists.invoices)).differences, [])
    }).pipe(Effect.scoped))
})
