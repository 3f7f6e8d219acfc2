/** A service behind whose address one merchant is exchanged for another, with the same key. */
import { Effect } from "effect"
import { pageOf, scriptedServer } from "./ScriptedServer.ts"

/** The records of each list, in pages of the requested size. */
export const recordsPerList = 250

/**
 * Serves the lists of merchant `a`, and from `exchange` on, or after a number of requests, those of `b`. The ids of
 * records begin with the name of their merchant.
 */
export const exchangedService = Effect.gen(function*() {
  let merchant = "a"
  let last = Number.POSITIVE_INFINITY
  let records = recordsPerList
  const { requests, url } = yield* scriptedServer((request, response, count) => {
    if (count > last) merchant = "b"
    const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost")
    const isInvoices = pathname.startsWith("/v1/")
    const limit = Number(searchParams.get("limit") ?? 100)
    const from = Number(searchParams.get("cursor") ?? 0)
    const page = Array.from({ length: Math.min(limit, records - from) }, (_, index) => {
      // The newest record comes first.
      const id = `${merchant}_${records - from - index}`
      const more = isInvoices ? `,"paymentUrl":"https://pay.example.com/pay/${merchant}/${id}"` : ""
      return `{"id":"${id}"${more}}`
    })
    pageOf(response, page, from + limit < records ? String(from + limit) : null)
  })
  return {
    url,
    requests,
    /** Exchanges the merchant after this number of further requests. */
    exchangeAfter: (count: number) => {
      last = requests.length + count
    },
    /** Serves the first merchant again. */
    restore: () => {
      merchant = "a"
      last = Number.POSITIVE_INFINITY
    },
    /** Adds new records at the start of each list. */
    add: (count: number) => {
      records += count
    }
  }
})
