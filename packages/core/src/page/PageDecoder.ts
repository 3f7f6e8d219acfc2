/**
 * Decodes an answer into a page: checks status, envelope (§2.5), records (§2) and filters (§4). Its functions are pure.
 */
import { Duration, Function, Redacted, Result, Schema, SchemaIssue } from "effect"
import { Headers } from "effect/http"
import type { TimeLimit } from "../http/Deadline.ts"
import type { PageRequest, RawAnswer } from "../http/PageRequest.ts"
import { amountFields, type AnyList, cursorOf, type Filter, matches, type PageLayout } from "../model/Lists.ts"
import type { BadRecord, PageRecord, RecordProblem } from "../model/Page.ts"
import {
  type ErrorBody,
  FilterNotApplied,
  Forbidden,
  InvalidRequest,
  MalformedResponse,
  NotFound,
  PaginationFault,
  RateLimited,
  type Reason,
  RedirectRefused,
  ServerFailure,
  Timeout,
  Transport,
  Unauthorized,
  UnexpectedStatus
} from "../model/PaymentsError.ts"
import { isJsonObject, parseKnowing, parseText } from "./JsonParse.ts"
import {
  elementsOf,
  endsEarly,
  hasEscapedName,
  isExactInteger,
  mayLoseDigits,
  membersOf,
  opensContainer
} from "./JsonText.ts"
import { hasMoreValues, mostRecords, mostValues } from "./PageBounds.ts"
import { recordCheck } from "./RecordCheck.ts"
import { looksLikeCode, looksLikeRequestId, safeContentType, type Secrets } from "./SafeText.ts"

export interface DecodedRecords {
  /** Returns all records. They are created on the first call. */
  readonly records: () => ReadonlyArray<PageRecord<unknown>>
  readonly items: ReadonlyArray<unknown>
  readonly bad: ReadonlyArray<BadRecord>
}

/**
 * Returns the reason of an error status, or undefined for a success: any 2xx, since the document names no status
 * (§4.4).
 */
export const reasonOfStatus = (answer: RawAnswer, now: number): Reason | undefined => {
  const { status } = answer
  if (status >= 200 && status < 300) return undefined
  if (status >= 300 && status < 400) return new RedirectRefused({ status })
  if (status === 401) return new Unauthorized()
  if (status === 403) return new Forbidden()
  if (status === 404) return new NotFound()
  if (status === 408) return new Timeout({ phase: "server" })
  if (status === 429) return new RateLimited({ retryAfter: retryAfter(answer, now) })
  if (status >= 400 && status < 500) return new InvalidRequest({ status })
  if (status >= 500 && status < 600) return new ServerFailure({ status, retryAfter: retryAfter(answer, now) })
  return new UnexpectedStatus({ status })
}

/** A longer `Retry-After` counts as this one, which messages and JSON numbers can express. */
const longestRetryAfter = Duration.days(36_500)

/**
 * Parses `Retry-After`, in seconds or as a date (RFC 9110 §10.2.3). Ignores negative and invalid values. A wait of any
 * length is kept: without it, a service that asks for days would be retried at once.
 */
const retryAfter = (answer: RawAnswer, now: number): Duration.Duration | undefined => {
  const parsed = Headers.parseRetryAfter(answer.headers["retry-after"] ?? "")
  if (Result.isFailure(parsed)) return undefined
  const wait = Headers.retryAfterDelay(parsed.success, now)
  return Duration.isNegative(wait) ? undefined : Duration.min(wait, longestRetryAfter)
}

/** Describes the body of an error answer. The document does not specify its shape (§7). */
export const describeBody = (answer: RawAnswer, secrets: Secrets): ErrorBody => ({
  contentType: safeContentType(answer.headers["content-type"]),
  length: answer.text.length,
  code: findCode(answer.text, secrets),
  text: Redacted.make(answer.text)
})

/** Characters of the largest error body that is searched for a code. */
const longestErrorBody = 64 * 1024

const findCode = (text: string, secrets: Secrets): string | undefined => {
  const parsed = text.length > longestErrorBody ? undefined : parse(text)
  const places = isJsonObject(parsed) ? [parsed, parsed["error"], (toArray(parsed["errors"]))[0]] : []
  return places.flatMap((place) =>
    isJsonObject(place) ? [place["code"], place["errorCode"], place["error_code"], place["error"]] : []
  )
    .find((value): value is string => typeof value === "string" && looksLikeCode(value) && !secrets.areIn(value))
}

/** Returns the id that a server gave a request, if it looks like an id and shows no secret. */
export const requestIdOf = ({ headers }: Pick<RawAnswer, "headers">, secrets: Secrets): string | undefined =>
  [headers["x-request-id"], headers["request-id"], headers["x-correlation-id"]]
    .find((id) => id !== undefined && looksLikeRequestId(id) && !secrets.areIn(id))

/** The page in a successful answer, before its records are checked. Its cursor suffices to request the next page. */
export interface Envelope {
  readonly text: string
  /** Whether any name in the text is spelled with an escape. */
  readonly escapedNames: boolean
  readonly records: ReadonlyArray<unknown>
  readonly cursor: string | null
  readonly count: number | undefined
}

/**
 * Reads the envelope (§2.5). Refuses a page with too many values before it parses them, because the parsed values would
 * take too much memory.
 */
export const openEnvelope = (
  answer: RawAnswer,
  layout: PageLayout,
  limit: TimeLimit
): Result.Result<Envelope, Reason> => {
  // The request had no `range`, so the answer must not have `content-range` (RFC 9110 §14.4).
  if (answer.headers["content-range"] !== undefined) {
    return Result.fail(new MalformedResponse({ kind: "partial", path: "", detail: "a part of a page" }))
  }
  const { headers, text } = answer
  // Text that does not start an object or array is not a page, and parsing it fails without taking memory.
  if (opensContainer(text) && hasMoreValues(text, mostValues)) {
    return malformed("(root)", `expected at most ${mostValues.toLocaleString("en")} values`)
  }
  const escapedNames = hasEscapedName(text)
  const body = parse(text, escapedNames)
  if (body === notJson) {
    return Result.fail(
      endsEarly(text)
        ? new Transport({ kind: "truncated" })
        : new MalformedResponse({
          kind: "notJson",
          path: "",
          detail: text === "" ? "an empty body" : safeContentType(headers["content-type"]) ?? "no content type"
        })
    )
  }
  const envelope = readEnvelope(answer, layout, { body, escapedNames })
  return limit.isOver() ? Result.fail(attemptTimeout) : envelope
}

const attemptTimeout = new Timeout({ phase: "attempt" })

const readEnvelope = (
  { headers, text }: RawAnswer,
  layout: PageLayout,
  { body, escapedNames }: { readonly body: unknown; readonly escapedNames: boolean }
): Result.Result<Envelope, Reason> => {
  const { cursor: { in: place, name }, items } = layout
  if (!isJsonObject(body)) {
    return malformed("(root)", `expected an object with ${place === "body" ? `${items} and ${name}` : items}`)
  }
  const records: unknown = body[items]
  if (!Array.isArray(records)) return malformed(items, "expected an array")
  if (records.length > mostRecords) {
    return malformed(items, `expected at most ${mostRecords.toLocaleString("en")} records, whatever the limit`)
  }
  const cursor = cursorOf(layout, body, headers)
  if (cursor === undefined) return Result.fail(new PaginationFault({ kind: "missingCursor" }))
  // A cursor with a lone surrogate cannot be encoded in UTF-8, so it could not be sent back unchanged (§4.4).
  if (cursor !== null && (typeof cursor !== "string" || !cursor.isWellFormed())) {
    return malformed(name, "expected a string or null")
  }
  const { count } = body
  return Result.succeed({
    text,
    escapedNames,
    records,
    cursor,
    count: typeof count === "number" && Number.isSafeInteger(count) ? count : undefined
  })
}

/** The number of records that are checked before the time is checked again. */
const recordsPerTimeCheck = 16

/**
 * Checks the records of a page. With `quarantine`, a record that does not decode gets a problem and does not fail the
 * page.
 */
export const decodeRecords = (
  request: PageRequest,
  { escapedNames, records, text }: Envelope,
  onBadRecord: "fail" | "quarantine",
  limit: TimeLimit
): Result.Result<DecodedRecords, Reason> => {
  const check = checkOf(request.list)
  const { items } = request.list.page
  const mayBeInexact = escapedNames || (check.amounts.length > 0 && mayLoseDigits(text))
  const checkedFilters = Object.entries(request.filters).filter(([field]) => !request.unchecked.includes(field))
  let extracted: ReadonlyArray<string> | undefined
  const texts = () => extracted ??= elementsOf(text, items, records.every(isJsonObject) ? records.length : 0)
  const problems = new Map<number, RecordProblem>()
  for (const [index, record] of records.entries()) {
    if (index % recordsPerTimeCheck === 0 && limit.isOver()) return Result.fail(attemptTimeout)
    const problem = check.matches(record)
      ? mayBeInexact ? check.amountProblem(texts()[index] ?? "") : undefined
      : check.schemaProblem(record)
    if (problem === undefined) {
      const field = unappliedFilter(request.list, checkedFilters, record)
      if (field !== undefined) return Result.fail(new FilterNotApplied({ field }))
    } else if (onBadRecord === "fail") {
      return malformed(`${items}[${index}]${problem.path === "" ? "" : `.${problem.path}`}`, problem.expected)
    } else {
      // The record has a problem, but its fields that are strings must match the filters.
      const field = unappliedFilter(request.list, checkedFilters.filter(([name]) => hasString(record, name)), record)
      if (field !== undefined) return Result.fail(new FilterNotApplied({ field }))
      problems.set(index, problem)
    }
  }
  if (limit.isOver()) return Result.fail(attemptTimeout)
  let pageRecords: ReadonlyArray<PageRecord<unknown>> | undefined
  const all = () =>
    pageRecords ??= records.map((value, index) => toPageRecord(value, texts()[index] ?? "", problems.get(index)))
  return Result.succeed({
    records: all,
    items: problems.size === 0 ? records : records.filter((_, index) => !problems.has(index)),
    bad: problems.size === 0 ? [] : all().filter((record) => record.problem !== undefined)
  })
}

const toPageRecord = (value: unknown, text: string, problem: RecordProblem | undefined): PageRecord<unknown> => {
  const id = isJsonObject(value) ? value["id"] : undefined
  if (problem !== undefined) return { id: typeof id === "string" ? id : undefined, text, value, problem }
  // The cast is sound: every record that decodes has an id, the one field that all lists require.
  return { id: id as string, text, value }
}

const malformed = (path: string, detail: string): Result.Result<never, Reason> =>
  Result.fail(new MalformedResponse({ kind: "wrongShape", path, detail }))

interface Check {
  /** The fields that contain amounts. Only top-level fields do (§2). */
  readonly amounts: ReadonlyArray<string>
  /** Whether a record matches the schema of the list. */
  readonly matches: (record: unknown) => boolean
  /** Returns the first problem of a record that does not match the schema. */
  readonly schemaProblem: (record: unknown) => RecordProblem
  /** Returns the problem of the first amount whose digits parsing changed. */
  readonly amountProblem: (text: string) => RecordProblem | undefined
}

/** Returns the problem of a record's exact JSON text, or undefined if it decodes. */
export const recordProblem = (list: AnyList, text: string): RecordProblem | undefined => {
  const check = checkOf(list)
  const record = parseText(text)
  return check.matches(record) ? check.amountProblem(text) : check.schemaProblem(record)
}

const checkOf = Function.memoize((list: AnyList): Check => {
  // The check does not depend on the type of the record.
  const schema: Schema.Codec<unknown> = list.record
  const decode = Schema.decodeUnknownResult(schema)
  const amounts = amountFields(list)
  return {
    amounts,
    matches: recordCheck(list.record),
    schemaProblem: (record) => {
      const result = decode(record)
      return Result.isFailure(result) ? firstProblem(result.failure) : { path: "", expected: "expected a record" }
    },
    amountProblem: (text) => {
      const members = membersOf(text)
      const path = amounts.find((field) => !isExactInteger(members.get(field) ?? "0") && members.get(field) !== "null")
      return path === undefined ? undefined : { path, expected: "expected an integer that parsing does not change" }
    }
  }
})

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

const firstProblem = (error: Schema.SchemaError): RecordProblem => {
  const issue = formatIssue(error.issue).issues[0]
  const path = (issue?.path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".")
  return { path, expected: lowerFirst(issue?.message ?? "expected a record") }
}

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

const hasString = (record: unknown, field: string): boolean => isJsonObject(record) && typeof record[field] === "string"

/** Returns the first filter that the record does not match. */
const unappliedFilter = (
  list: AnyList,
  filters: ReadonlyArray<readonly [field: string, wanted: string]>,
  record: unknown
): string | undefined => {
  const definitions: { readonly [field: string]: Filter | undefined } = list.filters
  return filters.find(([field, wanted]) => {
    const definition = definitions[field]
    return definition === undefined || !isJsonObject(record) || !matches(definition, record[field], wanted)
  })?.[0]
}

const notJson = Symbol("not JSON")

const parse = (text: string, escapedNames = hasEscapedName(text)): unknown => {
  try {
    return parseKnowing(text, escapedNames)
  } catch {
    return notJson
  }
}

const toArray = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []
