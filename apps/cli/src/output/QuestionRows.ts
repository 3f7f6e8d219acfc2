/**
 * The rows of a question's answer: the first groups, a row for all other groups, and a row for all of them. The sums are exact. Only
 * people read the last two rows: a program would add them to the groups.
 */
import type { Cell, Questions } from "@payments/copy"
import { grouped } from "@payments/program"
import { Effect, Stream } from "effect"
import type { Cells } from "./Rows.ts"

/** The sums over some groups. */
export interface Total {
  readonly groups: number
  /** Undefined for the columns that name or describe the groups; null if all values are null. */
  readonly sums: ReadonlyArray<bigint | null | undefined>
}

const digitsOf = (cell: Cell | undefined): bigint | null => {
  const text = cell !== null && typeof cell === "object" ? cell.json : ""
  return /^-?\d+$/.test(text) ? BigInt(text) : null
}

export const emptyTotal = ({ labels }: Questions.Question, columns: ReadonlyArray<string>): Total => ({
  groups: 0,
  sums: columns.map((name) => labels.includes(name) ? undefined : null)
})

export const addRow = ({ groups, sums }: Total, row: Cells): Total => ({
  groups: groups + 1,
  sums: sums.map((sum, column) => {
    const value = sum === undefined ? null : digitsOf(row[column])
    return value === null ? sum : (sum ?? 0n) + value
  })
})

/** Returns the row of a total. The first column has its name. */
export const totalRow = (name: string, { sums }: Total): Cells =>
  sums.map((sum, column) => sum === undefined ? column === 0 ? name : "" : sum === null ? null : { json: String(sum) })

/** Returns the rows after the first `shown` groups: one for the others, and one for all if there is more than one group. */
export const endRows = (others: Total, all: Total): ReadonlyArray<Cells> => [
  ...others.groups === 0 ? [] : [totalRow(othersName(others), others)],
  ...all.groups > 1 ? [totalRow("(total)", all)] : []
]

/** Returns the name of the row of the groups that are not shown. */
export const othersName = ({ groups }: Total): string => `(${grouped(groups)} others)`

/** A table of so many rows has one header: their widths and those of the sums are known before it is printed. */
const printedAtOnce = 5_000

/** Returns the first `shown` rows, and {@link endRows} after them. `onEnd` gets the totals of the other groups and of all. */
export const withTotals = <E, R>(
  rows: Stream.Stream<ReadonlyArray<Cells>, E, R>,
  empty: Total,
  shown: number,
  onEnd: (others: Total, all: Total) => void
): Stream.Stream<ReadonlyArray<Cells>, E, R> =>
  Stream.suspend(() => {
    let [others, all] = [empty, empty]
    const shownOf = (chunk: ReadonlyArray<Cells>) =>
      chunk.filter((row) => {
        const isShown = all.groups < shown
        all = addRow(all, row)
        if (!isShown) others = addRow(others, row)
        return isShown
      })
    const end = Effect.sync(() => {
      onEnd(others, all)
      return endRows(others, all)
    })
    return Stream.concat(Stream.map(rows, shownOf), Stream.fromEffect(end)).pipe(
      Stream.flattenIterable,
      Stream.grouped(printedAtOnce)
    )
  })
