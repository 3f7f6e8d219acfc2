import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { guest, type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { contentOf, query, rowsOf, schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { ConfigProvider, Deferred, Duration, Effect, Exit, Fiber, Layer, Result, Scope } from "effect"
import { randomBytes, randomUUID } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { userInfo } from "node:os"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { checkState, checkWritable } from "../../../program/src/doctor/DestinationChecks.ts"
import { exitCodeOf, outcomeExitCode } from "../../../program/src/outcome/ErrorTable.ts"
import { ExitCode } from "../../../program/src/outcome/ExitCode.ts"
import { scan, scanAll, type ScanOutcome, verify, verifyAgainstApi } from "../../src/index.ts"
import { tableOf } from "../../src/plan/Columns.ts"
import * as Lease from "../../src/postgres/PostgresLease.ts"
import { settingsOf } from "../../src/postgres/PostgresSettings.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { openMaintenance, openStore } from "../../src/postgres/PostgresStore.ts"
import { parse } from "../../src/postgres/PostgresUrl.ts"
import { makeSink } from "../../src/session/SqlSink.ts"
import { batchOf, recordOf } from "../session/Batches.ts"
import { suite } from "../session/SinkTest.ts"
import { assertRowsAreBounded, layerOfLargeRecords } from "../store/RowsTest.ts"
import { assertScans } from "../store/ScansTest.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
  await query(server, `CREATE ROLE ${guest.name} LOGIN PASSWORD '${guest.password}'`)
})
afterAll(() => server.stop())

suite("postgres://HOST/DATABASE", {
  layer: (folder) => PostgresSink.layer(urlOf(server, schemaOf(folder))),
  read: (folder, list) => rowsOf(server, schemaOf(folder), list),
  content: (folder) => contentOf(server, schemaOf(folder)),
  snapshots: false,
  execute: async (folder, statement) => void (await query(server, statement(`"${schemaOf(folder)}".`)))
})

const newSchema = () => `t_${randomUUID()}`

type Records = Parameters<typeof layerTest>[0]

const run = (schema: string, lists: Records, list: Lists.ListName = "payoutRequests") =>
  scan(list, { limit: 10 }).pipe(
    Effect.provide(Layer.merge(PostgresSink.layer(urlOf(server, schema)), layerTest(lists)))
  )

const ask = (sql: string, parameters: ReadonlyArray<unknown> = []) =>
  Effect.promise(() => query(server, sql, parameters))

describe("the checks of a PostgreSQL destination", () => {
  it.live("find missing privileges before an export does, and a read-only server, and write nothing", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const checks = Effect.fnUntraced(function*(role: string, name = schema) {
        const to = { _tag: "Postgres", url: { ...urlOf(server, name), user: role } } as const
        const findings = [yield* checkState(to, "memory", undefined), yield* checkWritable(to)]
        return findings.map(({ found, state }) => `${state}: ${found}`)
      })
      yield* ask("CREATE ROLE plain LOGIN")
      const [none, denied] = yield* checks("plain")
      assert.include(none, "ok: ")
      assert.include(none, "does not exist yet")
      assert.match(denied ?? "", /^failed: .*lacks a privilege/)
      assert.include((yield* checks(user))[1], "ok: ")
      assert.deepStrictEqual(yield* ask("SELECT FROM pg_namespace WHERE nspname = $1", [schema]), [])
      yield* run(schema, { payoutRequests: [{ id: "a" }] })
      const before = yield* Effect.promise(() => contentOf(server, schema))
      const owner = yield* checks(user)
      assert.include(owner[0], "belongs to this source")
      assert.strictEqual(owner[1], "ok: the user has the privileges")
      assert.deepStrictEqual(yield* Effect.promise(() => contentOf(server, schema)), before)
      yield* ask(`GRANT USAGE ON SCHEMA "${schema}" TO plain`)
      yield* ask(`GRANT SELECT ON ALL TABLES IN SCHEMA "${schema}" TO plain`)
      const [readable, unwritable] = yield* checks("plain")
      assert.include(readable, "belongs to this source")
      assert.match(unwritable ?? "", /^failed: .*lacks a privilege/)
      yield* ask("ALTER ROLE plain SET default_transaction_read_only = on")
      assert.match((yield* checks("plain"))[1] ?? "", /^failed: .*read-only.*default_transaction_read_only/)
    }).pipe(Effect.scoped))
})

describe("a PostgreSQL schema that is lost during an export", () => {
  it.live.each<readonly [title: string, statement: (schema: string) => string, code: string, advice: string]>([
    [
      "dropped",
      (schema: string) => `DROP SCHEMA "${schema}" CASCADE`,
      "(42P01)",
      "the schema, was dropped: restore it"
    ],
    ["closed to the user", (schema: string) => `REVOKE USAGE ON SCHEMA "${schema}" FROM leaving`, "(42501)", "USAGE"]
  ])("is reported if it is %s, with what to do and code 9", ([, statement, code, advice]) =>
    Effect.gen(function*() {
      const list = Lists.payoutRequests
      const schema = newSchema()
      yield* ask("DROP ROLE IF EXISTS leaving")
      yield* ask("CREATE ROLE leaving LOGIN")
      yield* run(schema, {})
      yield* ask(`GRANT USAGE ON SCHEMA "${schema}" TO leaving`)
      yield* ask(`GRANT ALL ON ALL TABLES IN SCHEMA "${schema}" TO leaving`)
      const ended = yield* Effect.scoped(Effect.gen(function*() {
        const url = { ...urlOf(server, schema), user: "leaving" }
        const { begin, lock } = makeSink(yield* openStore(yield* settingsOf(url)))
        yield* lock(list, "refuse")
        const session = yield* begin(list, { source: "memory", limit: 10, parameters: {} })
        yield* ask(statement(schema))
        return yield* Effect.flip(session.commit(batchOf(list, [recordOf(list, "a", `{"id":"a"}`)], null)))
      }))
      assert.strictEqual(exitCodeOf(ended), ExitCode.destination)
      assert.include(ended.message, code)
      assert.include(ended.message, advice)
      yield* ask("DROP OWNED BY leaving")
    }))
})

describe("a PostgreSQL server whose transactions are read-only by default", () => {
  const setDefault = (value: "on" | "off") =>
    ask(`ALTER SYSTEM SET default_transaction_read_only = ${value}`).pipe(
      Effect.andThen(ask("SELECT pg_reload_conf()")),
      Effect.andThen(
        Effect.repeat(ask("SHOW default_transaction_read_only"), {
          until: ([row]) => row?.["default_transaction_read_only"] === value
        })
      )
    )

  it.live("refuses exports, and those that run release their leases", () =>
    Effect.gen(function*() {
      yield* Effect.addFinalizer(() => setDefault("off"))
      const list = Lists.payoutRequests
      const schema = newSchema()
      const ended = yield* Effect.scoped(Effect.gen(function*() {
        const { begin, lock } = makeSink(yield* openStore(yield* settingsOf(urlOf(server, schema))))
        yield* lock(list, "refuse")
        const session = yield* begin(list, { source: "memory", limit: 10, parameters: {} })
        yield* session.commit(batchOf(list, [recordOf(list, "a", `{"id":"a"}`)], "next"))
        yield* setDefault("on")
        return yield* Effect.flip(session.commit(batchOf(list, [recordOf(list, "b", `{"id":"b"}`)], null)))
      }))
      assert.include(ended.message, "the server is read-only")
      assert.include(ended.message, "(25006)")
      const leases = yield* ask(`SELECT label, expires > clock_timestamp() AS valid FROM "${schema}".leases`)
      assert.deepStrictEqual(leases, [{ label: list.label, valid: false }])
      const before = yield* Effect.promise(() => contentOf(server, schema))
      const { message } = yield* Effect.flip(run(schema, { payoutRequests: [{ id: "a" }] }))
      assert.include(message, "default_transaction_read_only is on. Turn it off")
      assert.deepStrictEqual(yield* Effect.promise(() => contentOf(server, schema)), before)
      yield* setDefault("off")
      yield* run(schema, { payoutRequests: [{ id: "a" }, { id: "b" }] })
    }).pipe(Effect.scoped))
})

describe("the PostgreSQL schema", () => {
  it.live("begins a part only between the commits of other parts, because that ends transactions that still run", () =>
    Effect.gen(function*() {
      const list = Lists.invoices
      const store = yield* openStore(yield* settingsOf(urlOf(server, newSchema())))
      const { begin, lock } = makeSink(store)
      yield* lock(list, "refuse")
      const scanPart = (value: number) =>
        Effect.scoped(Effect.gen(function*() {
          const part = { field: "contract", value: `${value}` }
          yield* Effect.sleep(value * 10)
          const session = yield* begin(list, { source: "memory", limit: 10, parameters: {}, part })
          for (const last of [false, true]) {
            const id = `inv_${value}_${last}`
            yield* session.commit(batchOf(list, [recordOf(list, id, `{"id":"${id}"}`)], last ? null : "next"))
          }
        }))
      yield* Effect.forEach(Array.from({ length: 40 }, (_, index) => index), scanPart, { concurrency: "unbounded" })
      assert.strictEqual((yield* store.scans(list)).filter(({ state }) => state === "complete").length, 40)
    }).pipe(Effect.scoped))

  it.live("returns each part's scans from its last complete one on", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const store = yield* openStore(yield* settingsOf(urlOf(server, schema)))
      yield* assertScans(store, `"${schema}".scans`, ask)
    }).pipe(Effect.scoped))

  it.live("returns fewer rows per call if they are large", () =>
    Effect.gen(function*() {
      const url = urlOf(server, newSchema())
      yield* scan("payoutRequests").pipe(Effect.provide(Layer.merge(PostgresSink.layer(url), layerOfLargeRecords)))
      yield* assertRowsAreBounded(yield* openStore(yield* settingsOf(url)))
    }).pipe(Effect.scoped))

  it.live("reports totals, fields or amounts that no export wrote, to verify, changes and an export", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const lists = { invoices: Array.from({ length: 30 }, (_, index) => ({ id: `inv_${index}`, amount: index })) }
      yield* run(schema, lists, "invoices")
      yield* run(schema, { invoices: lists.invoices.with(3, { id: "inv_3", amount: 33 }) }, "invoices")
      yield* ask(`UPDATE "${schema}".invoices SET amount = 9007199254740993 WHERE id = 'inv_5'`)
      yield* ask(`UPDATE "${schema}".scans SET totals = '{"counts":{}}'`)
      yield* ask(`UPDATE "${schema}".changes SET fields = '"amount"'`)
      yield* Effect.scoped(Effect.gen(function*() {
        const reader = yield* PostgresSink.reader(urlOf(server, schema))
        const { differences } = yield* verify(reader, Lists.invoices)
        assert.deepStrictEqual(differences.map(({ problem }) => problem), [
          "the totals of scan 2 cannot be read",
          "amount differs from raw"
        ])
        const { reason } = yield* Effect.flip(reader.changes(0, 10, Lists.all))
        assert.deepStrictEqual([reason._tag, reason.message], [
          "Damaged",
          "it is damaged: the fields of change 1 cannot be read. Export into a new destination (another --to), and keep this one until that is done."
        ])
      }))
      yield* ask(`UPDATE "${schema}".scans SET state = 'running' WHERE scan = 2`)
      const error = yield* Effect.flip(run(schema, lists, "invoices"))
      assert.include(error.message, "it is damaged: the totals of scan 2 cannot be read. Export into a new destination")
    }).pipe(Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({})))))

  it.live("has a typed column for every field, null where the field is absent, null or unreadable", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* run(schema, {
        payoutRequests: [
          {
            id: "a",
            amount: -9007199254740991,
            customerDetails: { name: "Zoë", documentNumber: "007" },
            payoutTargetDetails: null,
            createdAt: "2024-05-01T10:00:00Z"
          },
          { id: "b", amount: "12", fee: 3, customerDetails: "none" }
        ]
      })
      const [a, b] = yield* ask(`SELECT * FROM "${schema}".payout_requests ORDER BY id`)
      assert.deepInclude(a, {
        row: 0n,
        amount: -9007199254740991n,
        customer_details_name: "Zoë",
        customer_details_document_number: "007",
        payout_target_details_type: null,
        created_at: "2024-05-01T10:00:00Z",
        reference: null
      })
      assert.deepInclude(b, { row: 1n, amount: null, fee: 3n, customer_details_name: null })
      yield* run(schema, { payinSources: [{ id: "p", partialPayinsEnabled: true }] }, "payinSources")
      const [p] = yield* ask(`SELECT partial_payins_enabled FROM "${schema}".payin_sources`)
      assert.strictEqual(p?.["partial_payins_enabled"], true)
      assert.deepStrictEqual(yield* ask(`SELECT id, path FROM "${schema}".quarantine`), [
        { id: "b", path: "customerDetails" }
      ])
    }))

  it.live("replaces characters that a text column cannot store, and has the exact text in raw", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const raw = String.raw`{"id":"a","reference":"x\u0000y\ud800z","customerDetails":{"name":"\udc00"}}`
      yield* run(schema, { payoutRequests: [raw] })
      yield* run(schema, { payoutRequests: [raw.replace("\\ud800", "\\u0000\\udfff")] })
      assert.deepStrictEqual(
        yield* ask(`SELECT reference, customer_details_name, raw::text FROM "${schema}".payout_requests`),
        [{
          reference: "x\ufffdy\ufffd\ufffdz",
          customer_details_name: "\ufffd",
          raw: raw.replace("\\ud800", "\\u0000\\udfff")
        }]
      )
      assert.deepStrictEqual(yield* ask(`SELECT kind, before::text, fields FROM "${schema}".changes`), [
        { kind: "update", before: raw, fields: ["reference"] }
      ])
    }))

  it.live("stores records of the maximum size, depth and id length", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      // Random text cannot be compressed.
      const name = (bytes: number) => randomBytes(bytes).toString("base64url").slice(0, bytes)
      const records = [
        `{"id":"${name(2000)}"}`,
        `{"id":"${name(2001)}"}`,
        `{"id":"deep","x":${"[".repeat(499)}${"]".repeat(499)}}`,
        `{"id":"large","reference":"${name(8_000_000)}"}`,
        `{"id":"odd","x":1e99999,"y":-0,"d":1,"d":2}`
      ]
      const summary = yield* run(schema, { payoutRequests: records })
      assert.deepInclude(summary, { records: 5, inserted: 4, withoutId: 1 })
      const rows = yield* Effect.promise(() => rowsOf(server, schema, Lists.payoutRequests))
      assert.deepStrictEqual(rows.map(({ raw }) => raw).toSorted(), records.toSpliced(1, 1).toSorted())
    }))

  it.live("has the time when each row was last seen", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const all = Array.from({ length: 20 }, (_, index) => ({ id: `r${index}` }))
      yield* run(schema, { payoutRequests: all })
      yield* run(schema, { payoutRequests: all.slice(3) })
      const found = yield* ask(
        `SELECT id, last_seen_at > changed_at AS later FROM "${schema}".payout_requests_seen ORDER BY "row"`
      )
      assert.deepStrictEqual(
        found,
        all.map(({ id }, index) => ({ id, later: index >= 3 }))
      )
    }))

  it.live("writes nothing for an unchanged record, and deletes the quarantine of older scans", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const lists = { payoutRequests: [{ id: "a" }, { id: "b", amount: "bad" }] }
      yield* run(schema, lists)
      const rows = () => ask(`SELECT xmin::text, ctid::text, raw::text FROM "${schema}".payout_requests ORDER BY id`)
      const before = yield* rows()
      for (let times = 0; times < 3; times++) yield* run(schema, lists)
      assert.deepStrictEqual(yield* rows(), before)
      assert.deepStrictEqual(yield* ask(`SELECT scan, id FROM "${schema}".quarantine`), [{ scan: 4n, id: "b" }])
    }))

  it.live("marks rows missing that two scans did not return, and records when they return", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const all = Array.from({ length: 30 }, (_, index) => ({ id: `r${index}` }))
      yield* run(schema, { payoutRequests: all })
      for (let times = 0; times < 2; times++) yield* run(schema, { payoutRequests: all.slice(2) })
      yield* run(schema, { payoutRequests: [...all.slice(1), { id: "new" }] })
      assert.deepStrictEqual(
        yield* ask(`SELECT seq, kind, id FROM "${schema}".changes ORDER BY seq`),
        [
          { seq: 1n, kind: "missing", id: "r0" },
          { seq: 2n, kind: "missing", id: "r1" },
          { seq: 3n, kind: "returned", id: "r1" },
          { seq: 4n, kind: "insert", id: "new" }
        ]
      )
      assert.deepStrictEqual(
        yield* ask(`SELECT id FROM "${schema}".payout_requests WHERE missing_since IS NOT NULL`),
        [{ id: "r0" }]
      )
    }))

  it.live("reports a removed quarantine, and does not differ from the API in ids that it cannot store", () =>
    Effect.scoped(Effect.gen(function*() {
      const schema = newSchema()
      const payinSources = [{ id: "p" }, { id: "q", amount: "1" }, { id: "r\0" }]
      yield* run(schema, { payinSources }, "payinSources")
      const reader = yield* PostgresSink.reader(urlOf(server, schema))
      assert.deepStrictEqual((yield* verify(reader, Lists.payinSources)).differences, [])
      const compared = yield* verifyAgainstApi(reader, Lists.payinSources).pipe(
        Effect.provide(layerTest({ payinSources }))
      )
      assert.deepStrictEqual(compared.differences, [])
      yield* ask(`DELETE FROM "${schema}".quarantine WHERE id IS NULL`)
      const { differences } = yield* verify(reader, Lists.payinSources)
      assert.deepStrictEqual(differences.map(({ problem }) => problem), [
        "the number of quarantined records differs from the certificate's",
        "the number of records without an id differs from the certificate's"
      ])
    })))

  it.live("returns its quarantine in chunks, and the changes since a time", () =>
    Effect.scoped(Effect.gen(function*() {
      const schema = newSchema()
      const wrong = Array.from({ length: 5 }, (_, index) => ({ id: `w${index}`, amount: "x" }))
      yield* run(schema, { payoutRequests: [...wrong, { amount: 1 }] })
      yield* run(schema, { payoutRequests: [...wrong, { amount: 1 }, { id: "new" }] })
      const reader = yield* PostgresSink.reader(urlOf(server, schema))
      const found: Array<string | undefined> = []
      for (let after: string | undefined;;) {
        const rows = yield* reader.quarantine(after, 2, Lists.all)
        if (rows.length === 0) break
        after = rows.at(-1)?.place
        found.push(...rows.map(({ id, path, raw }) => `${id} ${path} ${raw}`))
      }
      assert.deepStrictEqual(found, [
        ...wrong.map((record) => `${record.id} amount ${JSON.stringify(record)}`),
        `undefined id {"amount":1}`
      ])
      assert.deepStrictEqual(yield* reader.quarantine(undefined, 2, [Lists.invoices]), [])
      const since = (moment: string) =>
        Effect.map(reader.changes(0, 10, Lists.all, { since: moment }), (rows) => rows.length)
      assert.deepStrictEqual([yield* since("2024-05-01T10:00:00.000Z"), yield* since("9999-01-01T00:00:00.000Z")], [
        1,
        0
      ])
    })))

  it.live("can be verified from its own rows", () =>
    Effect.scoped(Effect.gen(function*() {
      const schema = newSchema()
      yield* run(schema, {
        payinSources: [{ id: "p", partialPayinsEnabled: true, amount: 5 }, { id: "q", partialPayinsEnabled: false }]
      }, "payinSources")
      const reader = yield* PostgresSink.reader(urlOf(server, schema))
      assert.deepStrictEqual((yield* verify(reader, Lists.payinSources)).differences, [])
      yield* ask(
        `UPDATE "${schema}".payin_sources SET partial_payins_enabled = NOT partial_payins_enabled WHERE id = 'q'`
      )
      const { differences } = yield* verify(reader, Lists.payinSources)
      assert.deepStrictEqual(differences.map(({ id }) => id), ["q"])
      const changes = yield* reader.changes(0, 10, Lists.all)
      assert.deepStrictEqual(changes, [])
    })))

  it.live.each(
    [
      ["tables of another program", (schema: string) => [`CREATE TABLE "${schema}".invoices (id int)`]],
      ["another program's table of that name", (schema: string) => [
        `CREATE TABLE "${schema}".destination (version int)`
      ]],
      ["a destination of a later version", (schema: string) => [
        `CREATE TABLE "${schema}".destination (singleton boolean, version int, source text, changes bigint)`,
        `INSERT INTO "${schema}".destination VALUES (true, 99, null, 0)`
      ]]
    ] as const
  )("refuses %s and does not change them", ([, make]) =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* ask(`CREATE SCHEMA "${schema}"`)
      yield* Effect.forEach(make(schema), (sql) => ask(sql))
      const tables = () => ask(`SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace`, [`"${schema}"`])
      const before = yield* tables()
      const error = yield* Effect.flip(run(schema, { payoutRequests: [{ id: "a" }] }))
      assert.strictEqual(error._tag === "SinkError" && error.reason._tag, "NotADestination")
      assert.deepStrictEqual(yield* tables(), before)
    }))

  it.live("uses an existing empty schema, with any name", () =>
    Effect.gen(function*() {
      const schema = `"; DROP SCHEMA x; -- ${randomUUID()}`
      yield* ask(`CREATE SCHEMA ${`"${schema.replaceAll("\"", "\"\"")}"`}`)
      const url = Result.getOrThrow(
        parse(`postgres://${user}@127.0.0.1:${server.port}/postgres?schema=${encodeURIComponent(schema)}`)
      )
      const summary = yield* scan("payoutRequests").pipe(
        Effect.provide(Layer.merge(PostgresSink.layer(url), layerTest({ payoutRequests: [{ id: "a" }] })))
      )
      assert.strictEqual(summary.inserted, 1)
    }))

  it.live("is created once if several programs start at the same time", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const names = Lists.all.map(({ name }) => name)
      const summaries = yield* Effect.forEach(names, (name) => run(schema, { [name]: [{ id: "a" }] }, name), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(summaries.map(({ inserted }) => inserted), names.map(() => 1))
    }))
})

describe("a reader of the PostgreSQL schema", () => {
  it.live("never sees a part of a batch, or a later change before an earlier one, while lists are written concurrently", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const lists = (from: number): Records =>
        Object.fromEntries(
          Lists.all.map((
            { name }
          ) => [name, Array.from({ length: 200 }, (_, index) => ({ id: `r${from + index}`, amount: from }))])
        )
      const exported = (records: Records) =>
        scanAll(Lists.all.map(({ name }) => name), { limit: 10, largestBatch: 20 }).pipe(
          Effect.provide(Layer.merge(PostgresSink.layer(urlOf(server, schema)), layerTest(records)))
        )
      const codes = (outcomes: ReadonlyArray<ScanOutcome>) => outcomes.map(outcomeExitCode)
      yield* exported({})
      let reads = 0
      let lastSeq = 0n
      const written: Array<ReadonlyArray<number>> = []
      const exportNext = Effect.suspend(() =>
        Effect.map(exported(lists(10 * written.length)), (outcomes) => void written.push(codes(outcomes)))
      )
      const writing = yield* Effect.forkChild(
        // On a busy machine, the reader may be slower than three exports.
        Effect.repeat(exportNext, { until: () => written.length >= 3 && reads > 10 })
      )
      let isLast = false
      while (!isLast) {
        isLast = writing.pollUnsafe() !== undefined
        const counts = yield* ask(
          Lists.all.map((list) =>
            `SELECT (SELECT count(*) FROM "${schema}".${tableOf(list)}) AS rows,
            (SELECT coalesce(sum((totals #>> '{counts,inserted}')::bigint), 0) FROM "${schema}".scans
              WHERE list = '${list.label}')::bigint AS counted`
          ).join(" UNION ALL ")
        )
        for (const { counted, rows } of counts) assert.strictEqual(rows, counted)
        const changes = yield* ask(`SELECT seq FROM "${schema}".changes WHERE seq > $1 ORDER BY seq`, [lastSeq])
        assert.deepStrictEqual(changes.map(({ seq }) => seq), changes.map((_, index) => lastSeq + BigInt(index) + 1n))
        lastSeq += BigInt(changes.length)
        reads++
      }
      yield* Fiber.join(writing)
      assert.deepStrictEqual(written, written.map(() => Lists.all.map(() => 0)))
      assert.isAbove(Number(lastSeq), 300)
    }))
})

describe("a locked PostgreSQL destination", () => {
  it.live("fails at once with the holder of the lock, or waits", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const records = { payoutRequests: [{ id: "a" }] }
      const sink = () => PostgresSink.layer(urlOf(server, schema), { ...Lease.times, validity: Duration.minutes(2) })
      const reached = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(
        scan("payoutRequests", {
          onEvent: ({ _tag }) =>
            _tag === "Committed" ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never) : Effect.void
        }).pipe(Effect.provide(Layer.merge(sink(), layerTest(records))))
      )
      yield* Deferred.await(reached)
      // The refusal comes before the lease would expire.
      const refused = scan("payoutRequests").pipe(Effect.provide(Layer.merge(sink(), layerTest(records))))
      const error = yield* Effect.flip(Effect.timeout(refused, "90 seconds"))
      assert.match(error.message, new RegExp(`process ${process.pid} on \\S+ since 20`))
      const waiting = yield* Effect.forkChild(
        scan("payoutRequests", { onLocked: "wait" }).pipe(Effect.provide(Layer.merge(sink(), layerTest(records))))
      )
      // Other lists are not locked.
      yield* run(schema, {}, "invoices")
      yield* Effect.sleep("1 second")
      assert.isUndefined(waiting.pollUnsafe())
      yield* Fiber.interrupt(first)
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(waiting)))
    }))

  it.live("is unlocked when its scope closes", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const scope = yield* Scope.make()
      const sink = yield* Scope.provide(Layer.build(PostgresSink.layer(urlOf(server, schema))), scope)
      assert.isDefined(sink)
      yield* Scope.close(scope, Exit.void)
      yield* run(schema, {})
      yield* run(schema, {})
    }))
})

describe("a PostgreSQL server that rejects the connection", () => {
  const attempt = (text: string, env: { readonly [name: string]: string } = {}) =>
    Effect.flip(
      Effect.scoped(Layer.build(PostgresSink.layer(Result.getOrThrow(parse(text))))).pipe(
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ PGPASSFILE: "/nowhere", ...env })))
      )
    )
  const here = (name: string, rest = "") => `postgres://${name}@127.0.0.1:${server.port}/${rest}`

  it.live("is distinguished from an unreachable server, in one line with what to do, and without a password", () =>
    Effect.gen(function*() {
      const wrong = "hunter2"
      for (
        const [text, env, code, words] of [
          ["postgres://x@127.0.0.1:1/x", {}, "ECONNREFUSED", "Check host and port"],
          [
            here(guest.name, "postgres"),
            {},
            "no password",
            `for the user ${guest.name} (from the URL). Give it in PGPASSWORD`
          ],
          [
            here(guest.name, "postgres"),
            { PGPASSWORD: wrong },
            "28P01",
            `the user ${guest.name} (from the URL), or the password. Correct the user in the URL, or the password in PGPASSWORD`
          ],
          [
            here(`${guest.name}:${wrong}`, "postgres"),
            {},
            "28P01",
            "Correct the user in the URL, or the password in the URL"
          ],
          [
            `postgres://127.0.0.1:${server.port}/postgres`,
            { PGUSER: guest.name, PGPASSWORD: wrong },
            "28P01",
            `the user ${guest.name} (from PGUSER), or the password. Correct the user in PGUSER, or the password in PGPASSWORD`
          ],
          [
            `postgres://127.0.0.1:${server.port}/postgres`,
            { PGPASSWORD: wrong },
            "28000",
            `the user ${userInfo().username} (this system's user, because neither the URL nor PGUSER names one)`
          ],
          [here(user, "nowhere"), {}, "3D000", "CREATE DATABASE"],
          [here(guest.name, "postgres"), { PGPASSWORD: guest.password }, "42501", "privilege"],
          [here(user, "postgres?sslmode=require"), {}, "no TLS", "sslmode=disable"]
        ] as const
      ) {
        const { message, reason } = yield* attempt(text, env)
        assert.deepStrictEqual(
          [reason._tag, "code" in reason && reason.code],
          [code === "ECONNREFUSED" ? "Unavailable" : "Failed", code]
        )
        assert.include(message, words)
        assert.notInclude(message, wrong)
        assert.notInclude(message, "\n")
      }
    }))

  it.live("accepts a password from the variable, the password file or the URL in the environment", () =>
    Effect.gen(function*() {
      yield* ask(`CREATE SCHEMA for_guest AUTHORIZATION ${guest.name}`)
      const folder = mkdtempSync(join(tmpdir(), "pgpass-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      const file = join(folder, "pgpass")
      const escaped = guest.password.replaceAll(/[:\\]/g, "\\$&")
      writeFileSync(
        file,
        `# ours\nelsewhere:*:*:*:no\n127.0.0.1:${server.port}:*:${guest.name}:${escaped}\n*:*:*:*:no\n`,
        {
          mode: 0o600
        }
      )
      const url = here(guest.name, "postgres?schema=for_guest")
      for (
        const [text, env] of [
          [url, { PGPASSWORD: guest.password }],
          [url, { PGPASSFILE: file }],
          [url.replace("guest@", `guest:${encodeURIComponent(guest.password)}@`), {}]
        ] as const
      ) {
        yield* Effect.scoped(Layer.build(PostgresSink.layer(Result.getOrThrow(parse(text))))).pipe(
          Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ PGPASSFILE: "/nowhere", ...env })))
        )
      }
    }).pipe(Effect.scoped))
})

// The server stays a standby, so this is the last test.
describe("a hot standby", () => {
  it.live("can be read, and says what it is to all that write", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* run(schema, { payoutRequests: [{ id: "a" }] })
      yield* Effect.promise(server.restartAsStandby)
      const to = { _tag: "Postgres", url: urlOf(server, schema) } as const
      const state = yield* checkState(to, "memory", undefined, [Lists.payoutRequests])
      assert.match(`${state.state}: ${state.found}`, /^ok: .*belongs to this source; payout-requests 1 row$/)
      const writable = yield* checkWritable(to)
      const sentence = /hot standby, which is read-only. Name the primary server/
      assert.strictEqual(writable.state, "failed")
      assert.match(`${writable.found}. ${writable.advice}`, sentence)
      for (const name of [schema, newSchema()]) {
        const error = yield* Effect.flip(run(name, { payoutRequests: [{ id: "a" }] }))
        assert.strictEqual(exitCodeOf(error), ExitCode.destination)
        assert.match(error.message, sentence)
      }
      // A command that changes an existing destination notices it at its first statement that writes.
      const maintained = yield* Effect.flip(Effect.scoped(Effect.gen(function*() {
        const maintenance = yield* openMaintenance(yield* settingsOf(urlOf(server, schema)))
        return yield* maintenance.removeConsumer("reader")
      })))
      assert.include(maintained.message, "the server is read-only: it is a standby")
    }))
})
