/**
 * The status page over HTTP: `/` is the page, `/events` its changes as server-sent events. The page loads nothing from
 * elsewhere, and its policy forbids that, as well as scripts and styles inside the page.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Assets } from "./Assets.ts"
import { Feed } from "./Feed.ts"

const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
}
const fresh = { ...headers, "cache-control": "no-store" }
const kept = { ...headers, "cache-control": "public, max-age=31536000, immutable" }

/**
 * A browser that takes nothing is disconnected after this time, or after twice this time if Node saw progress.
 * Heartbeats are more frequent.
 */
const longestWriteMs = 30_000

/** Text of any length is harmless: it is only compared. */
const selected = Effect.map(HttpServerRequest.ParsedSearchParams, ({ since, source }) => ({
  since: typeof since === "string" ? since : "",
  source: typeof source === "string" ? source : undefined
}))

export const routes = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const feed = yield* Feed
    const { files } = yield* Assets
    yield* router.add(
      "GET",
      "/",
      Effect.gen(function*() {
        const page = yield* feed.page((yield* selected).source)
        return page === undefined ?
          HttpServerResponse.redirect("/", { headers: fresh }) :
          HttpServerResponse.text(page, {
            contentType: "text/html; charset=utf-8",
            headers: fresh
          })
      })
    )
    yield* router.add("GET", "/events", (request) =>
      Effect.gen(function*() {
        const { since, source } = yield* selected
        const events = yield* feed.events(source, request.headers["last-event-id"] ?? since)
        if (events === undefined) {
          return HttpServerResponse.empty({ status: 503, headers: { ...fresh, "retry-after": "10" } })
        }
        const { socket } = NodeHttpServerRequest.toIncomingMessage(request)
        socket.setTimeout(longestWriteMs, () => socket.destroy())
        return HttpServerResponse.stream(events, {
          contentType: "text/event-stream; charset=utf-8",
          headers: { ...fresh, "x-accel-buffering": "no" }
        })
      }))
    for (const { body, contentType, path } of files) {
      yield* router.add("GET", path, HttpServerResponse.uint8Array(body, { contentType, headers: kept }))
    }
  })
).pipe(Layer.provide(Feed.layer), Layer.provide(Assets.layer))
