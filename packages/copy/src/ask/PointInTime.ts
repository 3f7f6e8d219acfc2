/** The rows of a destination as they are, or as they were after a change, reconstructed from the table of changes. */
import { type Lists, parseText } from "@payments/core"
import { Data, Effect } from "effect"
import { layoutOf, valueOf, withoutRoundedAmounts } from "../plan/Columns.ts"
import { longestStatus } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import {
  type ComparedBy,
  dayLength,
  type EarlierRow,
  type GroupTotal,
  now,
  type Point,
  type RowContent,
  type RowText,
  type Snapshot,
  type TotalColumns
} from "../store/Snapshot.ts"
import { BeyondLastChange, ChangesRemoved } from "./Consumers.ts"
import { hasList } from "./ExistingColumns.ts"
import { advanceBoth, SortedRows } from "./SortedRows.ts"

/** A point of a list that cannot be reconstructed. */
interface UnreachablePoint {
  /** The list's name, as on the command line. */
  readonly list: string
  readonly position: Point
  /** The first point that can be reconstructed. */
  readonly first: Point
}

const pointText = ({ seq, time }: Point): string => time ?? `change ${seq}`

const firstText = ({ seq, time }: Point): string =>
  `The first point that can be reconstructed is ${time === undefined ? "" : `${time}, which is `}change ${seq}.`

/** Rows of a list were written without changes after the point, so they cannot be reconstructed. */
export class ChangesBeginLater extends Data.TaggedError("ChangesBeginLater")<UnreachablePoint> {
  override get message() {
    return `${this.list} was loaded for the first time after ${
      pointText(this.position)
    }, and a first load writes no changes. ${firstText(this.first)}`
  }
}

/** Rows that were not missing at the point were removed later, because they had been missing for long. */
export class MissingRowsRemoved extends Data.TaggedError("MissingRowsRemoved")<UnreachablePoint> {
  override get message() {
    return `${this.list}: rows that were not yet missing after ${pointText(this.position)} were removed later. ${
      firstText(this.first)
    }`
  }
}

/** The changes since a time were removed, so that the rows of that time cannot be reconstructed. */
export class HistoryRemoved extends Data.TaggedError("HistoryRemoved")<{
  readonly time: string
  /** From when on there are changes. */
  readonly since: string
}> {
  override get message() {
    return `changes since ${this.time} were removed. The first point that can be reconstructed is ${this.since}.`
  }
}

export type PointError = ChangesRemoved | BeyondLastChange | ChangesBeginLater | MissingRowsRemoved | HistoryRemoved

/**
 * A point that a user names: the number of a change, or a time (ISO 8601 in UTC with milliseconds). `day` is the day whose end
 * it is, if a day was named.
 */
export type NamedPoint = number | { readonly time: string; readonly day?: string | undefined }

/** A point whose rows can be reconstructed. */
export interface ReachedPoint extends Point {
  /** The lists without the rows that were missing at the point and were removed later. Their texts are gone. */
  readonly incompleteLists: ReadonlyArray<Lists.AnyList>
  /** The lists, with the end of the last complete export of each of them before the point, if it is known. */
  readonly lists: ReadonlyArray<{ readonly list: Lists.AnyList; readonly readAt: string | undefined }>
}

/** Returns the point, if the changes reach back so far that the rows of these lists can be reconstructed. */
export const reachPoint = Effect.fnUntraced(function*(
  snapshot: Snapshot,
  named: NamedPoint,
  lists: ReadonlyArray<Lists.AnyList>
): Effect.fn.Return<ReachedPoint, SinkError | PointError> {
  const point = typeof named === "number" ? yield* changeOf(snapshot, named) : yield* lastChangeAt(snapshot, named)
  const incompleteLists: Array<Lists.AnyList> = []
  const reached: Array<ReachedPoint["lists"][number]> = []
  for (const list of lists) {
    if (!(yield* hasList(snapshot, list))) continue
    const { lastChange, lastMissingChange } = yield* snapshot.prunedRows(list)
    if (point.seq < lastMissingChange) {
      const first = { seq: lastMissingChange, time: yield* snapshot.timeOf(lastMissingChange) }
      return yield* new MissingRowsRemoved({ list: list.label, position: point, first })
    }
    if (point.seq < lastChange) incompleteLists.push(list)
    const { first, readAt } = yield* snapshot.reach(list, point)
    if (first !== undefined) return yield* new ChangesBeginLater({ list: list.label, position: point, first })
    reached.push({ list, readAt })
  }
  return { ...point, incompleteLists, lists: reached }
})

const changeOf = Effect.fnUntraced(function*(
  snapshot: Snapshot,
  seq: number
): Effect.fn.Return<Point, SinkError | BeyondLastChange | ChangesRemoved> {
  const { last, pruned } = yield* snapshot.changeRange
  if (seq > last) return yield* new BeyondLastChange({ position: seq, last })
  return seq < pruned ? yield* new ChangesRemoved({ position: seq, through: pruned }) : { seq }
})

const lastChangeAt = Effect.fnUntraced(function*(
  snapshot: Snapshot,
  { time }: { readonly time: string }
): Effect.fn.Return<Point, SinkError | HistoryRemoved> {
  const found = yield* snapshot.changeAt(time)
  return "seq" in found ? { ...found, time } : yield* new HistoryRemoved({ time, since: found.removedBefore })
})

/** The rows of a destination at a point. */
export interface PointInTime
  extends Pick<Snapshot, "location" | "columns" | "hasFastTexts">, Pick<ReachedPoint, "incompleteLists">
{
  /** The number of the last change before the point. Undefined: the rows are as they are. */
  readonly at: number | undefined
  /** Opens the rows of a list, sorted by id. The next call opens them again. */
  readonly contents: (list: Lists.AnyList, by: ComparedBy) => SortedRows<RowContent>
  /** Returns rows as `Snapshot.rowsAt` does. */
  readonly rows: (
    list: Lists.AnyList,
    ids: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<RowText | undefined>, SinkError>
  /** Returns the counts and sums of each day and status. */
  readonly totals: (
    list: Lists.AnyList,
    columns: TotalColumns
  ) => Effect.Effect<ReadonlyMap<string, GroupTotal>, SinkError>
}

/** The rows as they are. */
export const current = (snapshot: Snapshot): PointInTime => ({
  location: snapshot.location,
  incompleteLists: [],
  at: undefined,
  columns: snapshot.columns,
  hasFastTexts: snapshot.hasFastTexts,
  contents: (list, by) => currentContents(snapshot, list, by),
  rows: (list, ids) => snapshot.rowsAt(list, ids, now),
  totals: (list, columns) => Effect.map(snapshot.totals(list, columns), grouped)
})

const currentContents = (snapshot: Snapshot, list: Lists.AnyList, by: ComparedBy): SortedRows<RowContent> =>
  new SortedRows((after) => snapshot.contents(list, by, after))

/** The rows of these lists as they were at the point. Fails if the changes do not reach back so far. */
export const pointAt = Effect.fnUntraced(function*(
  snapshot: Snapshot,
  named: NamedPoint,
  lists: ReadonlyArray<Lists.AnyList>
): Effect.fn.Return<PointInTime, SinkError | PointError> {
  const { incompleteLists, seq: at } = yield* reachPoint(snapshot, named, lists)
  const earlierRows = (list: Lists.AnyList, by: ComparedBy) =>
    new SortedRows((after) => snapshot.earlier(list, at, by, after))
  return {
    ...current(snapshot),
    incompleteLists,
    at,
    contents: (list, by) => contentsThen(currentContents(snapshot, list, by), earlierRows(list, by)),
    rows: (list, ids) => snapshot.rowsAt(list, ids, at),
    totals: Effect.fnUntraced(function*(list, columns) {
      const groups = grouped(yield* snapshot.totals(list, columns))
      const add = Effect.fnUntraced(function*(ids: ReadonlyArray<string>, point: number, sign: 1n | -1n) {
        for (let from = 0; from < ids.length;) {
          const rows = yield* snapshot.rowsAt(list, ids.slice(from, from + chunkIds), point)
          for (const row of rows) if (row?.missing === false) addTotal(groups, totalOf(list, columns, row), sign)
          from += rows.length
        }
      })
      const earlier = earlierRows(list, "hash")
      for (;;) {
        yield* earlier.load
        const ids = earlier.takeChunk().map(({ id }) => id)
        if (ids.length === 0) return groups
        // Replace what the rows count now by what they counted then.
        yield* add(ids, now, -1n)
        yield* add(ids, at, 1n)
      }
    })
  }
})

/** Returns `rows`, but those that have changed since the point have the content of `earlier`. */
const contentsThen = (rows: SortedRows<RowContent>, earlier: SortedRows<EarlierRow>): SortedRows<RowContent> =>
  new SortedRows(() =>
    Effect.gen(function*() {
      const found: Array<RowContent> = []
      for (let isEnd = false; !isEnd && found.length === 0;) {
        yield* rows.load
        yield* earlier.load
        isEnd = advanceBoth(rows, earlier, (row, change) => {
          // A change has no row if another program has removed the row.
          if (row === undefined) return
          const then = change === undefined ? row : change.row
          if (then !== undefined) {
            found.push({ id: row.id, content: then.content ?? row.content, missing: then.missing })
          }
        })
      }
      return found
    })
  )

/** The number of rows whose texts are read at once. */
export const chunkIds = 500

/** Adds the totals of equal days and statuses. */
const grouped = (totals: ReadonlyArray<GroupTotal>): Map<string, GroupTotal> => {
  const groups = new Map<string, GroupTotal>()
  for (const total of totals) addTotal(groups, total, 1n)
  return groups
}

const addTotal = (groups: Map<string, GroupTotal>, added: GroupTotal, sign: 1n | -1n): void => {
  const key = JSON.stringify([added.day, added.status])
  const total = groups.get(key)
  groups.set(key, {
    ...added,
    records: (total?.records ?? 0n) + sign * added.records,
    amounts: added.amounts.map(({ nulls, sum }, index) => ({
      sum: (total?.amounts[index]?.sum ?? 0n) + sign * sum,
      nulls: (total?.amounts[index]?.nulls ?? 0n) + sign * nulls
    }))
  })
}

const totalOf = (list: Lists.AnyList, { amounts, day, status }: TotalColumns, { text }: RowText): GroupTotal => {
  const record = withoutRoundedAmounts(layoutOf(list), parseText(text), text)
  const startOf = (column: TotalColumns["day"], length: number): string | null => {
    const value = column === undefined ? null : valueOf(column, record)
    return typeof value === "string" ? [...value].slice(0, length).join("") : null
  }
  return {
    day: startOf(day, dayLength),
    status: startOf(status, longestStatus),
    records: 1n,
    amounts: amounts.map((column) => {
      const value = valueOf(column, record)
      return typeof value === "number" ? { sum: BigInt(value), nulls: 0n } : { sum: 0n, nulls: 1n }
    })
  }
}
