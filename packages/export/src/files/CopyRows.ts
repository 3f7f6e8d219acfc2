/** The rows of a folder's copy, in their order and in bounded memory: what files are rendered from and compared with. */
import type { Lists } from "@payments/core"
import { Effect, Stream } from "effect"
import { type FullRow, maxBytes, type Store } from "../engine/Store.ts"
import type { SinkError } from "../Sink.ts"

/** Rows that are read at once, and the characters of their texts. */
export const atOnce = { rows: 1000, characters: maxBytes } as const

const start = -1

/** The next rows, and the number of the last one. Undefined at the end. */
const rowsAt = ({ rows: rowsAfter }: Pick<Store, "rows">, list: Lists.AnyList, after: number) =>
  Effect.map(rowsAfter(list, after, atOnce.rows), (rows) => {
    const last = rows.at(-1)
    return last === undefined ? undefined : [rows, last.row] as const
  })

/** All rows of a list, in pieces. */
export const rowsOf = (
  copy: Pick<Store, "rows">,
  list: Lists.AnyList
): Stream.Stream<ReadonlyArray<FullRow>, SinkError> => Stream.unfold(start, (after) => rowsAt(copy, list, after))

/** Takes the rows of a list that a file holds one after the other. */
export const takerOf = (copy: Pick<Store, "rows">, list: Lists.AnyList, isIn: (row: FullRow) => boolean) => {
  let after: number | undefined = start
  const held: Array<FullRow> = []
  /** The next rows: so many, or all that are left. */
  return Effect.fnUntraced(function*(count: number): Effect.fn.Return<ReadonlyArray<FullRow>, SinkError> {
    while (held.length < count && after !== undefined) {
      const found: readonly [ReadonlyArray<FullRow>, number] | undefined = yield* rowsAt(copy, list, after)
      after = found?.[1]
      for (const row of found?.[0] ?? []) if (isIn(row)) held.push(row)
    }
    return held.splice(0, count)
  })
}
