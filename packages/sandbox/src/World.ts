/**
 * The three lists of a made-up merchant, of any size, still or moving. Records are a function of the seed and their
 * number, and in a moving world of the virtual time: nothing is stored, a list of 10,000,000 records starts at once, and
 * the same seed and time give the same content on every machine.
 */
import { Lists } from "@payments/core"
import type { ListServer } from "@payments/core/testing"
import { draw } from "./Draw.ts"
import * as GeneratedList from "./GeneratedList.ts"
import * as Generator from "./Generator.ts"
import * as Life from "./Life.ts"
import * as Order from "./Order.ts"
import { createdMs } from "./Timeline.ts"

/** What the lists hold, and how they behave where the document leaves it open. */
export interface WorldOptions extends GeneratedList.ListOptions {
  /** Records in each list, or in each list by its name; 1,000 unless given, 2^30 at most. In a moving world, at its start. */
  readonly records?: number | { readonly [Name in Lists.ListName]: number } | undefined
  /** Another seed gives other records, another shuffle and another course of events; 1 unless given. */
  readonly seed?: number | undefined
  /** The share of records with text that breaks other people's tools, 0 to 1; 0 unless given. */
  readonly hostileText?: number | undefined
  /** The order of items (§4.4 shows none); `oldest` first unless given. */
  readonly order?: Order.OrderName | undefined
  /** Makes the world move. */
  readonly live?: LiveOptions | undefined
}

/**
 * How the world moves. The rates are per hour of virtual time and list, for a list as long as it was at the start: changes
 * and disappearances grow and shrink with it.
 */
export interface LiveOptions {
  /**
   * Virtual time: milliseconds since the world began, 0 or more. Nothing here waits for it. Beyond {@link World.longestMs}
   * the world stands still.
   */
  readonly now: () => number
  /** 60 unless given. */
  readonly appearPerHour?: number | undefined
  /** 120 unless given. */
  readonly changePerHour?: number | undefined
  /** 30 unless given. */
  readonly vanishPerHour?: number | undefined
}

/** A world and its lists. */
export interface World {
  /** The last moment of virtual time, in ms: by then 2^24 records have appeared in a list, or a century has passed. */
  readonly longestMs: number
  readonly servers: ListServer.ListServers
  /**
   * All records of a list at a virtual time, now unless given, in the list's order. It looks at every record there has
   * ever been, by no index: what tests compare with.
   */
  readonly snapshot: (list: Lists.ListName, timeMs?: number) => ReadonlyArray<string>
}

/** Makes a world. Limits arrive resolved at its servers, so the page size where none is asked for (§8) is not its own. */
export const make = (options: WorldOptions = {}): World => {
  const all = Lists.map(({ name }) => listOf(name, options))
  const longestMs = Math.min(...Object.values(all).map(({ life }) => life.longestMs))
  const clock = options.live?.now ?? (() => 0)
  const now = () => Math.min(clock(), longestMs)
  return {
    longestMs,
    servers: Lists.map(({ name }) => GeneratedList.serve(all[name], options, now)),
    snapshot: (name, time = now()) => {
      const timeMs = Math.min(time, longestMs)
      const { generator, life, order } = all[name]
      return Array.from({ length: life.length(timeMs) }, (_, index) => index)
        .filter((index) => life.isPresent(index, timeMs))
        .toSorted((a, b) => order.rank(a) - order.rank(b))
        .map((index) => generator.textAt(index, life.story(index, timeMs)))
    }
  }
}

const listOf = (list: Lists.ListName, options: WorldOptions): GeneratedList.GeneratedList => {
  const seed = options.seed ?? 1
  const past = typeof options.records === "object" ? options.records[list] : options.records ?? 1000
  const key = draw(draw(seed, 6), Lists.ListName.literals.indexOf(list))
  const { live } = options
  // The past ends before the next record of it would have come.
  const beganMs = Math.ceil(createdMs(past, 0) / 1000) * 1000
  const life = live === undefined ? Life.still(past) : Life.moving(past, beganMs, {
    appear: live.appearPerHour ?? 60,
    change: live.changePerHour ?? 120,
    vanish: live.vanishPerHour ?? 30
  }, draw(key, 1))
  const generator = Generator.make(list, { seed, hostileText: options.hostileText, beganMs: life.beganMs })
  return {
    list,
    past,
    life,
    facts: generator.facts,
    generator,
    order: Order.make(options.order ?? "oldest", draw(key, 2))
  }
}
