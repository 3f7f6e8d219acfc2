/** The rows of a destination as they are, or as they were after a change, reconstructed from the table of changes. */
import { type Lists, parseText } from "@payments/core"
import { Data, Effect } from "effect"
import { layoutOf, valueOf, withoutRoundedAmounts } from "../plan/Columns.ts"
import { longestStatus } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import {
  type ComparedBy,
  dayLength,
  type GroupTotal,
  now,
  type RowContent,
  type RowText,
  type Snapshot,
  type TotalColumns
} from "../store/Snapshot.ts"
import { BeyondLastChange, ChangesRemoved } from "./Consumers.ts"
import { advanceBoth, SortedRows } from "./SortedRows.ts"

/** Rows of a list were written without changes after the point, so they cannot be reconstructed. */
export class ChangesBeginLater extends Data.TaggedError("ChangesBeginLater")<{
  /** The list's name, as on the command line. */
  readonly list: string
  readonly position: number
  /** The first point that can be reconstructed. */
  readonly first: number
}> {
  override get message() {
    return `${this.list} was loaded for the first time after change ${this.position}, and a first load writes no changes. The first point that can be compared is ${this.first}.`
  }
}

/** Rows that were not missing at the point were removed later, because they had been missing for long. */
export class MissingRowsRemoved extends Data.TaggedError("MissingRowsRemoved")<{
  /** The list's name, as on the command line. */
  readonly list: string
  readonly position: number
  /** The first point that can be reconstructed. */
  readonly first: number
}> {
  override get message() {
    return `${this.list}: rows that were not yet missing after change ${this.position} were removed later. The first point that can be compared is ${this.first}.`
  }
}

/** The rows of a destination at a point. */
export interface PointInTime {
  readonly location: string
  /** The lists without the rows that were missing at the point and were removed later. Their texts are gone. */
  readonly incompleteLists: ReadonlyArray<Lists.AnyList>
  readonly columns: Snapshot["columns"]
  readonly hasFastTexts: boolean
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
  columns: snapshot.columns,
  hasFastTexts: snapshot.hasFastTexts,
  contents: (list, by) => currentContents(snapshot, list, by),
  rows: (list, ids) => snapshot.rowsAt(list, ids, now),
  totals: (list, columns) => Effect.map(snapshot.totals(list, columns), grouped)
})

const currentContents = (snapshot: Snapshot, list: Lists.AnyList, by: ComparedBy): SortedRows<RowContent> =>
  new SortedRows((after) => snapshot.contents(list, by, after))

/** The rows of these lists as they were after the change `at`. Fails if the changes do not reach back so far. */
export const pointAt = Effect.fnUntraced(function*(
  snapshot: Snapshot,
  at: number,
  lists: ReadonlyArray<Lists.AnyList>
): Effect.fn.Return<
  PointInTime,
  SinkError | ChangesRemoved | BeyondLastChange | ChangesBeginLater | MissingRowsRemoved
> {
  const { last, pruned } = yield* snapshot.changeRange
  if (at > last) return yield* new BeyondLastChange({ position: at, last })
  if (at < pruned) return yield* new ChangesRemoved({ position: at, through: pruned })
  const incompleteLists: Array<Lists.AnyList> = []
  for (const list of lists) {
    if ((yield* snapshot.columns(list)).length === 0) continue
    const { lastChange, lastMissingChange } = yield* snapshot.prunedRows(list)
    if (at < lastMissingChange) {
      return yield* new MissingRowsRemoved({ list: list.label, position: at, first: lastMissingChange })
    }
    if (at < lastChange) incompleteLists.push(list)
    const first = yield* snapshot.firstReachable(list, at)
    if (first !== undefined) return yield* new ChangesBeginLater({ list: list.label, position: at, first })
  }
  const earlierRows = (list: Lists.AnyList, by: ComparedBy) =>
    new SortedRows((after) => snapshot.earlier(list, at, by, after))
  return {
    location: snapshot.location,
    incompleteLists,
    columns: snapshot.columns,
    hasFastTexts: snapshot.hasFastTexts,
    contents: (list, by) => {
      const rows = currentContents(snapshot, list, by)
      const earlier = earlierRows(list, by)
      return new SortedRows(() =>
        Effect.gen(function*() {
          const found: Array<RowContent> = []
          while (found.length === 0) {
            yield* rows.load
            yield* earlier.load
            const isEnd = advanceBoth(rows, earlier, (row, change) => {
              // A change has no row if another program has removed the row.
              if (row === undefined) return
              const then = change === undefined ? row : change.row
              if (then !== undefined) {
                found.push({ id: row.id, content: then.content ?? row.content, missing: then.missing })
              }
            })
            if (isEnd) break
          }
          return found
        })
      )
    },
    rows: (list, ids) => snapshot.rowsAt(list, ids, at),
    totals: Effect.fnUntraced(function*(list, columns) {
      const groups = grouped(yield* snapshot.totals(list, columns))
      const earlier = earlierRows(list, "hash")
      for (;;) {
        yield* earlier.load
        const ids = earlier.takeChunk().map(({ id }) => id)
        if (ids.length === 0) return groups
        // Replace what the rows count now by what they counted then.
        for (const { point, sign } of [{ point: now, sign: -1n }, { point: at, sign: 1n }] as const) {
          yield* forEachRow({ snapshot, list, ids, at: point }, (row) => {
            if (!row.missing) addTotal(groups, totalOf(list, columns, row), sign)
          })
        }
      }
    })
  }
})

const forEachRow = Effect.fnUntraced(function*(
  { at, ids, list, snapshot }: {
    readonly snapshot: Snapshot
    readonly list: Lists.AnyList
    readonly ids: ReadonlyArray<string>
    readonly at: number
  },
  use: (row: RowText) => void
): Effect.fn.Return<void, SinkError> {
  for (let from = 0; from < ids.length;) {
    const rows = yield* snapshot.rowsAt(list, ids.slice(from, from + chunkIds), at)
    for (const row of rows) if (row !== undefined) use(row)
    from += rows.length
  }
})

/** The number of rows whose texts are read at once. */
export const chunkIds = 500

const keyOf = (day: string | null, status: string | null): string => JSON.stringify([day, status])

/** Adds the totals of equal days and statuses. */
const grouped = (totals: ReadonlyArray<GroupTotal>): Map<string, GroupTotal> => {
  const groups = new Map<string, GroupTotal>()
  for (const total of totals) addTotal(groups, total, 1n)
  return groups
}

const addTotal = (groups: Map<string, GroupTotal>, added: GroupTotal, sign: 1n | -1n): void => {
  const key = keyOf(added.day, added.status)
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
