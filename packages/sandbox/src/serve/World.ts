/**
 * The generated lists of one merchant, of any size, fixed or live. A record is a function of the seed and its index, and in
 * a live world also of virtual time. Nothing is stored, so a list of 10,000,000 records starts at once, and the same seed
 * and time give the same records on every machine.
 */
import { Lists } from "@payments/core"
import type { ListServer } from "@payments/core/testing"
import * as Generator from "../generate/Generator.ts"
import * as Lifecycle from "../generate/Lifecycle.ts"
import * as ListOrder from "../generate/ListOrder.ts"
import { draw, fraction } from "../generate/RecordRandom.ts"
import { createdMs } from "../generate/Timeline.ts"
import * as GeneratedList from "./GeneratedList.ts"

/** The records of the lists, and behaviour that the document does not specify. */
export interface WorldOptions extends GeneratedList.ListOptions {
  /**
   * The number of records in every list, or in each list by its name; default 1,000, at most 2^30. A live world has that
   * many at its start.
   */
  readonly records?: number | { readonly [Name in Lists.ListName]: number } | undefined
  /** The seed of the records, the shuffle and the changes; default 1. */
  readonly seed?: number | undefined
  /** The share of records with text that breaks other programs, 0 to 1; default 0. */
  readonly hostileText?: number | undefined
  /** Whether some amounts are negative, large or no whole thousands; default true. */
  readonly unusualAmounts?: boolean | undefined
  /** The order of the records (§4.4 specifies none); default `oldest`, which is oldest first. */
  readonly order?: ListOrder.OrderName | undefined
  /** The initial share that {@link World.misplace} sets, 0 to 1; default 0. Only with `order: "newest"` and `live`. */
  readonly misplaced?: number | undefined
  /** Makes records appear, change and vanish. */
  readonly live?: LiveOptions | undefined
  /** What is otherwise in single lists. */
  readonly perList?: { readonly [Name in Lists.ListName]?: OptionsOfOne | undefined } | undefined
}

/** What lists of one world can have otherwise. */
export interface OptionsOfOne extends Pick<WorldOptions, "order" | "misplaced" | "cursors" | "count" | "anyLimit"> {}

/**
 * How a live world changes. The rates are per list and hour of virtual time. Changes and disappearances are in proportion
 * to the length of the list; their rates are those at its initial length.
 */
export interface LiveOptions {
  /** Returns virtual time: milliseconds since the start, 0 or more. After {@link World.endMs} nothing changes. */
  readonly now: () => number
  /** Records that appear per hour; default 60. */
  readonly appearPerHour?: number | undefined
  /** Changes of records per hour; default 120. */
  readonly changePerHour?: number | undefined
  /** Records that vanish per hour; default 30. */
  readonly vanishPerHour?: number | undefined
}

/** A world and its lists. */
export interface World {
  /** The end of virtual time, in ms: the first {@link Lifecycle.Lifecycle.endMs} of the lists. */
  readonly endMs: number
  /** The servers of the lists, by name. */
  readonly servers: ListServer.ListServers
  /**
   * Puts a share, 0 to 1, of the records that appear from now on at the end of the lists. Otherwise, the lists are
   * newest first. So the order of the lists breaks its promise. Undefined if the lists have another order, or are not
   * live.
   */
  readonly misplace: ((share: number) => void) | undefined
  /**
   * Returns all records of a list at a virtual time, by default now, in the list's order. It is slow, because it
   * examines every record that ever appeared. Tests compare the answers of the servers with it.
   */
  readonly snapshot: (list: Lists.ListName, timeMs?: number) => ReadonlyArray<string>
}

/** Makes a world. Its servers receive the limit of each request, so they have no default page size. */
export const make = (options: WorldOptions = {}): World => {
  const optionsOf = Lists.map(({ name }): WorldOptions => ({ ...options, ...options.perList?.[name] }))
  const all = Lists.map(({ name }) => makeList(name, optionsOf[name]))
  const endMs = Math.min(...Object.values(all).map(({ lifecycle }) => lifecycle.endMs))
  const clock = options.live?.now ?? (() => 0)
  const now = () => Math.min(clock(), endMs)
  return {
    endMs,
    servers: Lists.map(({ name }) => GeneratedList.serve(all[name], optionsOf[name], now)),
    misplace: options.live === undefined || Object.values(optionsOf).every(({ order }) => order !== "newest")
      ? undefined
      : (share) => {
        for (const { lifecycle, misplace } of Object.values(all)) misplace(lifecycle.lengthAt(now()), share)
      },
    snapshot: (name, time = now()) => {
      const timeMs = Math.min(time, endMs)
      const { generator, lifecycle, order } = all[name]
      return Array.from({ length: lifecycle.lengthAt(timeMs) }, (_, index) => index)
        .filter((index) => lifecycle.isPresent(index, timeMs))
        .toSorted((a, b) => order.rankOf(a) - order.rankOf(b))
        .map((index) => generator.textAt(index, lifecycle.historyOf(index, timeMs)))
    }
  }
}

/** A generated list whose records can be misplaced. */
interface WorldList extends GeneratedList.GeneratedList {
  /** Sets the share of misplaced records from an index on. */
  readonly misplace: (from: number, share: number) => void
}

const makeList = (list: Lists.ListName, options: WorldOptions): WorldList => {
  const seed = options.seed ?? 1
  const initialCount = typeof options.records === "object" ? options.records[list] : options.records ?? 1000
  const key = draw(draw(seed, 6), Lists.ListName.literals.indexOf(list))
  const { live } = options
  // Virtual time starts when the next record would have been created, rounded up to a second.
  const startMs = Math.ceil(createdMs(initialCount, 0) / 1000) * 1000
  const lifecycle = live === undefined ? Lifecycle.fixed(initialCount) : Lifecycle.changing(initialCount, startMs, {
    appear: live.appearPerHour ?? 60,
    change: live.changePerHour ?? 120,
    vanish: live.vanishPerHour ?? 30
  }, draw(key, 1))
  const { hostileText, unusualAmounts } = options
  const generator = Generator.make(list, { seed, hostileText, unusualAmounts, startMs: lifecycle.startMs })
  /** The shares of misplaced records, each from an index on, in the order of the indexes. */
  const shares: Array<{ readonly from: number; readonly share: number }> = []
  const misplace = (from: number, share: number) => {
    if (shares.length > 0 || share > 0) shares.push({ from, share })
  }
  misplace(initialCount, options.misplaced ?? 0)
  const misplacedKey = draw(key, 3)
  const misplacement: ListOrder.Misplacement = {
    initialCount,
    isActive: () => shares.length > 0,
    isMisplaced: (index) =>
      index >= initialCount &&
      fraction(misplacedKey, index) < (shares.findLast(({ from }) => from <= index)?.share ?? 0)
  }
  return {
    list,
    initialCount,
    lifecycle,
    model: generator.model,
    generator,
    order: live !== undefined && options.order === "newest"
      ? ListOrder.newestExcept(misplacement)
      : ListOrder.make(options.order ?? "oldest", draw(key, 2)),
    misplace
  }
}
