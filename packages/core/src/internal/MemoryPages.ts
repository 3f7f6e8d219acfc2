/** Pages out of memory, in the place of HTTP. */
import { Effect } from "effect"
import { renderPage } from "../ListServer.ts"
import { type MemoryLists, recordsOf, serve } from "../MemoryList.ts"
import type { PageSource, RawAnswer } from "./PageSource.ts"

/** A source that answers from these lists. */
export const memoryPages = (lists: MemoryLists): PageSource => {
  const servers = {
    payoutRequests: serve("payoutRequests", recordsOf(lists.payoutRequests), lists),
    payinSources: serve("payinSources", recordsOf(lists.payinSources), lists),
    invoices: serve("invoices", recordsOf(lists.invoices), lists)
  }
  const headers = { "content-type": "application/json" }
  return (request) =>
    Effect.sync((): RawAnswer => {
      const answer = servers[request.list.name](request)
      return answer._tag === "Page"
        ? { status: 200, headers, text: renderPage(answer) }
        : { status: 400, headers, text: JSON.stringify({ code: "INVALID_CURSOR" }) }
    })
}
