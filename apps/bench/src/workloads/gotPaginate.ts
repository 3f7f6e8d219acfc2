/** `got.paginate`. It checks no records. */
import got from "got"
import { pageSize } from "../harness/PageServer.ts"
import { addRecord, emptyResult, type Workload } from "../harness/WorkloadResult.ts"

interface Body {
  readonly items: Array<{ readonly amount?: number | null }>
  readonly cursor: string | null
}

export const paginate: Workload = async (url) => {
  const total = emptyResult()
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
  for await (const record of pages) addRecord(total, record)
  return total
}
