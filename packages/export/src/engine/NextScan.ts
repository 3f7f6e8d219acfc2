/** Which scan comes next: the last one where it can go on, else a new one. */
import { type Lists, Position } from "@payments/core"
import { DateTime, Effect, Option, Schema } from "effect"
import type { ScanRequest, ScanStart, SinkError } from "../Sink.ts"
import type { PlanInput } from "./Plan.ts"
import { RowSet } from "./RowSet.ts"
import type { ScanRow, Store } from "./Store.ts"
import * as Tally from "./Tally.ts"

/** A scan that is open. */
export interface Opened {
  readonly scan: number
  readonly startedAt: string
  /** Row numbers from here on did not exist when it began. */
  readonly firstRow: number
  readonly start: ScanStart
  /** {@inheritDoc ScanPreview.resumeAt} */
  readonly resumeAt: string | undefined
  readonly tally: Tally.Tally
  readonly seen: RowSet
  /** Which changes are written to the table of changes. */
  readonly tells: PlanInput["tells"]
}

export const partOf = ({ part }: ScanRequest): string =>
  part === undefined ? "" : JSON.stringify([part.field, part.value])

const askedOf = ({ ignoredFields = [], limit, parameters }: ScanRequest): string =>
  JSON.stringify([limit, Object.entries(parameters).toSorted(), ignoredFields.toSorted()])

/** The members that a kept scan was asked to ignore. */
export const ignoredIn = ({ asked }: Pick<ScanRow, "asked">): ReadonlySet<string> =>
  new Set(Option.getOrElse(Schema.decodeOption(Asked)(asked), () => [[], [], []] as const)[2])

const Asked = Schema.fromJsonString(Schema.Tuple([Schema.Unknown, Schema.Unknown, Schema.Array(Schema.String)]))

/** What is to be opened; `scan` is undefined where it is a new one. */
interface Next extends Omit<Opened, "scan"> {
  readonly scan: number | undefined
}

/** The scan that goes on: the part's last one if it was cut and asked the same, else a new one. */
export const open = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest
): Effect.fn.Return<Opened, SinkError> {
  const { scan, ...found } = yield* nextScan(store, list, request)
  if (scan !== undefined) return { ...found, scan }
  const { firstRow, startedAt } = found
  const tally = Tally.toJson(Tally.none)
  return {
    ...found,
    scan: yield* store.start({
      list,
      part: partOf(request),
      asked: askedOf(request),
      firstRow,
      tally,
      now: startedAt
    })
  }
})

/** {@inheritDoc open} */
export const nextScan = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest
): Effect.fn.Return<Next, SinkError> {
  const part = partOf(request)
  const asked = askedOf(request)
  const scans = yield* store.scans(list, part)
  const [last] = scans
  const { anyComplete, overtaken } = yield* store.around(list, part, last?.scan ?? 0)
  const wasComplete = scans.some(({ state }) => state === "complete")
  // Of the whole list, or of this part of it, nothing is new that was never read before.
  const tells = { inserts: wasComplete || (part !== "" && (yield* isLoaded(store, list))), updates: anyComplete }
  if (last?.state === "running" && last.asked === asked && !overtaken) {
    const { checkpoint } = last
    const resumeAt = checkpoint !== undefined && Option.isSome(Position.fromJson(checkpoint)) ? checkpoint : undefined
    // Without a checkpoint it begins at the first page.
    const start = resumeAt === undefined ? startAfter(scans, false) : "resumed"
    const seen = new RowSet(yield* store.seen([last.scan]))
    const tally = yield* Tally.ofScan(store, last)
    return { ...last, start, resumeAt, tally, seen, tells }
  }
  const { nextRow } = yield* store.find(list, [])
  return {
    scan: undefined,
    startedAt: yield* timestamp,
    firstRow: nextRow,
    start: startAfter(scans, overtaken),
    resumeAt: undefined,
    tally: Tally.none,
    seen: new RowSet(),
    tells
  }
})

/** Whether the whole list was once read to its end. */
const isLoaded = (store: Store, list: Lists.AnyList) =>
  Effect.map(store.scans(list, ""), (scans) => scans.some(({ state }) => state === "complete"))

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

/** The time, as it is stored. */
export const timestamp = Effect.map(DateTime.now, DateTime.formatIso)
