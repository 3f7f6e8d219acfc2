/** The least that a client does: requests and `JSON.parse`. It checks no records. */
import type { PayoutRequest } from "@payments/core"
import { Pool } from "undici"
import { pageSize } from "../harness/PageServer.ts"
import { addRecords, emptyResult, type Workload, type WorkloadResult } from "../harness/WorkloadResult.ts"

interface Body {
  readonly items: ReadonlyArray<PayoutRequest>
  readonly cursor: string | null
}

const pools = new Map<string, Pool>()

/** Returns a function that reads a page of the list at the base address. */
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
    return JSON.parse(await body.text()) as Body // this workload checks no records
  }
}

/** Requests the next page after the current one is processed. */
export const sequential: Workload = async (url) => {
  const read = reader(url)
  const total = emptyResult()
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await read(cursor)
    addRecords(total, page.items)
    cursor = page.cursor
  }
  return total
}

/** Requests the next page as soon as its cursor is known. */
export const prefetching: Workload = async (url) => {
  const read = reader(url)
  const total: WorkloadResult = emptyResult()
  let next: Promise<Body> | undefined = read(undefined)
  while (next !== undefined) {
    const page: Body = await next
    next = page.cursor === null ? undefined : read(page.cursor)
    addRecords(total, page.items)
  }
  return total
}
