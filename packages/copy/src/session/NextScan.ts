/** Chooses the next scan: the last one if it can be resumed, otherwise a new one. */
import { type Lists, Position } from "@payments/core"
import { Effect, Option, Schema } from "effect"
import { type Contents, merged } from "../plan/Contents.ts"
import type { PlanInput } from "../plan/Plan.ts"
import { RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { ScanRequest, ScanStart, SinkError } from "../port/Sink.ts"
import { bindingOf } from "../store/PersonalBinding.ts"
import type { Opening, ScanRow, Store } from "../store/Store.ts"
import { timestamp } from "../store/StoredRows.ts"

export interface OpenScan {
  readonly scan: number
  /** Whether it has begun now. Another process may have begun a scan that is not new. */
  readonly isNew: boolean
  readonly startedAt: string
  /** The first row number that did not exist when the scan began. */
  readonly firstRow: number
  readonly start: ScanStart
  /** {@inheritDoc ScanPreview.resumeAt} */
  readonly resumeAt: string | undefined
  readonly totals: ScanTotals.ScanTotals
  readonly seen: RowSet
  readonly emitChanges: PlanInput["emitChanges"]
  /** {@inheritDoc Opening.whole} When the scan was opened. */
  readonly whole: Opening["whole"]
  /** What that scan has stored of the records. */
  readonly known: Contents
  /** The rows below this number existed when that scan was complete, or were written by passes before it was. */
  readonly knownRows: number
  /** Whether there are rows, but nothing is known of them, so that the scan counts unchanged records too. */
  readonly countsAll: boolean
  /** Whether an earlier version has begun the scan, so that some records are not counted. */
  readonly isUncounted: boolean
}

export const partOf = ({ part }: ScanRequest): string =>
  part === undefined ? "" : JSON.stringify([part.field, part.value])

/** Returns the request as it is stored with a scan. */
export const requestText = ({ ignoredFields = [], limit, parameters }: ScanRequest): string =>
  JSON.stringify([limit, Object.entries(parameters).toSorted(), ignoredFields.toSorted()])

/** Returns the members that a stored scan ignores when it compares records. */
export const ignoredIn = ({ request }: Pick<ScanRow, "request">): ReadonlySet<string> =>
  new Set(Option.getOrElse(Schema.decodeOption(StoredRequest)(request), () => [[], [], []] as const)[2])

const StoredRequest = Schema.fromJsonString(Schema.Tuple([Schema.Unknown, Schema.Unknown, Schema.Array(Schema.String)]))

/** `scan` is undefined for a new scan. */
interface NextScan extends Omit<OpenScan, "scan" | "isNew"> {
  readonly scan: number | undefined
}

/** Opens the part's last scan if it is still running with the same request, otherwise a new scan. */
export const open = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest,
  opening: Opening
): Effect.fn.Return<OpenScan, SinkError> {
  const { scan, ...found } = yield* nextScan(store, list, request, opening)
  if (scan !== undefined) return { ...found, scan, isNew: false }
  const { firstRow, startedAt, totals } = found
  return {
    ...found,
    isNew: true,
    scan: yield* store.start({
      list,
      part: partOf(request),
      request: requestText(request),
      firstRow,
      totals: ScanTotals.toJson(totals),
      now: startedAt,
      personal: bindingOf(request)
    })
  }
})

/** Returns the scan that {@link open} would open. Writes nothing. */
export const nextScan = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest,
  { anyComplete, nextRows, overtaken, scans, whole }: Opening
): Effect.fn.Return<NextScan, SinkError> {
  const requested = requestText(request)
  const [last] = scans
  const known = ScanTotals.contentsOf(whole)
  const knownRows = ScanTotals.rowsAfter(whole)
  const countsAll = Object.keys(known).length === 0 && (nextRows.get(list.label) ?? 0) > 0
  const wasComplete = scans.some(({ state }) => state === "complete")
  // A record is new only if the whole list, or this part of it, was read completely before.
  const emitChanges = { inserts: wasComplete || whole !== undefined, updates: anyComplete }
  if (last?.state === "running" && last.request === requested && !overtaken) {
    const { checkpoint } = last
    const resumeAt = checkpoint !== undefined && Option.isSome(Position.fromJson(checkpoint)) ? checkpoint : undefined
    // Without a checkpoint the scan starts at the first page.
    const start = resumeAt === undefined ? startAfter(scans, false) : "resumed"
    const seen = new RowSet(yield* store.seen([last.scan]))
    const totals = yield* ScanTotals.ofScan(store, last)
    const isUncounted = totals.counts.records > 0 && Object.keys(totals.contents).length === 0
    return { ...last, start, resumeAt, totals, seen, emitChanges, whole, known, knownRows, countsAll, isUncounted }
  }
  return {
    scan: undefined,
    startedAt: yield* timestamp,
    firstRow: nextRows.get(list.label) ?? 0,
    start: startAfter(scans, overtaken),
    resumeAt: undefined,
    // What a scan has written that did not end is not named yet.
    totals: {
      ...ScanTotals.none,
      contents: merged(known, ScanTotals.contentsOf(last?.state === "complete" ? undefined : last))
    },
    seen: new RowSet(),
    emitChanges,
    whole,
    known,
    knownRows,
    countsAll,
    isUncounted: false
  }
})

/** A running scan without a checkpoint has committed no page, so it is skipped. */
const startAfter = (scans: ReadonlyArray<ScanRow>, overtaken: boolean): ScanStart => {
  const last = scans.find(({ checkpoint, state }) => state !== "running" || checkpoint !== undefined)
  switch (last?.state) {
    case undefined:
      return "first"
    case "complete":
      return "afterComplete"
    case "running":
    case "abandoned":
      return overtaken ? "overtaken" : "otherRequest"
    case "incomplete":
      return "afterFailure"
  }
}
