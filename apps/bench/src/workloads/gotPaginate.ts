/** `got.paginate`, which checks nothing. */
import got from "got"
import { pageSize } from "../PageServer.ts"
import { countOne, tally, type Workload } from "../Tally.ts"

interface Body {
  readonly items: Array<{ readonly amount?: number | null }>
  readonly cursor: string | null
}

export const paginate: Workload = async (url) => {
  const total = tally()
  const pages = got.paginate<Body["items"][number], Body>(`${url}/v0/payoutRequests`, {
    searchParams: { limit: pageSize },
    headers: { authorization: "Bearer sandbox_key" },
    responseType: "json",
    pagination: {
      transform: ({ body }) => body.items,
      paginate: ({ response: { body: { cursor } } }) =>
        cursor === null ? false : { searchParams: { limit: pageSize, cursor } },
      stackAllItems: false
    }
  })
  for await (const record of pages) countOne(total, record)
  return total
}
