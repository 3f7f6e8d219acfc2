/** A {@link Reader} over the statements of both databases. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Column, layoutOf } from "../plan/Columns.ts"
import { Damaged, type SinkError } from "../port/Sink.ts"
import {
  factsVersion,
  generationVersion,
  personalVersion,
  recheckedVersion,
  renamedVersion
} from "../store/Migrations.ts"
import { personalColumns, toPersonalState } from "../store/PersonalBinding.ts"
import {
  type BoundReader,
  type ChangeReader,
  type FactReader,
  maxBytes,
  type Reader,
  type RowReader,
  type ScanReader
} from "../store/Store.ts"
import {
  readBoolean,
  readNumber,
  readOptional,
  readOptionalNumber,
  readText,
  type Row,
  toChange,
  toChangeCount,
  toConsumerState,
  toFullRow,
  toPiece,
  toPrunedRows,
  toQuarantined,
  toRecordedColumn,
  toScan
} from "../store/StoredRows.ts"
import { greatest, isCompleteFullScan, isScan, quarantinePlace, readJson, readTime, tableIn } from "./SqlDialect.ts"
import { factsIn } from "./SqlFacts.ts"
import { currentGeneration, hasVersion, lastChange, lineageIn, ownGeneration, rangeIn } from "./SqlGenerations.ts"
import { storedHandoffs } from "./SqlHandoff.ts"
import { openStatusesOver } from "./SqlOpenStatuses.ts"
import { rowSightIn } from "./SqlRowSight.ts"
import { stateQuery, toListState } from "./SqlState.ts"
import {
  ask,
  askTogether,
  either,
  isOneOfIntegers,
  isOneOfTexts,
  join,
  question,
  quoted,
  raw,
  rowOf,
  schema,
  type Sql,
  sql,
  type Statement
} from "./SqlStatement.ts"

/** What each database reads in its own way: for speed, or because only the database knows it. */
export interface OwnReader extends Pick<Reader, "find" | "statusTotals" | "damage"> {
  /** Returns the process that has a label's lock, or undefined if none has it. */
  readonly holderOf: (label: string) => Effect.Effect<string | undefined, SinkError>
}

export const readerOver = (db: Sql, { holderOf, ...own }: OwnReader): Reader => ({
  ...own,
  ...boundTo(db),
  ...scansOver(db),
  ...rowsOver(db),
  ...changesOver(db),
  ...factsOver(db),
  handoffs: storedHandoffs(db),
  openStatuses: openStatusesOver(db),
  location: db.location,
  state: (list) =>
    Effect.zipWith(
      Effect.flatMap(hasVersion(db, personalVersion), (has) => rowOf(db, stateQuery(list, has))),
      holderOf(list.label),
      toListState
    )
})

/** The questions about the whole destination. */
const boundQuestions = {
  /** The source of the data, or undefined before the first commit. */
  source: question(sql`SELECT source FROM ${schema}.destination`, ([row]) => readOptional(row, "source")),
  personal: question(
    sql`SELECT ${raw(personalColumns)}, (SELECT source FROM ${schema}.destination) AS source,
      (SELECT string_agg(hash, ' ') FROM ${schema}.suppressed) AS suppressed FROM ${schema}.personal`,
    ([row]) => toPersonalState(row)
  )
}

const ownerQuestions = (lists: ReadonlyArray<Lists.AnyList>) => ({
  keys: question(
    sql`SELECT salt, fingerprint FROM ${schema}.known_keys ORDER BY number`,
    (keys) => keys.map((row) => ({ salt: readText(row, "salt"), fingerprint: readText(row, "fingerprint") }))
  ),
  merchants: question(
    sql`SELECT merchant FROM ${schema}.known_merchants`,
    (merchants) => merchants.map((row) => readText(row, "merchant"))
  ),
  nextRows: question(
    join(
      lists.map((list) => sql`SELECT ${list.label} AS list, coalesce(max("row") + 1, 0) AS next FROM ${tableIn(list)}`),
      " UNION ALL "
    ),
    (rows) => new Map(rows.map((row) => [readText(row, "list"), readNumber(row, "next")]))
  )
})

const boundTo = (db: Sql): BoundReader => ({
  source: ask(db, boundQuestions.source),
  owner: (lists) => askTogether(db, ownerQuestions(lists)),
  personal: Effect.flatMap(hasVersion(db, personalVersion), (has) =>
    has
      ? ask(db, boundQuestions.personal)
      : Effect.map(ask(db, boundQuestions.source), (source) => toPersonalState({ source })))
})

/** The columns that `toScan` reads. */
const scanColumns = sql`scan, part, request, state, checkpoint, first_row, ${readJson("totals")}, ${
  readJson("certificate")
},
  ${readTime("started_at")}, ${readTime("ended_at")}`

const countIn = (name: string): Statement =>
  either(`(totals ->> '$.counts.${name}')`, `(totals #>> '{counts,${name}}')::bigint`)

/** There may be many complete scans, so this reads only the last complete one of each part. */
const lastScans = (scans: Statement, list: Lists.AnyList, part: string | undefined): Statement => {
  const isOf = sql`list = ${list.label} AND ${part === undefined ? raw("true") : sql`part = ${part}`} AND ${isScan}`
  return sql`WITH last AS (
      SELECT part AS of, max(scan) AS latest FROM ${scans} WHERE ${isOf} AND state = 'complete' GROUP BY part
    )
    SELECT ${scanColumns} FROM ${scans} WHERE scan IN (SELECT latest FROM last)
    UNION ALL
    SELECT ${scanColumns} FROM ${scans} LEFT JOIN last ON of = part
    WHERE ${isOf} AND state IN ('running', 'incomplete', 'abandoned') AND scan > coalesce(latest, 0)
    ORDER BY scan DESC`
}

/** Only writers ask these questions, so the columns have their current names. */
const openingQuestions = (list: Lists.AnyList, part: string) => {
  const scans = sql`${schema}.scans`
  const isOf = sql`list = ${list.label}`
  return {
    columns: columnsQuestion(list),
    scans: question(lastScans(scans, list, part), (rows) => rows.map(toScan)),
    whole: question(
      sql`SELECT ${scanColumns} FROM ${scans} WHERE ${isOf} AND ${isCompleteFullScan} ORDER BY scan DESC LIMIT 1`,
      ([row]) => row === undefined ? undefined : toScan(row)
    ),
    others: question(
      sql`SELECT EXISTS (SELECT 1 FROM ${scans} WHERE ${isOf} AND state = 'complete' AND ${isScan}) AS complete, EXISTS (
        SELECT 1 FROM ${scans} WHERE ${isOf} AND part ${raw(part === "" ? "<>" : "=")} ''
          AND scan > coalesce((SELECT max(scan) FROM ${scans} WHERE ${isOf} AND part = ${part} AND ${isScan}), 0)
          AND (pages > 0 OR ${countIn("inserted")} + ${countIn("updated")} + ${countIn("returned")} > 0)
      ) AS overtaken`,
      ([row]) => ({ anyComplete: readBoolean(row, "complete"), overtaken: readBoolean(row, "overtaken") })
    )
  }
}

const scansOver = (db: Sql): ScanReader => {
  const hasNames = hasVersion(db, renamedVersion)
  /**
   * Reads scans from their table. Before version 8, two of its columns have other names. A migration may rename them
   * after the version was read. Then the statement fails, and runs again with the new names.
   */
  const readScans = (statementOver: (scans: Statement) => Statement) => {
    const read = (scans: Statement) => db.read(statementOver(scans), (rows) => rows.map(toScan))
    const current = read(sql`${schema}.scans`)
    const earlier = read(sql`(SELECT *, asked AS request, tally AS totals FROM ${schema}.scans) AS scans`)
    const isRenamed = Effect.orElseSucceed(hasNames, () => false)
    return Effect.flatMap(hasNames, (has) =>
      has
        ? current
        : Effect.catch(earlier, (error) => Effect.flatMap(isRenamed, (is) => is ? current : Effect.fail(error))))
  }
  return {
    scans: (list, part) => readScans((scans) => lastScans(scans, list, part)),
    opening: (list, part, lists) =>
      Effect.map(
        askTogether(db, { ...boundQuestions, ...ownerQuestions(lists), ...openingQuestions(list, part) }),
        ({ others, ...opening }) => ({ ...opening, ...others })
      ),
    scansFrom: (list, scan) =>
      readScans((scans) =>
        sql`SELECT ${scanColumns} FROM ${scans} WHERE scan >= ${scan} AND list = ${list.label} AND ${isScan}`
      ),
    seen: (scans) =>
      db.read(
        sql`SELECT piece, bits FROM ${schema}.seen WHERE scan ${isOneOfIntegers(scans)}`,
        (rows) => rows.map(toPiece)
      ),
    quarantined: (scan) =>
      db.read(
        sql`SELECT count(*) AS records, count(*) - count(id) AS without_id FROM ${schema}.quarantine WHERE scan = ${scan}`,
        ([counted]) => ({ records: readNumber(counted, "records"), withoutId: readNumber(counted, "without_id") })
      )
  }
}

const columnsQuestion = (list: Lists.AnyList) =>
  question(
    sql`SELECT list, name, kind, unfilled_from FROM ${schema}.list_columns WHERE list = ${list.label}`,
    (rows) => rows.map(toRecordedColumn)
  )

const rowsOver = (db: Sql): RowReader => ({
  columns: (list) => ask(db, columnsQuestion(list)),
  textsOf: (list, rows) =>
    db.read(
      sql`SELECT "row", ${readJson("raw")} FROM ${tableIn(list)} WHERE "row" ${isOneOfIntegers(rows)}`,
      (found) => new Map(found.map((row) => [readNumber(row, "row"), readText(row, "raw")]))
    ),
  present: (list, rows) => rowNumbers(db, sql`${tableIn(list)} WHERE "row" ${isOneOfIntegers(rows)}`),
  missing: (list) => rowNumbers(db, sql`${tableIn(list)} WHERE missing_since IS NOT NULL`),
  rows: Effect.fnUntraced(function*(list, after, count) {
    const recorded = new Set((yield* ask(db, columnsQuestion(list))).map(({ name }) => name))
    const columns = layoutOf(list).columns.filter(({ name }) => recorded.has(name))
    const next = sql`FROM ${tableIn(list)} WHERE "row" > ${after} ORDER BY "row" LIMIT`
    // Both databases know the length of a text without reading the text.
    const fitting = sql`SELECT ${greatest}(1, count(*)) FROM (
      SELECT sum(bytes) OVER (ORDER BY "row") AS bytes FROM (
        SELECT "row", octet_length(${either("raw", "raw::text")}) AS bytes ${next} ${count}
      ) AS lengths
    ) AS sums WHERE bytes <= ${maxBytes}`
    return yield* db.readExact(
      sql`SELECT "row", ${raw(columns.map(({ name }) => quoted(name)).join(", "))}, ${readJson("raw")}, hash,
        ${join(["first_seen_at", "changed_at", "missing_since"].map(readTime))} ${next} (${fitting})`,
      (rows) =>
        rows.map((row) => {
          if (!Number.isSafeInteger(readNumber(row, "row"))) {
            throw new Damaged({ problem: `a row number of ${list.label} is too large` })
          }
          return toFullRow(row, db.dialect === "sqlite" ? row : cellsOf(columns, row))
        })
    )
  }),
  quarantine: (after, count, lists) =>
    db.read(
      // Only erasures and rewrites update rows of this table. In PostgreSQL, an updated one gets another ctid, so it
      // may be read again, or not at all, by a reader that started before.
      sql`SELECT ${either("rowid", "ctid::text")} AS place, list, scan, id, path, expected, ${readJson("raw")}
      FROM ${schema}.quarantine WHERE ${quarantinePlace} > ${
        either(sql`${Number(after ?? 0)}`, sql`${after ?? "(0,0)"}::tid`)
      } AND list ${isOneOfTexts(lists.map(({ label }) => label))} ORDER BY ${quarantinePlace} LIMIT ${count}`,
      (rows) => rows.map(toQuarantined)
    )
})

const rowNumbers = (db: Sql, from: Statement): Effect.Effect<ReadonlyArray<number>, SinkError> =>
  db.read(sql`SELECT "row" FROM ${from}`, (rows) => rows.map((row) => readNumber(row, "row")))

/** Converts PostgreSQL's cells to the types that SQLite returns: text, and numbers for integers and booleans. */
const cellsOf = (columns: ReadonlyArray<Column>, row: Row): Row =>
  Object.fromEntries(
    columns.map(({ kind, name }) => {
      const cell = row[name] ?? null
      return [name, kind === "text" || cell === null ? cell : Number(cell)]
    })
  )

const factsOver = (db: Sql): FactReader => {
  const has = hasVersion(db, factsVersion)
  return {
    facts: (list, service) =>
      Effect.flatMap(has, (hasFacts) => hasFacts ? factsIn(db, list, service, (stored) => stored) : noFacts),
    rowSight: (list) => rowSightIn(db, list)
  }
}

const noFacts = Effect.sync(() => new Map<string, string>())

/** The size of a text as it is stored, which neither database reads the text for. PostgreSQL compresses large ones. */
const bytesOf = (column: string): Statement =>
  sql`coalesce(${either(`octet_length(${column})`, `pg_column_size(${column})`)}, 0)`

const changesOver = (
  db: Sql
): ChangeReader => {
  // A destination of an earlier version has no generations. It has no table of removed rows, and has removed none.
  const [hasGenerations, hasPersonal] = [hasVersion(db, generationVersion), hasVersion(db, personalVersion)]
  const hasRechecks = hasVersion(db, recheckedVersion)
  return {
    textsAt: Effect.fnUntraced(function*(list, scan, ids) {
      const stored = yield* rowOf(db, sql`SELECT last_change FROM ${schema}.scans WHERE scan = ${scan}`)
      // Scans of earlier versions of the tables did not store their last change, and there were no passes.
      const end = readOptionalNumber(stored, "last_change")
      return yield* db.read(
        sql`SELECT id, ${readJson("before")} FROM ${schema}.changes WHERE seq IN (
          SELECT min(seq) FROM ${schema}.changes WHERE list = ${list.label} AND id ${isOneOfTexts(ids)}
            AND before IS NOT NULL AND ${end === undefined ? sql`scan > ${scan}` : sql`seq > ${end}`} GROUP BY id
        )`,
        (rows) => new Map(rows.map((row) => [readText(row, "id"), readText(row, "before")]))
      )
    }),
    changes: (after, count, lists, { large, since } = {}) => {
      // The plus sign keeps SQLite from using the index by list: it would sort all changes for each batch.
      const next = sql`FROM ${schema}.changes
        WHERE seq > ${after} AND ${either("+", "")}list ${isOneOfTexts(lists.map(({ label }) => label))}
          AND ${since === undefined ? raw("true") : sql`at >= ${{ type: "timestamptz", value: since }}`}
        ORDER BY seq LIMIT`
      const limit = large === undefined ? sql`${count}` : sql`(SELECT CASE WHEN sum(bytes) > ${large.bytes}
        THEN cast(${large.count} AS bigint) ELSE cast(${count} AS bigint) END FROM (SELECT ${bytesOf("before")} + ${
        bytesOf("after")
      } AS bytes ${next} ${count}) AS sizes)`
      return Effect.flatMap(Effect.all([hasGenerations, hasRechecks]), ([has, hasChecks]) =>
        db.read(
          sql`SELECT seq, ${has ? ownGeneration : raw("NULL")} AS generation, list, scan, ${readTime("at")}, kind, id,
            ${join(["fields", "before", "after"].map(readJson))}, ${
            raw(hasChecks ? "rechecked" : "NULL AS rechecked")
          } ${next} ${limit}`,
          (rows) => rows.map(toChange)
        ))
    },
    consumerStates: Effect.flatMap(hasGenerations, (has) =>
      db.read(
        sql`SELECT name, position, ${readTime("moved_at")}, ${lastChange} AS last_change,
          ${has ? ownGeneration : raw("NULL")} AS generation, ${
          has ? currentGeneration : raw("NULL")
        } AS current_generation
        FROM ${schema}.consumers ORDER BY name`,
        (rows) => rows.map(toConsumerState)
      )),
    changeCounts: (list, from) =>
      db.read(
        sql`SELECT ${either("day", "day::text")} AS day, kind, changes FROM ${schema}.change_counts
        WHERE list = ${list.label} AND day >= ${from}`,
        (rows) => rows.map(toChangeCount)
      ),
    changeRange: Effect.flatMap(hasGenerations, (has) => rangeIn(db, has)),
    lineage: Effect.flatMap(hasGenerations, (has) => has ? lineageIn(db) : Effect.succeed([])),
    prunedRows: (list) => {
      const removed = sql`SELECT removed, seq, last_change FROM ${schema}.rows_pruned WHERE list = ${list.label}`
      return Effect.map(Effect.flatMap(hasPersonal, (has) => has ? rowOf(db, removed) : Effect.undefined), toPrunedRows)
    }
  }
}
