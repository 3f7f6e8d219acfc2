/** What no client can do without: the requests and `JSON.parse`. Nothing is checked. */
import type { PayoutRequest } from "@payments/core"
import { Pool } from "undici"
import { pageSize } from "../PageServer.ts"
import { count, type Tally, tally, type Workload } from "../Tally.ts"

interface Body {
  readonly items: ReadonlyArray<PayoutRequest>
  readonly cursor: string | null
}

const pools = new Map<string, Pool>()

/** Reads a page of the list below the address. */
export const reader = (url: string) => {
  const { origin, pathname } = new URL(url)
  const pool = pools.get(origin) ?? new Pool(origin)
  pools.set(origin, pool)
  const path = `${pathname === "/" ? "" : pathname}/v0/payoutRequests?limit=${pageSize}`
  return async (cursor: string | undefined): Promise<Body> => {
    const { body } = await pool.request({
      method: "GET",
      path: cursor === undefined ? path : `${path}&cursor=${encodeURIComponent(cursor)}`,
      headers: { authorization: "Bearer sandbox_key", accept: "application/json" }
    })
    return JSON.parse(await body.text()) as Body // the floor checks nothing
  }
}

/** The next page is asked for when this one has been used. */
export const sequential: Workload = async (url) => {
  const read = reader(url)
  const total = tally()
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await read(cursor)
    count(total, page.items)
    cursor = page.cursor
  }
  return total
}

/** The next page is asked for as soon as its cursor is known. */
export const prefetching: Workload = async (url) => {
  const read = reader(url)
  const total: Tally = tally()
  let next: Promise<Body> | undefined = read(undefined)
  while (next !== undefined) {
    const page: Body = await next
    next = page.cursor === null ? undefined : read(page.cursor)
    count(total, page.items)
  }
  return total
}
