/** A service that repeats, wherever it can, what it was sent and what it holds. */
import { Effect } from "effect"
import { scriptedServer } from "../../../packages/core/test/ScriptedServer.ts"

/** What no program may show, but for the names of fields on a terminal. */
export const canary = {
  key: "sk_canarykey5ecret",
  cursor: "c0ffee00c0ffee11c0ffee22c0ffee33",
  document: "4433221100",
  name: "CANARYNAME"
}

/** A name of a field that may be shown anywhere. */
export const shownField = "routingHint"

/**
 * The payout requests have undocumented fields that are named by values. The payin sources end with an error, the invoices
 * with a page that is none.
 */
export const echoingEnv = Effect.map(
  scriptedServer((request, response) => {
    const { cursor, document, key, name } = canary
    const page = (items: ReadonlyArray<object>, next: string | null) => JSON.stringify({ items, cursor: next })
    if (request.url?.startsWith("/v0/payoutRequests")) {
      const fields = { id: "a", [shownField]: 1, [key]: 2, [`n${document}`]: 3, [name]: 4, [document]: 5 }
      response.writeHead(200, { "x-request-id": key }).end(page([fields, { id: "b", amount: document }], null))
    } else if (!request.url?.includes("cursor=")) {
      response.writeHead(200).end(page([{ id: "a" }], cursor))
    } else if (request.url.startsWith("/v0/")) {
      response.writeHead(403, { "x-request-id": cursor, "content-type": `${name}/${document}` })
        .end(JSON.stringify({ code: name, error: { code: document } }))
    } else {
      response.writeHead(200, { "request-id": `req-${key}`, "content-type": `${document}/${name}` }).end("<html>")
    }
  }),
  ({ url }) => ({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: canary.key })
)
