/** Serves the pages of a generated list as §4.4 describes, in any order and with either kind of cursor. */
import type { Lists } from "@payments/core"
import { ListCursor, type ListServer, makeBoundedMap } from "@payments/core/testing"
import * as Filters from "../generate/Filters.ts"
import { generatedRecords } from "../generate/GeneratedRecords.ts"
import type { Generator } from "../generate/Generator.ts"
import type { ListOrder } from "../generate/ListOrder.ts"

/** A generated list. */
export interface GeneratedList extends Filters.FilteredList {
  readonly list: Lists.ListName
  readonly order: ListOrder
  readonly generator: Generator
}

/** Behaviour that the document does not specify. */
export interface ListOptions {
  /**
   * What a cursor contains. `keyset`, the default: the last record that was returned; a record that exists during the
   * whole listing is neither skipped nor repeated. `offset`: the number of records that were returned; records are
   * skipped and repeated when other records vanish and appear.
   */
  readonly cursors?: "keyset" | "offset" | undefined
  /**
   * What `count` counts (§2.5 does not say): the records on the page (the default), all matching records, or the matching
   * records after the page.
   */
  readonly count?: "page" | "total" | "remaining" | undefined
  /** Whether cursors end in characters that a client must percent-encode. */
  readonly reservedCursors?: boolean | undefined
}

/** What a cursor refers to. */
interface CursorState {
  /** The last record that was returned. */
  readonly lastIndex: number
  /** The number of records that were returned. */
  readonly returned: number
}

/** The number of filters whose totals are cached. */
const maxTotals = 8

/** Makes a server that returns the list as of the virtual time `now()`. */
export const serve = (list: GeneratedList, options: ListOptions, now: () => number): ListServer.ListServer => {
  const { generator, lifecycle, order } = list
  const kind = options.cursors ?? "keyset"
  // In a fixed list, both kinds of cursor lead to the same page. It is found from the last record, without skipping
  // records.
  const byOffset = kind === "offset" && !lifecycle.isFixed
  const counting = options.count ?? "page"
  const cursors = ListCursor.make(list.list, { kind, reserved: options.reservedCursors === true })
  const totals = makeBoundedMap<string, number>(maxTotals)

  const matches = (index: number, filter: Filters.Filter | undefined, time: number): boolean =>
    lifecycle.isPresent(index, time) &&
    (filter === undefined || filter.matches(index, lifecycle.historyOf(index, time)))

  /** Returns the matching records from a slot to the end of the list, in the list's order. */
  const matchesFrom = function*(start: number, filter: Filters.Filter | undefined, time: number) {
    const length = lifecycle.lengthAt(time)
    const slots = order.slotCount(length)
    const first = order.slotsDependOnLength ? 0 : lifecycle.vanishedBelow(time)
    for (
      let slot = order.step === 1 ? Math.max(start, first) : start;
      slot >= first && slot < slots;
      slot += order.step
    ) {
      const index = order.indexAt(slot, length)
      if (index < length && matches(index, filter, time)) yield index
    }
  }

  const firstSlot = (time: number) => order.step === 1 ? 0 : order.slotCount(lifecycle.lengthAt(time)) - 1
  const slotAfter = (index: number, time: number) => order.slotOf(index, lifecycle.lengthAt(time)) + order.step

  /** Counts the matching records from a slot on. Takes up to a second for ten million records. */
  const countFrom = (start: number, filter: Filters.Filter | undefined, time: number): number => {
    let count = 0
    for (const _ of matchesFrom(start, filter, time)) count++
    return count
  }

  /** Counts all matching records. */
  const total = (request: ListServer.ListRequest, filter: Filters.Filter | undefined, time: number): number => {
    if (!lifecycle.isFixed) return countFrom(firstSlot(time), filter, time)
    if (filter === undefined) return lifecycle.lengthAt(time)
    const key = JSON.stringify(request.filters)
    const count = totals.get(key) ?? countFrom(firstSlot(time), filter, time)
    totals.set(key, count)
    return count
  }

  /**
   * Reads the list from the cursor on. Returns the records of a page and, to show that more follow, the next record.
   */
  const readSlots = (
    { limit }: ListServer.ListRequest,
    filter: Filters.Filter | undefined,
    cursor: CursorState | undefined,
    time: number
  ): ReadonlyArray<number> => {
    const start = cursor === undefined || byOffset ? firstSlot(time) : slotAfter(cursor.lastIndex, time)
    let skip = byOffset ? cursor?.returned ?? 0 : 0
    const records: Array<number> = []
    for (const index of matchesFrom(start, filter, time)) {
      if (skip > 0) skip--
      else if (records.push(index) > limit) break
    }
    return records
  }

  /** Returns the matching candidates, in the list's order. */
  const matchesAmong = (
    candidates: ReadonlyArray<number>,
    filter: Filters.Filter,
    time: number
  ): ReadonlyArray<number> =>
    [...new Set(candidates)]
      .filter((index) => matches(index, filter, time))
      .toSorted((a, b) => order.rankOf(a) - order.rankOf(b))

  const after = (records: ReadonlyArray<number>, cursor: CursorState | undefined): ReadonlyArray<number> =>
    cursor === undefined
      ? records
      : byOffset
      ? records.slice(cursor.returned)
      : records.filter((index) => order.rankOf(index) > order.rankOf(cursor.lastIndex))

  return (request) => {
    const time = now()
    const [lastIndex, returned] = request.cursor === undefined ? [] : cursors.decode(request, request.cursor) ?? []
    const cursor = lastIndex === undefined || returned === undefined ? undefined : { lastIndex, returned }
    if (request.cursor !== undefined && cursor === undefined) return { _tag: "CursorRefused" }
    const hasFilters = Object.keys(request.filters).length > 0
    const filter = hasFilters ? Filters.make(request.filters, generatedRecords[list.list].filters, list) : undefined
    if (hasFilters && filter === undefined) return { _tag: "Page", items: [], next: null, count: 0 }

    const candidates = filter?.candidates(time)
    /** All matching records, if the filter has candidates. */
    const matching = filter === undefined || candidates === undefined
      ? undefined
      : matchesAmong(candidates, filter, time)
    const following = matching === undefined ? readSlots(request, filter, cursor, time) : after(matching, cursor)
    const page = following.slice(0, request.limit)
    const lastOfPage = page.at(-1)
    const returnedBefore = cursor?.returned ?? 0
    const hasMore = lastOfPage !== undefined && following.length > page.length

    const remaining = () => {
      if (matching !== undefined || !hasMore) return following.length - page.length
      return lifecycle.isFixed
        ? total(request, filter, time) - returnedBefore - page.length
        : countFrom(slotAfter(lastOfPage, time), filter, time)
    }
    return {
      _tag: "Page",
      items: page.map((index) => generator.textAt(index, lifecycle.historyOf(index, time))),
      next: hasMore ? cursors.encode(request, [lastOfPage, returnedBefore + page.length]) : null,
      count: counting === "page"
        ? page.length
        : counting === "total"
        ? matching?.length ?? total(request, filter, time)
        : remaining()
    }
  }
}
