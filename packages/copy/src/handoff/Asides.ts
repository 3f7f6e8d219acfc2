/**
 * The changes that are set aside with `order = "per-record"`: refused ones, and the later ones of their records. Each
 * record's changes are sent in their order, and all others go on. They are stored in the transaction that moves the
 * consumer past them, and retention keeps them, so none is lost.
 */
import type { HandoffAside } from "../store/HandoffStore.ts"
import type { ChangeRow } from "../store/Store.ts"

/** The most changes of a consumer that are set aside. Then nothing is sent until somebody decides. */
export const mostAside = 1000

/** Changes, divided into those that are sent and those that have to be set aside. */
interface Divided {
  /** The changes up to the first one that can be neither sent nor set aside. */
  readonly rows: ReadonlyArray<ChangeRow>
  readonly sent: ReadonlyArray<ChangeRow>
  readonly held: ReadonlyArray<ChangeRow>
  readonly isFull: boolean
}

export interface Asides {
  readonly isBlocked: (change: Pick<ChangeRow, "id" | "list">) => boolean
  /** Divides changes that are sent in a generation. */
  readonly divide: (rows: ReadonlyArray<ChangeRow>, sent: ReadonlyArray<ChangeRow>, generation: string) => Divided
  /** Counts changes that are about to be set aside. */
  readonly count: (held: ReadonlyArray<HandoffAside>) => void
  /** Whether one more change can be set aside. */
  readonly hasRoom: () => boolean
  readonly isEmpty: boolean
  /** The changes to send now: of each record the first one, unless it is refused. */
  readonly due: ReadonlyArray<HandoffAside>
}

const recordOf = ({ id, list }: Pick<ChangeRow, "id" | "list">): string => `${list} ${id}`

/** What is set aside, in the order of the numbers. */
export const asidesOf = (stored: ReadonlyArray<HandoffAside>): Asides => {
  const blocked = new Map<string, HandoffAside>()
  for (const aside of stored) if (!blocked.has(recordOf(aside))) blocked.set(recordOf(aside), aside)
  const numberOf = ({ generation, seq }: Pick<HandoffAside, "generation" | "seq">) => `${generation} ${seq}`
  const known = new Set(stored.map(numberOf))
  const isBlocked: Asides["isBlocked"] = (row) => blocked.has(recordOf(row))
  return {
    isBlocked,
    divide: (rows, sent, generation) => {
      if (blocked.size === 0) return { rows, sent, held: [], isFull: false }
      const added = sent.filter((row) => isBlocked(row) && !known.has(numberOf({ generation, seq: row.seq })))
      const first = added[Math.max(0, mostAside - known.size)]
      const end = first?.seq ?? Infinity
      return {
        rows: rows.filter(({ seq }) => seq < end),
        sent: sent.filter((row) => row.seq < end && !isBlocked(row)),
        held: added.filter(({ seq }) => seq < end),
        isFull: first !== undefined
      }
    },
    count: (held) => {
      for (const aside of held) known.add(numberOf(aside))
    },
    hasRoom: () => known.size < mostAside,
    isEmpty: blocked.size === 0,
    due: [...blocked.values()].filter(({ isRefused }) => !isRefused)
  }
}
