/** Reads the rows of a folder's copy in order and in bounded memory, to render files and to compare them. */
import type { Lists } from "@payments/core"
import { Effect, Stream } from "effect"
import type { SinkError } from "../port/Sink.ts"
import { type FullRow, maxBytes, type Store } from "../store/Store.ts"

/** The limits of a chunk of rows: their number, and the length of their texts in characters. */
export const chunkLimit = { rows: 1000, characters: maxBytes } as const

const start = -1

/** Returns the next rows and the number of the last one, or undefined at the end. */
const rowsAt = ({ rows: rowsAfter }: Pick<Store, "rows">, list: Lists.AnyList, after: number) =>
  Effect.map(rowsAfter(list, after, chunkLimit.rows), (rows) => {
    const last = rows.at(-1)
    return last === undefined ? undefined : [rows, last.row] as const
  })

export const rowsOf = (
  copy: Pick<Store, "rows">,
  list: Lists.AnyList
): Stream.Stream<ReadonlyArray<FullRow>, SinkError> => Stream.unfold(start, (after) => rowsAt(copy, list, after))

/** Makes a function that returns the list's next rows that satisfy `isIn`: the rows that a file should contain. */
export const rowReader = (copy: Pick<Store, "rows">, list: Lists.AnyList, isIn: (row: FullRow) => boolean) => {
  let after: number | undefined = start
  const buffer: Array<FullRow> = []
  /** Returns the next `count` rows, or all remaining ones. */
  return Effect.fnUntraced(function*(count: number): Effect.fn.Return<ReadonlyArray<FullRow>, SinkError> {
    while (buffer.length < count && after !== undefined) {
      const found: readonly [ReadonlyArray<FullRow>, number] | undefined = yield* rowsAt(copy, list, after)
      after = found?.[1]
      for (const row of found?.[0] ?? []) if (isIn(row)) buffer.push(row)
    }
    return buffer.splice(0, count)
  })
}
