/**
 * Compares a destination with its certificates, or with the service. A difference names a record's id and the column or
 * figure that differs, but no values.
 */
import { Lists, type Page, PaymentsApi, type PaymentsError } from "@payments/core"
import { Duration, Effect, Equal, Option, type Scope, Stream } from "effect"
import { rowsOf } from "../files/CopyRows.ts"
import { amountsOf, type Column, type Layout, layoutOf, recordIn, valueOf } from "../plan/Columns.ts"
import { contentHash, differingMembers, differingRows, hashed, lookupsOf } from "../plan/Plan.ts"
import { RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import * as Certificate from "../port/Certificate.ts"
import type { SinkError } from "../port/Sink.ts"
import { openPersonal } from "../rule/OpenPersonal.ts"
import { keepAll, type PersonalRule } from "../rule/Rule.ts"
import { toBatchRecords } from "../scan/PageBatch.ts"
import { ignoredIn } from "../session/NextScan.ts"
import { unfilled } from "../store/Filling.ts"
import type { FullRow, Reader, ScanRow } from "../store/Store.ts"

/** A difference. */
export interface Difference {
  readonly list: Lists.ListName
  /** The id of the record, or undefined if a figure of the whole list differs. */
  readonly id: string | undefined
  readonly problem: string
}

/** The result of verifying a list. */
export interface Verified {
  readonly list: Lists.ListName
  /** The certificate of the last complete scan, or undefined if there is none to compare with. */
  readonly certificate: Certificate.Certificate | undefined
  readonly differences: ReadonlyArray<Difference>
  /** Columns that were not compared: the destination lacks them, or has not filled them. The next export fills them. */
  readonly skipped: ReadonlyArray<string>
}

/**
 * Compares every text with its hash and every column with the text. Then recomputes the certificate of the list's last
 * complete scan from the rows and the quarantine. A row that a later scan has changed counts with its earlier text.
 */
export const verify = (reader: Reader, list: Lists.AnyList): Effect.Effect<Verified, SinkError> =>
  untilUnchanged(stateOf(reader, list), verifyRows(reader, list)).pipe(
    Effect.catchReason("SinkError", "Damaged", ({ problem }) =>
      Effect.succeed({
        list: list.name,
        certificate: undefined,
        differences: [{ list: list.name, id: undefined, problem: `cannot be read completely: ${problem}` }],
        skipped: []
      }))
  )

/** The pause before a check is repeated. */
const pause = Duration.millis(200)

/** From this check on, differences of rows that two successive checks found are reported even if the state changes. */
const enoughChecks = 5

/** What a destination shows before and after a check. If it differs, differences may come from the change. */
interface CheckedState {
  /** Increases with every transaction of an erasure or a rewrite. */
  readonly edition: number
  /** Differs after each transaction that removes what a certificate covers, or writes another certificate. */
  readonly evidence: string
}

/**
 * Repeats a check that finds differences while the state of the destination changes. The check reads the destination in
 * many steps, so it compared figures with rows of another moment. One long transaction instead would keep an erasure
 * from removing the old copies in SQLite's log. An erasure or rewrite that was killed changes the state no more. Scans
 * may complete faster than a check, for as long as a worker runs: then the differences that stay are reported.
 */
const untilUnchanged = Effect.fnUntraced(function*<E, R>(
  state: Effect.Effect<CheckedState, SinkError>,
  check: Effect.Effect<Verified, E, R>
): Effect.fn.Return<Verified, SinkError | E, R> {
  let earlier: ReadonlySet<string> = new Set()
  for (let checks = 1;; checks++) {
    const before = yield* state
    const verified = yield* check
    if (verified.differences.length === 0) return verified
    const after = yield* state
    if (before.edition === after.edition) {
      if (before.evidence === after.evidence) return verified
      const ofRows = verified.differences.filter(({ id }) => id !== undefined)
      const differences = ofRows.filter((difference) => earlier.has(JSON.stringify(difference)))
      if (checks >= enoughChecks && differences.length > 0) return { ...verified, differences }
      earlier = new Set(ofRows.map((difference) => JSON.stringify(difference)))
    }
    yield* Effect.sleep(pause)
  }
})

const stateOf = (reader: Reader, list: Lists.AnyList): Effect.Effect<CheckedState, SinkError> =>
  Effect.gen(function*() {
    const { edition } = yield* reader.personal
    const scan = lastComplete(yield* reader.scans(list))?.scan
    const { pruned } = yield* reader.changeRange
    const { removed } = yield* reader.prunedRows(list)
    return { edition, evidence: JSON.stringify([scan, pruned, removed]) }
  }).pipe(
    // The check itself reports damage.
    Effect.catchReason("SinkError", "Damaged", () => Effect.succeed({ edition: 0, evidence: "damaged" }))
  )

/** Returns the lists that were scanned into the destination. A list whose scans cannot be read counts as scanned. */
export const exportedLists = (
  reader: Reader,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all
): Effect.Effect<ReadonlyArray<Lists.AnyList>, SinkError> =>
  Effect.filter(
    lists,
    (list) =>
      Effect.map(reader.scans(list), (scans) => scans.length > 0).pipe(
        Effect.catchReason("SinkError", "Damaged", () => Effect.succeed(true))
      )
  )

/** Returns the columns that the destination lacks or has not filled yet, by list. Omits lists without such columns. */
export const unfilledColumns = Effect.fnUntraced(function*(
  reader: Reader,
  lists: ReadonlyArray<Lists.AnyList>
): Effect.fn.Return<ReadonlyArray<{ readonly label: string; readonly columns: ReadonlyArray<string> }>, SinkError> {
  const found = yield* Effect.forEach(
    yield* exportedLists(reader, lists),
    (list) =>
      Effect.map(unfilled(reader, list), ({ columns }) => ({
        label: list.label,
        columns: columns.map(({ name }) => name)
      }))
  )
  return found.filter(({ columns }) => columns.length > 0)
})

const verifyRows = Effect.fnUntraced(function*(
  reader: Reader,
  list: Lists.AnyList
): Effect.fn.Return<Verified, SinkError> {
  const { complete, quarantined, scans, seen } = yield* evidenceOf(reader, list)
  const certificate = Certificate.ofScan(complete)
  const layout = layoutOf(list)
  const { columns: skipped } = yield* unfilled(reader, list)
  const compared = layout.columns.filter((column) => !skipped.includes(column))
  const differences: Array<Difference> = []
  const differs = (problem: string, id?: string) => differences.push({ list: list.name, id, problem })
  if (certificate === undefined && complete?.certificate !== undefined) differs("the certificate cannot be read")
  for (const { scan, totals } of scans) {
    if (Option.isNone(ScanTotals.fromJson(totals))) differs(`the totals of scan ${scan} cannot be read`)
  }
  const running = new ScanTotals.RunningTotals(layout.amounts)
  let distinct = 0
  yield* Stream.runForEach(
    rowsOf(reader, list),
    Effect.fnUntraced(function*(rows) {
      for (const row of rows) for (const problem of problemsOf(layout, compared, row)) differs(problem, row.id)
      if (certificate === undefined) return
      const counted = rows.filter(({ row }) => seen.has(row))
      const earlier = yield* reader.textsAt(list, certificate.scan, counted.map(({ id }) => id))
      for (const { id, raw } of counted) {
        const text = earlier.get(id) ?? raw
        distinct++
        running.add(contentHash(text), amountsOf(layout, recordIn(layout, text)))
      }
    })
  )
  if (certificate !== undefined) {
    const figure = (name: string, found: unknown, certified: unknown) => {
      if (!Equal.equals(found, certified)) differs(`${name} differs from the certificate's`)
    }
    figure("the number of records", distinct, certificate.distinct)
    figure("the digest of the records", ScanTotals.digestText(running.digest), certificate.digest)
    const { sums } = running
    // The certificate of a scan that began before a column was added has no sum of it.
    for (const [name, sum] of Object.entries(certificate.sums)) figure(`the sum of ${name}`, String(sums[name]), sum)
    // Records without an id are only in the quarantine.
    figure("the number of quarantined records", quarantined?.records, certificate.quarantined)
    figure("the number of records without an id", quarantined?.withoutId, certificate.withoutId)
  }
  return { list: list.name, certificate, differences, skipped: skipped.map(({ name }) => name) }
})

/**
 * Reads the scans of a list, and what the last complete full scan has seen and quarantined. The end of a later full
 * scan deletes that, so if one has ended meanwhile, everything is read again.
 */
const evidenceOf = Effect.fnUntraced(function*(reader: Reader, list: Lists.AnyList) {
  for (;;) {
    const scans = yield* reader.scans(list)
    const complete = lastComplete(scans)
    const seen = new RowSet(complete === undefined ? [] : yield* reader.seen([complete.scan]))
    const quarantined = complete === undefined ? undefined : yield* reader.quarantined(complete.scan)
    if (lastComplete(yield* reader.scans(list))?.scan === complete?.scan) return { complete, quarantined, scans, seen }
  }
})

const lastComplete = (scans: ReadonlyArray<ScanRow>): ScanRow | undefined =>
  scans.find(({ part, state }) => part === "" && state === "complete")

/** Returns the differences between a row's text, its hash and its columns. */
const problemsOf = (
  layout: Layout,
  columns: ReadonlyArray<Column>,
  { cells, hash, id, raw }: FullRow
): ReadonlyArray<string> => {
  if (contentHash(raw) !== hash) return ["raw differs from its hash"]
  const record = recordIn(layout, raw)
  if (record === undefined) return ["raw is not JSON"]
  return columns
    .filter((column) => !isSame(column.name === "id" ? id : cells[column.name], valueOf(column, record)))
    .map(({ name }) => `${name} differs from raw`)
}

/** Whether a cell equals a value. Databases return integers and booleans in different types. */
const isSame = (cell: unknown, value: string | number | null): boolean =>
  cell === value || (cell ?? null) === value ||
  (typeof value === "number" && ["bigint", "string", "boolean"].includes(typeof cell) && Number(cell) === value)

/**
 * Reads the list from the service again, applies the destination's rule for personal data and its erasures, and
 * compares it with the rows. Fails if the given rule is another one. As in a scan, the last occurrence of a record
 * counts, and the members that the last scan ignored are ignored. Records without an id have no row and are not
 * compared. Changes since the last scan are reported as differences, because the service has no snapshots.
 */
export const verifyAgainstApi = (
  reader: Reader,
  list: Lists.AnyList,
  rule: PersonalRule = keepAll
): Effect.Effect<Verified, SinkError | PaymentsError, PaymentsApi | Scope.Scope> =>
  untilUnchanged(
    Effect.map(reader.personal, ({ edition }) => ({ edition, evidence: "" })),
    compareWithApi(reader, list, rule)
  )

const compareWithApi = Effect.fnUntraced(function*(
  reader: Reader,
  list: Lists.AnyList,
  rule: PersonalRule
): Effect.fn.Return<Verified, SinkError | PaymentsError, PaymentsApi | Scope.Scope> {
  const api = yield* PaymentsApi
  const redactor = (yield* openPersonal(reader, rule)).redactorOf(list)
  const scans = (yield* reader.scans(list)).filter(({ state }) => state === "complete")
  const whole = scans.find(({ part }) => part === "")
  const last = whole ?? scans.at(0)
  const ignored = last === undefined ? new Set<string>() : ignoredIn(last)
  /** The problems by id, so that a later occurrence of a record replaces the result of an earlier one. */
  const problems = new Map<string, string>()
  const seen = new RowSet()
  const pages: Stream.Stream<Page<{ readonly id: string }>, PaymentsError> = api[list.name].pages({
    onBadRecord: "quarantine"
  })
  yield* Stream.runForEach(
    pages,
    Effect.fnUntraced(function*(page) {
      const records = toBatchRecords(list, page, redactor).map(hashed)
      const { stored } = yield* reader.find(list, lookupsOf(records))
      const texts = yield* reader.textsOf(list, differingRows(records, stored))
      for (const { hash, id, problem: quarantined, text } of records) {
        if (id === undefined) continue
        const row = stored.get(id)
        if (row !== undefined) seen.add(row.row)
        if (quarantined?.isUnstorable === true) continue
        const isOther = row !== undefined && row.hash !== hash &&
          differingMembers(texts.get(row.row) ?? "", text, ignored).length > 0
        const problem = isOther ? "has another text in the destination" : absenceOf(row)
        if (problem === undefined) problems.delete(id)
        else problems.set(id, problem)
      }
    })
  )
  yield* Stream.runForEach(rowsOf(reader, list), (rows) =>
    Effect.sync(() => {
      for (const { id, missingSince, row } of rows) {
        if (missingSince === undefined && !seen.has(row)) problems.set(id, "is not in the API's list")
      }
    }))
  return {
    list: list.name,
    certificate: Certificate.ofScan(whole),
    differences: [...problems].map(([id, problem]) => ({ list: list.name, id, problem })),
    // This comparison uses texts, not columns.
    skipped: []
  }
})

/** Says why a record of the API is not among the rows that are not missing, or returns undefined if it is. */
const absenceOf = (row: { readonly missing: boolean } | undefined): string | undefined => {
  if (row === undefined) return "is not in the destination"
  return row.missing ? "is marked missing in the destination" : undefined
}
