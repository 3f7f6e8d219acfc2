/** Serves the pages of a generated list as §4.4 describes, in any order and with either kind of cursor. */
import type { Lists } from "@payments/core"
import { ListCursor, type ListServer, makeBoundedMap } from "@payments/core/testing"
import * as Filters from "../generate/Filters.ts"
import { generatedRecords } from "../generate/GeneratedRecords.ts"
import type { Generator } from "../generate/Generator.ts"
import type { ListOrder } from "../generate/ListOrder.ts"

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
   * skipped and repeated when other records vanish and appear. `snapshot`: the last record, and the time of the first
   * page; all pages of a listing are as of that time.
   */
  readonly cursors?: "keyset" | "offset" | "snapshot" | undefined
  /**
   * What `count` counts (§2.5 does not say): the records on the page (the default), all matching records, the matching
   * records after the page, or those of the page and after it.
   */
  readonly count?: "page" | "total" | "remaining" | "unread" | undefined
  /** Whether cursors end in characters that a client must percent-encode. */
  readonly reservedCursors?: boolean | undefined
  /** Whether a cursor is valid with any limit. */
  readonly anyLimit?: boolean | undefined
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
  const { generator, lifecycle } = list
  const kind = options.cursors ?? "keyset"
  // In a fixed list, both kinds of cursor lead to the same page. It is found from the last record, without skipping
  // records.
  const byOffset = kind === "offset" && !lifecycle.isFixed
  const cursors = ListCursor.make(list.list, {
    kind,
    reserved: options.reservedCursors === true,
    anyLimit: options.anyLimit === true
  })
  const totals = makeBoundedMap<string, number>(maxTotals)

  const countAll = (reading: Reading, filters: ListServer.ListRequest["filters"]): number => {
    if (!lifecycle.isFixed) return countFrom(reading, firstSlot(reading))
    if (reading.filter === undefined) return lifecycle.lengthAt(reading.time)
    const key = JSON.stringify(filters)
    const count = totals.get(key) ?? countFrom(reading, firstSlot(reading))
    totals.set(key, count)
    return count
  }

  return (request) => {
    const [lastIndex, returned, listedAt] = request.cursor === undefined
      ? []
      : cursors.decode(request, request.cursor) ?? []
    // A cursor contains whole numbers. A clock that went back has no later records.
    const time = kind === "snapshot" ? Math.min(listedAt ?? Infinity, Math.floor(now())) : now()
    const cursor = lastIndex === undefined || returned === undefined ? undefined : { lastIndex, returned }
    if (request.cursor !== undefined && cursor === undefined) return { _tag: "CursorRefused" }
    const hasFilters = Object.keys(request.filters).length > 0
    const filter = hasFilters ? Filters.make(request.filters, generatedRecords[list.list].filters, list) : undefined
    if (hasFilters && filter === undefined) return { _tag: "Page", items: [], next: null, count: 0 }

    const reading: Reading = { ...list, filter, time, byOffset }
    const matching = allMatching(reading)
    const following = matching === undefined
      ? readSlots(reading, cursor, request.limit)
      : after(reading, matching, cursor)
    const page = following.slice(0, request.limit)
    const lastOfPage = page.at(-1)
    const returnedBefore = cursor?.returned ?? 0
    const hasMore = lastOfPage !== undefined && following.length > page.length

    const total = () => matching?.length ?? countAll(reading, request.filters)
    const snapshot = kind === "snapshot" ? [time] : []
    const remaining = () => {
      if (matching !== undefined || !hasMore) return following.length - page.length
      return lifecycle.isFixed
        ? total() - returnedBefore - page.length
        : countFrom(reading, slotAfter(reading, lastOfPage))
    }
    const counts = { page: () => page.length, total, remaining, unread: () => page.length + remaining() }
    return {
      _tag: "Page",
      items: page.map((index) => generator.textAt(index, lifecycle.historyOf(index, time))),
      next: hasMore ? cursors.encode(request, [lastOfPage, returnedBefore + page.length, ...snapshot]) : null,
      count: counts[options.count ?? "page"]()
    }
  }
}

/** What one request reads. */
interface Reading extends Pick<GeneratedList, "lifecycle" | "order"> {
  readonly filter: Filters.Filter | undefined
  /** The virtual time of the request. */
  readonly time: number
  /** Whether the cursor says how many records to skip. Otherwise it says after which record to start. */
  readonly byOffset: boolean
}

const matches = ({ filter, lifecycle, time }: Reading, index: number): boolean =>
  lifecycle.isPresent(index, time) &&
  (filter === undefined || filter.matches(index, lifecycle.historyOf(index, time)))

/** Returns the matching records from a slot to the end of the list, in the list's order. */
const matchesFrom = function*(reading: Reading, start: number) {
  const { lifecycle, order, time } = reading
  const length = lifecycle.lengthAt(time)
  const slots = order.slotCount(length)
  const first = order.slotsDependOnLength ? 0 : lifecycle.vanishedBelow(time)
  for (
    let slot = order.step === 1 ? Math.max(start, first) : start;
    slot >= first && slot < slots;
    slot += order.step
  ) {
    const index = order.indexAt(slot, length)
    if (index < length && matches(reading, index)) yield index
  }
}

const firstSlot = ({ lifecycle, order, time }: Reading): number =>
  order.step === 1 ? 0 : order.slotCount(lifecycle.lengthAt(time)) - 1

const slotAfter = ({ lifecycle, order, time }: Reading, index: number): number =>
  order.slotOf(index, lifecycle.lengthAt(time)) + order.step

/** Counts the matching records from a slot on. Takes up to a second for ten million records. */
const countFrom = (reading: Reading, start: number): number => {
  let count = 0
  for (const _ of matchesFrom(reading, start)) count++
  return count
}

/** Reads the list from the cursor on. Returns the records of a page and, to show that more follow, the next record. */
const readSlots = (reading: Reading, cursor: CursorState | undefined, limit: number): ReadonlyArray<number> => {
  const { byOffset } = reading
  const start = cursor === undefined || byOffset ? firstSlot(reading) : slotAfter(reading, cursor.lastIndex)
  let skip = byOffset ? cursor?.returned ?? 0 : 0
  const records: Array<number> = []
  for (const index of matchesFrom(reading, start)) {
    if (skip > 0) skip--
    else if (records.push(index) > limit) break
  }
  return records
}

/** Returns all matching records in the list's order, if the filter has candidates. */
const allMatching = (reading: Reading): ReadonlyArray<number> | undefined => {
  const candidates = reading.filter?.candidates(reading.time)
  return candidates === undefined
    ? undefined
    : [...new Set(candidates)]
      .filter((index) => matches(reading, index))
      .toSorted((a, b) => reading.order.rankOf(a) - reading.order.rankOf(b))
}

const after = (
  { byOffset, order }: Reading,
  records: ReadonlyArray<number>,
  cursor: CursorState | undefined
): ReadonlyArray<number> => {
  if (cursor === undefined) return records
  return byOffset
    ? records.slice(cursor.returned)
    : records.filter((index) => order.rankOf(index) > order.rankOf(cursor.lastIndex))
}
