/**
 * Searches all lists for a text: through the service's filters, or in all text columns of a destination. Each list has
 * its own result, so that the failure of one list does not hide the others.
 */
import { type ListOperation, Lists, PaymentsApi, type PaymentsError } from "@payments/core"
import { Effect, type Scope, Stream } from "effect"
import * as Destination from "../destination/Destination.ts"
import { type Column, storable, tableOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { QueryError, QueryResult } from "../statement/Statement.ts"
import { contains } from "./Conditions.ts"
import { existingColumns } from "./ExistingColumns.ts"
import type { NamedPoint, PointError, ReachedPoint } from "./PointInTime.ts"
import { queryAt, queryOpened } from "./Query.ts"
import type { Statement } from "./Questions.ts"

/** A record that has the text. */
export interface Match {
  readonly list: Lists.AnyList
  /** Undefined if the record has no `id` that is a string. */
  readonly id: string | undefined
  /** The paths of the fields that have the text, such as `customerDetails.name`. */
  readonly fields: ReadonlyArray<string>
  /** The exact text of the record. */
  readonly raw: string
  /** Whether two complete scans in a row did not return the row of a destination. */
  readonly isMissing: boolean
}

/** The result of one list. */
export interface Found {
  readonly list: Lists.AnyList
  readonly matches: ReadonlyArray<Match>
  /** Whether these are all matches. */
  readonly complete: boolean
  /** Why the list could not be searched, or only in part. */
  readonly error?: PaymentsError
}

/** Whether a documented field, such as `customerDetails.name`, may be read. */
export type Includes = (list: Lists.AnyList, field: string) => boolean

const everyField: Includes = () => true

/** Returns the fields of a list that the service can search for a text. */
export const searchedFields = (list: Lists.AnyList): ReadonlyArray<string> =>
  Object.entries<Lists.Filter>(list.filters).filter(([, { type }]) => type === "text").map(([field]) => field)

/**
 * Searches the lists of the service with each filter that compares text, of the fields that are included. A list has at
 * most `limit` matches. The results have the order of `Lists.all`.
 */
export const findInApi = (
  text: string,
  limit: number,
  includes: Includes = everyField
): Stream.Stream<Found, never, PaymentsApi> =>
  Stream.unwrap(Effect.map(PaymentsApi, (api) =>
    Stream.mapEffect(
      Stream.fromIterable(Lists.all),
      // The operations differ only in the types of their records and filters. The search passes both on unchanged.
      (list) => findInList(list, api[list.name], { text, limit, includes }),
      { concurrency: Lists.all.length }
    )))

interface Search {
  readonly text: string
  readonly limit: number
}

const findInList = (
  list: Lists.AnyList,
  operation: ListOperation<{ readonly id: string }, object>,
  { includes, ...search }: Search & { readonly includes: Includes }
): Effect.Effect<Found> =>
  Effect.map(
    Effect.forEach(
      searchedFields(list).filter((field) => includes(list, field)),
      (field) => findByField(list, operation, field, search),
      { concurrency: "unbounded" }
    ),
    (results) => {
      const byRecord = new Map<string, Match>()
      for (const match of results.flatMap(({ matches }) => matches)) {
        const key = match.id === undefined ? `raw:${match.raw}` : `id:${match.id}`
        const earlier = byRecord.get(key)
        byRecord.set(
          key,
          earlier === undefined ? match : { ...earlier, fields: [...new Set([...earlier.fields, ...match.fields])] }
        )
      }
      const matches = [...byRecord.values()]
      const error = results.find((result) => result.error !== undefined)?.error
      return {
        list,
        matches: matches.slice(0, search.limit),
        complete: matches.length <= search.limit && results.every(({ complete }) => complete),
        ...(error === undefined ? {} : { error })
      }
    }
  )

const findByField = (
  list: Lists.AnyList,
  operation: ListOperation<{ readonly id: string }, object>,
  field: string,
  { limit, text }: Search
): Effect.Effect<Found> => {
  const matches: Array<Match> = []
  let complete = false
  return operation.pages({
    [field]: text,
    limit: Math.min(limit, Lists.pageLimit.maximum),
    prefetch: 0,
    onBadRecord: "quarantine"
  }).pipe(
    Stream.runForEachWhile((page) =>
      Effect.sync(() => {
        for (const { id, text: raw } of page.records()) {
          matches.push({ list, id, fields: [field], raw, isMissing: false })
        }
        complete = page.next === null
        return matches.length < limit
      })
    ),
    Effect.match({
      onSuccess: () => ({ list, matches, complete }),
      onFailure: (error) => ({ list, matches, complete: false, error })
    })
  )
}

/**
 * How a field matches the text: equal, or containing it in upper or lower case. The locale of a PostgreSQL database
 * says which letters have two cases: with the locale C only those of ASCII.
 */
export type Comparison = "equals" | "contains"

export interface CopySearch extends Search {
  /** By default `equals`. */
  readonly comparison?: Comparison
  /** The fields that are searched; by default all. */
  readonly includes?: Includes | undefined
  /** A field that has this pseudonym equals the text, too. */
  readonly pseudonym?: string | undefined
}

/**
 * Searches all text columns of the lists in a destination whose fields are included, without a request. A list has at
 * most `limit` matches. Lists that the destination has no table for are left out.
 */
export const findInCopy = (
  destination: Destination.StoredDestination,
  search: CopySearch
): Effect.Effect<ReadonlyArray<Found>, SinkError | QueryError> =>
  findWith(destination, search, ({ parameters, sql }) => queryOpened(destination, sql, parameters))

/** Searches as {@link findInCopy} does, in the rows as they were at a point. */
export const findInCopyAt = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  search: CopySearch,
  named: NamedPoint
): Effect.fn.Return<
  { readonly found: ReadonlyArray<Found>; readonly point: ReachedPoint | undefined },
  SinkError | QueryError | PointError
> {
  let point: ReachedPoint | undefined
  const found = yield* findWith(
    destination,
    search,
    (statement) =>
      Effect.tap(
        queryAt(destination, { ...statement, isSearch: search.comparison !== "contains" }, named),
        (result) => Effect.sync(() => point = result.point)
      )
  )
  return { found, point }
})

const findWith = <E>(
  destination: Destination.StoredDestination,
  { comparison = "equals", includes = everyField, limit, pseudonym, text }: CopySearch,
  run: (statement: Statement) => Effect.Effect<QueryResult, E, Scope.Scope>
): Effect.Effect<ReadonlyArray<Found>, SinkError | QueryError | E> =>
  Effect.scoped(Effect.gen(function*() {
    const tables = yield* existingColumns(
      yield* Destination.reader(destination),
      ({ kind, path }, list) => kind === "text" && includes(list, path.join("."))
    )
    if (tables.length === 0) return []
    const texts = [storable(text), ...comparison === "equals" && pseudonym !== undefined ? [pseudonym] : []]
    const { dialect } = Destination.operations(destination)
    const condition = (column: Column) =>
      comparison === "contains"
        ? contains(dialect, column)("$1")
        : `${column.name} IN (${texts.map((_, index) => `$${index + 1}`).join(", ")})`
    const selects = tables.map(({ columns, list }) => {
      const flags = columns.map((column) => `CASE WHEN ${condition(column)} THEN '1' ELSE '0' END`)
      // An asterisk would use every column, and those of changed rows are computed.
      return `SELECT list, id, flags, missing, raw FROM (SELECT '${list.label}' AS list, id, ${
        flags.join(" || ")
      } AS flags,
        CASE WHEN missing_since IS NULL THEN 'no' ELSE 'yes' END AS missing, raw FROM ${tableOf(list)}
        WHERE ${columns.map(condition).join(" OR ")} LIMIT ${limit + 1}) AS ${tableOf(list)}`
    })
    const { rows } = yield* run({ sql: selects.join("\nUNION ALL "), parameters: texts })
    const matches = new Map(tables.map(({ list }): readonly [string, Array<Match>] => [list.label, []]))
    yield* Stream.runForEach(Stream.flattenIterable(rows), (cells) =>
      Effect.sync(() => {
        const [label = "", id = "", flags = "", missing = "", raw = ""] = cells.map(String)
        const table = tables.find(({ list }) => list.label === label)
        if (table === undefined) return
        matches.get(label)?.push({
          list: table.list,
          id,
          fields: table.columns.filter((_, index) => flags[index] === "1").map(({ path }) => path.join(".")),
          raw,
          isMissing: missing === "yes"
        })
      }))
    return tables.map(({ list }): Found => {
      const all = matches.get(list.label) ?? []
      return { list, matches: all.slice(0, limit), complete: all.length <= limit }
    })
  }))
