/** Sends requests to a server as fast as it responds. Reads only the cursor of each page. */
import { Pool } from "undici"

const path = "/v0/payoutRequests?limit=100"
const headers = { authorization: "Bearer sandbox_key" }
const connections = 8

const get = async (pool: Pool, cursor: string | undefined): Promise<Buffer> => {
  const { body, statusCode } = await pool.request({
    method: "GET",
    path: cursor === undefined ? path : `${path}&cursor=${encodeURIComponent(cursor)}`,
    headers
  })
  if (statusCode !== 200) throw new Error(`status ${statusCode}`)
  return Buffer.from(await body.arrayBuffer())
}

const cursorOf = (page: Buffer): string | undefined =>
  /"cursor":"([^"]*)"/.exec(page.toString("latin1", page.lastIndexOf(`"cursor"`)))?.[1]

/**
 * Reads the first `pages` pages to learn their cursors. Then sends `requests` requests for these pages on several connections,
 * and returns the milliseconds that these requests took.
 */
export const load = async (url: string, pages: number, requests: number): Promise<number> => {
  const pool = new Pool(url, { connections })
  const cursors: Array<string | undefined> = [undefined]
  while (cursors.length < pages) {
    // oxlint-disable-next-line no-await-in-loop -- each cursor is on the previous page
    const cursor = cursorOf(await get(pool, cursors.at(-1)))
    if (cursor === undefined) break
    cursors.push(cursor)
  }
  let sent = 0
  const sendRequests = async () => {
    for (; sent < requests;) {
      // oxlint-disable-next-line no-await-in-loop -- several of these loops run concurrently
      await get(pool, cursors[sent++ % cursors.length])
    }
  }
  const start = performance.now()
  await Promise.all(Array.from({ length: connections }, sendRequests))
  const ms = performance.now() - start
  await pool.close()
  return ms
}

/** Reads the list from its first page to its end. Returns the number of records. */
export const readAll = async (url: string): Promise<number> => {
  const pool = new Pool(url, { connections: 1 })
  let records = 0
  for (let cursor: string | undefined;;) {
    // oxlint-disable-next-line no-await-in-loop -- each cursor is on the previous page
    const page = await get(pool, cursor)
    records += Number(/"count":(\d+)\}$/.exec(page.toString("latin1", page.length - 40))?.[1])
    cursor = cursorOf(page)
    if (cursor === undefined) break
  }
  await pool.close()
  return records
}
