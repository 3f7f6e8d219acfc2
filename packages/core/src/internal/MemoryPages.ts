/** Pages out of memory, in the place of HTTP. */
import { Effect } from "effect"
import { answer, type MemoryLists, recordsOf } from "../MemoryList.ts"
import type { PageSource, RawAnswer } from "./PageSource.ts"

/** A source that answers from these lists. */
export const memoryPages = (lists: MemoryLists): PageSource => {
  const records = {
    payoutRequests: recordsOf(lists.payoutRequests),
    payinSources: recordsOf(lists.payinSources),
    invoices: recordsOf(lists.invoices)
  }
  return (request) =>
    Effect.sync((): RawAnswer => {
      const result = answer(
        records[request.list.name],
        { list: request.list.name, filters: request.filters, limit: String(request.limit), cursor: request.cursor },
        lists
      )
      const headers = { "content-type": "application/json" }
      return result._tag === "Page"
        ? { status: 200, headers, text: result.body }
        : { status: 400, headers, text: JSON.stringify({ code: result.code }) }
    })
}
