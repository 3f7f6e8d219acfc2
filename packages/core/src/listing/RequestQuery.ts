/** Checks a query and builds its request. */
import { Effect, Redacted, Schema } from "effect"
import type { PageRequest } from "../http/PageRequest.ts"
import type { BadRecordOption, StreamQuery } from "../model/ListOperation.ts"
import * as Lists from "../model/Lists.ts"
import { InvalidRequest, PaymentsError } from "../model/PaymentsError.ts"
import { PositionData } from "../model/Position.ts"
import { isJsonObject } from "../page/JsonParse.ts"

/** The fields of a query that are not filters. */
const options = new Set(["limit", "position", "onBadRecord", "prefetch", "maxRecords"])

/** Returns the request of a query. Fails with `InvalidRequest` if the query is wrong; sends nothing. */
export const toRequest = (
  list: Lists.AnyList,
  query: StreamQuery<unknown> & BadRecordOption,
  unchecked: ReadonlyArray<string>,
  kind: "pages" | "records"
): Effect.Effect<PageRequest, PaymentsError> => {
  const refuse = (problem: string) => Effect.fail(invalidQuery(list.name, problem))
  // The types require an object, but plain JavaScript can pass any value.
  const given: unknown = query
  if (!isJsonObject(given)) return refuse("a query must be an object of filters and options.")
  const filters: { [field: string]: string } = {}
  for (const [field, value] of Object.entries(given)) {
    if (value === undefined || options.has(field)) continue
    if (field === "signal") return refuse("signal must be an AbortSignal, and is only for the promise API.")
    if (!Object.hasOwn(list.filters, field)) {
      return refuse(
        `the query has an unknown field; ${list.label} can be filtered by ${Object.keys(list.filters).join(", ")}.`
      )
    }
    if (!isText(value)) return refuse(`the filter ${field} must be text that is not empty.`)
    if (!value.isWellFormed()) {
      return refuse(`the filter ${field} contains half a surrogate pair, which cannot be sent.`)
    }
    filters[field] = value
  }
  const { limit, maxRecords, onBadRecord, position, prefetch } = query
  if (limit !== undefined && !Schema.is(Lists.PageLimit)(limit)) {
    return refuse(`limit must be an integer from ${Lists.pageLimit.minimum} to ${Lists.pageLimit.maximum} (§8).`)
  }
  if (onBadRecord !== undefined && onBadRecord !== "fail" && onBadRecord !== "quarantine") {
    return refuse("onBadRecord must be fail or quarantine.")
  }
  if (kind === "records" && onBadRecord === "quarantine") {
    return refuse("a stream of records cannot quarantine records. Read pages, or use onBadRecord: fail.")
  }
  if (kind === "pages" && maxRecords !== undefined) return refuse("maxRecords is only for a stream of records.")
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
  if (!Schema.is(PositionData)(saved)) return refuse("position must come from a page, an error or Position.fromJson.")
  const unknown = Object.keys(saved.filters).find((field) => !Object.hasOwn(list.filters, field))
  if (unknown !== undefined) return refuse("the position contains a filter that the list does not have.")
  if (saved.list !== list.name) return refuse(`the position belongs to ${Lists.byName[saved.list].label}.`)
  if (limit !== undefined && limit !== saved.limit) return refuse("the position belongs to another limit (§4.4).")
  const other = Object.entries(filters).find(([field, value]) => saved.filters[field] !== value)
  if (other !== undefined) return refuse(`the position belongs to another value of the filter ${other[0]}.`)
  return Effect.succeed({ list, limit: saved.limit, filters: saved.filters, cursor: saved.cursor, unchecked })
}

/** Returns the error for a query that is wrong. No request was sent. `problem` names fields, never their values. */
export const invalidQuery = (list: Lists.ListName, problem: string): PaymentsError =>
  new PaymentsError({
    list,
    reason: new InvalidRequest({ problem }),
    attempts: 0,
    status: undefined,
    requestId: undefined,
    body: undefined,
    position: undefined
  })

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""
