/** The statements of a commit into PostgreSQL. Each statement writes all its rows. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Cell, type Column, layoutOf } from "../plan/Columns.ts"
import type { RowWrite } from "../plan/Plan.ts"
import {
  OtherMerchant,
  OtherSource,
  type OwnerClaim,
  type PersonalBinding,
  RowsRemoved,
  SinkError
} from "../port/Sink.ts"
import { changeSince, toColumns } from "../store/PersonalBinding.ts"
import { readNumber as numberIn, readOptional, readText } from "../store/Rows.ts"
import { type Certified, type Commit, type Committed, type Fill, maxKeys, type PassCommit } from "../store/Store.ts"
import { binaries, booleans, integers, type Parameter, type Query, texts } from "./PostgresClient.ts"
import { type Bound, readBound } from "./PostgresLease.ts"
import { quoted } from "./PostgresSchema.ts"

/** Writes a commit. Statements with nothing to write are skipped. */
export const write = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  s: string,
  bound: Bound,
  { checkpoint, end, list, now, owner, personal, plan, restart = false, scan, seen, source, totals }: Commit
): Effect.fn.Return<Committed, SinkError> {
  const { table } = layoutOf(list)
  yield* bind(query, location, s, bound, source, personal)
  if (!(yield* hasReappeared(query, `${s}.${table}`, plan))) return "outdated"
  if (owner !== undefined) yield* bindOwner(query, location, s, owner)
  const number = String(scan)
  if (restart) {
    yield* query(`DELETE FROM ${s}.quarantine WHERE scan = $1::bigint`, [number])
    yield* query(`DELETE FROM ${s}.seen WHERE scan = $1::bigint`, [number])
  }
  yield* writePlan(query, s, list, plan, number, now)
  const updatedScans = yield* query(
    `WITH pieces AS (
      INSERT INTO ${s}.seen (scan, piece, bits) SELECT $1::bigint, u.piece, u.bits FROM unnest($2::bigint[], $3::bytea[])
        AS u (piece, bits) ON CONFLICT (scan, piece) DO UPDATE SET bits = excluded.bits
    )
    UPDATE ${s}.scans SET tally = $4::json, checkpoint = $5, pages = ($4::json #>> '{counts,pages}')::bigint,
      records = ($4::json #>> '{counts,records}')::bigint, state = coalesce($6, state),
      certificate = coalesce($7::json, certificate), ended_at = coalesce($8::timestamptz, ended_at)
    WHERE scan = $1::bigint RETURNING scan`,
    [
      number,
      integers(seen.map(({ index }) => index)),
      binaries(seen.map(({ bits }) => bits)),
      totals,
      checkpoint ?? null,
      end?.state ?? null,
      end?.certificate ?? null,
      end === undefined ? null : now
    ]
  )
  if (updatedScans.length === 0) {
    return yield* new SinkError({ location, reason: new RowsRemoved({ label: list.label }) })
  }
  if (end === undefined) return "whole"
  if (end.certified !== undefined && !(yield* isPresent(query, s, table, number, end.certified))) {
    yield* query(`UPDATE ${s}.scans SET state = 'incomplete', certificate = NULL WHERE scan = $1::bigint`, [number])
    return "rowsRemoved"
  }
  if (end.missing.length > 0) {
    yield* query(
      `WITH missing AS (
        UPDATE ${s}.${table} SET missing_since = $1::timestamptz WHERE "row" = ANY ($2) RETURNING "row", id
      ), last AS (
        UPDATE ${s}.destination SET changes = changes + (SELECT count(*) FROM missing) RETURNING changes, generation
      ), counted AS (${countChanges(s, "$3", "$1", "'missing'", "missing HAVING count(*) > 0")})
      INSERT INTO ${s}.changes (seq, list, scan, at, kind, id, fields, generation)
      SELECT last.changes + 1 - row_number() OVER (ORDER BY missing."row" DESC), $3, $4::bigint, $1::timestamptz, 'missing',
        missing.id, '[]', last.generation FROM last, missing`,
      [now, integers(end.missing), list.label, number]
    )
  }
  if (end.state === "complete") {
    // The number of the last change. A transaction of another list may be assigning further numbers.
    yield* query(
      `UPDATE ${s}.scans SET last_change = (SELECT changes FROM ${s}.destination) WHERE scan = $1::bigint`,
      [number]
    )
  }
  if (end.previous !== undefined) {
    yield* query(
      `DELETE FROM ${s}.quarantine WHERE scan IN (
        SELECT scan FROM ${s}.scans WHERE list = $1 AND kind IN ('head', 'window') AND scan > $2::bigint
          AND scan < $3::bigint
      )`,
      [list.label, String(end.previous), number]
    )
  }
  if (end.forget.length > 0) {
    yield* query(`DELETE FROM ${s}.seen WHERE scan = ANY ($1)`, [integers(end.forget)])
    yield* query(`DELETE FROM ${s}.quarantine WHERE scan = ANY ($1)`, [integers(end.forget)])
  }
  return "whole"
})

/**
 * Writes a commit of a pass. Returns its number. Writes nothing if the totals to correct have changed, or if a row that
 * reappeared was removed.
 */
export const writePass = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  s: string,
  bound: Bound,
  { correction, list, now, owner, pass, personal, plan, source }: PassCommit
): Effect.fn.Return<number | "outdated", SinkError> {
  yield* bind(query, location, s, bound, source, personal)
  if (!(yield* hasReappeared(query, `${s}.${layoutOf(list).table}`, plan))) return "outdated"
  if (correction !== undefined) {
    const corrected = yield* query(
      `UPDATE ${s}.scans SET tally = $1::json WHERE scan = $2::bigint AND tally::text = $3 RETURNING scan`,
      [correction.totals, String(correction.scan), correction.before]
    )
    if (corrected.length === 0) return "outdated"
  }
  if (owner !== undefined) yield* bindOwner(query, location, s, owner)
  const { firstRow, kind, request, startedAt, totals } = pass
  const scan = pass.scan ?? numberIn(
    (yield* query(
      `INSERT INTO ${s}.scans (list, kind, part, asked, state, first_row, tally, started_at)
      VALUES ($1, $2, '', $3, 'complete', $4::bigint, $5::json, $6::timestamptz) RETURNING scan`,
      [list.label, kind, request, String(firstRow), totals, startedAt]
    ))[0],
    "scan"
  )
  yield* writePlan(query, s, list, plan, String(scan), now)
  yield* query(
    `UPDATE ${s}.scans SET tally = $2::json, pages = ($2::json #>> '{counts,pages}')::bigint,
      records = ($2::json #>> '{counts,records}')::bigint, ended_at = $3::timestamptz,
      last_change = (SELECT changes FROM ${s}.destination) WHERE scan = $1::bigint`,
    [String(scan), totals, now]
  )
  return scan
})

/**
 * Returns the result of an earlier run of the same commit. If that run wrote something, the last pass of its kind has the totals
 * of the commit: each commit of a pass adds to them.
 */
export const passOf = (
  query: Query,
  s: string,
  { list, pass }: PassCommit
): Effect.Effect<number | "outdated", SinkError> =>
  Effect.map(
    query(
      `SELECT max(scan) AS scan FROM ${s}.scans
      WHERE list = $1 AND kind = $2 AND started_at = $3::timestamptz AND tally::text = $4`,
      [list.label, pass.kind, pass.startedAt, pass.totals]
    ),
    ([row]) => readOptional(row, "scan") === undefined ? "outdated" : numberIn(row, "scan")
  )

/**
 * Whether the rows that reappeared exist. `prune` may have removed them, because they were missing. It removes no other rows.
 * From now on until the transaction ends, it does not remove them.
 */
const hasReappeared = (
  query: Query,
  table: string,
  { reappeared }: Commit["plan"]
): Effect.Effect<boolean, SinkError> =>
  reappeared.length === 0
    ? Effect.succeed(true)
    : Effect.map(
      query(`SELECT "row" FROM ${table} WHERE "row" = ANY ($1) ORDER BY "row" FOR UPDATE`, [integers(reappeared)]),
      (found) => found.length === reappeared.length
    )

/**
 * Binds the destination to its source and its rule. The first rows bind it, not the first attempt, because an address may be
 * mistyped. Fails if the destination has another source, or if its personal data has changed. Another program may bind it at
 * the same time, so it is read again.
 */
const bind = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  s: string,
  before: Bound,
  source: string,
  personal: PersonalBinding
): Effect.fn.Return<void, SinkError> {
  let bound = before
  if (bound.source === undefined) {
    yield* requirePersonal(location, bound, personal)
    const first = yield* query(
      `UPDATE ${s}.destination SET source = $1 WHERE source IS NULL RETURNING source`,
      [source]
    )
    if (first.length > 0) {
      const columns = toColumns(personal.rule)
      if (columns === undefined) return
      return void (yield* query(`UPDATE ${s}.personal SET rule = $1, key_check = coalesce(key_check, $2)`, columns))
    }
  }
  if (bound.source !== source) bound = yield* readBound(query, location, s)
  if (bound.source !== source) {
    return yield* new SinkError({ location, reason: new OtherSource({ bound: bound.source ?? "", given: source }) })
  }
  yield* requirePersonal(location, bound, personal)
  if (bound.rule === personal.before) {
    yield* query(`UPDATE ${s}.personal SET rule = $1`, [toColumns(personal.rule)?.[0] ?? null])
  }
})

/** Fails if personal data has changed since a scan or pass read its state. */
export const requirePersonal = (location: string, bound: Bound, personal: PersonalBinding) =>
  Effect.suspend(() => {
    const reason = changeSince(bound, personal)
    return reason === undefined ? Effect.void : Effect.fail(new SinkError({ location, reason }))
  })

/** Writes the rows, changes and quarantined records of a batch. */
const writePlan = Effect.fnUntraced(function*(
  query: Query,
  s: string,
  list: Lists.AnyList,
  plan: Commit["plan"],
  number: string,
  now: string
): Effect.fn.Return<void, SinkError> {
  const { columns, table } = layoutOf(list)
  const names = [...columns.map(({ name }) => quoted(name)), "raw", "hash"]
  const rowSource = rowsFrom(columns)
  const [inserts, updates] = [plan.writes.filter(({ isNew }) => isNew), plan.writes.filter(({ isNew }) => !isNew)]
  if (inserts.length > 0) {
    yield* query(
      `INSERT INTO ${s}.${table} ("row", ${names.join(", ")}, first_seen_at, changed_at)
      SELECT u."row", ${names.map((name) => `u.${name}${cast(name)}`).join(", ")}, $1::timestamptz, $1::timestamptz
      FROM ${rowSource}`,
      [now, ...cellsOf(columns, inserts)]
    )
  }
  if (updates.length > 0) {
    yield* query(
      `UPDATE ${s}.${table} AS t SET ${names.map((name) => `${name} = u.${name}${cast(name)}`).join(", ")},
        changed_at = $1::timestamptz, missing_since = NULL FROM ${rowSource} WHERE t."row" = u."row"`,
      [now, ...cellsOf(columns, updates)]
    )
  }
  if (plan.reappeared.length > 0) {
    yield* query(`UPDATE ${s}.${table} SET missing_since = NULL WHERE "row" = ANY ($1)`, [integers(plan.reappeared)])
  }
  if (plan.changes.length > 0) {
    yield* query(
      `WITH last AS (UPDATE ${s}.destination SET changes = changes + $1::bigint RETURNING changes - $1::bigint AS seq, generation),
      counted AS (${countChanges(s, "$2", "$4", "kind", "unnest($5::text[]) AS u (kind) GROUP BY kind")})
      INSERT INTO ${s}.changes (seq, list, scan, at, kind, id, fields, before, after, generation)
      SELECT last.seq + u.place, $2, $3::bigint, $4::timestamptz, u.kind, u.id, u.fields::json, u.before::json,
        u.after::json, last.generation FROM last, unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) WITH ORDINALITY
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
      SELECT $1::bigint, $2, u.id, u.path, u.expected, u.raw
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
})

/** Returns the statement that adds changes to the counts of a list and the UTC day of a time. */
export const countChanges = (s: string, list: string, time: string, kind: string, changes: string): string =>
  `INSERT INTO ${s}.change_counts AS c (list, day, kind, changes)
  SELECT ${list}, (${time}::timestamptz AT TIME ZONE 'UTC')::date, ${kind}, count(*) FROM ${changes}
  ON CONFLICT (list, day, kind) DO UPDATE SET changes = c.changes + excluded.changes`

/** Fills columns of rows, and records how far they are filled. */
export const fill = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  s: string,
  bound: Bound,
  { columns, list, personal, rows, unfilledFrom }: Fill
): Effect.fn.Return<void, SinkError> {
  yield* requirePersonal(location, bound, personal)
  const names = columns.map(({ name }) => quoted(name))
  if (rows.length > 0) {
    const types = columns.map(({ kind }, index) => `$${index + 2}::${arrayTypes[kind]}`)
    yield* query(
      `UPDATE ${s}.${layoutOf(list).table} AS t SET ${names.map((name) => `${name} = u.${name}`).join(", ")}
      FROM unnest($1::bigint[], ${types.join(", ")}) AS u ("row", ${names.join(", ")}) WHERE t."row" = u."row"`,
      [integers(rows.map(({ row }) => row)), ...cellArrays(columns, rows.map(({ cells }) => cells))]
    )
  }
  yield* query(
    `UPDATE ${s}.list_columns SET unfilled_from = $1::bigint WHERE list = $2 AND name = ANY ($3)`,
    [unfilledFrom === undefined ? null : String(unfilledFrom), list.label, texts(columns.map(({ name }) => name))]
  )
})

/**
 * Returns the result of an earlier run of the same commit. If that run wrote something, the scan has the totals of the commit:
 * rows that reappeared add to them.
 */
export const resultOf = (
  query: Query,
  s: string,
  { end, plan, scan, totals }: Commit
): Effect.Effect<Committed, SinkError> =>
  end?.state !== "complete" && plan.reappeared.length === 0
    ? Effect.succeed("whole")
    : Effect.map(
      query(`SELECT state, tally::text AS tally FROM ${s}.scans WHERE scan = $1::bigint`, [String(scan)]),
      ([row]) =>
        readText(row, "tally") !== totals
          ? "outdated"
          : end?.state === "complete" && row?.["state"] !== "complete"
          ? "rowsRemoved"
          : "whole"
    )

/** Whether the tables have the certified rows and quarantined records. */
const isPresent = Effect.fnUntraced(function*(
  query: Query,
  s: string,
  table: string,
  scan: string,
  { withoutId, quarantined, rows }: Certified
): Effect.fn.Return<boolean, SinkError> {
  const [counted] = yield* query(
    `SELECT t.*, q.* FROM (SELECT count(*) AS count, coalesce(max("row"), -1) AS highest FROM ${s}.${table}) AS t,
      (SELECT count(*) AS quarantined, count(*) - count(id) AS without_id FROM ${s}.quarantine WHERE scan = $1::bigint) AS q`,
    [scan]
  )
  if (numberIn(counted, "quarantined") !== quarantined || numberIn(counted, "without_id") !== withoutId) return false
  const highest = numberIn(counted, "highest")
  if (rows.highest > highest) return false
  // If the row numbers have no gap, all rows exist.
  if (numberIn(counted, "count") === highest + 1) return true
  const [found] = yield* query(
    `SELECT count(*) AS count FROM ${s}.${table} AS t JOIN ${s}.seen ON seen.scan = $1::bigint AND seen.piece = t."row" / 8192
    WHERE get_bit(seen.bits, (t."row" % 8192)::int) = 1`,
    [scan]
  )
  return numberIn(found, "count") === rows.size
})

/**
 * Binds the destination to a key and merchant ids. The caller binds the source first: its row lock lets only one program at a
 * time bind an empty destination.
 */
const bindOwner = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  s: string,
  { isFirst, key, merchants }: OwnerClaim
): Effect.fn.Return<void, SinkError> {
  if (isFirst && key !== undefined) {
    const others = yield* query(`SELECT FROM ${s}.known_keys WHERE salt <> $1 LIMIT 1`, [key.salt])
    if (others.length > 0) return yield* new SinkError({ location, reason: new OtherMerchant({ by: "race" }) })
  }
  if (merchants.length > 0) {
    yield* query(
      `INSERT INTO ${s}.known_merchants (merchant) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`,
      [texts(merchants)]
    )
  }
  if (key === undefined) return
  yield* query(
    `INSERT INTO ${s}.known_keys (salt, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
    [key.salt, key.fingerprint]
  )
  yield* query(
    `DELETE FROM ${s}.known_keys WHERE number <= (SELECT max(number) FROM ${s}.known_keys) - $1::bigint`,
    [String(maxKeys)]
  )
})

export const arrayTypes = { text: "text[]", integer: "bigint[]", boolean: "boolean[]" } as const

/** SQL for the rows of {@link cellsOf} as `u`. Their parameters start with the second one. */
const rowsFrom = (columns: ReadonlyArray<Column>): string => {
  const types = [...columns.map(({ kind }) => arrayTypes[kind]), "text[]", "text[]", "bigint[]"]
  const names = [...columns.map(({ name }) => quoted(name)), "raw", "hash", `"row"`]
  return `unnest(${types.map((type, index) => `$${index + 2}::${type}`).join(", ")}) AS u (${names.join(", ")})`
}

const cast = (name: string): string => name === "raw" ? "::json" : ""

const cellsOf = (columns: ReadonlyArray<Column>, writes: ReadonlyArray<RowWrite>): ReadonlyArray<Parameter> => [
  ...cellArrays(columns, writes.map(({ cells }) => cells)),
  texts(writes.map(({ raw }) => raw)),
  texts(writes.map(({ hash }) => hash)),
  integers(writes.map(({ row }) => row))
]

/** Returns a parameter for each column, with the cells of all rows. */
export const cellArrays = (
  columns: ReadonlyArray<Column>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>
): ReadonlyArray<Parameter> =>
  columns.map(({ kind }, index) => {
    const cells = rows.map((row) => row[index] ?? null)
    switch (kind) {
      case "text":
        return texts(cells.map((cell) => cell === null ? null : String(cell)))
      case "integer":
        return integers(cells.map(toNumber))
      case "boolean":
        return booleans(cells.map((cell) => cell === null ? null : cell === 1))
    }
  })

const toNumber = (cell: Cell): number | null => cell === null ? null : Number(cell)
