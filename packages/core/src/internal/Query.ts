/** From a query to a request, or what is wrong with it, before anything is sent. */
import { Effect, Redacted, Schema } from "effect"
import type { BadRecordOption, ListOptions, PartitionOptions } from "../ListOperation.ts"
import * as Lists from "../Lists.ts"
import { InvalidRequest, PaymentsError } from "../PaymentsError.ts"
import { PositionData } from "../Position.ts"
import type { PageRequest } from "./PageSource.ts"

/** What a query may say beside filters. */
const options = new Set(["limit", "position", "onBadRecord", "prefetch", "maxRecords"])

/** The request that a query means. */
export const toRequest = (
  list: Lists.AnyList,
  query: ListOptions & BadRecordOption & { readonly maxRecords?: number | undefined },
  unchecked: ReadonlyArray<string>,
  wanted: "pages" | "records"
): Effect.Effect<PageRequest, PaymentsError> => {
  const refuse = (problem: string) => Effect.fail(refused(list.name, problem))
  if (!isQuery(query)) return refuse(noQuery)
  const filters: { [field: string]: string } = {}
  for (const [field, value] of Object.entries(query)) {
    if (value === undefined || options.has(field)) continue
    if (field === "signal") return refuse("signal must be an AbortSignal, and given where promises come back.")
    if (!Object.hasOwn(list.filters, field)) {
      return refuse(
        `there is no filter of that name; ${list.label} can be filtered by ${Object.keys(list.filters).join(", ")}.`
      )
    }
    if (!isText(value)) return refuse(`the filter ${field} must be text that is not empty.`)
    if (!value.isWellFormed()) return refuse(`the filter ${field} holds half a character, which cannot be sent.`)
    filters[field] = value
  }
  const { limit, maxRecords, onBadRecord, position, prefetch } = query
  if (limit !== undefined && !Schema.is(Lists.PageLimit)(limit)) {
    return refuse(`limit must be an integer from ${Lists.pageLimit.minimum} to ${Lists.pageLimit.maximum} (§8).`)
  }
  if (onBadRecord !== undefined && onBadRecord !== "fail" && onBadRecord !== "quarantine") {
    return refuse("onBadRecord must be fail or quarantine.")
  }
  if (wanted === "records" && onBadRecord === "quarantine") {
    return refuse("only a page can set a record aside: ask for pages, or let a bad record fail the stream.")
  }
  if (wanted === "pages" && maxRecords !== undefined) return refuse("maxRecords is for a stream of records.")
  if (maxRecords !== undefined && !(Number.isSafeInteger(maxRecords) && maxRecords >= 0)) {
    return refuse("maxRecords must be a whole number, 0 or more.")
  }
  if (prefetch !== undefined && !(Number.isSafeInteger(prefetch) && prefetch >= 0)) {
    return refuse("prefetch must be a whole number of pages, 0 or more.")
  }
  if (position === undefined) {
    return Effect.succeed({ list, limit: limit ?? Lists.pageLimit.default, filters, cursor: undefined, unchecked })
  }
  const saved: unknown = Redacted.isRedacted(position) ? Redacted.value(position) : undefined
  if (!Schema.is(PositionData)(saved)) return refuse("position must be one that a page, an error or a text gave.")
  const unknown = Object.keys(saved.filters).find((field) => !Object.hasOwn(list.filters, field))
  if (unknown !== undefined) return refuse("the position holds a filter that the list does not have.")
  if (saved.list !== list.name) return refuse(`the position belongs to ${Lists.byName[saved.list].label}.`)
  if (limit !== undefined && limit !== saved.limit) return refuse("the position belongs to another limit (§4.4).")
  const other = Object.entries(filters).find(([field, value]) => saved.filters[field] !== value)
  if (other !== undefined) return refuse(`the position belongs to another value of the filter ${other[0]}.`)
  return Effect.succeed({ list, limit: saved.limit, filters: saved.filters, cursor: saved.cursor, unchecked })
}

/** The error of a query that was not sent. `problem` names fields, never their values. */
export const refused = (list: Lists.ListName, problem: string): PaymentsError =>
  new PaymentsError({
    list,
    reason: new InvalidRequest({ problem }),
    attempts: 0,
    status: undefined,
    requestId: undefined,
    body: undefined,
    position: undefined
  })

/** The types allow no other, but plain JavaScript can give anything. */
const isQuery = (query: unknown): boolean => typeof query === "object" && query !== null && !Array.isArray(query)

const noQuery = "a query is an object of filters and options."

/** How many parts one listing may be cut into: ten years of days. */
const mostParts = 3660

/** The values that a listing is cut by, each once, and the filter they are values of. */
export const toParts = (
  list: Lists.AnyList,
  by: object,
  query: PartitionOptions
): Effect.Effect<{ readonly field: string; readonly values: ReadonlyArray<string> }, PaymentsError> => {
  const refuse = (problem: string) => Effect.fail(refused(list.name, problem))
  if (!isQuery(by)) return refuse(byOneFilter)
  if (!isQuery(query)) return refuse(noQuery)
  const rules: Readonly<Record<string, "equals" | "prefix">> = list.filters
  const given: ReadonlyArray<readonly [string, unknown]> = Object.entries(by)
  const [first, ...more] = given.filter(([, values]) => values !== undefined)
  if (first === undefined || more.length > 0) return refuse(byOneFilter)
  const { concurrency } = query
  if (concurrency !== undefined && !(Number.isSafeInteger(concurrency) && concurrency > 0)) {
    return refuse("concurrency must be a whole number above 0.")
  }
  const [field, parts] = first
  if (rules[field] === undefined) {
    return refuse(
      `there is no filter of that name; ${list.label} can be cut by ${Object.keys(list.filters).join(", ")}.`
    )
  }
  if (Object.entries(query).some(([name, value]) => name === field && value !== undefined)) {
    return refuse(`the filter ${field} is what the listing is cut by: it cannot be given beside it.`)
  }
  const listed = Array.isArray(parts)
  if (!listed && rules[field] !== "prefix") return refuse(`${field} holds no dates: give its values.`)
  const values = listed ? textsOf(parts) : daysOf(parts)
  if (listed && values === undefined) return refuse(`the values of ${field} must be texts that are not empty.`)
  if (values === undefined) return refuse(`the days of ${field} must be two dates YYYY-MM-DD, the first not the later.`)
  if (values.length > mostParts) return refuse(`a listing is cut into ${mostParts} parts at most.`)
  return Effect.succeed({ field, values })
}

const byOneFilter = "a listing is cut by the values of one filter."

/** Each value once. */
const textsOf = (values: ReadonlyArray<unknown>): ReadonlyArray<string> | undefined =>
  values.every(isText) ? [...new Set(values)] : undefined

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""

const Range = Schema.Struct({ from: Schema.String, to: Schema.String })

/** The days from one date to another, both included. */
const daysOf = (range: unknown): ReadonlyArray<string> | undefined => {
  if (!Schema.is(Range)(range)) return undefined
  const { from, to } = range
  const [first, last] = [from, to].map((day) => Date.parse(`${day}T00:00:00Z`))
  if (first === undefined || last === undefined || !isDay(from, first) || !isDay(to, last) || first > last) {
    return undefined
  }
  const days = Math.min((last - first) / 86_400_000 + 1, mostParts + 1)
  return Array.from({ length: days }, (_, index) => new Date(first + index * 86_400_000).toISOString().slice(0, 10))
}

/** Parsing rolls a day that does not exist over into the next month. */
const isDay = (text: string, time: number): boolean =>
  /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
