/** Reads a world as a client does, and makes random worlds from a seed that failing tests print. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { fraction, type ListServer } from "@payments/core/testing"
import type { World, WorldOptions } from "../../src/serve/World.ts"

/** The seed of the run. `WORLD_SEED=n` replays a run. */
export const testSeed = Number(process.env["WORLD_SEED"] ?? Math.floor(Math.random() * 1_000_000))

/** Returns a generator of random integers and choices. */
export const random = (seed: number) => {
  let count = 0
  const integerBelow = (limit: number) => Math.floor(fraction(seed, count++) * limit)
  const pickOne = <A>(values: ReadonlyArray<A>): A => values[integerBelow(values.length)] as A // no caller passes an empty array
  return { integerBelow, pickOne }
}

export const listNames = Lists.ListName.literals
export const orders = ["newest", "oldest", "shuffled"] as const
export const cursorKinds = ["keyset", "offset", "snapshot"] as const

/** Requests a page, and asserts that the answer is one. */
export const pageOf = (
  world: World,
  list: Lists.ListName,
  request: Partial<ListServer.ListRequest> = {}
): ListServer.ListPage => {
  const answer = world.servers[list]({ filters: {}, limit: 100, cursor: undefined, ...request })
  assert(answer._tag === "Page")
  return answer
}

/** Returns all records of a listing. Calls `beforeNext` before each page except the first. */
export const readAll = (
  world: World,
  list: Lists.ListName,
  request: { readonly filters?: Readonly<Record<string, string>>; readonly limit?: number } = {},
  beforeNext: () => void = () => undefined
): ReadonlyArray<string> => {
  const items: Array<string> = []
  for (let cursor: string | undefined;;) {
    const page = pageOf(world, list, { ...request, cursor })
    items.push(...page.items)
    if (page.next === null) return items
    cursor = page.next
    beforeNext()
  }
}

/** Parses a record. */
export const fieldsOf = (text: string) => JSON.parse(text) as Readonly<Record<string, unknown>> // generated records are objects

export const idOf = (text: string): string => String(fieldsOf(text)["id"])

/**
 * Returns a function from filters to the records that match them, by comparing the fields of each. A day as `paymentDate` matches
 * its times. Each record is parsed once.
 */
export const filterOf = (texts: ReadonlyArray<string>) => {
  const records = texts.map((text) => ({ text, fields: fieldsOf(text) }))
  return (filters: Readonly<Record<string, string>>): ReadonlyArray<string> =>
    records.filter(({ fields }) =>
      Object.entries(filters).every(([field, value]) =>
        fields[field] === value || (field === "paymentDate" && String(fields[field]).startsWith(`${value}T`))
      )
    ).map(({ text }) => text)
}

/** Returns random options and a clock, determined by the seed. */
export const randomWorld = (seed: number): WorldOptions & { readonly clock: { ms: number } } => {
  const { integerBelow, pickOne } = random(seed)
  const clock = { ms: integerBelow(4) * 3_600_000 * integerBelow(100) }
  const rate = () => pickOne([0, 1, 50, 2000])
  return {
    clock,
    seed: integerBelow(1_000_000),
    records: pickOne([0, 1, 7, 100, 1500, 4000]),
    hostileText: pickOne([0, 0.02, 1]),
    order: pickOne(orders),
    misplaced: pickOne([0, 0.3, 1]),
    cursors: pickOne(cursorKinds),
    count: pickOne(["page", "total", "remaining"] as const),
    reservedCursors: integerBelow(2) === 0,
    live: integerBelow(2) === 0
      ? undefined
      : { now: () => clock.ms, appearPerHour: pickOne([0, 1, 20]), changePerHour: rate(), vanishPerHour: rate() }
  }
}
