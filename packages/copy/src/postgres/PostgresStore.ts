/**
 * A {@link Store} in one schema of a PostgreSQL database. A batch is one transaction of a few statements, each for all its rows.
 * A writer has a lease of its list (`PostgresLease.ts`).
 */
import type { Lists } from "@payments/core"
import { Effect, type Scope } from "effect"
import { type Column, layoutOf } from "../plan/Columns.ts"
import type { RowLookup } from "../plan/Plan.ts"
import type { KnownChange } from "../port/Generations.ts"
import { longestStatus, mostStatuses, type StatusTotals } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import type { PendingMigration } from "../store/Evolution.ts"
import { personalVersion } from "../store/Migrations.ts"
import { personalColumns, toPersonalState } from "../store/PersonalBinding.ts"
import {
  decoded,
  readNumber,
  readOptional,
  readText,
  type Row,
  toChange,
  toChangeCount,
  toConsumerState,
  toFullRow,
  toPiece,
  toQuarantined,
  toRecordedColumn,
  toScan
} from "../store/Rows.ts"
import { stateQuery, toListState } from "../store/StateQuery.ts"
import { type Commit, type Maintenance, maxBytes, type NewScan, type Reader, type Store } from "../store/Store.ts"
import { connect, integers, iso, type PostgresClient, type Query, texts } from "./PostgresClient.ts"
import { fill, passOf, requirePersonal, resultOf, write, writePass } from "./PostgresCommit.ts"
import { ensureGeneration, generationsOver, hasVersion, originOf, ownGeneration } from "./PostgresGenerations.ts"
import * as Lease from "./PostgresLease.ts"
import { maintain, prunedRowsIn } from "./PostgresMaintenance.ts"
import { redactionOver } from "./PostgresRedaction.ts"
import { migrate, pendingIn, quoted, requireReadable } from "./PostgresSchema.ts"
import type { PostgresSettings } from "./PostgresSettings.ts"

/** Opens the schema for writing, until the scope closes, for a program that knows these lists. Creates a missing schema. */
export const openStore = (
  settings: PostgresSettings,
  times: Lease.Times = Lease.times,
  lists?: ReadonlyArray<Lists.AnyList>,
  runner?: string
): Effect.Effect<Store, SinkError, Scope.Scope> =>
  Effect.gen(function*() {
    const client = yield* connect(settings)
    yield* migrate(client, settings.schema, times.idleTimeout, lists)
    const schema = quoted(settings.schema)
    const origin = yield* originOf(client.once)
    const leases = { client, schema, times, runner, origin, memory: { known: undefined } }
    return { ...readerOver(client, schema), ...writerOver(leases) }
  })

/** Opens an existing schema for reading, until the scope closes, for a program that knows these lists. */
export const openReader = (
  settings: PostgresSettings,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  Effect.map(openExisting(settings, lists), ({ client, schema }) => readerOver(client, schema))

/** Returns what {@link openStore} would do to the tables of the schema. Writes nothing. */
export const pendingMigration = (settings: PostgresSettings): Effect.Effect<PendingMigration, SinkError> =>
  Effect.scoped(Effect.flatMap(connect(settings), (client) => pendingIn(client, settings.schema)))

/** Opens a snapshot of an existing schema, readable until the scope closes. `query` reads the same snapshot. */
export const openSnapshot = (
  settings: PostgresSettings
): Effect.Effect<
  { readonly reader: Reader; readonly query: Query; readonly schema: string },
  SinkError,
  Scope.Scope
> =>
  Effect.gen(function*() {
    const { client, schema } = yield* openExisting(settings, undefined)
    const query = yield* client.snapshot
    return { reader: readerOver({ ...client, query }, schema), query, schema }
  })

/** Opens an existing schema for maintenance, until the scope closes, for a program that knows these lists. */
export const openMaintenance = (
  settings: PostgresSettings,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<Maintenance, SinkError, Scope.Scope> =>
  Effect.map(
    openExisting(settings, lists),
    ({ client, schema }) => ({
      ...readerOver(client, schema),
      ...maintain(client, schema),
      ...redactionOver(client, schema)
    })
  )

const openExisting = Effect.fnUntraced(function*(
  settings: PostgresSettings,
  lists: ReadonlyArray<Lists.AnyList> | undefined
): Effect.fn.Return<{ readonly client: PostgresClient; readonly schema: string }, SinkError, Scope.Scope> {
  const client = yield* connect(settings)
  yield* requireReadable(client, settings.schema, lists)
  return { client, schema: quoted(settings.schema) }
})

const readerOver = ({ location, query }: PostgresClient, s: string): Reader => {
  const hasPersonal = hasVersion(query, s, personalVersion)
  const { changeRange, hasGenerations, lineage } = generationsOver(query, s)
  return {
    location,
    source: Effect.map(query(`SELECT source FROM ${s}.destination`), ([row]) => readOptional(row, "source")),
    owner: Effect.zipWith(
      query(`SELECT salt, fingerprint FROM ${s}.known_keys ORDER BY number`),
      query(`SELECT merchant FROM ${s}.known_merchants`),
      (keys, merchants) => ({
        keys: keys.map((row) => ({ salt: readText(row, "salt"), fingerprint: readText(row, "fingerprint") })),
        merchants: merchants.map((row) => readText(row, "merchant"))
      })
    ),
    personal: Effect.gen(function*() {
      const [row] = yield* query(
        (yield* hasPersonal)
          ? `SELECT ${personalColumns}, (SELECT source FROM ${s}.destination) AS source,
          (SELECT string_agg(hash, ' ') FROM ${s}.suppressed) AS suppressed FROM ${s}.personal`
          : `SELECT source FROM ${s}.destination`
      )
      return yield* decoded(location, () => toPersonalState(row))
    }),
    scans: (list, part) =>
      Effect.map(
        query(
          // There may be many complete scans, so read only the last complete one of each part.
          `WITH last AS (
          SELECT part AS of, max(scan) AS latest FROM ${s}.scans
          WHERE list = $1 AND part = coalesce($2, part) AND state = 'complete' AND ${noPass} GROUP BY part
        )
        SELECT ${scanColumns} FROM ${s}.scans WHERE scan IN (SELECT latest FROM last)
        UNION ALL
        SELECT ${scanColumns} FROM ${s}.scans LEFT JOIN last ON of = part
        WHERE list = $1 AND part = coalesce($2, part) AND state IN ('running', 'incomplete', 'abandoned')
          AND scan > coalesce(latest, 0) AND ${noPass}
        ORDER BY scan DESC`,
          [list.label, part ?? null]
        ),
        (rows) => rows.map(toScan)
      ),
    scansFrom: (list, scan) =>
      Effect.map(
        query(
          `SELECT ${scanColumns} FROM ${s}.scans WHERE list = $1 AND scan >= $2::bigint AND ${noPass}`,
          [list.label, String(scan)]
        ),
        (rows) => rows.map(toScan)
      ),
    otherScans: (list, part, scan) =>
      Effect.map(
        query(
          `SELECT EXISTS (SELECT FROM ${s}.scans WHERE list = $1 AND state = 'complete' AND ${noPass}) AS complete,
        EXISTS (SELECT FROM ${s}.scans WHERE scan > $3::bigint AND list = $1 AND (part = '') <> ($2 = '') AND (pages > 0
          OR (tally #>> '{counts,inserted}')::bigint + (tally #>> '{counts,updated}')::bigint
            + (tally #>> '{counts,returned}')::bigint > 0)) AS overtaken`,
          [list.label, part, String(scan)]
        ),
        ([row]) => ({ anyComplete: row?.["complete"] === true, overtaken: row?.["overtaken"] === true })
      ),
    find: findOver(query, s),
    textsOf: (list, rows) =>
      Effect.map(
        query(`SELECT "row", raw::text FROM ${s}.${layoutOf(list).table} WHERE "row" = ANY ($1)`, [integers(rows)]),
        (found) => new Map(found.map((row) => [readNumber(row, "row"), readText(row, "raw")]))
      ),
    seen: (scans) =>
      Effect.map(
        query(`SELECT piece, bits FROM ${s}.seen WHERE scan = ANY ($1)`, [integers(scans)]),
        (rows) => rows.map(toPiece)
      ),
    quarantined: (scan) =>
      Effect.map(
        query(
          `SELECT count(*) AS records, count(*) - count(id) AS without_id FROM ${s}.quarantine WHERE scan = $1::bigint`,
          [String(scan)]
        ),
        ([counted]) => ({ records: readNumber(counted, "records"), withoutId: readNumber(counted, "without_id") })
      ),
    present: (list, rows) =>
      Effect.map(
        query(`SELECT "row" FROM ${s}.${layoutOf(list).table} WHERE "row" = ANY ($1)`, [integers(rows)]),
        (found) => found.map((row) => readNumber(row, "row"))
      ),
    missing: (list) =>
      Effect.map(
        query(`SELECT "row" FROM ${s}.${layoutOf(list).table} WHERE missing_since IS NOT NULL`),
        (rows) => rows.map((row) => readNumber(row, "row"))
      ),
    columns: columnsOver(query, s),
    rows: Effect.fnUntraced(function*(list, after, count) {
      const { columns, table } = layoutOf(list)
      const recorded = new Set((yield* columnsOver(query, s)(list)).map(({ name }) => name))
      const cells = columns.filter(({ name }) => recorded.has(name))
      const found = yield* query(
        `SELECT "row", ${cells.map(({ name }) => quoted(name)).join(", ")}, raw::text, hash,
        ${iso("first_seen_at")}, ${iso("changed_at")}, ${iso("missing_since")}
      FROM ${s}.${table} WHERE "row" > $1::bigint ORDER BY "row" LIMIT (
        SELECT greatest(1, count(*)) FROM (
          SELECT sum(bytes) OVER (ORDER BY "row") AS bytes FROM (
            SELECT "row", octet_length(raw::text) AS bytes FROM ${s}.${table}
            WHERE "row" > $1::bigint ORDER BY "row" LIMIT $2::bigint
          ) AS lengths
        ) AS sums WHERE bytes <= $3::bigint
      )`,
        [String(after), String(count), String(maxBytes)]
      )
      return found.map((row) => toFullRow(row, cellsOf(cells, row)))
    }),
    textsAt: (list, scan, ids) =>
      Effect.map(
        query(
          // Scans of earlier versions of the tables did not store their last change, and there were no passes.
          `SELECT DISTINCT ON (id) id, before::text FROM ${s}.changes,
          (SELECT max(last_change) AS last_change FROM ${s}.scans WHERE scan = $3::bigint) AS certified
        WHERE list = $1 AND id = ANY ($2) AND before IS NOT NULL
          AND (CASE WHEN last_change IS NULL THEN scan > $3::bigint ELSE seq > last_change END) ORDER BY id, seq`,
          [list.label, texts(ids), String(scan)]
        ),
        (rows) => new Map(rows.map((row) => [readText(row, "id"), readText(row, "before")]))
      ),
    quarantine: (after, count, lists) =>
      Effect.map(
        // Only erasures and rewrites update rows of this table. An updated one gets another ctid, so it may be read again, or not at
        // all, by a reader that started before.
        query(
          `SELECT ctid::text AS place, list, scan, id, path, expected, raw::text FROM ${s}.quarantine
        WHERE ctid > $1::tid AND list = ANY ($2) ORDER BY ctid LIMIT $3::bigint`,
          [after ?? "(0,0)", texts(lists.map(({ label }) => label)), String(count)]
        ),
        (rows) => rows.map(toQuarantined)
      ),
    changes: (after, count, lists, since = "-infinity") =>
      Effect.gen(function*() {
        const rows = yield* query(
          `SELECT seq, ${(yield* hasGenerations) ? ownGeneration(s) : "NULL"} AS generation, list, scan, ${
            iso("at")
          }, kind, id,
          fields::text, before::text, after::text FROM ${s}.changes
        WHERE seq > $1::bigint AND list = ANY ($2) AND at >= $4::timestamptz ORDER BY seq LIMIT $3::bigint`,
          [String(after), texts(lists.map(({ label }) => label)), String(count), since]
        )
        return yield* decoded(location, () => rows.map(toChange))
      }),
    state: (list) =>
      Effect.zipWith(
        Effect.flatMap(hasPersonal, (has) => query(stateQuery(list, `${s}.`, iso, has))),
        Lease.holderOf(query, s, list.label),
        ([row], holder) => toListState(row, holder)
      ),
    consumerStates: Effect.gen(function*() {
      const generations = (yield* hasGenerations)
        ? `${ownGeneration(s, "c.generation")} AS generation, d.generation`
        : "NULL AS generation, NULL"
      const rows = yield* query(
        `SELECT name, position, ${iso("moved_at")}, d.changes AS last_change, ${generations} AS current_generation
      FROM ${s}.consumers AS c, ${s}.destination AS d ORDER BY name`
      )
      return rows.map(toConsumerState)
    }),
    changeCounts: (list, from) =>
      Effect.map(
        query(`SELECT day::text, kind, changes FROM ${s}.change_counts WHERE list = $1 AND day >= $2::date`, [
          list.label,
          from
        ]),
        (rows) => rows.map(toChangeCount)
      ),
    statusTotals: (list, amounts) =>
      Effect.map(query(statusQuery(`${s}.${layoutOf(list).table}`, amounts)), (rows) => statusTotalsOf(rows, amounts)),
    changeRange,
    lineage,
    prunedRows: (list) => Effect.flatMap(hasPersonal, (has) => prunedRowsIn(query, s, list, has)),
    // The server checks its pages itself.
    damage: Effect.succeed([])
  }
}

/** SQL for scans that are no passes. It is also the condition of an index. */
const noPass = "kind IN ('full', 'part')"

/** Returns the statement for the most frequent statuses. Its last row has the rows of all other statuses. */
const statusQuery = (table: string, amounts: ReadonlyArray<string>): string => {
  const sums = (of: (column: string) => string) =>
    amounts.map((name) => `, ${of(quoted(name))} AS ${quoted(name)}`).join("")
  return `WITH by_status AS (
      SELECT left(status, ${longestStatus}) AS status, count(*) AS rows${sums((name) => `sum(${name})`)}
      FROM ${table} WHERE missing_since IS NULL GROUP BY 1
    ), ranked AS (SELECT *, row_number() OVER (ORDER BY rows DESC, status) AS rank FROM by_status)
    SELECT least(rank, ${mostStatuses + 1}) AS rank, min(status) AS status, sum(rows) AS rows${
    sums((name) => `sum(${name})::text`)
  } FROM ranked GROUP BY 1 ORDER BY 1`
}

const statusTotalsOf = (found: ReadonlyArray<Row>, amounts: ReadonlyArray<string>): StatusTotals => {
  const totals = found.map((row) => ({
    status: readOptional(row, "status") ?? null,
    rows: readNumber(row, "rows"),
    sums: Object.fromEntries(amounts.map((name) => [name, readOptional(row, name) ?? "0"]))
  }))
  const [other] = totals.splice(mostStatuses)
  return {
    statuses: totals,
    other: { rows: other?.rows ?? 0, sums: other?.sums ?? Object.fromEntries(amounts.map((name) => [name, "0"])) }
  }
}

const columnsOver = (query: Query, s: string): Reader["columns"] => (list) =>
  Effect.map(
    query(`SELECT list, name, kind, unfilled_from FROM ${s}.list_columns WHERE list = $1`, [list.label]),
    (rows) => rows.map(toRecordedColumn)
  )

/**
 * Finds the rows of ids. If the last page was unchanged, the next one probably is too, so the first query only checks whether
 * all hashes match. After a first load, the rows of a page are adjacent, and one range of rows has their hashes. After new
 * records have been inserted in between, the rows are looked up by id and hash.
 */
const findOver = (query: Query, s: string): Reader["find"] => {
  /** The order of the rows of the last unchanged page, by table. */
  const unchanged = new Map<string, "adjacent" | "scattered">()
  return Effect.fnUntraced(function*(list, lookups) {
    const table = `${s}.${layoutOf(list).table}`
    const next = `(SELECT coalesce(max("row") + 1, 0) FROM ${table}) AS next`
    const rowOrder = unchanged.get(table)
    const page = rowOrder === undefined
      ? undefined
      : rowOrder === "adjacent"
      ? yield* findAdjacent(query, table, next, lookups)
      : yield* findScattered(query, table, next, lookups)
    if (page !== undefined) {
      const stored = lookups.map(({ hash, id }, index) =>
        [id, { row: page.rows[index] ?? 0, hash, missing: false }] as const
      )
      return { stored: new Map(stored), nextRow: page.nextRow }
    }
    const found = yield* query(
      `SELECT last.next, t."row", t.id, t.hash, t.missing_since IS NOT NULL AS missing
      FROM (SELECT ${next}) AS last LEFT JOIN ${table} AS t ON t.id = ANY ($1)`,
      [texts(lookups.map(({ id }) => id))]
    )
    const stored = new Map(
      found.filter((row) => row["id"] !== null).map((row) => [
        readText(row, "id"),
        { row: readNumber(row, "row"), hash: readText(row, "hash"), missing: row["missing"] === true }
      ])
    )
    if (lookups.length === 0 || lookups.some(({ hash, id }) => stored.get(id)?.hash !== hash)) unchanged.delete(table)
    else {
      const first = stored.get(lookups[0]?.id ?? "")?.row ?? 0
      const isInOrder = lookups.every(({ id }, index) => stored.get(id)?.row === first + index)
      unchanged.set(table, isInOrder && rowOrder === undefined ? "adjacent" : "scattered")
    }
    return { stored, nextRow: readNumber(found[0], "next") }
  })
}

/** The row numbers of an unchanged page in its order, or undefined if the page may have changed. */
type UnchangedPage = { readonly rows: ReadonlyArray<number>; readonly nextRow: number } | undefined

/** Compares the hashes of all rows from the page's first row to its last row. */
const findAdjacent = (query: Query, table: string, next: string, lookups: ReadonlyArray<RowLookup>) =>
  Effect.map(
    query(
      `SELECT first, hashes, ${next}
      FROM (SELECT min("row") AS first, max("row") AS last FROM ${table} WHERE id IN ($1, $2)) AS ends, LATERAL (
        SELECT string_agg(hash, '' ORDER BY "row") AS hashes FROM ${table}
        WHERE "row" BETWEEN first AND last AND last - first = $3::bigint - 1 AND missing_since IS NULL
      ) AS rows`,
      [lookups.at(0)?.id ?? null, lookups.at(-1)?.id ?? null, String(lookups.length)]
    ),
    ([found]): UnchangedPage => {
      // The text contains the id, so an equal hash implies an equal id.
      if (readOptional(found, "hashes") !== lookups.map(({ hash }) => hash).join("")) return undefined
      const first = readNumber(found, "first")
      return { rows: lookups.map((_, index) => first + index), nextRow: readNumber(found, "next") }
    }
  )

/** Looks up the rows by both id and hash. */
const findScattered = (query: Query, table: string, next: string, lookups: ReadonlyArray<RowLookup>) =>
  Effect.map(
    query(
      `SELECT string_agg(t."row"::text, ' ' ORDER BY u.place) AS rows, ${next}
      FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (id, hash, place)
      JOIN ${table} AS t ON t.id = u.id AND t.hash = u.hash AND t.missing_since IS NULL`,
      [texts(lookups.map(({ id }) => id)), texts(lookups.map(({ hash }) => hash))]
    ),
    ([found]): UnchangedPage => {
      const rows = readOptional(found, "rows")?.split(" ") ?? []
      return rows.length === lookups.length ? { rows: rows.map(Number), nextRow: readNumber(found, "next") } : undefined
    }
  )

const writerOver = (
  leases: Lease.Leases
): Pick<
  Store,
  | "lockAndTakeOver"
  | "lock"
  | "takeOver"
  | "rebind"
  | "start"
  | "fillRows"
  | "commit"
  | "commitPass"
  | "setHeadProblem"
> => {
  const { client, schema: s } = leases
  const acquired = new Map<string, Lease.Lease>()
  const leaseOf = (list: Lists.AnyList) =>
    Effect.suspend(() => {
      const lease = acquired.get(list.label)
      return lease === undefined ? Effect.die(new Error(`${list.label} is not locked`)) : Effect.succeed(lease)
    })
  /** Runs a commit in the current generation, and remembers the number of its last change. */
  const numbered = <A>(
    { list, now, plan, ...commit }: Pick<Commit, "list" | "now" | "plan" | "end">,
    body: (query: Query, bound: Lease.Bound) => Effect.Effect<A, SinkError>,
    readResult: (query: Query) => Effect.Effect<A, SinkError>
  ) =>
    Effect.flatMap(leaseOf(list), (lease) => {
      let known: KnownChange | undefined
      return Lease.commit(
        leases,
        lease,
        Effect.fnUntraced(function*(query, bound, numbering) {
          const before = yield* ensureGeneration(query, s, numbering, now)
          const result = yield* body(query, bound)
          // Other transactions may have taken numbers meanwhile, so the last number may be higher.
          const changes = result === "whole" || typeof result === "number"
            ? plan.changes.length + (commit.end?.missing.length ?? 0)
            : 0
          known = { ...before, seq: before.seq + changes }
          return result
        }),
        readResult
      ).pipe(Effect.tap(() =>
        Effect.sync(() => {
          const { memory = { known: undefined } } = leases
          const isLower = memory.known?.generation === known?.generation && (memory.known?.seq ?? 0) > (known?.seq ?? 0)
          if (known !== undefined && !isLower) memory.known = known
        })
      ))
    })
  const lock: Store["lock"] = (label, onLocked) =>
    Effect.map(Lease.acquire(leases, label, onLocked), (lease) => void acquired.set(label, lease))
  return {
    lockAndTakeOver: lock,
    lock,
    // Acquiring a lease takes it over. An interrupted transaction of an earlier scan may still run.
    takeOver: (label) =>
      Effect.suspend(() => {
        const lease = acquired.get(label)
        return lease === undefined ? Effect.void : Lease.settle(leases, lease)
      }),
    rebind: (list, source) =>
      Effect.flatMap(leaseOf(list), (lease) =>
        Lease.commit(
          leases,
          lease,
          (query) => Effect.asVoid(query(`UPDATE ${s}.destination SET source = $1`, [source])),
          () => Effect.void
        )),
    start: (scan) =>
      Effect.flatMap(
        leaseOf(scan.list),
        (lease) =>
          Lease.commit(
            leases,
            lease,
            (query, bound) =>
              Effect.andThen(requirePersonal(client.location, bound, scan.personal), start(query, s, scan)),
            (query) => running(query, s, scan)
          )
      ),
    fillRows: (filled) =>
      Effect.flatMap(
        leaseOf(filled.list),
        (lease) =>
          Lease.commit(
            leases,
            lease,
            (query, bound) => fill(query, client.location, s, bound, filled),
            () => Effect.void
          )
      ),
    commit: (commit) =>
      numbered(
        commit,
        (query, bound) => write(query, client.location, s, bound, commit),
        (query) => resultOf(query, s, commit)
      ),
    commitPass: (commit) =>
      numbered(
        commit,
        (query, bound) => writePass(query, client.location, s, bound, commit),
        (query) => passOf(query, s, commit)
      ),
    setHeadProblem: (list, problem, now) =>
      Effect.flatMap(leaseOf(list), (lease) =>
        Lease.commit(
          leases,
          lease,
          Effect.fnUntraced(function*(query) {
            yield* query(`DELETE FROM ${s}.head_passes WHERE list = $1`, [list.label])
            if (problem === undefined) return
            yield* query(
              `INSERT INTO ${s}.head_passes (list, stopped_at, problem) VALUES ($1, $2::timestamptz, $3)`,
              [list.label, now, problem]
            )
          }),
          () => Effect.void
        ))
  }
}

const start = (query: Query, s: string, { firstRow, list, now, part, request, totals }: NewScan) =>
  Effect.map(
    Effect.andThen(
      query(
        `UPDATE ${s}.scans SET state = 'abandoned', ended_at = $1::timestamptz
        WHERE list = $2 AND part = $3 AND state = 'running'`,
        [now, list.label, part]
      ),
      query(
        `INSERT INTO ${s}.scans (list, kind, part, asked, state, first_row, tally, started_at)
        VALUES ($1, CASE $2 WHEN '' THEN 'full' ELSE 'part' END, $2, $3, 'running', $4::bigint, $5::json, $6::timestamptz)
        RETURNING scan`,
        [list.label, part, request, String(firstRow), totals, now]
      )
    ),
    ([row]) => readNumber(row, "scan")
  )

const running = (query: Query, s: string, { list, part }: NewScan) =>
  Effect.map(
    query(`SELECT scan FROM ${s}.scans WHERE list = $1 AND part = $2 AND state = 'running'`, [list.label, part]),
    ([row]) => readNumber(row, "scan")
  )

/** Converts cells to the common types of all destinations: text, and numbers for integers and booleans. */
const cellsOf = (columns: ReadonlyArray<Column>, row: Row): Row =>
  Object.fromEntries(
    columns.map(({ kind, name }) => {
      const cell = row[name] ?? null
      return [name, kind === "text" || cell === null ? cell : Number(cell)]
    })
  )

/** The columns that `toScan` reads. */
const scanColumns = `scan, part, asked, state, checkpoint, first_row, tally::text, certificate::text, ${
  iso("started_at")
}, ${iso("ended_at")}`
