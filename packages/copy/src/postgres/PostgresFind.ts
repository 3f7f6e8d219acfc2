/** Compares a whole page with its rows by hashes, in one query, which is much faster than a lookup of each row. */
import { Effect } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import type { RowLookup } from "../plan/Plan.ts"
import type { Reader } from "../store/Store.ts"
import { readBoolean, readNumber, readOptional, readText } from "../store/StoredRows.ts"
import { type Query, textArray } from "./PostgresClient.ts"

/**
 * Finds the rows of ids. If the last page was unchanged, the next one probably is too, so the first query only checks
 * whether all hashes match. After a first load, the rows of a page are adjacent, and one range of rows has their
 * hashes. After new records have been inserted in between, the rows are looked up by id and hash.
 */
export const findOver = (query: Query, schema: string): Reader["find"] => {
  /** The order of the rows of the last unchanged page, by table. */
  const unchanged = new Map<string, "adjacent" | "scattered">()
  return Effect.fnUntraced(function*(list, lookups) {
    const table = `${schema}.${layoutOf(list).table}`
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
      [textArray(lookups.map(({ id }) => id))]
    )
    const stored = new Map(
      found.filter((row) => row["id"] !== null).map((row) => [
        readText(row, "id"),
        { row: readNumber(row, "row"), hash: readText(row, "hash"), missing: readBoolean(row, "missing") }
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

const findScattered = (query: Query, table: string, next: string, lookups: ReadonlyArray<RowLookup>) =>
  Effect.map(
    query(
      `SELECT string_agg(t."row"::text, ' ' ORDER BY u.place) AS rows, ${next}
      FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (id, hash, place)
      JOIN ${table} AS t ON t.id = u.id AND t.hash = u.hash AND t.missing_since IS NULL`,
      [textArray(lookups.map(({ id }) => id)), textArray(lookups.map(({ hash }) => hash))]
    ),
    ([found]): UnchangedPage => {
      const rows = readOptional(found, "rows")?.split(" ") ?? []
      return rows.length === lookups.length ? { rows: rows.map(Number), nextRow: readNumber(found, "next") } : undefined
    }
  )
