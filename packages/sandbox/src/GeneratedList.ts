/** Serves a generated list by the rules of §4.4, page by page, in any order and with either kind of cursor. */
import { ListCursor, type ListServer } from "@payments/core/testing"
import * as BlockCounts from "./BlockCounts.ts"
import * as Filters from "./Filters.ts"
import type { Generator } from "./Generator.ts"
import type { Order } from "./Order.ts"
import { fixed, type RecordWriter } from "./RecordWriter.ts"

/** A list and the order that it is in. */
export interface GeneratedList extends Filters.Filtered {
  readonly order: Order
  readonly generator: Generator
}

/** A list that answers: with a page, or with the bytes of one, which takes half the time. */
export interface Served {
  readonly server: ListServer.ListServer
  readonly bytes: PageBytes
}

/**
 * The envelope of §2.5 in UTF-8, as `renderPage` gives it; undefined where the cursor is refused. The bytes are the
 * writer's: they hold until it is used again.
 */
export type PageBytes = (request: ListServer.ListRequest, writer: RecordWriter) => Uint8Array | undefined

/** A page before its records are written. */
interface Chosen {
  readonly time: number
  readonly indexes: ReadonlyArray<number>
  readonly next: string | null
  readonly count: number
}

/** How a list answers where the document leaves it open. */
export interface ListOptions {
  /**
   * What a cursor holds: the last record returned, so that nothing that stays is skipped or repeated (`keyset`, the
   * default), or how many records came before (`offset`), so that both happen when others appear or vanish.
   */
  readonly cursors?: "keyset" | "offset" | undefined
  /**
   * What `count` means (§2.5 leaves it open): the records on the page (the default), all that match, or those that match
   * and come after the page.
   */
  readonly count?: "page" | "total" | "remaining" | undefined
  /** Cursors end in characters that break when they are not percent-encoded. */
  readonly reservedCursors?: boolean | undefined
}

/** How many filters the counts are kept of. */
const countedFilters = 8

/** Serves the list as it is at the virtual time that `now` tells. */
export const serve = (list: GeneratedList, options: ListOptions, now: () => number): Served => {
  const { generator, life, order } = list
  const kind = options.cursors ?? "keyset"
  const counting = options.count ?? "page"
  const cursors = ListCursor.make(list.list, { kind, reserved: options.reservedCursors === true })
  const counts = new Map<string, BlockCounts.BlockCounts>()

  const countsOf = (request: ListServer.ListRequest, filter: Filters.Filter | undefined): BlockCounts.BlockCounts => {
    const name = JSON.stringify(request.filters)
    const held = counts.get(name) ?? BlockCounts.make({
      life,
      order,
      everything: filter === undefined && life.still,
      matches: (index, time) => filter === undefined || filter.matches(index, life.story(index, time)),
      changes: filter?.changes ?? false
    })
    counts.delete(name)
    counts.set(name, held)
    const [oldest] = counts.keys()
    if (counts.size > countedFilters && oldest !== undefined) counts.delete(oldest)
    return held
  }

  /** Of a few candidates: those that match, in order, from the place on. */
  const amongFew = (
    candidates: ReadonlyArray<number>,
    filter: Filters.Filter,
    place: number | undefined,
    time: number
  ) => {
    const found = [...new Set(candidates)]
      .filter((index) => life.isPresent(index, time) && filter.matches(index, life.story(index, time)))
      .toSorted((a, b) => order.rank(a) - order.rank(b))
    const start = place === undefined
      ? 0
      : kind === "offset"
      ? place
      : found.findIndex((index) => order.rank(index) > order.rank(place))
    const left = start === -1 ? [] : found.slice(start)
    return { left, total: found.length }
  }

  /** Reads the list from the place on until there is one record more than asked for. */
  const alongCells = (
    request: ListServer.ListRequest,
    filter: Filters.Filter | undefined,
    place: number | undefined,
    time: number
  ): Array<number> => {
    const length = life.length(time)
    const cells = order.cells(length)
    const first = order.cellsMove ? 0 : life.goneBefore(time)
    let cell = place === undefined || kind === "offset"
      ? place === undefined ? (order.step === 1 ? 0 : cells - 1) : countsOf(request, filter).cellOf(place, time)
      : order.cellOf(place, length) + order.step
    if (order.step === 1) cell = Math.max(cell, first)
    const found: Array<number> = []
    for (; cell >= first && cell < cells && found.length <= request.limit; cell += order.step) {
      const index = order.indexAt(cell, length)
      if (index >= length || !life.isPresent(index, time)) continue
      if (filter === undefined || filter.matches(index, life.story(index, time))) found.push(index)
    }
    return found
  }

  const choose = (request: ListServer.ListRequest): Chosen | undefined => {
    const time = now()
    const placed = request.cursor === undefined ? [] : cursors.read(request, request.cursor)
    if (placed === undefined) return undefined
    const [place] = placed
    const filtered = Object.keys(request.filters).length > 0
    const filter = filtered ? Filters.make(request.filters, list) : undefined
    if (filtered && filter === undefined) return { time, indexes: [], next: null, count: 0 }
    const few = filter?.candidates(time)
    const some = filter !== undefined && few !== undefined ? amongFew(few, filter, place, time) : undefined
    const left = some?.left ?? alongCells(request, filter, place, time)
    const taken = left.slice(0, request.limit)
    const last = taken.at(-1)
    const offset = kind === "offset" ? (place ?? 0) + taken.length : undefined

    const total = () => some?.total ?? countsOf(request, filter).total(time)
    const remaining = () => {
      if (some !== undefined) return some.left.length - taken.length
      if (left.length === taken.length || last === undefined) return 0
      const after = order.cellOf(last, life.length(time)) + order.step
      return total() - (offset ?? countsOf(request, filter).before(after, time))
    }
    return {
      time,
      indexes: taken,
      next: last !== undefined && left.length > taken.length ? cursors.write(request, [offset ?? last]) : null,
      count: counting === "page" ? taken.length : counting === "total" ? total() : remaining()
    }
  }

  return {
    server: (request) => {
      const chosen = choose(request)
      if (chosen === undefined) return { _tag: "CursorRefused" }
      const { count, indexes, next, time } = chosen
      return {
        _tag: "Page",
        items: indexes.map((index) => generator.textAt(index, life.story(index, time))),
        next,
        count
      }
    },
    bytes: (request, writer) => {
      const chosen = choose(request)
      if (chosen === undefined) return undefined
      const { count, indexes, next, time } = chosen
      let between = opening
      for (const index of indexes) {
        writer.put(between)
        generator.writeAt(writer, index, life.story(index, time))
        between = comma
      }
      if (indexes.length === 0) writer.put(opening)
      writer.put(fixed(`],"cursor":${JSON.stringify(next)},"count":${count}}`))
      return writer.takeBytes()
    }
  }
}

const opening = fixed(`{"items":[`)
const comma = fixed(",")
