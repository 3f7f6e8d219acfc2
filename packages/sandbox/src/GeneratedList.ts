/** Serves a generated list by the rules of §4.4, page by page, in any order and with either kind of cursor. */
import type { Lists } from "@payments/core"
import { ListCursor, type ListServer, makeBoundedMap } from "@payments/core/testing"
import * as Filters from "./Filters.ts"
import { generatedRecords } from "./GeneratedRecords.ts"
import type { Generator } from "./Generator.ts"
import type { Order } from "./Order.ts"

/** A list and its order. */
export interface GeneratedList extends Filters.Filtered {
  readonly list: Lists.ListName
  readonly order: Order
  readonly generator: Generator
}

/** How a list answers where the document leaves it open. */
export interface ListOptions {
  /**
   * What a cursor means: the last record returned, so that nothing that stays is skipped or repeated (`keyset`, the
   * default), or the number of records returned so far (`offset`), so that both happen when others appear or vanish.
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

/** The position of a cursor: the last record returned, and how many were returned before the page. */
interface Position {
  readonly last: number
  readonly returned: number
}

/** Filters whose totals are kept. */
const keptTotals = 8

/** Serves the list as it is at the virtual time `now()`. */
export const serve = (list: GeneratedList, options: ListOptions, now: () => number): ListServer.ListServer => {
  const { generator, life, order } = list
  const kind = options.cursors ?? "keyset"
  // If nothing moves, both kinds of cursor lead to the same record, and the last one is found without counting.
  const byOffset = kind === "offset" && !life.still
  const counting = options.count ?? "page"
  const cursors = ListCursor.make(list.list, { kind, reserved: options.reservedCursors === true })
  const totals = makeBoundedMap<string, number>(keptTotals)

  const matches = (index: number, filter: Filters.Filter | undefined, time: number): boolean =>
    life.isPresent(index, time) && (filter === undefined || filter.matches(index, life.story(index, time)))

  /** The matching records from a cell to the end of the list, in order. */
  const matchesFrom = function*(start: number, filter: Filters.Filter | undefined, time: number) {
    const length = life.length(time)
    const cells = order.cells(length)
    const first = order.cellsMove ? 0 : life.goneBefore(time)
    for (
      let cell = order.step === 1 ? Math.max(start, first) : start;
      cell >= first && cell < cells;
      cell += order.step
    ) {
      const index = order.indexAt(cell, length)
      if (index < length && matches(index, filter, time)) yield index
    }
  }

  const firstCell = (time: number) => order.step === 1 ? 0 : order.cells(life.length(time)) - 1
  const cellAfter = (index: number, time: number) => order.cellOf(index, life.length(time)) + order.step

  /** How many records match from a cell on. Takes up to a second for ten million records. */
  const countFrom = (start: number, filter: Filters.Filter | undefined, time: number): number => {
    let count = 0
    for (const _ of matchesFrom(start, filter, time)) count++
    return count
  }

  const total = (request: ListServer.ListRequest, filter: Filters.Filter | undefined, time: number): number => {
    if (!life.still) return countFrom(firstCell(time), filter, time)
    if (filter === undefined) return life.length(time)
    const name = JSON.stringify(request.filters)
    const count = totals.get(name) ?? countFrom(firstCell(time), filter, time)
    totals.set(name, count)
    return count
  }

  /** The records of a page and the next one, read along the list. */
  const alongCells = (
    { limit }: ListServer.ListRequest,
    filter: Filters.Filter | undefined,
    position: Position | undefined,
    time: number
  ): ReadonlyArray<number> => {
    const start = position === undefined || byOffset ? firstCell(time) : cellAfter(position.last, time)
    let skip = byOffset ? position?.returned ?? 0 : 0
    const found: Array<number> = []
    for (const index of matchesFrom(start, filter, time)) {
      if (skip > 0) skip--
      else if (found.push(index) > limit) break
    }
    return found
  }

  /** The matching ones of a few candidates, in the list's order. */
  const amongFew = (candidates: ReadonlyArray<number>, filter: Filters.Filter, time: number): ReadonlyArray<number> =>
    [...new Set(candidates)]
      .filter((index) => matches(index, filter, time))
      .toSorted((a, b) => order.rank(a) - order.rank(b))

  const after = (found: ReadonlyArray<number>, position: Position | undefined): ReadonlyArray<number> =>
    position === undefined
      ? found
      : byOffset
      ? found.slice(position.returned)
      : found.filter((index) => order.rank(index) > order.rank(position.last))

  return (request) => {
    const time = now()
    const [last, returned] = request.cursor === undefined ? [] : cursors.decode(request, request.cursor) ?? []
    const position = last === undefined || returned === undefined ? undefined : { last, returned }
    if (request.cursor !== undefined && position === undefined) return { _tag: "CursorRefused" }
    const filtered = Object.keys(request.filters).length > 0
    const filter = filtered ? Filters.make(request.filters, generatedRecords[list.list].filters, list) : undefined
    if (filtered && filter === undefined) return { _tag: "Page", items: [], next: null, count: 0 }

    const candidates = filter?.candidates(time)
    const few = filter === undefined || candidates === undefined ? undefined : amongFew(candidates, filter, time)
    const left = few === undefined ? alongCells(request, filter, position, time) : after(few, position)
    const page = left.slice(0, request.limit)
    const end = page.at(-1)
    const before = position?.returned ?? 0
    const more = end !== undefined && left.length > page.length

    const remaining = () => {
      if (few !== undefined || !more) return left.length - page.length
      return life.still
        ? total(request, filter, time) - before - page.length
        : countFrom(cellAfter(end, time), filter, time)
    }
    return {
      _tag: "Page",
      items: page.map((index) => generator.textAt(index, life.story(index, time))),
      next: more ? cursors.encode(request, [end, before + page.length]) : null,
      count: counting === "page"
        ? page.length
        : counting === "total"
        ? few?.length ?? total(request, filter, time)
        : remaining()
    }
  }
}
