/** A {@link Snapshot} over the statements of one reading transaction. Its steps block no thread for long. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { contentHash } from "../plan/Plan.ts"
import { longestStatus } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import {
  type ComparedBy,
  dayLength,
  type GroupTotal,
  type Point,
  type Reach,
  type Snapshot,
  type TotalColumns
} from "../store/Snapshot.ts"
import type { Reader } from "../store/Store.ts"
import { readBoolean, readNumber, readOptional, readOptionalNumber, readText, type Row } from "../store/StoredRows.ts"
import { isCompleteFullScan, readTime, tableIn } from "./SqlDialect.ts"
import { either, join, quoted, raw, rowOf, schema, type Sql, sql, type Statement, time } from "./SqlStatement.ts"

const [stepIds, stepRows] = [5000, 10_000] as const

/** `contents` reads every row, so each database has a function of its own. */
export const snapshotOver = (db: Sql, reader: Reader, contents: Snapshot["contents"]): Snapshot => ({
  ...reader,
  // A server need not send texts whose hashes are equal.
  hasFastTexts: db.dialect === "sqlite",
  contents,
  earlier: (list, at, by, after = "") => earlierRows(db, list, { at, by, after }),
  rowsAt: (list, ids, at) => rowsAsOf(db, list, ids, at),
  totals: (list, counted) =>
    Effect.suspend(() => {
      const totals: Array<GroupTotal> = []
      return Effect.as(forEachTotal(db, list, counted, (total) => totals.push(total)), totals)
    }),
  reach: (list, point) => reach(db, list, point),
  changeAt: Effect.fnUntraced(function*(moment) {
    const last = yield* rowOf(
      db,
      sql`SELECT seq FROM ${schema}.changes WHERE at <= ${time(moment)} ORDER BY seq DESC LIMIT 1`
    )
    if (last !== undefined) return { seq: readNumber(last, "seq") }
    const pruned = yield* rowOf(db, sql`SELECT seq, ${readTime("pruned_at")} FROM ${schema}.changes_pruned`)
    if (pruned === undefined) return { seq: 0 }
    const seq = readNumber(pruned, "seq")
    const next = yield* rowOf(db, sql`SELECT ${readTime("at")} FROM ${schema}.changes ORDER BY seq LIMIT 1`)
    const scan = yield* rowOf(
      db,
      sql`SELECT ${readTime("ended_at")} FROM (
        SELECT min(ended_at) AS ended_at FROM ${schema}.scans WHERE state = 'complete' AND last_change >= ${seq}
      ) AS scans`
    )
    // The time of the last removed change is not known. It was not after these times.
    const times = [readText(pruned, "pruned_at"), readOptional(next, "at"), readOptional(scan, "ended_at")]
    const [removedBefore = ""] = times.filter((one) => one !== undefined).toSorted()
    return moment < removedBefore ? { removedBefore } : { seq }
  }),
  timeOf: (seq) =>
    Effect.map(
      rowOf(db, sql`SELECT ${readTime("at")} FROM ${schema}.changes WHERE seq = ${seq}`),
      (row) => readOptional(row, "at")
    )
})

const reach = Effect.fnUntraced(function*(
  db: Sql,
  list: Lists.AnyList,
  { seq, time: moment }: Point
): Effect.fn.Return<Reach, SinkError> {
  const scansOf = (condition: Statement) => sql`${schema}.scans WHERE list = ${list.label} AND ${condition}`
  // Exports write a change for each row that they write after a complete scan of the whole list.
  const isBefore = moment === undefined ? sql`last_change <= ${seq}` : sql`ended_at <= ${time(moment)}`
  const whole = yield* rowOf(
    db,
    sql`SELECT ${readTime("ended_at")} FROM ${scansOf(isCompleteFullScan)} AND ${isBefore} ORDER BY scan DESC LIMIT 1`
  )
  if (whole !== undefined) return { readAt: readText(whole, "ended_at") }
  const firstWhole = db.read(
    sql`SELECT ${readTime("ended_at")}, last_change FROM ${
      scansOf(isCompleteFullScan)
    } AND last_change IS NOT NULL ORDER BY scan LIMIT 1`,
    ([row]): Point | undefined =>
      row === undefined ? undefined : { seq: readNumber(row, "last_change"), time: readText(row, "ended_at") }
  )
  const next = moment ?? readOptional(
    yield* rowOf(db, sql`SELECT ${readTime("at")} FROM ${schema}.changes WHERE seq > ${seq} ORDER BY seq LIMIT 1`),
    "at"
  )
  if (next === undefined) return {}
  const isLater = raw(moment === undefined ? ">=" : ">")
  const isEarlier = raw(moment === undefined ? "<" : "<=")
  let last = ""
  yield* inSteps(
    db,
    list,
    (range) =>
      sql`SELECT ${readTime("changed_at")} FROM (
        SELECT max(changed_at) AS changed_at FROM ${tableIn(list)} AS t
        WHERE ${range} AND changed_at ${isLater} ${time(next)} AND NOT EXISTS (
          SELECT 1 FROM ${schema}.changes AS c WHERE c.list = ${list.label} AND c.id = t.id AND c.seq > ${seq}
            AND (c.kind = 'insert' OR t.first_seen_at ${isEarlier} ${time(next)})
        )
      ) AS unrecorded`,
    (row) => {
      const found = readText(row, "changed_at")
      if (found > last) last = found
    }
  )
  if (last !== "") {
    const first = yield* firstWhole
    if (first !== undefined) return { first }
    const reachable = yield* rowOf(db, sql`SELECT max(seq) AS seq FROM ${schema}.changes WHERE at <= ${time(last)}`)
    return { first: { seq: readOptionalNumber(reachable, "seq") ?? 0, time: last } }
  }
  if (moment === undefined) return {}
  const known = sql`SELECT 1 AS one FROM ${scansOf(sql`started_at <= ${time(moment)}`)}
    UNION ALL SELECT 1 FROM ${tableIn(list)} WHERE first_seen_at <= ${time(moment)} LIMIT 1`
  if ((yield* rowOf(db, known)) !== undefined) return {}
  return { first: yield* firstWhole }
})

/** Returns the state, at change `at`, of the rows that later changes concern. */
const earlierRows = (
  db: Sql,
  list: Lists.AnyList,
  { after, at, by }: { readonly at: number; readonly by: ComparedBy; readonly after: string }
): ReturnType<Snapshot["earlier"]> =>
  Effect.map(
    db.first(
      sql`SELECT c.id AS place, c.kind, ${contentOf(sql`(${firstTextAfter(list, at, "c")})`, by)} AS content
        FROM (${firstChanges(sql`${schema}.changes WHERE list = ${list.label} AND seq > ${at} AND id > ${after}`)}) AS c
        ORDER BY place`,
      { count: stepIds, columns: ["kind", "content"], texts: ["content"] }
    ),
    ({ rows }) =>
      rows.map((row) => {
        const kind = readText(row, "kind")
        const content = readOptional(row, "content")
        const hash = content === undefined ? undefined : hashed(db, content, by)
        return {
          id: readText(row, "place"),
          row: kind === "insert" ? undefined : { content: hash, missing: kind === "returned" }
        }
      })
  )

/** Returns the state of the rows with these ids at change `at`. */
const rowsAsOf = (
  db: Sql,
  list: Lists.AnyList,
  ids: ReadonlyArray<string>,
  at: number
): ReturnType<Snapshot["rowsAt"]> =>
  Effect.map(
    db.first(
      // SQLite would sort texts, although the rows have the order of the ids already.
      sql`SELECT wanted.place, t.missing_since IS NOT NULL AS missing,
          (SELECT ${kindOf} FROM ${schema}.changes WHERE list = ${list.label} AND id = t.id AND seq > ${at} ORDER BY seq LIMIT 1)
            AS kind, coalesce((${firstTextAfter(list, at, "t")}), ${either("t.raw", "t.raw::text")}) AS content
        FROM ${
        either(
          sql`(SELECT key AS place, value AS id FROM json_each(${{ type: "text", list: ids }})) AS wanted`,
          sql`unnest(${{ type: "text", list: ids }}) WITH ORDINALITY AS wanted (id, place)`
        )
      } LEFT JOIN ${tableIn(list)} AS t ON t.id = wanted.id ${either("", "ORDER BY place")}`,
      { count: ids.length + 1, columns: ["missing", "kind", "content"], texts: ["content"] }
    ),
    ({ rows }) =>
      rows.map((row) => {
        const [text, kind] = [readOptional(row, "content"), readOptional(row, "kind")]
        return text === undefined || kind === "insert"
          ? undefined
          : { text, missing: kind === undefined ? readBoolean(row, "missing") : kind === "returned" }
      })
  )

/** Counts rows and sums amounts by day and status. Calls `use` with each of them once or several times. */
export const forEachTotal = (
  db: Sql,
  list: Lists.AnyList,
  counted: TotalColumns,
  use: (total: GroupTotal) => void
): Effect.Effect<void, SinkError> =>
  inSteps(db, list, (range) => totalsStatement(list, counted, range), (row) => use(totalOf(row, counted)))

/** Runs a statement over all rows of a list: in SQLite in ranges of row numbers, because a step blocks the thread. */
export const inSteps = Effect.fnUntraced(function*(
  db: Sql,
  list: Lists.AnyList,
  statementOf: (range: Statement) => Statement,
  use: (row: Row) => void
): Effect.fn.Return<void, SinkError> {
  if (db.dialect === "postgres") {
    for (const row of yield* db.all(statementOf(raw("true")))) use(row)
    return
  }
  const end = readNumber(
    yield* rowOf(db, sql`SELECT coalesce(max("row") + 1, 0) AS "end" FROM ${tableIn(list)}`),
    "end"
  )
  for (let from = 0; from < end; from += stepRows) {
    const range = sql`"row" BETWEEN ${from} AND ${Math.min(from + stepRows, end) - 1}`
    for (const row of yield* db.all(statementOf(range))) use(row)
    yield* Effect.yieldNow
  }
})

/** SQL for a text or its hash, which PostgreSQL computes as `contentHash` of `Plan.ts` does. */
export const contentOf = (text: Statement, by: ComparedBy): Statement =>
  either(text, by === "text" ? sql`${text}::text` : sql`encode(sha256(convert_to(${text}::text, 'UTF8')), 'hex')`)

/** Returns the content of a row with {@link contentOf}. */
export const hashed = ({ dialect }: Pick<Sql, "dialect">, content: string, by: ComparedBy): string =>
  dialect === "sqlite" && by === "hash" ? contentHash(content) : content

/** SQL for the text that a record had after a change, if it has changed since. */
const firstTextAfter = (list: Lists.AnyList, at: number, record: string): Statement =>
  sql`SELECT ${either("before", "before::text")} FROM ${schema}.changes AS b WHERE b.list = ${list.label} AND b.id = ${
    raw(record)
  }.id AND b.seq > ${at}
  AND b.before IS NOT NULL ORDER BY b.seq LIMIT 1`

/**
 * An erasure or a rewrite (scan 0) of a missing row is written as its return and its removal, in one transaction. The row
 * is missing between the two as well.
 */
const kindOf = raw("CASE WHEN scan = 0 AND kind = 'missing' THEN 'returned' ELSE kind END AS kind")

/**
 * The first change of each record. SQLite takes `kind` and `scan` from the row with the minimum:
 * https://sqlite.org/lang_select.html#bareagg
 */
const firstChanges = (changes: Statement): Statement =>
  either(
    sql`SELECT id, ${kindOf}, min(seq) AS seq FROM ${changes} GROUP BY id`,
    sql`SELECT DISTINCT ON (id) id, ${kindOf} FROM ${changes} ORDER BY id, seq LIMIT ${stepIds}`
  )

/**
 * SQLite fails if a sum exceeds 64 bits, so it sums 32-bit halves of the amounts. The sums are returned as texts,
 * because a number would be rounded.
 */
const totalsStatement = (list: Lists.AnyList, { amounts, day, status }: TotalColumns, range: Statement): Statement => {
  const start = (column: TotalColumns["day"], length: number) =>
    raw(column === undefined ? "NULL" : `substr(${quoted(column.name)}, 1, ${length})`)
  const sums = amounts.map(({ name }, index) => {
    const amount = quoted(name)
    return sql`, ${
      either(
        `CAST(sum(${amount} >> 32) AS TEXT) AS high_${index}, CAST(sum(${amount} & 0xffffffff) AS TEXT) AS low_${index}`,
        `NULL AS high_${index}, sum(${amount})::text AS low_${index}`
      )
    }, count(*) - count(${raw(amount)}) AS nulls_${raw(String(index))}`
  })
  return sql`SELECT ${start(day, dayLength)} AS day, ${start(status, longestStatus)} AS status, count(*) AS records${
    join(sums, "")
  } FROM ${tableIn(list)} WHERE ${range} AND missing_since IS NULL GROUP BY 1, 2`
}

const totalOf = (row: Row, { amounts }: TotalColumns): GroupTotal => ({
  day: readOptional(row, "day") ?? null,
  status: readOptional(row, "status") ?? null,
  records: BigInt(readText(row, "records")),
  amounts: amounts.map((_, index) => ({
    // The sum of no amounts is null, which is read as an empty text, and BigInt("") is 0.
    sum: BigInt(readText(row, `high_${index}`)) * 2n ** 32n + BigInt(readText(row, `low_${index}`)),
    nulls: BigInt(readText(row, `nulls_${index}`))
  }))
})
