/**
 * Compares two destinations, or two points of one. Rows are sorted by id, joined and compared by their exact texts, in
 * memory that does not grow with their number. A server sends hashes of the texts instead. Totals are computed from the
 * columns; `verify` checks that the columns of a destination match its texts.
 */
import { Lists, membersOf } from "@payments/core"
import { Effect, Option, Stream } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import { unfilled } from "../store/Filling.ts"
import type { GroupTotal, RowText, TotalColumns } from "../store/Snapshot.ts"
import { hasList } from "./ExistingColumns.ts"
import { chunkIds, type PointInTime } from "./PointInTime.ts"
import { advanceBoth, compareBytes, SortedRows } from "./SortedRows.ts"

/** A figure of one day and status that differs. Rows that are marked missing do not count. */
export interface TotalDifference {
  /** The list's name, as on the command line. */
  readonly list: string
  /** The settlement date of invoices, and the day of `createdAt` in other lists. Null if the records have none. */
  readonly day: string | null
  readonly status: string | null
  /** `records`, an amount's field for its sum, or `FIELD null` for the number of records without this amount. */
  readonly figure: string
  readonly a: bigint
  readonly b: bigint
}

/** A member that differs. */
export interface MemberDifference {
  /** The path of the member, such as `customerDetails.name`. `(missing)`: whether the record is marked missing. */
  readonly member: string
  /** The exact texts. Undefined if the record does not have the member. */
  readonly a: string | undefined
  readonly b: string | undefined
}

/** A record that differs. */
export interface RecordDifference {
  /** The list's name, as on the command line. */
  readonly list: string
  readonly id: string
  readonly change: "only in A" | "only in B" | "differs"
  /** The members that differ. Of a record that only one side has: the whole record, as the member `(record)`. */
  readonly members: ReadonlyArray<MemberDifference>
}

/** What a comparison of a list has counted. */
export interface ListComparison {
  readonly a: number
  readonly b: number
  readonly onlyA: number
  readonly onlyB: number
  readonly differing: number
}

/** Returns the lists that at least one side has. */
export const comparedLists = (
  a: PointInTime,
  b: PointInTime,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all
): Effect.Effect<ReadonlyArray<Lists.AnyList>, SinkError> =>
  Effect.filter(lists, (list) => Effect.zipWith(hasList(a, list), hasList(b, list), (inA, inB) => inA || inB))

/** Returns what a side has of a list, or `none` if it lacks the list. */
const ofList = <A>(side: PointInTime, list: Lists.AnyList, found: Effect.Effect<A, SinkError>, none: A) =>
  Effect.flatMap(hasList(side, list), (has) => has ? found : Effect.succeed(none))

/** The totals of a list that differ. */
export interface ComparedTotals {
  /** The figures that differ, by day and status. */
  readonly differences: ReadonlyArray<TotalDifference>
  /** The records of the side that has more. */
  readonly records: number
}

/** Compares the counts and the sums of the amounts by day and status. */
export const totalDifferences = Effect.fnUntraced(function*(
  a: PointInTime,
  b: PointInTime,
  list: Lists.AnyList
): Effect.fn.Return<ComparedTotals, SinkError> {
  const columns = yield* totalColumns([a, b], list)
  const totalsOf = (side: PointInTime) => ofList(side, list, side.totals(list, columns), new Map<string, GroupTotal>())
  const [left, right] = [yield* totalsOf(a), yield* totalsOf(b)]
  const groups = [...new Map([...left, ...right])].toSorted(([, one], [, other]) =>
    compareBytes(one.day ?? "", other.day ?? "") || compareBytes(one.status ?? "", other.status ?? "")
  )
  const recordsOf = (totals: typeof left) => Array.from(totals.values()).reduce((sum, { records }) => sum + records, 0n)
  const records = Math.max(Number(recordsOf(left)), Number(recordsOf(right)))
  const differences = groups.flatMap(([key, { day, status }]) => {
    const [inA, inB] = [left.get(key), right.get(key)]
    const figures: ReadonlyArray<Pick<TotalDifference, "figure" | "a" | "b">> = [
      { figure: "records", a: inA?.records ?? 0n, b: inB?.records ?? 0n },
      ...columns.amounts.flatMap(({ path }, index) => {
        const [one, other] = [inA?.amounts[index], inB?.amounts[index]]
        return [
          { figure: path.join("."), a: one?.sum ?? 0n, b: other?.sum ?? 0n },
          { figure: `${path.join(".")} null`, a: one?.nulls ?? 0n, b: other?.nulls ?? 0n }
        ]
      })
    ]
    return figures.filter((figure) => figure.a !== figure.b).map((figure) => ({
      list: list.label,
      day,
      status,
      ...figure
    }))
  })
  return { differences, records }
})

/** Returns the columns of the totals that both sides have filled. */
const totalColumns = Effect.fnUntraced(function*(
  sides: ReadonlyArray<PointInTime>,
  list: Lists.AnyList
): Effect.fn.Return<TotalColumns, SinkError> {
  const having = yield* Effect.filter(sides, (side) => hasList(side, list))
  const lacking = yield* Effect.forEach(having, (side) => unfilled(side, list))
  const skipped = new Set(lacking.flatMap((side) => side.columns))
  const { amounts, columns } = layoutOf(list)
  const day = Object.entries(list.filters).find(([, { type }]) => type === "day")?.[0] ?? "createdAt"
  const columnOf = (field: string) =>
    columns.find((column) => column.path.length === 1 && column.path[0] === field && !skipped.has(column))
  return {
    day: columnOf(day),
    status: columnOf("status"),
    amounts: amounts.filter((column) => !skipped.has(column))
  }
})

/**
 * Compares the rows of a list. Emits the records that differ, sorted by id, and adds to the counts of `counted` while
 * it runs.
 */
export const recordDifferences = (
  a: PointInTime,
  b: PointInTime,
  list: Lists.AnyList,
  counted: { -readonly [Name in keyof ListComparison]: number }
): Stream.Stream<ReadonlyArray<RecordDifference>, SinkError> =>
  Stream.unwrap(Effect.gen(function*() {
    const by = a.hasFastTexts && b.hasFastTexts ? "text" : "hash"
    const rowsOf = (side: PointInTime) =>
      ofList(side, list, Effect.sync(() => side.contents(list, by)), new SortedRows(() => Effect.succeed([])))
    const [left, right] = [yield* rowsOf(a), yield* rowsOf(b)]
    return Stream.paginate(undefined, () =>
      Effect.gen(function*() {
        const ids: Array<string> = []
        yield* left.load
        yield* right.load
        const isEnd = advanceBoth(left, right, (inA, inB) => {
          if (inA !== undefined) counted.a++
          if (inB !== undefined) counted.b++
          if (inA === undefined) counted.onlyB++
          else if (inB === undefined) counted.onlyA++
          else if (inA.content === inB.content && inA.missing === inB.missing) return
          else counted.differing++
          ids.push((inA ?? inB)?.id ?? "")
        })
        const differences = ids.length === 0 ? Stream.empty : differencesOf(a, b, list, ids)
        return [[differences], isEnd ? Option.none() : Option.some(undefined)] as const
      }))
  })).pipe(Stream.flatten())

/** Reads the texts of these records, as many at a time as memory allows, and compares them. */
const differencesOf = (
  a: PointInTime,
  b: PointInTime,
  list: Lists.AnyList,
  ids: ReadonlyArray<string>
): Stream.Stream<ReadonlyArray<RecordDifference>, SinkError> =>
  Stream.paginate(0, (from) =>
    Effect.gen(function*() {
      const chunk = ids.slice(from, from + chunkIds)
      const textsOf = (side: PointInTime) => ofList(side, list, side.rows(list, chunk), chunk.map(() => undefined))
      const [left, right] = [yield* textsOf(a), yield* textsOf(b)]
      const count = Math.min(left.length, right.length)
      const found = chunk.slice(0, count).map((id, index) => differenceOf(list.label, id, left[index], right[index]))
      const next = from + count
      return [[found], next < ids.length ? Option.some(next) : Option.none()] as const
    }))

const differenceOf = (
  list: string,
  id: string,
  a: RowText | undefined,
  b: RowText | undefined
): RecordDifference => {
  if (a === undefined || b === undefined) {
    const member = { member: "(record)", a: a?.text, b: b?.text }
    return { list, id, change: a === undefined ? "only in B" : "only in A", members: [member] }
  }
  const members = [
    ...(a.missing === b.missing ? [] : [{ member: "(missing)", a: String(a.missing), b: String(b.missing) }]),
    ...(a.text === b.text ? [] : differingMembers(a.text, b.text))
  ]
  return { list, id, change: "differs", members }
}

/** Deeper members are compared as a whole. The documented records have two levels. */
const maxDepth = 8

/** Returns the paths of the members whose exact texts differ. An array is compared as a whole. */
export const differingMembers = (a: string, b: string): ReadonlyArray<MemberDifference> => {
  const found = membersIn(a, b, "", 0)
  // The texts differ only in the order, the spelling or the duplicates of members.
  return found.length > 0 ? found : [{ member: "(text)", a, b }]
}

const membersIn = (a: string, b: string, path: string, depth: number): ReadonlyArray<MemberDifference> => {
  const [left, right] = [membersOf(a), membersOf(b)]
  return [...new Set([...left.keys(), ...right.keys()])].flatMap((name) => {
    const [one, other] = [left.get(name), right.get(name)]
    if (one === other) return []
    const member = `${path}${path === "" ? "" : "."}${isName(name) ? name : JSON.stringify(name)}`
    const inner = depth < maxDepth && one?.startsWith("{") === true && other?.startsWith("{") === true
      ? membersIn(one, other, member, depth + 1)
      : []
    return inner.length > 0 ? inner : [{ member, a: one, b: other }]
  })
}

const isName = (name: string): boolean => /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(name)
