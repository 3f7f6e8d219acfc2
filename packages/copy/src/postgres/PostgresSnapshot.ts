/** A {@link Snapshot} of a PostgreSQL schema: one transaction that reads and sees no later commit. */
import type { Lists } from "@payments/core"
import { Effect, type Scope } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { longestStatus } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import { readNumber, readOptional, readText, type Row } from "../store/Rows.ts"
import { type ComparedBy, dayLength, type GroupTotal, type Snapshot, type TotalColumns } from "../store/Snapshot.ts"
import { maxBytes, type Reader } from "../store/Store.ts"
import { type Query, texts } from "./PostgresClient.ts"
import { quoted } from "./PostgresSchema.ts"
import { settingsOf } from "./PostgresSettings.ts"
import { openSnapshot as open } from "./PostgresStore.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

/** The rows of one query. */
const chunkRows = 5000

/** Opens a snapshot of an existing schema, until the scope closes. */
export const openSnapshot = (url: PostgresUrl): Effect.Effect<Snapshot, SinkError, Scope.Scope> =>
  Effect.map(
    Effect.flatMap(settingsOf(url), open),
    ({ query, reader, schema }) => snapshotOver(reader, query, schema)
  )

const snapshotOver = (
  { changeRange, columns, location, personal, prunedRows, source }: Pick<
    Reader,
    "location" | "personal" | "columns" | "changeRange" | "prunedRows" | "source"
  >,
  query: Query,
  s: string
): Snapshot => ({
  location,
  personal,
  columns,
  changeRange,
  prunedRows,
  source,
  // The column of ids is sorted by bytes (COLLATE "C").
  hasFastTexts: false,
  contents: (list, by, after = "") =>
    Effect.map(
      query(
        `SELECT id, ${contentOf("raw", by)} AS content, missing_since IS NOT NULL AS missing
        FROM ${s}.${layoutOf(list).table} WHERE id > $1 ORDER BY id LIMIT ${chunkRows}`,
        [after]
      ),
      (rows) =>
        rows.map((row) => ({
          id: readText(row, "id"),
          content: readText(row, "content"),
          missing: row["missing"] === true
        }))
    ),
  earlier: (list, at, by, after = "") =>
    Effect.map(
      query(
        `SELECT c.id, c.kind, (SELECT ${contentOf("b.before", by)} ${firstTextAfter(s, "c.id")}) AS content
        FROM (
          SELECT DISTINCT ON (id) id, kind FROM ${s}.changes
          WHERE list = $1 AND seq > $2::bigint AND id > $3 ORDER BY id, seq LIMIT ${chunkRows}
        ) AS c ORDER BY c.id`,
        [list.label, String(at), after]
      ),
      (rows) =>
        rows.map((row) => {
          const kind = readText(row, "kind")
          return {
            id: readText(row, "id"),
            row: kind === "insert" ? undefined : { content: readOptional(row, "content"), missing: kind === "returned" }
          }
        })
    ),
  rowsAt: (list, ids, at) =>
    Effect.map(
      query(
        `WITH found AS (
          SELECT wanted.place, changed.kind, t.missing_since IS NOT NULL AS missing,
            CASE WHEN changed.kind = 'insert' THEN NULL ELSE coalesce(earlier.before, t.raw::text) END AS raw
          FROM unnest($3::text[]) WITH ORDINALITY AS wanted (id, place)
          LEFT JOIN ${s}.${layoutOf(list).table} AS t ON t.id = wanted.id
          LEFT JOIN LATERAL (
            SELECT kind FROM ${s}.changes WHERE list = $1 AND id = wanted.id AND seq > $2::bigint ORDER BY seq LIMIT 1
          ) AS changed ON true
          LEFT JOIN LATERAL (SELECT b.before::text AS before ${firstTextAfter(s, "wanted.id")}) AS earlier ON true
        )
        SELECT raw, kind, missing FROM (
          SELECT *, sum(octet_length(raw)) OVER (ORDER BY place) AS bytes FROM found
        ) AS sums WHERE place = 1 OR coalesce(bytes, 0) <= ${maxBytes} ORDER BY place`,
        [list.label, String(at), texts(ids)]
      ),
      (rows) =>
        rows.map((row) => {
          const found = readOptional(row, "raw")
          const kind = readOptional(row, "kind")
          return found === undefined
            ? undefined
            : { text: found, missing: kind === undefined ? row["missing"] === true : kind === "returned" }
        })
    ),
  totals: (list, counted) =>
    Effect.map(query(totalsQuery(s, list, counted)), (rows) => rows.map((row) => totalOf(row, counted))),
  firstReachable: (list, at) =>
    Effect.map(
      query(
        `WITH next AS (SELECT at FROM ${s}.changes WHERE seq > $2::bigint ORDER BY seq LIMIT 1),
        unrecorded AS (
          SELECT max(changed_at) AS last FROM ${s}.${layoutOf(list).table} AS t, next
          WHERE changed_at >= next.at AND NOT EXISTS (
            SELECT FROM ${s}.changes AS c
            WHERE c.list = $1 AND c.id = t.id AND c.seq > $2::bigint
              AND (c.kind = 'insert' OR t.first_seen_at < next.at)
          )
        )
        SELECT max(seq) AS seq FROM ${s}.changes, unrecorded WHERE at <= last`,
        [list.label, String(at)]
      ),
      ([row]) => readOptional(row, "seq") === undefined ? undefined : readNumber(row, "seq")
    )
})

/** SQL for a text, or for its hash as `contentHash` of `Plan.ts` computes it. */
const contentOf = (column: string, by: ComparedBy): string =>
  by === "text" ? `${column}::text` : `encode(sha256(convert_to(${column}::text, 'UTF8')), 'hex')`

/** SQL for the text that a record had after the change `$2` of the list `$1`, if it has changed since. */
const firstTextAfter = (s: string, id: string): string =>
  `FROM ${s}.changes AS b WHERE b.list = $1 AND b.id = ${id} AND b.seq > $2::bigint AND b.before IS NOT NULL
  ORDER BY b.seq LIMIT 1`

const totalsQuery = (s: string, list: Lists.AnyList, { amounts, day, status }: TotalColumns): string =>
  `SELECT ${day === undefined ? "NULL" : `left(${quoted(day.name)}, ${dayLength})`} AS day,
    ${status === undefined ? "NULL" : `left(${quoted(status.name)}, ${longestStatus})`} AS status,
    count(*)::text AS records${
    amounts.map(({ name }, index) =>
      `, sum(${quoted(name)})::text AS sum_${index}, (count(*) - count(${quoted(name)}))::text AS nulls_${index}`
    ).join("")
  } FROM ${s}.${layoutOf(list).table} WHERE missing_since IS NULL GROUP BY 1, 2`

const totalOf = (row: Row, { amounts }: TotalColumns): GroupTotal => ({
  day: readOptional(row, "day") ?? null,
  status: readOptional(row, "status") ?? null,
  records: BigInt(readText(row, "records")),
  // The sum of no amounts is null, which is read as an empty text, and BigInt("") is 0.
  amounts: amounts.map((_, index) => ({
    sum: BigInt(readText(row, `sum_${index}`)),
    nulls: BigInt(readText(row, `nulls_${index}`))
  }))
})
