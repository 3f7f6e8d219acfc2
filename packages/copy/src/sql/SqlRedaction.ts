/** The statements of erasures and rewrites. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import { personalVersion, renamedVersion } from "../store/Migrations.ts"
import { personalColumns } from "../store/PersonalBinding.ts"
import type {
  CertifiedTexts,
  PersonalStatements,
  QuarantinedText,
  RedactionStatements,
  RedactionStore,
  ScanStatements,
  Selection,
  TextStatements,
  TextTable,
  WriteStatements
} from "../store/RedactionStore.ts"
import {
  decoded,
  readBoolean,
  readNumber,
  readOptional,
  readOptionalNumber,
  readText,
  type Row,
  toChange,
  toErasure,
  toPersonalRow,
  toPiece
} from "../store/StoredRows.ts"
import { appendChanges, incrementRevision } from "./SqlCommit.ts"
import { columnTypes, isCompleteFullScan, isScan, quarantinePlace, readJson, readTime, tableIn } from "./SqlDialect.ts"
import {
  ensureGeneration,
  hasVersion,
  lastChange,
  numberingColumns,
  requireVersion,
  toNumbering
} from "./SqlGenerations.ts"
import {
  either,
  Given,
  isOneOfIntegers,
  isOneOfTexts,
  join,
  json,
  raw,
  rowOf,
  schema,
  type Sql,
  sql,
  type SqlDatabase,
  type Statement,
  time
} from "./SqlStatement.ts"

/** The limits of a step: texts, and positions that are searched, so that a step takes a short time only. */
const [stepTexts, stepPositions] = [1000, 20_000] as const

export const redactionOver = (db: SqlDatabase): Pick<RedactionStore, "redact" | "search" | "erasures"> => ({
  // No consumer and no removal of changes is locked out for long, and none changes what this transaction reads.
  redact: (body) =>
    Effect.flatMap(
      db.origin,
      (origin) => db.transaction("shared", (transaction) => body(statementsOver(transaction, origin)))
    ),
  search: (list, table, needles, after) => search(db, { list, table, needles, after }),
  // An earlier version has erased nothing.
  erasures: Effect.flatMap(hasVersion(db, personalVersion), (has) =>
    has
      ? db.read(
        sql`SELECT erasure, hash, kind, by, ${readTime("started_at")}, ${readTime("completed_at")}, records, changes,
            quarantined FROM ${schema}.erasures ORDER BY erasure`,
        (rows) => rows.map(toErasure)
      )
      : Effect.succeed([]))
})

const textsIn = (list: Lists.AnyList, table: TextTable) =>
  ({
    rows: { from: tableIn(list), place: raw(`"row"`), texts: ["raw"], isOfList: sql`${list.label} <> ''` },
    // The plus sign prevents SQLite from using the index by list, because it would sort all changes for each step.
    changes: {
      from: sql`${schema}.changes`,
      place: raw("seq"),
      texts: ["before", "after"],
      isOfList: sql`${either("+", "")}list = ${list.label}`
    },
    quarantine: {
      from: sql`${schema}.quarantine`,
      place: quarantinePlace,
      texts: ["raw"],
      isOfList: sql`list = ${list.label}`
    }
  })[table]

const search = Effect.fnUntraced(function*(
  db: Sql,
  { after, list, needles, table }: {
    readonly list: Lists.AnyList
    readonly table: TextTable
    readonly needles: ReadonlyArray<string>
    readonly after: string | undefined
  }
): Effect.fn.Return<Effect.Success<ReturnType<RedactionStore["search"]>>, SinkError> {
  const { from, isOfList, place, texts } = textsIn(list, table)
  // PostgreSQL's places of the quarantine are no numbers, so all of them are searched until enough texts are found.
  const isTid = table === "quarantine" && db.dialect === "postgres"
  const start = isTid ? sql`${after ?? "(0,0)"}::tid` : sql`${Number(after ?? -1)}`
  const end = Number(after ?? -1) + stepPositions
  const filter = needles.length === 0 ? raw("true") : join(
    texts.flatMap((text) =>
      [...needles, "\\"].map((needle) => sql`${either(`instr(${text}`, `strpos(${text}::text`)}, ${needle}) > 0`)
    ),
    " OR "
  )
  const { isWhole, rows } = yield* db.first(
    sql`SELECT ${place} AS place, id, ${join(texts.map(readJson))} FROM ${from}
    WHERE ${place} > ${start} ${
      isTid ? raw("") : sql`AND ${place} <= ${end}`
    } AND ${isOfList} AND (${filter}) ORDER BY place`,
    { count: stepTexts, columns: ["id", ...texts], texts }
  )
  const found = rows.map((row) => ({
    id: readOptional(row, "id"),
    texts: texts.flatMap((column) => readOptional(row, column) ?? [])
  }))
  if (!isWhole) return { found, next: readText(rows.at(-1), "place") }
  if (isTid) return { found, next: undefined }
  const last = yield* rowOf(db, sql`SELECT coalesce(max(${place}), -1) AS last FROM ${from}`)
  return { found, next: end >= readNumber(last, "last") ? undefined : String(end) }
})

const statementsOver = (db: Sql, origin: Statement): RedactionStatements => ({
  ...stateOver(db),
  ...textsOver(db),
  ...writesOver(db, origin),
  ...scansOver(db)
})

const stateOver = (
  db: Sql
): PersonalStatements => ({
  state: Effect.andThen(
    requireVersion(db, renamedVersion),
    db.read(
      sql`SELECT ${raw(personalColumns)} FROM ${schema}.personal ${either("", "FOR UPDATE")}`,
      ([row]) => toPersonalRow(row)
    )
  ),
  setState: ({ edition, keyCheck = null, rewriting = null, rule = null }) =>
    db.run(
      sql`UPDATE ${schema}.personal SET rule = ${rule}, rewriting = ${rewriting}, edition = ${edition}, key_check = ${keyCheck}`
    ),
  suppress: (hashes, erasure) => {
    const given = new Given({ hash: "text" }, hashes.map((hash) => [hash]))
    return db.read(
      sql`INSERT INTO ${schema}.suppressed (hash, erasure) ${given.values(sql`${given.cell("hash")}, ${erasure}`)}
        ON CONFLICT DO NOTHING RETURNING hash`,
      (added) => added.length > 0
    )
  },
  hasSuppressed: exists(db, sql`${schema}.suppressed`),
  suppressedAmong: (hashes) =>
    db.read(
      sql`SELECT hash FROM ${schema}.suppressed WHERE hash ${isOneOfTexts(hashes)}`,
      (found) => new Set(found.map((row) => readText(row, "hash")))
    ),
  openErasure: Effect.fnUntraced(function*({ by, hash, kind, startedAt }) {
    const open = yield* rowOf(
      db,
      sql`SELECT min(erasure) AS erasure FROM ${schema}.erasures
      WHERE hash = ${hash} AND kind = ${kind} AND completed_at IS NULL`
    )
    const known = readOptionalNumber(open, "erasure")
    if (known !== undefined) return known
    const added = yield* rowOf(
      db,
      sql`INSERT INTO ${schema}.erasures (hash, kind, by, started_at) VALUES (${hash}, ${kind}, ${by}, ${
        time(startedAt)
      })
      RETURNING erasure`
    )
    return readNumber(added, "erasure")
  }),
  countErased: (erasure, { changes, quarantined, records }) =>
    db.run(
      sql`UPDATE ${schema}.erasures SET records = records + ${records}, changes = changes + ${changes},
        quarantined = quarantined + ${quarantined} WHERE erasure = ${erasure}`
    ),
  completeErasures: (erasures, now) =>
    db.run(
      sql`UPDATE ${schema}.erasures SET completed_at = ${time(now)}
      WHERE erasure ${isOneOfIntegers(erasures)} AND completed_at IS NULL`
    )
})

const textsOver = (
  db: Sql
): TextStatements => ({
  hasTable: (list) => exists(db, sql`${schema}.list_columns WHERE list = ${list.label}`),
  isLoaded: (list) => exists(db, sql`${schema}.scans WHERE list = ${list.label} AND state = 'complete' AND ${isScan}`),
  lastChange: db.read(sql`SELECT ${lastChange} AS last`, ([row]) => readNumber(row, "last")),
  seen: (scan, pieces) =>
    db.read(
      sql`SELECT piece, bits FROM ${schema}.seen WHERE scan = ${scan} AND piece ${isOneOfIntegers(pieces)}`,
      (rows) => rows.map(toPiece)
    ),
  rows: (list, selection) =>
    Effect.map(
      db.first(
        sql`SELECT "row" AS place, id, ${readJson("raw")}, missing_since IS NOT NULL AS missing FROM ${tableIn(list)}
        WHERE ${isIn(raw(`"row"`), selection)} ORDER BY place`,
        { count: stepTexts, columns: ["id", "raw", "missing"], texts: ["raw"] }
      ),
      ({ rows }) =>
        rows.map((row) => ({
          row: readNumber(row, "place"),
          id: readText(row, "id"),
          raw: readText(row, "raw"),
          missing: readBoolean(row, "missing")
        }))
    ),
  changedSince: (list, scan, ids) =>
    db.read(
      sql`SELECT DISTINCT id FROM ${schema}.changes AS c
        WHERE list = ${list.label} AND id ${isOneOfTexts(ids)} AND before IS NOT NULL AND ${isAfter(scan, "c")}`,
      (rows) => new Set(rows.map((row) => readText(row, "id")))
    ),
  changes: (list, scan, selection) =>
    Effect.flatMap(
      db.first(
        // The plus sign prevents SQLite from sorting all changes of the list for each step.
        sql`SELECT seq AS place, list, scan, ${readTime("at")}, kind, id, ${
          join(["fields", "before", "after"].map(readJson))
        },
          ${certifiedRow(list, scan)} AS certified_row FROM ${schema}.changes AS c
        WHERE ${either(selection.ids === undefined ? "+" : "", "")}list = ${list.label} AND ${
          isIn(raw("seq"), selection)
        }
        ORDER BY place`,
        {
          count: stepTexts,
          columns: ["list", "scan", "at", "kind", "id", "fields", "before", "after", "certified_row"],
          texts: ["before", "after"]
        }
      ),
      ({ rows }) =>
        decoded(db.location, () =>
          rows.map((row) => ({
            ...toChange({ ...row, seq: row["place"] }),
            certifiedRow: readOptionalNumber(row, "certified_row")
          })))
    )
})

const writesOver = (
  db: Sql,
  origin: Statement
): WriteStatements => ({
  replaceQuarantined: db.dialect === "sqlite" ? replaceByNumber(db) : replaceByCursor(db),
  writeRows: Effect.fnUntraced(function*(list, rows, now) {
    const recorded = yield* db.all(sql`SELECT name FROM ${schema}.list_columns WHERE list = ${list.label}`)
    const names = new Set(recorded.map((row) => readText(row, "name")))
    const columns = layoutOf(list).columns.flatMap(({ kind, name }, index) =>
      names.has(name) ? [{ kind, name, index }] : []
    )
    const given = new Given(
      {
        row: "bigint",
        raw: "json",
        hash: "text",
        ...Object.fromEntries(columns.map(({ kind, name }) => [name, columnTypes[kind]]))
      },
      rows.map((
        { cells, hash, raw: text, row }
      ) => [row, text, hash, ...columns.map(({ index }) => cells[index] ?? null)])
    )
    yield* db.run(
      sql`UPDATE ${tableIn(list)} AS t SET ${given.set(["raw", "hash", ...columns.map(({ name }) => name)])},
        changed_at = coalesce(${time(now ?? null)}, t.changed_at) ${given} WHERE t."row" = ${given.cell("row")}`
    )
    if (rows.length > 0) yield* incrementRevision(db, list)
  }),
  writeChanges: (changes) => {
    const given = new Given(
      { seq: "bigint", fields: "json", before: "json", after: "json" },
      changes.map(({ after = null, before = null, fields, seq }) => [seq, JSON.stringify(fields), before, after])
    )
    return db.run(
      sql`UPDATE ${schema}.changes AS c SET ${given.set(["fields", "before", "after"])} ${given} WHERE c.seq = ${
        given.cell("seq")
      }`
    )
  },
  appendChanges: Effect.fnUntraced(function*(list, changes, now) {
    const { generation } = yield* ensureGeneration(
      db,
      toNumbering(yield* rowOf(db, sql`SELECT ${numberingColumns(origin)}`), undefined),
      now
    )
    yield* appendChanges(db, { list, scan: 0, now, generation, changes })
  })
})

const scansOver = (
  db: Sql
): ScanStatements => ({
  certified: (list) =>
    db.read(
      sql`SELECT scan, ${readJson("certificate")}, last_change FROM ${schema}.scans WHERE scan = ${
        certifiedScan(list)
      }`,
      ([row]) =>
        row === undefined ? undefined : {
          scan: readNumber(row, "scan"),
          certificate: readOptional(row, "certificate"),
          lastChange: readOptionalNumber(row, "last_change")
        }
    ),
  setCertificate: (scan, certificate) =>
    db.run(sql`UPDATE ${schema}.scans SET certificate = ${json(certificate)} WHERE scan = ${scan}`),
  parts: (list) =>
    db.read(
      sql`SELECT part, min(scan) AS scan FROM ${schema}.scans WHERE list = ${list.label} AND part <> '' GROUP BY part`,
      (rows) => rows.map((row) => ({ part: readText(row, "part"), firstScan: readNumber(row, "scan") }))
    ),
  replaceParts: (list, parts) => {
    const given = new Given({ before: "text", after: "text" }, parts.map(({ after, before }) => [before, after]))
    return db.run(
      sql`UPDATE ${schema}.scans AS t SET part = ${given.cell("after")} ${given}
      WHERE t.list = ${list.label} AND t.part = ${given.cell("before")} AND ${isScan}`
    )
  },
  abandonScans: (list, now) =>
    db.run(
      sql`UPDATE ${schema}.scans SET state = 'abandoned', ended_at = ${time(now)}, checkpoint = NULL
      WHERE list = ${list.label} AND state = 'running'`
    ),
  removeDigests: (list) =>
    Effect.andThen(
      db.run(
        sql`UPDATE ${schema}.scans SET totals = ${
          either(
            "json_set(totals, '$.digest', '0', '$.undocumented', json('{}'), '$.contents', json('{}'))",
            `(totals::jsonb || '{"digest":"0","undocumented":{},"contents":{}}')::json`
          )
        } WHERE list = ${list.label} AND state <> 'running' AND (totals ->> 'digest' <> '0' OR totals ->> 'undocumented' <> '{}' OR totals ->> 'contents' <> '{}')`
      ),
      db.run(
        sql`UPDATE ${schema}.scans SET certificate = ${
          either(
            `json_set(certificate, '$.digest', '${removedDigest}')`,
            `(certificate::jsonb || '{"digest":"${removedDigest}"}')::json`
          )
        } WHERE list = ${list.label} AND certificate ->> 'digest' <> ${removedDigest}
          AND scan IS DISTINCT FROM ${certifiedScan(list)}`
      )
    )
})

const removedDigest = "(removed)"

const exists = (db: Sql, from: Statement): Effect.Effect<boolean, SinkError> =>
  db.read(sql`SELECT 1 AS one FROM ${from} LIMIT 1`, (found) => found.length > 0)

/** SQL for the last complete full scan of a list. */
const certifiedScan = (list: Lists.AnyList): Statement =>
  sql`(SELECT max(scan) FROM ${schema}.scans WHERE list = ${list.label} AND ${isCompleteFullScan})`

const isIn = (place: Statement, { after, ids, through = Number.MAX_SAFE_INTEGER }: Selection): Statement =>
  sql`${place} > ${after} AND ${place} <= ${through} ${ids === undefined ? raw("") : sql`AND id ${isOneOfTexts(ids)}`}`

/** Scans of earlier versions of the tables did not store their last change. */
const isAfter = ({ lastChange: end, scan }: CertifiedTexts, changes: string): Statement =>
  raw(end === undefined ? `${changes}.scan > ${scan}` : `${changes}.seq > ${end}`)

/** SQL for the number of the record's row, if the change `c` has its text at the end of the scan. */
const certifiedRow = (list: Lists.AnyList, scan: CertifiedTexts | undefined): Statement =>
  scan === undefined ? raw("NULL") : sql`CASE WHEN c.before IS NOT NULL AND ${isAfter(scan, "c")} AND NOT EXISTS (
      SELECT 1 FROM ${schema}.changes AS e WHERE e.list = c.list AND e.id = c.id AND e.seq < c.seq AND e.before IS NOT NULL
        AND ${isAfter(scan, "e")}
    ) THEN (SELECT "row" FROM ${tableIn(list)} WHERE id = c.id) END`

const toQuarantinedText = (row: Row): QuarantinedText => ({
  place: readText(row, "place"),
  id: readOptional(row, "id"),
  path: readText(row, "path"),
  raw: readText(row, "raw")
})

/** SQLite: the numbers of the records stay. */
const replaceByNumber = (db: Sql): WriteStatements["replaceQuarantined"] =>
  Effect.fnUntraced(function*(list, use) {
    for (let after = 0;;) {
      const { rows } = yield* db.first(
        sql`SELECT rowid AS place, id, path, raw FROM ${schema}.quarantine
        WHERE rowid > ${after} AND list = ${list.label} ORDER BY place`,
        { count: stepTexts, columns: ["id", "path", "raw"], texts: ["raw"] }
      )
      if (rows.length === 0) return
      yield* replaceTexts(db, yield* use(rows.map(toQuarantinedText)))
      after = readNumber(rows.at(-1), "place")
    }
  })

/** PostgreSQL: an update moves a record to another place. A cursor does not see the moved ones again. */
const replaceByCursor = (db: Sql): WriteStatements["replaceQuarantined"] =>
  Effect.fnUntraced(function*(list, use) {
    yield* db.run(
      sql`DECLARE quarantined NO SCROLL CURSOR FOR SELECT ctid::text AS place, id, path, raw FROM ${schema}.quarantine
      WHERE list = ${raw(`'${list.label}'`)}`
    )
    for (;;) {
      const batch = yield* db.all(raw("FETCH 200 FROM quarantined"))
      if (batch.length === 0) return yield* db.run(raw("CLOSE quarantined"))
      yield* replaceTexts(db, yield* use(batch.map(toQuarantinedText)))
    }
  })

const replaceTexts = (db: Sql, replaced: ReadonlyArray<QuarantinedText>) => {
  const given = new Given(
    { place: "tid", path: "text", raw: "text" },
    replaced.map(({ path, place, raw: text }) => [place, path, text])
  )
  return db.run(
    sql`UPDATE ${schema}.quarantine AS q SET ${given.set(["path", "raw"])} ${given}
    WHERE q.${quarantinePlace} = ${given.cell("place")}`
  )
}
