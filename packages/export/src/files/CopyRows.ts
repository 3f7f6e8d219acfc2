/** The rows of a folder's copy, in their order and in bounded memory: what files are rendered from and compared with. */
import type { Lists } from "@payments/core"
import { Effect, Stream } from "effect"
import type { FullRow, Store } from "../engine/Store.ts"
import type { SinkError } from "../Sink.ts"

/** Rows and characters that are read at once. */
export const atOnce: { readonly rows: number; readonly characters: number } = {
  rows: 1000,
  characters: 4 * 1024 * 1024
}

/** Where the next rows begin, and how many of them are read. */
interface Place {
  readonly after: number
  readonly count: number
}

const start: Place = { after: -1, count: atOnce.rows }

/** The next rows, and the place behind them; fewer of them where the records are larger. Undefined at the end. */
const rowsAt = ({ rows: rowsAfter }: Pick<Store, "rows">, list: Lists.AnyList, { after, count }: Place) =>
  Effect.map(rowsAfter(list, after, count), (rows) => {
    const last = rows.at(-1)
    if (last === undefined) return undefined
    const characters = rows.reduce((sum, { raw }) => sum + raw.length, 0)
    const next = Math.floor((atOnce.characters / characters) * rows.length)
    return [rows, { after: last.row, count: Math.max(1, Math.min(atOnce.rows, next)) }] as const
  })

/** All rows of a list, in pieces. */
export const rowsOf = (
  copy: Pick<Store, "rows">,
  list: Lists.AnyList
): Stream.Stream<ReadonlyArray<FullRow>, SinkError> => Stream.unfold(start, (place) => rowsAt(copy, list, place))

/** Takes the rows of a list that a file holds one after the other. */
export const takerOf = (copy: Pick<Store, "rows">, list: Lists.AnyList, isIn: (row: FullRow) => boolean) => {
  let place: Place | undefined = start
  const held: Array<FullRow> = []
  /** The next rows: so many, or all that are left. */
  return Effect.fnUntraced(function*(count: number): Effect.fn.Return<ReadonlyArray<FullRow>, SinkError> {
    while (held.length < count && place !== undefined) {
      const found: readonly [ReadonlyArray<FullRow>, Place] | undefined = yield* rowsAt(copy, list, place)
      place = found?.[1]
      for (const row of found?.[0] ?? []) if (isIn(row)) held.push(row)
    }
    return held.splice(0, count)
  })
}
