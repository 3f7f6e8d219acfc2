/**
 * Looks for the rows that the end of a full scan would mark missing, because a service may skip records of a list. It uses
 * the filters that are proven to work, and the values of the rows' last texts. It commits the records that it finds, and
 * ends the scan. Nothing that it logs has a value of a record.
 */
import { isJsonObject, Lists, type Page, parseText, type PaymentsError, type Position } from "@payments/core"
import { DateTime, Effect, Result } from "effect"
import * as Recheck from "../port/Recheck.ts"
import type { BatchRecord, ScanRequest, Session, Sink, SinkError } from "../port/Sink.ts"
import { isPseudonym } from "../rule/Pseudonym.ts"
import { keptFields } from "../rule/StoredRule.ts"
import { type PageBatch, withoutTexts } from "./PageBatch.ts"
import { commitBatch, type Reading } from "./ReadPages.ts"

/** So many rows are always looked for; in a large scan, one for each hundred of its requests. */
const [fewestRows, requestsPerRow] = [50, 100]
/** The look-ups of a row: the value of the first filter may have changed. */
const lookUpsPerRow = 2
/** A filter with more pages is too wide. */
const pagesPerLookUp = 10
/** A service may refuse one value for its form. After so many without an answer, it does not know the filter. */
const maxRefused = 2
/** After so many failed requests in a row, the service is in trouble: the other rows are not looked for. */
const maxFailures = 3
/** The texts that are read at once. */
const textsPerRead = 500

/** The answer of the fact `filter-FIELD` which says that a filter selects exactly the records with its value. */
const exact = "only matching records"

interface Candidate {
  readonly row: number
  readonly id: string
  /** The values of usable filters, the narrowest first. */
  readonly values: ReadonlyArray<readonly [field: string, value: string]>
}

interface Looking {
  readonly reading: Reading
  /** The filters that the service did not apply, or refused with several values. */
  readonly broken: Set<string>
  /** The values of each filter that the service has refused. */
  readonly refused: Map<string, Set<string>>
  /** The filters that the service has applied to a value. */
  readonly applied: Set<string>
  /** The filters that have returned a record that they had to return, so that an answer without a record counts. */
  readonly checked: Set<string>
  /** The records that were found, and the pages that were read, without their texts. */
  readonly records: Array<BatchRecord>
  readonly pages: Array<PageBatch>
  readonly missing: Map<number, string>
  skipped: number
  unchecked: number
  /** The requests that failed since the last answer. */
  failures: number
  /** The failed requests of {@link checkFilter}. */
  failedControls: number
  /** Why the last row could not be looked for. */
  problem: string
}

/** What a scan knows of the service and the destination. */
interface Known extends Pick<ScanRequest, "source"> {
  readonly facts: Sink["Service"]["facts"]
  /** The stored form of the rule for personal data. */
  readonly rule: string | undefined
}

/** Looks for the rows that wait for it, and ends the scan. Does nothing if none waits. */
export const lookForUnseen = (
  reading: Reading,
  session: Session,
  known: Known
): Effect.Effect<void, PaymentsError | SinkError> =>
  Effect.flatMap(session.progress, ({ accepted = 0, pages, unseen }) => {
    if (unseen === 0) return Effect.void
    const limit = Math.max(fewestRows, Math.floor(pages / requestsPerRow), accepted)
    // The last page of the list stays requested, so passes wait: an older page never overwrites what a pass has read since.
    return Effect.onError(lookForAll(reading, session, known, limit), () => Effect.sync(reading.gate.clear))
  })

const lookForAll = Effect.fnUntraced(function*(
  reading: Reading,
  session: Session,
  known: Known,
  limit: number
): Effect.fn.Return<void, PaymentsError | SinkError> {
  const looking: Looking = {
    reading,
    broken: new Set(),
    refused: new Map(),
    applied: new Set(),
    checked: new Set(),
    records: [],
    pages: [],
    missing: new Map(),
    skipped: 0,
    unchecked: 0,
    failures: 0,
    failedControls: 0,
    problem: ""
  }
  const rows = yield* session.unseen?.rows ?? Effect.succeed([])
  const fields = yield* provenFields(reading.list, known)
  const candidates = yield* candidatesIn(session, rows, fields, limit)
  const byRow = new Map(candidates?.map((candidate) => [candidate.row, candidate]))
  const unlooked = Recheck.toJson({ filters: [], requests: 0, at: DateTime.formatIso(yield* DateTime.now) })
  for (const row of candidates === undefined ? [] : rotated(rows, session.scan)) {
    const candidate = byRow.get(row)
    if (candidate === undefined) looking.missing.set(row, unlooked)
    else yield* lookFor(looking, candidate)
  }
  yield* requireAdmitted(looking, rows.length)
  const { missing, pages, problem, records, skipped, unchecked } = looking
  if (unchecked > 0) {
    yield* Effect.logWarning(
      `${reading.list.label}: ${unchecked} of ${rows.length} rows could not be looked for, so they are not marked missing: ${problem}`
    )
  }
  const heldBack = candidates === undefined ? rows.length : 0
  const owner = yield* reading.guard.claim(pages)
  const last = reading.waiting ?? { pages: 0, records: [], undocumented: new Map(), checkpoint: null }
  yield* commitBatch(reading, session, {
    ...last,
    records: [...last.records, ...records],
    owner,
    rechecks: { missing, found: records.length, skipped, unchecked, heldBack }
  }, [])
})

/**
 * Each scan begins with another row, so that values for which the service always fails do not block the same rows in each scan.
 * The factor spreads scans that are a multiple of the number of rows apart.
 */
const rotated = (rows: ReadonlyArray<number>, scan: number): ReadonlyArray<number> => {
  const start = rows.length === 0 ? 0 : (Math.imul(scan, 0x9e3779b1) >>> 0) % rows.length
  return [...rows.slice(start), ...rows.slice(0, start)]
}

/**
 * Another merchant's pages must not show that a record is gone. Unless the guard admits all pages that were read, nothing that they
 * have shown counts. It decides once: for a page without records, it may have to read others.
 */
const requireAdmitted = Effect.fnUntraced(function*(
  looking: Looking,
  rows: number
): Effect.fn.Return<void, SinkError> {
  const { missing, pages, reading, records } = looking
  if (pages.length === 0) return
  const admitted = yield* Effect.result(reading.guard.admit(pages, true))
  if (Result.isFailure(admitted) && admitted.failure._tag === "SinkError") return yield* admitted.failure
  if (Result.isSuccess(admitted) && admitted.success === pages.length) return
  looking.problem = Result.isFailure(admitted)
    ? admitted.failure.message
    : "it is not certain whose records the answers are"
  looking.skipped = 0
  looking.unchecked = rows
  missing.clear()
  records.splice(0)
  pages.splice(0)
})

/** The filters in the order in which they are tried. Filters by other fields follow, as the list has them. */
const narrowest = ["reference", "customerId", "contract", "customerDocumentNumber", "payoutTargetId"]

/** Returns the filters that certainly work, and whose fields the destination has as the service gives them. */
const provenFields = Effect.fnUntraced(function*(list: Lists.AnyList, { facts, rule, source }: Known) {
  if (facts === undefined) return []
  const certain = yield* Effect.result(facts.certain(list, source))
  if (Result.isFailure(certain)) {
    yield* Effect.logWarning(`${list.label}: no filter counts as proven: ${certain.failure.message}`)
    return []
  }
  const kept = keptFields(rule, list)
  const proven = Object.keys(list.filters).filter((field) =>
    certain.success[`filter-${field}`] === exact && kept.has(field)
  )
  return [
    ...narrowest.filter((field) => proven.includes(field)),
    ...proven.filter((field) => !narrowest.includes(field))
  ]
})

/** Returns the rows that can be looked for, or undefined if there are more than `limit`. */
const candidatesIn = Effect.fnUntraced(function*(
  { unseen }: Session,
  rows: ReadonlyArray<number>,
  fields: ReadonlyArray<string>,
  limit: number
): Effect.fn.Return<ReadonlyArray<Candidate> | undefined, SinkError> {
  if (unseen === undefined || fields.length === 0) return []
  const found: Array<Candidate> = []
  for (let start = 0; start < rows.length; start += textsPerRead) {
    for (const [row, text] of yield* unseen.textsOf(rows.slice(start, start + textsPerRead))) {
      const record = parseText(text)
      const id = isJsonObject(record) ? record["id"] : undefined
      if (!isJsonObject(record) || typeof id !== "string") continue
      const values = fields.flatMap((field): Candidate["values"] => {
        const value = valueIn(record, field)
        return value === undefined ? [] : [[field, value]]
      })
      if (values.length > 0) found.push({ row, id, values })
    }
    if (found.length > limit) return undefined
  }
  return found
})

/**
 * Looks for a row by its filters, the narrowest first. One whole answer without it is enough if no other filter works. Another
 * filter that failed or was too wide may return it, so the row is then not missing.
 */
const lookFor = Effect.fnUntraced(function*(
  looking: Looking,
  { id, row, values }: Candidate
): Effect.fn.Return<void> {
  const { broken } = looking
  const filters: Array<string> = []
  let [requests, isOpen] = [0, false]
  for (const [field, value] of values.filter(([name]) => !broken.has(name))) {
    if (filters.length === lookUpsPerRow) break
    if (looking.failures >= maxFailures) {
      isOpen = true
      break
    }
    const answer = yield* readFiltered(looking, { id, field, value })
    requests += answer.requests
    if (answer.outcome === "found") {
      looking.skipped++
      return
    }
    const outcome = answer.outcome === "absent" ? yield* checkFilter(looking, field) : answer.outcome
    if (outcome === "failed" || outcome === "tooWide") isOpen = true
    if (outcome === "absent") filters.push(field)
  }
  if (filters.length === 0 || (isOpen && filters.length < lookUpsPerRow)) looking.unchecked++
  else looking.missing.set(row, Recheck.toJson({ filters, requests, at: DateTime.formatIso(yield* DateTime.now) }))
})

/** `absent`: the whole filtered list does not have the record. */
type Outcome = "found" | "absent" | "tooWide" | "notApplied" | "refused" | "failed"

interface Answer {
  readonly outcome: Outcome
  readonly requests: number
}

interface FilterValue {
  readonly field: string
  readonly value: string
}

/** Reads a filtered list until it has the record. Keeps the record. */
const readFiltered = Effect.fnUntraced(function*(
  looking: Looking,
  { id, ...filter }: FilterValue & { readonly id: string }
): Effect.fn.Return<Answer> {
  const { checked, pages, reading: { convert, source: { next } }, records } = looking
  let position: Position.Position | undefined
  for (let requests = 1; requests <= pagesPerLookUp; requests++) {
    const requested = next()
    const answer = yield* requestPage(looking, filter, position)
    if (typeof answer === "string") return { outcome: answer, requests }
    const page = convert(answer, { requested, received: next() })
    pages.push(withoutTexts(page))
    const found = page.records.filter((record) => record.id === id)
    records.push(...found)
    if (found.length > 0) {
      checked.add(filter.field)
      return { outcome: "found", requests }
    }
    if (answer.next === null) return { outcome: "absent", requests }
    position = answer.next
  }
  looking.problem = `the filter ${filter.field} returns more than ${pagesPerLookUp} pages`
  return { outcome: "tooWide", requests: pagesPerLookUp }
})

/**
 * Decides whether a filter works now, before its first answer without a record counts: an index that is down gives empty
 * answers. It requests the value of a record that this scan has seen. If that request fails, the next row requests another one.
 */
const checkFilter = Effect.fnUntraced(function*(
  looking: Looking,
  field: string
): Effect.fn.Return<"absent" | "notApplied" | "failed"> {
  const { broken, checked, reading } = looking
  if (checked.has(field)) return "absent"
  const seen = seenValues(reading, field)
  const control = seen.at(-1 - looking.failedControls % seen.length)
  // No record that the scan has kept has a value of the field.
  if (control === undefined) return "absent"
  const page = yield* requestPage(looking, { field, value: control.value })
  if (page === "notApplied") return page
  if (typeof page === "string") {
    looking.failedControls++
    return "failed"
  }
  // A record of a wide value may be on a later page. The others show that the filter finds records.
  if (page.records().some(({ id }) => id === control.id) || (page.next !== null && page.records().length > 0)) {
    checked.add(field)
    return "absent"
  }
  looking.problem = `the filter ${field} did not return a record that the list has`
  broken.add(field)
  return "notApplied"
})

/** The values of a field in the last batch of the list, as the destination has them. */
const seenValues = ({ waiting }: Reading, field: string) =>
  (waiting?.records ?? []).flatMap(({ id, problem, text }) => {
    const value = id === undefined || problem !== undefined ? undefined : valueIn(parseText(text), field)
    return value === undefined ? [] : [{ id, value }]
  })

/** Returns the value by which a filter can look for the record, or undefined. */
const valueIn = (record: unknown, field: string): string | undefined => {
  const value = isJsonObject(record) ? record[field] : undefined
  return typeof value === "string" && value !== "" && !isPseudonym(value) ? value : undefined
}

/** Requests a page of a filtered list, or returns why there is none. Notes what that shows about the filter and the service. */
const requestPage = Effect.fnUntraced(function*(
  looking: Looking,
  { field, value }: FilterValue,
  position?: Position.Position
): Effect.fn.Return<AnyPage | "notApplied" | "refused" | "failed"> {
  const { applied, broken, reading } = looking
  const { api, limit, list } = reading
  const read: Effect.Effect<AnyPage, PaymentsError> = api[list.name].page(
    { limit, position, onBadRecord: "quarantine", [field]: value }
  )
  const answer = yield* Effect.result(read)
  if (Result.isFailure(answer)) {
    const outcome = outcomeOf(answer.failure)
    looking.problem = answer.failure.message
    looking.failures = outcome === "failed" ? looking.failures + 1 : 0
    if (outcome === "notApplied" || (outcome === "refused" && isUnknown(looking, { field, value }))) broken.add(field)
    return outcome
  }
  looking.failures = 0
  reading.retries += answer.success.attempts - 1
  // The client does not check filters that its settings leave unchecked.
  if (answer.success.records().some(({ value: record }) => isOther(list, field, value, record))) {
    looking.problem = `the service did not apply the filter ${field}`
    broken.add(field)
    return "notApplied"
  }
  applied.add(field)
  return answer.success
})

type AnyPage = Page<{ readonly id: string }>

/** Whether the service seems not to know a filter of which it has refused another value. */
const isUnknown = ({ applied, refused }: Looking, { field, value }: FilterValue): boolean => {
  const values = refused.get(field) ?? new Set()
  refused.set(field, values.add(value))
  return !applied.has(field) && values.size >= maxRefused
}

const isOther = (list: Lists.AnyList, field: string, wanted: string, record: unknown): boolean => {
  const { [field]: filter }: { readonly [field: string]: Lists.Filter | undefined } = list.filters
  const found = isJsonObject(record) ? record[field] : undefined
  return filter !== undefined && typeof found === "string" && !Lists.matches(filter, found, wanted)
}

const outcomeOf = ({ reason }: PaymentsError): "notApplied" | "refused" | "failed" =>
  reason._tag === "FilterNotApplied"
    ? "notApplied"
    : reason._tag === "InvalidRequest" || reason._tag === "NotFound"
    ? "refused"
    : "failed"
