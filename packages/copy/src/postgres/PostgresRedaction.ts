/** The statements of erasures and rewrites in a PostgreSQL schema. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { layoutOf, tableOf } from "../plan/Columns.ts"
import { NotADestination, SinkError } from "../port/Sink.ts"
import { earlierVersion, generationVersion, personalVersion } from "../store/Migrations.ts"
import { personalColumns } from "../store/PersonalBinding.ts"
import type {
  CertifiedTexts,
  RedactionStatements,
  RedactionStore,
  Selection,
  TextTable
} from "../store/RedactionStore.ts"
import {
  decoded,
  readBytes,
  readNumber,
  readOptional,
  readText,
  toChange,
  toErasure,
  toPersonalRow
} from "../store/Rows.ts"
import { maxBytes } from "../store/Store.ts"
import { integers, iso, type Parameter, type PostgresClient, type Query, texts } from "./PostgresClient.ts"
import { arrayTypes, cellArrays, countChanges } from "./PostgresCommit.ts"
import { ensureGeneration, numberingSql, originOf, toNumbering } from "./PostgresGenerations.ts"
import { setIdleTimeout, times } from "./PostgresLease.ts"
import { quoted } from "./PostgresSchema.ts"

/** The limits of a statement: texts, and positions that are searched. */
const [stepTexts, stepPositions] = [1000, 20_000] as const

/** Makes the functions of a {@link RedactionStore}. */
export const redactionOver = (
  { location, once, query: single, transaction }: Pick<
    PostgresClient,
    "location" | "once" | "query" | "transaction"
  >,
  s: string
): RedactionStore => ({
  redact: (body) =>
    Effect.flatMap(originOf(once), (origin) =>
      transaction((query) =>
        Effect.andThen(
          // No consumer and no removal of changes is locked out for long, and none changes what this transaction reads.
          query(
            `SELECT ${setIdleTimeout(times.idleTimeout)}, pg_advisory_xact_lock_shared(hashtextextended($1, 0)),
            CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END`,
            [`payments changes ${s}`]
          ),
          body(statementsOver(location, query, s, origin))
        )
      )),
  search: (list, table, needles, after) => search(single, s, list, table, needles, after),
  erasures: Effect.gen(function*() {
    const [destination] = yield* single(`SELECT version FROM ${s}.destination`)
    // An earlier version has erased nothing.
    if (readNumber(destination, "version") < personalVersion) return []
    const rows = yield* single(
      `SELECT erasure, hash, kind, by, ${iso("started_at")}, ${iso("completed_at")}, records, changes, quarantined
      FROM ${s}.erasures ORDER BY erasure`
    )
    return rows.map(toErasure)
  }),
  // The server reuses the space of old row versions after a vacuum.
  wipe: Effect.void
})

const search = Effect.fnUntraced(function*(
  query: Query,
  s: string,
  list: Lists.AnyList,
  table: TextTable,
  needles: ReadonlyArray<string>,
  after = table === "quarantine" ? "(0,0)" : "-1"
): Effect.fn.Return<Effect.Success<ReturnType<RedactionStore["search"]>>, SinkError> {
  const [place, type, from, columns] = table === "rows"
    ? [`"row"`, "bigint", `${s}.${tableOf(list)}`, ["raw"]]
    : table === "changes"
    ? ["seq", "bigint", `${s}.changes`, ["before", "after"]]
    : ["ctid", "tid", `${s}.quarantine`, ["raw"]]
  const isOf = table === "rows" ? "$2 <> ''" : "list = $2"
  const filter = needles.length === 0
    ? "cardinality($3::text[]) = 0"
    : columns.map((column) =>
      `EXISTS (SELECT FROM unnest($3::text[]) AS needle WHERE position(needle IN ${column}::text) > 0)`
    ).join(" OR ")
  // A page of the quarantine may have many texts, and no number: it is searched until enough texts are found.
  const range = table === "quarantine" ? "" : `AND ${place} <= $1::bigint + ${stepPositions}`
  const rows = yield* query(
    `WITH found AS (
      SELECT ${place} AS place, id, ${columns.map((column) => `${column}::text AS ${column}`).join(", ")}
      FROM ${from} WHERE ${place} > $1::${type} ${range} AND ${isOf} AND (${filter}) ORDER BY ${place} LIMIT ${stepTexts}
    ), measured AS (
      SELECT *, sum(${columns.map((column) => `coalesce(octet_length(${column}), 0)`).join(" + ")})
        OVER (ORDER BY place) AS bytes, row_number() OVER (ORDER BY place) AS number FROM found
    )
    SELECT place::text AS place, id, ${columns.join(", ")}, (SELECT count(*) FROM found) AS found
    FROM measured WHERE number = 1 OR bytes <= ${maxBytes} ORDER BY measured.place`,
    [after, list.label, texts(needles.length === 0 ? [] : [...needles, "\\"])]
  )
  const found = rows.map((row) => ({
    id: readOptional(row, "id"),
    texts: columns.flatMap((column) => readOptional(row, column) ?? [])
  }))
  const count = readNumber(rows[0], "found")
  const last = readText(rows.at(-1), "place")
  if (rows.length < count || count === stepTexts) return { found, next: last }
  if (table === "quarantine") return { found, next: undefined }
  const end = Number(after) + stepPositions
  const [highest] = yield* query(`SELECT coalesce(max(${place}), -1) AS last FROM ${from}`)
  return { found, next: end >= readNumber(highest, "last") ? undefined : String(end) }
})

const statementsOver = (location: string, query: Query, s: string, origin: string): RedactionStatements => {
  /** Runs a statement whose rows are not needed. */
  const run = (sql: string, parameters: ReadonlyArray<Parameter> = []) => Effect.asVoid(query(sql, parameters))
  const one = (sql: string, parameters: ReadonlyArray<Parameter> = []) =>
    Effect.map(query(sql, parameters), ([row]) => row)
  const certifiedScan =
    `SELECT max(scan) FROM ${s}.scans WHERE list = $1 AND part = '' AND state = 'complete' AND kind IN ('full', 'part')`
  return {
    state: Effect.gen(function*() {
      const destination = yield* one(`SELECT version FROM ${s}.destination`)
      if (readNumber(destination, "version") < generationVersion) {
        return yield* new SinkError({ location, reason: new NotADestination({ problem: earlierVersion }) })
      }
      return toPersonalRow(yield* one(`SELECT ${personalColumns} FROM ${s}.personal FOR UPDATE`))
    }),
    setState: ({ edition, keyCheck = null, rewriting = null, rule = null }) =>
      run(
        `UPDATE ${s}.personal SET rule = $1, rewriting = $2, edition = $3::bigint, key_check = $4`,
        [rule, rewriting, String(edition), keyCheck]
      ),
    suppress: (hashes, erasure) =>
      Effect.map(
        query(
          `INSERT INTO ${s}.suppressed (hash, erasure) SELECT unnest($1::text[]), $2::bigint
          ON CONFLICT DO NOTHING RETURNING hash`,
          [texts(hashes), String(erasure)]
        ),
        (added) => added.length > 0
      ),
    hasSuppressed: Effect.map(query(`SELECT FROM ${s}.suppressed LIMIT 1`), (found) => found.length > 0),
    suppressedAmong: (hashes) =>
      Effect.map(
        query(`SELECT hash FROM ${s}.suppressed WHERE hash = ANY ($1)`, [texts(hashes)]),
        (found) => new Set(found.map((row) => readText(row, "hash")))
      ),
    openErasure: ({ by, hash, kind, startedAt }) =>
      Effect.map(
        query(
          `WITH open AS (
            SELECT min(erasure) AS erasure FROM ${s}.erasures WHERE hash = $1 AND kind = $2 AND completed_at IS NULL
          ), added AS (
            INSERT INTO ${s}.erasures (hash, kind, by, started_at) SELECT $1, $2, $3, $4::timestamptz FROM open
            WHERE erasure IS NULL RETURNING erasure
          )
          SELECT coalesce(open.erasure, added.erasure) AS erasure FROM open LEFT JOIN added ON true`,
          [hash, kind, by, startedAt]
        ),
        ([row]) => readNumber(row, "erasure")
      ),
    countErased: (erasure, { changes, quarantined, records }) =>
      run(
        `UPDATE ${s}.erasures SET records = records + $1::bigint, changes = changes + $2::bigint,
          quarantined = quarantined + $3::bigint WHERE erasure = $4::bigint`,
        [String(records), String(changes), String(quarantined), String(erasure)]
      ),
    completeErasures: (erasures, now) =>
      run(
        `UPDATE ${s}.erasures SET completed_at = $1::timestamptz WHERE erasure = ANY ($2) AND completed_at IS NULL`,
        [now, integers(erasures)]
      ),
    hasTable: (list) =>
      Effect.map(
        query(`SELECT FROM ${s}.list_columns WHERE list = $1 LIMIT 1`, [list.label]),
        (found) => found.length > 0
      ),
    isLoaded: (list) =>
      Effect.map(
        query(
          `SELECT FROM ${s}.scans WHERE list = $1 AND state = 'complete' AND kind IN ('full', 'part') LIMIT 1`,
          [list.label]
        ),
        (found) => found.length > 0
      ),
    lastChange: Effect.map(one(`SELECT changes FROM ${s}.destination`), (row) => readNumber(row, "changes")),
    certified: (list) =>
      Effect.map(
        one(
          `SELECT scan, certificate::text AS certificate, last_change FROM ${s}.scans WHERE scan = (${certifiedScan})`,
          [list.label]
        ),
        (row) =>
          row === undefined ? undefined : {
            scan: readNumber(row, "scan"),
            certificate: readOptional(row, "certificate"),
            lastChange: readOptional(row, "last_change") === undefined ? undefined : readNumber(row, "last_change")
          }
      ),
    setCertificate: (scan, certificate) =>
      run(`UPDATE ${s}.scans SET certificate = $1::json WHERE scan = $2::bigint`, [certificate, String(scan)]),
    seen: (scan, pieces) =>
      Effect.map(
        query(`SELECT piece, bits FROM ${s}.seen WHERE scan = $1::bigint AND piece = ANY ($2)`, [
          String(scan),
          integers(pieces)
        ]),
        (rows) => rows.map((row) => ({ index: readNumber(row, "piece"), bits: readBytes(row, "bits") }))
      ),
    rows: (list, selection) =>
      Effect.map(
        query(
          limited(
            `SELECT "row" AS place, id, raw::text AS raw, missing_since IS NOT NULL AS missing FROM ${s}.${
              tableOf(list)
            }
            WHERE "row" > $1::bigint AND "row" <= $2::bigint ${among(selection, 3)}`,
            ["raw"]
          ),
          rangeOf(selection)
        ),
        (rows) =>
          rows.map((row) => ({
            row: readNumber(row, "place"),
            id: readText(row, "id"),
            raw: readText(row, "raw"),
            missing: row["missing"] === true
          }))
      ),
    changedSince: (list, scan, ids) =>
      Effect.map(
        query(
          `SELECT DISTINCT id FROM ${s}.changes AS c WHERE list = $1 AND id = ANY ($2) AND before IS NOT NULL
            AND ${isAfter(scan, "c")}`,
          [list.label, texts(ids)]
        ),
        (rows) => new Set(rows.map((row) => readText(row, "id")))
      ),
    changes: (list, scan, selection) =>
      Effect.flatMap(
        query(
          limited(
            `SELECT seq AS place, seq, list, scan, ${
              iso("at")
            }, kind, id, fields::text AS fields, before::text AS before,
              after::text AS after, ${certifiedRow(s, list, scan)} AS certified_row
            FROM ${s}.changes AS c
            WHERE seq > $1::bigint AND seq <= $2::bigint AND list = $3 ${among(selection, 4)}`,
            ["before", "after"]
          ),
          rangeOf(selection, list.label)
        ),
        (rows) =>
          decoded(location, () =>
            rows.map((row) => ({
              ...toChange(row),
              certifiedRow: readOptional(row, "certified_row") === undefined
                ? undefined
                : readNumber(row, "certified_row")
            })))
      ),
    replaceQuarantined: Effect.fnUntraced(function*(list, use) {
      // An update moves a record to another place. The cursor does not see the moved ones again.
      yield* run(
        `DECLARE quarantined NO SCROLL CURSOR FOR SELECT ctid::text AS place, id, path, raw FROM ${s}.quarantine
        WHERE list = '${list.label}'`
      )
      for (;;) {
        const batch = (yield* query(`FETCH ${quarantineBatch} FROM quarantined`)).map((row) => ({
          place: readText(row, "place"),
          id: readOptional(row, "id"),
          path: readText(row, "path"),
          raw: readText(row, "raw")
        }))
        if (batch.length === 0) return yield* run("CLOSE quarantined")
        const replaced = yield* use(batch)
        if (replaced.length === 0) continue
        yield* run(
          `UPDATE ${s}.quarantine AS q SET path = u.path, raw = u.raw
          FROM unnest($1::text[]::tid[], $2::text[], $3::text[]) AS u (place, path, raw) WHERE q.ctid = u.place`,
          [
            texts(replaced.map(({ place }) => place)),
            texts(replaced.map(({ path }) => path)),
            texts(replaced.map(({ raw }) => raw))
          ]
        )
      }
    }),
    writeRows: Effect.fnUntraced(function*(list, rows, now) {
      const recorded = new Set(
        (yield* query(`SELECT name FROM ${s}.list_columns WHERE list = $1`, [list.label])).map((row) =>
          readText(row, "name")
        )
      )
      const all = layoutOf(list).columns
      const columns = all.filter(({ name }) => recorded.has(name))
      const names = columns.map(({ name }) => quoted(name))
      const types = columns.map(({ kind }, index) => `$${index + 5}::${arrayTypes[kind]}`)
      yield* run(
        `UPDATE ${s}.${tableOf(list)} AS t SET ${names.map((name) => `${name} = u.${name}, `).join("")}
          raw = u.raw::json, hash = u.hash, changed_at = coalesce($4::timestamptz, t.changed_at)
        FROM unnest(${["$1::bigint[]", "$2::text[]", "$3::text[]", ...types].join(", ")})
          AS u (${[`"row"`, "raw", "hash", ...names].join(", ")}) WHERE t."row" = u."row"`,
        [
          integers(rows.map(({ row }) => row)),
          texts(rows.map(({ raw }) => raw)),
          texts(rows.map(({ hash }) => hash)),
          now ?? null,
          ...cellArrays(
            columns,
            rows.map(({ cells }) => all.flatMap(({ name }, index) => recorded.has(name) ? [cells[index] ?? null] : []))
          )
        ]
      )
    }),
    writeChanges: (changes) =>
      run(
        `UPDATE ${s}.changes AS c SET fields = u.fields::json, before = u.before::json, after = u.after::json
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS u (seq, fields, before, after)
        WHERE c.seq = u.seq`,
        [
          integers(changes.map(({ seq }) => seq)),
          texts(changes.map(({ fields }) => JSON.stringify(fields))),
          texts(changes.map(({ before = null }) => before)),
          texts(changes.map(({ after = null }) => after))
        ]
      ),
    appendChanges: Effect.fnUntraced(function*(list, changes, now) {
      const [row = {}] = yield* query(`SELECT ${numberingSql(s, origin)}`)
      yield* ensureGeneration(query, s, toNumbering(row, undefined), now)
      yield* run(
        `WITH last AS (UPDATE ${s}.destination SET changes = changes + $1::bigint RETURNING changes - $1::bigint AS seq, generation),
        counted AS (${countChanges(s, "$2", "$3", "kind", "unnest($4::text[]) AS u (kind) GROUP BY kind")})
        INSERT INTO ${s}.changes (seq, list, scan, at, kind, id, fields, before, after, generation)
        SELECT last.seq + u.place, $2, 0, $3::timestamptz, u.kind, u.id, u.fields::json, u.before::json, u.after::json,
          last.generation FROM last, unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY
          AS u (kind, id, fields, before, after, place)`,
        [
          String(changes.length),
          list.label,
          now,
          texts(changes.map(({ kind }) => kind)),
          texts(changes.map(({ id }) => id)),
          texts(changes.map(({ fields }) => JSON.stringify(fields))),
          texts(changes.map(({ before = null }) => before)),
          texts(changes.map(({ after = null }) => after))
        ]
      )
    }),
    parts: (list) =>
      Effect.map(
        query(`SELECT part, min(scan) AS scan FROM ${s}.scans WHERE list = $1 AND part <> '' GROUP BY part`, [
          list.label
        ]),
        (rows) => rows.map((row) => ({ part: readText(row, "part"), firstScan: readNumber(row, "scan") }))
      ),
    replaceParts: (list, parts) =>
      run(
        `UPDATE ${s}.scans AS t SET part = u.after FROM unnest($2::text[], $3::text[]) AS u (before, after)
        WHERE t.list = $1 AND t.part = u.before`,
        [list.label, texts(parts.map(({ before }) => before)), texts(parts.map(({ after }) => after))]
      ),
    abandonScans: (list, now) =>
      run(
        `UPDATE ${s}.scans SET state = 'abandoned', ended_at = $2::timestamptz, checkpoint = NULL
        WHERE list = $1 AND state = 'running'`,
        [list.label, now]
      ),
    removeDigests: (list) =>
      Effect.andThen(
        run(
          `UPDATE ${s}.scans SET tally = (tally::jsonb || '{"digest":"0","undocumented":{}}')::json
          WHERE list = $1 AND state <> 'running' AND (tally ->> 'digest' <> '0' OR tally ->> 'undocumented' <> '{}')`,
          [list.label]
        ),
        run(
          `UPDATE ${s}.scans SET certificate = (certificate::jsonb || '{"digest":"${removedDigest}"}')::json
          WHERE list = $1 AND certificate ->> 'digest' <> '${removedDigest}'
            AND scan IS DISTINCT FROM (${certifiedScan})`,
          [list.label]
        )
      )
  }
}

const quarantineBatch = 200

const removedDigest = "(removed)"

/** SQL for a selection with its ids as parameter `number`. */
const among = ({ ids }: Selection, parameter: number): string => ids === undefined ? "" : `AND id = ANY ($${parameter})`

/** The parameters of a selection: its range, others, and its ids. */
const rangeOf = (
  { after, ids, through = Number.MAX_SAFE_INTEGER }: Selection,
  ...others: ReadonlyArray<string>
): ReadonlyArray<Parameter> => [String(after), String(through), ...others, ...ids === undefined ? [] : [texts(ids)]]

/** SQL that is true for changes after a scan. Scans of earlier versions of the tables did not store their last change. */
const isAfter = ({ lastChange: end, scan }: CertifiedTexts, changes: string): string =>
  end === undefined ? `${changes}.scan > ${scan}` : `${changes}.seq > ${end}`

/** SQL for the number of the record's row, if the change `c` has its text at the end of the scan. */
const certifiedRow = (s: string, list: Lists.AnyList, scan: CertifiedTexts | undefined): string =>
  scan === undefined ? "NULL" : `CASE WHEN c.before IS NOT NULL AND ${isAfter(scan, "c")} AND NOT EXISTS (
      SELECT FROM ${s}.changes AS e WHERE e.list = c.list AND e.id = c.id AND e.seq < c.seq AND e.before IS NOT NULL
        AND ${isAfter(scan, "e")}
    ) THEN (SELECT "row" FROM ${s}.${tableOf(list)} WHERE id = c.id) END`

/** SQL for the first rows of a statement, by `place`, until their texts exceed the limit, but at least one. */
const limited = (sql: string, columns: ReadonlyArray<string>): string =>
  `WITH found AS (${sql} ORDER BY place LIMIT ${stepTexts})
  SELECT * FROM (
    SELECT *, row_number() OVER (ORDER BY place) AS number,
      sum(${columns.map((column) => `coalesce(octet_length(${column}), 0)`).join(" + ")}) OVER (ORDER BY place) AS bytes
    FROM found
  ) AS measured WHERE number = 1 OR bytes <= ${maxBytes} ORDER BY place`
