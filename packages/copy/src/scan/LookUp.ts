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
import type { PageBatch } from "./PageBatch.ts"
import { commitBatch, type Reading } from "./ReadPages.ts"

/** So many rows are always looked for; in a large scan, one for each hundred of its requests. */
const [fewestRows, requestsPerRow] = [50, 100]
/** The look-ups of a row: the value of the first filter may have changed. */
const lookUpsPerRow = 2
/** A filter with more pages is too wide. */
const pagesPerLookUp = 10
/** A service may refuse one value for its form. After so many, it does not know the filter. */
const maxRefused = 2
/** After so many rows that could not be looked for, the service is in trouble: the others are not looked for either. */
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
  /** How many values of each filter the service has refused. */
  readonly refused: Map<string, number>
  /** The records that were found, and the pages that were read. */
  readonly records: Array<BatchRecord>
  readonly pages: Array<PageBatch>
  readonly missing: Map<number, string>
  skipped: number
  unchecked: number
  /** The rows for which the service failed. */
  failures: number
  /** Why the last row could not be looked for. */
  problem: string
}

/** What a scan knows of the service and the destination. */
interface Known extends Pick<ScanRequest, "acceptMissing" | "source"> {
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
  Effect.flatMap(session.progress, ({ pages, unseen }) => {
    if (unseen === 0) return Effect.void
    const limit = Math.max(fewestRows, Math.floor(pages / requestsPerRow), known.acceptMissing ?? 0)
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
    records: [],
    pages: [],
    missing: new Map(),
    skipped: 0,
    unchecked: 0,
    failures: 0,
    problem: ""
  }
  const rows = yield* session.unseen?.rows ?? Effect.succeed([])
  const fields = yield* provenFields(reading.list, known)
  const candidates = yield* candidatesIn(session, rows, fields, limit)
  const byRow = new Map(candidates?.map((candidate) => [candidate.row, candidate]))
  const unlooked = Recheck.toJson({ filters: [], requests: 0, at: DateTime.formatIso(yield* DateTime.now) })
  for (const row of candidates === undefined ? [] : rows) {
    const candidate = byRow.get(row)
    if (candidate === undefined) looking.missing.set(row, unlooked)
    else if (looking.failures >= maxFailures) looking.unchecked++
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
        const value = record[field]
        return typeof value === "string" && value !== "" && !isPseudonym(value) ? [[field, value]] : []
      })
      if (values.length > 0) found.push({ row, id, values })
    }
    if (found.length > limit) return undefined
  }
  return found
})

/**
 * Looks for a row by its filters, the narrowest first. One whole answer without it is enough if no other filter works. Another
 * filter that was too wide may return it, so the row is then not missing.
 */
const lookFor = Effect.fnUntraced(function*(
  looking: Looking,
  { id, row, values }: Candidate
): Effect.fn.Return<void, SinkError> {
  const { broken, refused } = looking
  const filters: Array<string> = []
  let [requests, isOpen] = [0, false]
  for (const [field, value] of values.filter(([name]) => !broken.has(name))) {
    if (filters.length === lookUpsPerRow) break
    const answer = yield* readFiltered(looking, { id, field, value })
    requests += answer.requests
    if (answer.outcome === "found") {
      looking.skipped++
      return
    }
    if (answer.outcome === "failed") {
      looking.failures++
      looking.unchecked++
      return
    }
    if (answer.outcome === "tooWide") isOpen = true
    if (answer.outcome === "refused") refused.set(field, (refused.get(field) ?? 0) + 1)
    if (answer.outcome === "notApplied" || (refused.get(field) ?? 0) >= maxRefused) broken.add(field)
    if (answer.outcome === "absent") filters.push(field)
  }
  if (filters.length === 0 || (isOpen && filters.length < lookUpsPerRow)) looking.unchecked++
  else looking.missing.set(row, Recheck.toJson({ filters, requests, at: DateTime.formatIso(yield* DateTime.now) }))
})

/** `absent`: the whole filtered list does not have the record. */
interface Answer {
  readonly outcome: "found" | "absent" | "tooWide" | "notApplied" | "refused" | "failed"
  readonly requests: number
}

/** Reads a filtered list until it has the record. Keeps the record. */
const readFiltered = Effect.fnUntraced(function*(
  looking: Looking,
  { field, id, value }: { readonly id: string; readonly field: string; readonly value: string }
): Effect.fn.Return<Answer> {
  const { pages, reading, records } = looking
  const { api, convert, limit, list, source: { next } } = reading
  let position: Position.Position | undefined
  for (let requests = 1; requests <= pagesPerLookUp; requests++) {
    const requested = next()
    const read: Effect.Effect<Page<{ readonly id: string }>, PaymentsError> = api[list.name].page(
      { limit, position, onBadRecord: "quarantine", [field]: value }
    )
    const answer = yield* Effect.result(read)
    if (Result.isFailure(answer)) {
      looking.problem = answer.failure.message
      return { outcome: outcomeOf(answer.failure), requests }
    }
    // The client does not check filters that its settings leave unchecked.
    if (answer.success.records().some(({ value: record }) => isOther(list, field, value, record))) {
      looking.problem = `the service did not apply the filter ${field}`
      return { outcome: "notApplied", requests }
    }
    const page = convert(answer.success, { requested, received: next() })
    reading.retries += page.attempts - 1
    pages.push(page)
    const found = page.records.filter((record) => record.id === id)
    records.push(...found)
    if (found.length > 0) return { outcome: "found", requests }
    if (answer.success.next === null) return { outcome: "absent", requests }
    position = answer.success.next
  }
  looking.problem = `the filter ${field} returns more than ${pagesPerLookUp} pages`
  return { outcome: "tooWide", requests: pagesPerLookUp }
})

const isOther = (list: Lists.AnyList, field: string, wanted: string, record: unknown): boolean => {
  const { [field]: filter }: { readonly [field: string]: Lists.Filter | undefined } = list.filters
  const found = isJsonObject(record) ? record[field] : undefined
  return filter !== undefined && typeof found === "string" && !Lists.matches(filter, found, wanted)
}

const outcomeOf = ({ reason }: PaymentsError): Answer["outcome"] =>
  reason._tag === "FilterNotApplied"
    ? "notApplied"
    : reason._tag === "InvalidRequest" || reason._tag === "NotFound"
    ? "refused"
    : "failed"
