/**
 * A {@link Store} in one schema of a PostgreSQL database. A batch is one transaction of a handful of statements, each of
 * them over all its rows; writers hold a lease of their list (`PostgresLease.ts`).
 */
import type { Lists } from "@payments/core"
import { Effect, type Scope } from "effect"
import { type Cell, type Column, layoutOf } from "./Columns.ts"
import type { RowWrite } from "./Plan.ts"
import {
  binaries,
  booleans,
  connect,
  integers,
  type Parameter,
  type PostgresClient,
  type Query,
  type Row,
  texts
} from "./PostgresClient.ts"
import * as Lease from "./PostgresLease.ts"
import { migrate, quoted, requireCurrent } from "./PostgresSchema.ts"
import type { PostgresSettings } from "./PostgresSettings.ts"
import { OtherSource, SinkError } from "./Sink.ts"
import type { ChangeRow, Commit, FullRow, NewScan, Reader, ScanRow, Store } from "./Store.ts"

/** Opens the schema, which is made if it is not there, until the scope closes. */
export const openStore = (
  settings: PostgresSettings,
  times: Lease.Times = Lease.times
): Effect.Effect<Store, SinkError, Scope.Scope> =>
  Effect.gen(function*() {
    const client = yield* connect(settings)
    yield* migrate(client, settings.schema)
    const schema = quoted(settings.schema)
    return { ...readerOver(client, schema), ...writerOver({ client, schema, times }) }
  })

/** Opens the schema for reading alone, until the scope closes. It must be there. */
export const openReader = (settings: PostgresSettings): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  Effect.gen(function*() {
    const client = yield* connect(settings)
    yield* requireCurrent(client, settings.schema)
    return readerOver(client, quoted(settings.schema))
  })

const readerOver = ({ location, query }: PostgresClient, s: string): Reader => ({
  location,
  source: Effect.map(query(`SELECT source FROM ${s}.destination`), ([row]) => optional(row, "source")),
  scans: (list) =>
    Effect.map(
      query(
        `SELECT scan, part, asked, state, checkpoint, first_row, tally::text, certificate::text,
          ${iso("started_at")}, ${iso("ended_at")} FROM ${s}.scans AS s WHERE list = $1
          AND scan >= coalesce((SELECT max(scan) FROM ${s}.scans
            WHERE list = s.list AND part = s.part AND state = 'complete'), 0) ORDER BY scan DESC`,
        [list.label]
      ),
      (rows) => rows.map(toScan)
    ),
  find: (list, ids) =>
    Effect.map(
      query(
        `SELECT last.next, t."row", t.id, t.hash, t.missing_since IS NOT NULL AS missing
        FROM (SELECT coalesce(max("row") + 1, 0) AS next FROM ${s}.${layoutOf(list).table}) AS last
        LEFT JOIN ${s}.${layoutOf(list).table} AS t ON t.id = ANY ($1)`,
        [texts(ids)]
      ),
      (rows) => ({
        stored: new Map(
          rows.filter((row) => row["id"] !== null).map((row) => [
            text(row, "id"),
            { row: number(row, "row"), hash: text(row, "hash"), missing: row["missing"] === true }
          ])
        ),
        nextRow: number(rows[0], "next")
      })
    ),
  textsOf: (list, rows) =>
    Effect.map(
      query(`SELECT "row", raw::text FROM ${s}.${layoutOf(list).table} WHERE "row" = ANY ($1)`, [integers(rows)]),
      (found) => new Map(found.map((row) => [number(row, "row"), text(row, "raw")]))
    ),
  seen: (scans) =>
    Effect.map(
      query(`SELECT piece, bits FROM ${s}.seen WHERE scan = ANY ($1)`, [integers(scans)]),
      (rows) => rows.map((row) => ({ index: number(row, "piece"), bits: bytes(row, "bits") }))
    ),
  missing: (list) => {
    const { table } = layoutOf(list)
    return Effect.map(
      query(
        `SELECT (SELECT count(*) FROM ${s}.${table} WHERE missing_since IS NULL) AS present,
          ARRAY(SELECT "row" FROM ${s}.${table} WHERE missing_since IS NOT NULL) AS gone`
      ),
      ([row]) => {
        const gone = row?.["gone"]
        return { rows: Array.isArray(gone) ? gone.map(Number) : [], present: number(row, "present") }
      }
    )
  },
  rows: (list, after, count) =>
    Effect.map(
      query(
        `SELECT "row", ${layoutOf(list).columns.map(({ name }) => quoted(name)).join(", ")}, raw::text, hash,
          ${iso("first_seen_at")}, ${iso("changed_at")}, ${iso("missing_since")}
        FROM ${s}.${layoutOf(list).table} WHERE "row" > $1::bigint ORDER BY "row" LIMIT $2::bigint`,
        [String(after), String(count)]
      ),
      (rows) => rows.map((row) => toFullRow(list, row))
    ),
  textsAt: (list, scan, ids) =>
    Effect.map(
      query(
        `SELECT DISTINCT ON (id) id, before::text FROM ${s}.changes
        WHERE list = $1 AND id = ANY ($2) AND scan > $3::bigint AND before IS NOT NULL ORDER BY id, seq`,
        [list.label, texts(ids), String(scan)]
      ),
      (rows) => new Map(rows.map((row) => [text(row, "id"), text(row, "before")]))
    ),
  changes: (after, count, lists) =>
    Effect.map(
      query(
        `SELECT seq, list, scan, ${iso("at")}, kind, id, fields::text, before::text, after::text FROM ${s}.changes
        WHERE seq > $1::bigint AND list = ANY ($2) ORDER BY seq LIMIT $3::bigint`,
        [String(after), texts(lists.map(({ label }) => label)), String(count)]
      ),
      (rows) => rows.map(toChange)
    )
})

const writerOver = (leases: Lease.Leases): Pick<Store, "hold" | "rebind" | "start" | "commit"> => {
  const { client, schema: s } = leases
  const held = new Map<string, Lease.Lease>()
  const leaseOf = (list: Lists.AnyList) =>
    Effect.suspend(() => {
      const lease = held.get(list.label)
      return lease === undefined ? Effect.die(new Error(`${list.label} is not held`)) : Effect.succeed(lease)
    })
  return {
    hold: (label, onLocked) => Effect.map(Lease.take(leases, label, onLocked), (lease) => void held.set(label, lease)),
    rebind: (source) => Effect.asVoid(client.query(`UPDATE ${s}.destination SET source = $1`, [source])),
    start: (scan) =>
      Effect.flatMap(
        leaseOf(scan.list),
        (lease) => Lease.commit(leases, lease, (query) => start(query, s, scan), (query) => running(query, s, scan))
      ),
    commit: (commit) =>
      Effect.flatMap(
        leaseOf(commit.list),
        (lease) =>
          Lease.commit(leases, lease, (query, bound) =>
            writeAll(query, client.location, s, bound, commit), () =>
            Effect.void)
      )
  }
}

const start = (query: Query, s: string, { asked, firstRow, list, now, part, tally }: NewScan) =>
  Effect.map(
    Effect.andThen(
      query(
        `UPDATE ${s}.scans SET state = 'abandoned', ended_at = $1::timestamptz
        WHERE list = $2 AND part = $3 AND state = 'running'`,
        [now, list.label, part]
      ),
      query(
        `INSERT INTO ${s}.scans (list, part, asked, state, first_row, tally, started_at)
        VALUES ($1, $2, $3, 'running', $4::bigint, $5::json, $6::timestamptz) RETURNING scan`,
        [list.label, part, asked, String(firstRow), tally, now]
      )
    ),
    ([row]) => number(row, "scan")
  )

const running = (query: Query, s: string, { list, part }: NewScan) =>
  Effect.map(
    query(`SELECT scan FROM ${s}.scans WHERE list = $1 AND part = $2 AND state = 'running'`, [list.label, part]),
    ([row]) => number(row, "scan")
  )

/** The statements of one commit. Those that have nothing to write are left out. */
const writeAll = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  s: string,
  bound: string | undefined,
  { again = false, checkpoint, end, list, now, plan, scan, seen, source, tally }: Commit
): Effect.fn.Return<void, SinkError> {
  const { columns, table } = layoutOf(list)
  if (bound !== source) {
    // Bound by the first rows, not by the first attempt: an address may have been mistyped. Another list may be first.
    if (bound === undefined) {
      yield* query(`UPDATE ${s}.destination SET source = $1 WHERE source IS NULL`, [source])
    }
    const [row] = yield* query(`SELECT source FROM ${s}.destination`)
    if (row?.["source"] !== source) {
      return yield* new SinkError({ location, reason: new OtherSource({ bound: text(row, "source"), given: source }) })
    }
  }
  const number = String(scan)
  if (again) {
    yield* query(`DELETE FROM ${s}.quarantine WHERE scan = $1::bigint`, [number])
    yield* query(`DELETE FROM ${s}.seen WHERE scan = $1::bigint`, [number])
  }
  const names = [...columns.map(({ name }) => quoted(name)), "raw", "hash"]
  const given = rowsFrom(columns)
  const [fresh, known] = [plan.writes.filter(({ isNew }) => isNew), plan.writes.filter(({ isNew }) => !isNew)]
  if (fresh.length > 0) {
    yield* query(
      `INSERT INTO ${s}.${table} ("row", ${names.join(", ")}, first_seen_at, changed_at)
      SELECT u."row", ${names.map((name) => `u.${name}${cast(name)}`).join(", ")}, $1::timestamptz, $1::timestamptz
      FROM ${given}`,
      [now, ...cellsOf(columns, fresh)]
    )
  }
  if (known.length > 0) {
    yield* query(
      `UPDATE ${s}.${table} AS t SET ${names.map((name) => `${name} = u.${name}${cast(name)}`).join(", ")},
        changed_at = $1::timestamptz, missing_since = NULL FROM ${given} WHERE t."row" = u."row"`,
      [now, ...cellsOf(columns, known)]
    )
  }
  if (plan.found.length > 0) {
    yield* query(`UPDATE ${s}.${table} SET missing_since = NULL WHERE "row" = ANY ($1)`, [integers(plan.found)])
  }
  if (plan.changes.length > 0) {
    yield* query(
      `WITH last AS (UPDATE ${s}.destination SET changes = changes + $1::bigint RETURNING changes - $1::bigint AS seq)
      INSERT INTO ${s}.changes (seq, list, scan, at, kind, id, fields, before, after)
      SELECT last.seq + u.place, $2, $3::bigint, $4::timestamptz, u.kind, u.id, u.fields::json, u.before::json,
        u.after::json FROM last, unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) WITH ORDINALITY
        AS u (kind, id, fields, before, after, place)`,
      [
        String(plan.changes.length),
        list.label,
        number,
        now,
        texts(plan.changes.map(({ kind }) => kind)),
        texts(plan.changes.map(({ id }) => id)),
        texts(plan.changes.map(({ fields }) => JSON.stringify(fields))),
        texts(plan.changes.map(({ before = null }) => before)),
        texts(plan.changes.map(({ after }) => after))
      ]
    )
  }
  if (plan.quarantined.length > 0) {
    yield* query(
      `INSERT INTO ${s}.quarantine (scan, list, id, path, expected, raw)
      SELECT $1::bigint, $2, u.id, u.path, u.expected, u.raw::json
      FROM unnest($3::text[], $4::text[], $5::text[], $6::text[]) AS u (id, path, expected, raw)`,
      [
        number,
        list.label,
        texts(plan.quarantined.map(({ id = null }) => id)),
        texts(plan.quarantined.map(({ path }) => path)),
        texts(plan.quarantined.map(({ expected }) => expected)),
        texts(plan.quarantined.map(({ raw }) => raw))
      ]
    )
  }
  yield* query(
    `WITH pieces AS (
      INSERT INTO ${s}.seen (scan, piece, bits) SELECT $1::bigint, u.piece, u.bits FROM unnest($2::bigint[], $3::bytea[])
        AS u (piece, bits) ON CONFLICT (scan, piece) DO UPDATE SET bits = excluded.bits
    )
    UPDATE ${s}.scans SET tally = $4::json, checkpoint = $5, pages = ($4::json #>> '{counts,pages}')::bigint,
      records = ($4::json #>> '{counts,records}')::bigint, state = coalesce($6, state),
      certificate = coalesce($7::json, certificate), ended_at = coalesce($8::timestamptz, ended_at)
    WHERE scan = $1::bigint`,
    [
      number,
      integers(seen.map(({ index }) => index)),
      binaries(seen.map(({ bits }) => bits)),
      tally,
      checkpoint ?? null,
      end?.state ?? null,
      end?.certificate ?? null,
      end === undefined ? null : now
    ]
  )
  if (end === undefined) return
  if (end.missing.length > 0) {
    yield* query(
      `WITH gone AS (
        UPDATE ${s}.${table} SET missing_since = $1::timestamptz WHERE "row" = ANY ($2) RETURNING "row", id
      ), last AS (
        UPDATE ${s}.destination SET changes = changes + (SELECT count(*) FROM gone) RETURNING changes
      )
      INSERT INTO ${s}.changes (seq, list, scan, at, kind, id, fields)
      SELECT last.changes + 1 - row_number() OVER (ORDER BY gone."row" DESC), $3, $4::bigint, $1::timestamptz, 'missing',
        gone.id, '[]' FROM last, gone`,
      [now, integers(end.missing), list.label, number]
    )
  }
  if (end.forget.length > 0) {
    yield* query(`DELETE FROM ${s}.seen WHERE scan = ANY ($1)`, [integers(end.forget)])
    yield* query(`DELETE FROM ${s}.quarantine WHERE scan = ANY ($1)`, [integers(end.forget)])
  }
})

const arrayTypes = { text: "text[]", integer: "bigint[]", boolean: "boolean[]" } as const

/** `u`: the rows that {@link cellsOf} gives from the second parameter on. */
const rowsFrom = (columns: ReadonlyArray<Column>): string => {
  const types = [...columns.map(({ kind }) => arrayTypes[kind]), "text[]", "text[]", "bigint[]"]
  const names = [...columns.map(({ name }) => quoted(name)), "raw", "hash", `"row"`]
  return `unnest(${types.map((type, index) => `$${index + 2}::${type}`).join(", ")}) AS u (${names.join(", ")})`
}

const cast = (name: string): string => name === "raw" ? "::json" : ""

const cellsOf = (columns: ReadonlyArray<Column>, writes: ReadonlyArray<RowWrite>): ReadonlyArray<Parameter> => [
  ...columns.map(({ kind }, index) => {
    const cells = writes.map((write) => write.cells[index] ?? null)
    switch (kind) {
      case "text":
        return texts(cells.map((cell) => cell === null ? null : String(cell)))
      case "integer":
        return integers(cells.map(toNumber))
      case "boolean":
        return booleans(cells.map((cell) => cell === null ? null : cell === 1))
    }
  }),
  texts(writes.map(({ raw }) => raw)),
  texts(writes.map(({ hash }) => hash)),
  integers(writes.map(({ row }) => row))
]

const toNumber = (cell: Cell): number | null => cell === null ? null : Number(cell)

/** A time as JavaScript writes it, under the column's name. */
const iso = (column: string): string =>
  `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS ${column}_iso`

type Found = Row | undefined

const text = (row: Found, name: string): string => String(row?.[name] ?? "")
const optional = (row: Found, name: string): string | undefined => row?.[name] == null ? undefined : String(row[name])
const number = (row: Found, name: string): number => Number(row?.[name] ?? 0)
const bytes = (row: Found, name: string): Uint8Array => {
  const value = row?.[name]
  return value instanceof Uint8Array ? value : new Uint8Array()
}

const toScan = (row: Row): ScanRow => ({
  scan: number(row, "scan"),
  part: text(row, "part"),
  asked: text(row, "asked"),
  state: text(row, "state") as ScanRow["state"], // the table's own check
  checkpoint: optional(row, "checkpoint"),
  firstRow: number(row, "first_row"),
  tally: text(row, "tally"),
  certificate: optional(row, "certificate"),
  startedAt: text(row, "started_at_iso"),
  endedAt: optional(row, "ended_at_iso")
})

const toFullRow = (list: Lists.AnyList, row: Row): FullRow => ({
  row: number(row, "row"),
  id: text(row, "id"),
  raw: text(row, "raw"),
  hash: text(row, "hash"),
  // As every destination has them: numbers, also for what is true or false.
  cells: Object.fromEntries(
    layoutOf(list).columns.map(({ kind, name }) => {
      const cell = row[name] ?? null
      return [name, kind === "text" || cell === null ? cell : Number(cell)]
    })
  ),
  firstSeenAt: text(row, "first_seen_at_iso"),
  changedAt: text(row, "changed_at_iso"),
  missingSince: optional(row, "missing_since_iso")
})

const toChange = (row: Row): ChangeRow => ({
  seq: number(row, "seq"),
  list: text(row, "list"),
  scan: number(row, "scan"),
  at: text(row, "at_iso"),
  kind: text(row, "kind") as ChangeRow["kind"], // the table's own check
  id: text(row, "id"),
  fields: JSON.parse(text(row, "fields")) as ReadonlyArray<string>, // only commit writes it
  before: optional(row, "before"),
  after: optional(row, "after")
})
