/** A {@link Snapshot} of an SQLite file. Each step blocks the thread for some milliseconds only. */
import type { Lists } from "@payments/core"
import { Effect, type Scope } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { contentHash } from "../plan/Plan.ts"
import { longestStatus } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import { readNumber, readOptional, readText, type Row } from "../store/Rows.ts"
import {
  type ComparedBy,
  dayLength,
  type EarlierRow,
  type GroupTotal,
  type RowContent,
  type Snapshot,
  type TotalColumns
} from "../store/Snapshot.ts"
import { maxBytes, type Reader } from "../store/Store.ts"
import type { Database, SqliteClient } from "./SqliteClient.ts"
import { rowsOf } from "./SqliteRows.ts"
import { openReader } from "./SqliteStore.ts"

/** The limits of a step: ids, row numbers, and characters of texts, so that most texts are freed before they grow old. */
const [stepIds, stepRows, stepCharacters] = [5000, 10_000, 512 * 1024] as const

/** Opens a snapshot of an existing file, until the scope closes. */
export const openSnapshot = (file: string, location: string): Effect.Effect<Snapshot, SinkError, Scope.Scope> =>
  Effect.map(Effect.flatMap(openReader(file, location), (reader) => reader.snapshot), snapshotOver)

const snapshotOver = (
  { changeRange, columns, location, personal, prunedRows, run, source }:
    & Pick<Reader, "location" | "personal" | "columns" | "changeRange" | "prunedRows" | "source">
    & Pick<SqliteClient, "run">
): Snapshot => {
  /** Runs a step for each range of row numbers. */
  const forEachStep = Effect.fnUntraced(function*(
    table: string,
    step: (db: Database, from: number, last: number) => void
  ): Effect.fn.Return<void, SinkError> {
    const end = yield* run((db) => readNumber(db.get(`SELECT coalesce(max(row) + 1, 0) AS rows FROM ${table}`), "rows"))
    for (let from = 0; from < end; from += stepRows) {
      yield* run((db) => step(db, from, Math.min(from + stepRows, end) - 1))
      yield* Effect.yieldNow
    }
  })
  return {
    location,
    personal,
    columns,
    changeRange,
    prunedRows,
    source,
    hasFastTexts: true,
    contents: (list, by, after = "") =>
      run((db) => {
        const found: Array<RowContent> = []
        let length = 0
        const rows = db.prepare(
          `SELECT id, raw, missing_since IS NOT NULL FROM ${
            layoutOf(list).table
          } WHERE id > ? ORDER BY id LIMIT ${stepIds}`
        )
        // Arrays take less time than objects, and this reads every row.
        rows.setReturnArrays(true)
        for (const row of rowsOf(rows, [after])) {
          const [id, raw, missing] = row as unknown as readonly [string, string, number] // by setReturnArrays
          found.push({ id, content: contentOf(raw, by), missing: missing === 1 })
          length += raw.length
          if (length > stepCharacters) break
        }
        return found
      }),
    earlier: (list, at, by, after = "") =>
      run((db) => {
        const found: Array<EarlierRow> = []
        let length = 0
        // SQLite takes the other columns from the row with the minimum: https://sqlite.org/lang_select.html#bareagg
        const changed = db.prepare(
          `SELECT id, kind, min(seq) AS seq, (${firstTextAfter}) AS before FROM changes AS c
          WHERE list = ?1 AND seq > ?2 AND id > ?3 GROUP BY id ORDER BY id LIMIT ${stepIds}`
        )
        for (const row of rowsOf(changed, [list.label, at, after])) {
          const before = readOptional(row, "before")
          const content = before === undefined ? undefined : contentOf(before, by)
          const kind = readText(row, "kind")
          found.push({
            id: readText(row, "id"),
            row: kind === "insert" ? undefined : { content, missing: kind === "returned" }
          })
          length += before?.length ?? 0
          if (length > maxBytes) break
        }
        return found
      }),
    rowsAt: (list, ids, at) =>
      run((db) => {
        const select = db.prepare(
          `SELECT raw, missing_since IS NOT NULL AS missing,
            (SELECT kind FROM changes WHERE list = ?1 AND id = c.id AND seq > ?2 ORDER BY seq LIMIT 1) AS kind,
            (${firstTextAfter}) AS before
          FROM ${layoutOf(list).table} AS c WHERE id = ?3`
        )
        const rows: Array<{ readonly text: string; readonly missing: boolean } | undefined> = []
        let length = 0
        for (const id of ids) {
          const row = select.get(list.label, at, id)
          const kind = readOptional(row, "kind")
          if (row === undefined || kind === "insert") {
            rows.push(undefined)
            continue
          }
          const found = readOptional(row, "before") ?? readText(row, "raw")
          length += found.length
          if (rows.length > 0 && length > maxBytes) break
          rows.push({ text: found, missing: kind === undefined ? row["missing"] === 1 : kind === "returned" })
        }
        return rows
      }),
    totals: Effect.fnUntraced(function*(list, counted) {
      const sql = totalsQuery(list, counted)
      const totals: Array<GroupTotal> = []
      yield* forEachStep(layoutOf(list).table, (db, from, last) => {
        for (const row of db.all(sql, from, last)) totals.push(totalOf(row, counted))
      })
      return totals
    }),
    firstReachable: Effect.fnUntraced(function*(list, at) {
      const next = yield* run((db) =>
        readOptional(db.get("SELECT at FROM changes WHERE seq > ? ORDER BY seq LIMIT 1", at), "at")
      )
      if (next === undefined) return undefined
      const { table } = layoutOf(list)
      let last = ""
      yield* forEachStep(table, (db, from, to) => {
        const row = db.get(
          `SELECT max(changed_at) AS last FROM ${table} AS t
          WHERE row BETWEEN ?1 AND ?2 AND changed_at >= ?3 AND NOT EXISTS (
            SELECT 1 FROM changes WHERE list = ?4 AND id = t.id AND seq > ?5 AND (kind = 'insert' OR t.first_seen_at < ?3)
          )`,
          from,
          to,
          next,
          list.label,
          at
        )
        const found = readText(row, "last")
        if (found > last) last = found
      })
      return last === ""
        ? undefined
        : yield* run((db) => readNumber(db.get("SELECT max(seq) AS seq FROM changes WHERE at <= ?", last), "seq"))
    })
  }
}

const contentOf = (raw: string, by: ComparedBy): string => by === "text" ? raw : contentHash(raw)

/** SQL for the text that the record of row `c` had after the change `?2` of the list `?1`, if it has changed since. */
const firstTextAfter = `SELECT before FROM changes
  WHERE list = ?1 AND id = c.id AND seq > ?2 AND before IS NOT NULL ORDER BY seq LIMIT 1`

/**
 * Sums 32-bit halves of the amounts: a sum of whole amounts may exceed 64 bits, where SQLite fails. The halves are returned as
 * text, because a number would be rounded.
 */
const totalsQuery = (list: Lists.AnyList, { amounts, day, status }: TotalColumns): string =>
  `SELECT ${day === undefined ? "NULL" : `substr(${day.name}, 1, ${dayLength})`} AS day,
    ${status === undefined ? "NULL" : `substr(${status.name}, 1, ${longestStatus})`} AS status, count(*) AS records${
    amounts.map(({ name }, index) =>
      `, CAST(sum(${name} >> 32) AS TEXT) AS high_${index}, CAST(sum(${name} & 0xffffffff) AS TEXT) AS low_${index},
      count(*) - count(${name}) AS nulls_${index}`
    ).join("")
  } FROM ${layoutOf(list).table} WHERE row BETWEEN ? AND ? AND missing_since IS NULL GROUP BY 1, 2`

const totalOf = (row: Row, { amounts }: TotalColumns): GroupTotal => ({
  day: readOptional(row, "day") ?? null,
  status: readOptional(row, "status") ?? null,
  records: BigInt(readNumber(row, "records")),
  amounts: amounts.map((_, index) => ({
    // The sum of no amounts is null, which is read as an empty text, and BigInt("") is 0.
    sum: BigInt(readText(row, `high_${index}`)) * 2n ** 32n + BigInt(readText(row, `low_${index}`)),
    nulls: BigInt(readNumber(row, `nulls_${index}`))
  }))
})
