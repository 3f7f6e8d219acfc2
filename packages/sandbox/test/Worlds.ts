/** Reading a world as a client does, and random choices with a seed that is printed. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { fraction, type ListServer } from "@payments/core/testing"
import type { World, WorldOptions } from "../src/World.ts"

/** `WORLD_SEED=n` replays a run. */
export const testSeed = Number(process.env["WORLD_SEED"] ?? Math.floor(Math.random() * 1_000_000))

/** Draws, one after the other. */
export const random = (seed: number) => {
  let drawn = 0
  const below = (limit: number) => Math.floor(fraction(seed, drawn++) * limit)
  const one = <A>(values: ReadonlyArray<A>): A => values[below(values.length)] as A // never empty here
  return { below, one }
}

export const listNames = Lists.ListName.literals
export const orders = ["newest", "oldest", "shuffled"] as const
export const cursorKinds = ["keyset", "offset"] as const

/** One page, which must be one. */
export const pageOf = (
  world: World,
  list: Lists.ListName,
  request: Partial<ListServer.ListRequest> = {}
): ListServer.ListPage => {
  const answer = world.servers[list]({ filters: {}, limit: 100, cursor: undefined, ...request })
  assert(answer._tag === "Page")
  return answer
}

/** Every record of a listing; `between` is called before each page but the first. */
export const readAll = (
  world: World,
  list: Lists.ListName,
  request: { readonly filters?: Readonly<Record<string, string>>; readonly limit?: number } = {},
  between: () => void = () => undefined
): ReadonlyArray<string> => {
  const items: Array<string> = []
  for (let cursor: string | undefined;;) {
    const page = pageOf(world, list, { ...request, cursor })
    items.push(...page.items)
    if (page.next === null) return items
    cursor = page.next
    between()
  }
}

/** A record as its fields. */
export const fieldsOf = (text: string) => JSON.parse(text) as Readonly<Record<string, unknown>> // generated records are objects

export const idOf = (text: string): string => String(fieldsOf(text)["id"])

/** What a full scan finds. */
export const scan = (texts: ReadonlyArray<string>, filters: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  texts.filter((text) => {
    const fields = fieldsOf(text)
    return Object.entries(filters).every(([field, value]) =>
      fields[field] === value || (field === "paymentDate" && String(fields[field]).startsWith(`${value}T`))
    )
  })

/** Options and a clock, by a seed. Rates are such that much happens. */
export const randomWorld = (seed: number): WorldOptions & { readonly clock: { ms: number } } => {
  const { below, one } = random(seed)
  const clock = { ms: below(4) * 3_600_000 * below(100) }
  const rate = () => one([0, 1, 50, 2000])
  return {
    clock,
    seed: below(1_000_000),
    records: one([0, 1, 7, 100, 1500, 4000]),
    hostileText: one([0, 0.02, 1]),
    order: one(orders),
    cursors: one(cursorKinds),
    count: one(["page", "total", "remaining"] as const),
    reservedCursors: below(2) === 0,
    live: below(2) === 0
      ? undefined
      : { now: () => clock.ms, appearPerHour: one([0, 1, 20]), changePerHour: rate(), vanishPerHour: rate() }
  }
}
