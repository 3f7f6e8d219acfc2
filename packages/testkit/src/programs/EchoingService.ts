/** A service that repeats secrets in its responses wherever it can. */
import { Effect } from "effect"
import { page } from "../PageBody.ts"
import { scriptedServer } from "../ScriptedServer.ts"

/** Secrets that no program may print. The only exception is names of fields on a terminal. */
export const canary = {
  key: "sk_canarykey5ecret",
  cursor: "c0ffee00c0ffee11c0ffee22c0ffee33",
  document: "4433221100",
  name: "CANARYNAME"
}

/** An undocumented field whose name is not a secret. */
export const harmlessField = "routingHint"

/**
 * Returns the environment of the client. The payout requests have undocumented fields whose names are secrets. The
 * payin sources end with an error response. The invoices end with an HTML page.
 */
export const echoingEnv = Effect.map(
  scriptedServer((request, response) => {
    const { cursor, document, key, name } = canary
    if (request.url?.startsWith("/v0/payoutRequests")) {
      const fields = { id: "a", [harmlessField]: 1, [key]: 2, [`n${document}`]: 3, [name]: 4, [document]: 5 }
      response.writeHead(200, { "x-request-id": key }).end(page([fields, { id: "b", amount: document }]))
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
