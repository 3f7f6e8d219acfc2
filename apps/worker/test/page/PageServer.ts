/** Serves the page over a state that a test sets. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer, Stream } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { createServer } from "node:http"
import { routes } from "../../src/page/Page.ts"
import type { Snapshot } from "../../src/Snapshot.ts"
import { Status } from "../../src/Status.ts"

/** A server of the page on a free port. Closing the scope stops it. */
export const pageServer = Effect.fnUntraced(function*(initial: Snapshot) {
  let snapshot = initial
  let taken = 0
  const current = Effect.sync(() => {
    taken++
    return snapshot
  })
  const status = Layer.succeed(Status, {
    current,
    changes: Stream.fromEffect(current),
    set: () => Effect.void,
    update: () => Effect.void,
    remove: () => Effect.void
  })
  const server = NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0, gracefulShutdownTimeout: "1 second" })
  const context = yield* Layer.build(
    HttpRouter.serve(routes, { disableLogger: true, disableListenLog: true }).pipe(
      Layer.provide(status),
      Layer.provideMerge(server)
    )
  )
  const { address } = yield* HttpServer.HttpServer.pipe(Effect.provide(context))
  return {
    url: `http://127.0.0.1:${"port" in address ? address.port : 0}`,
    set: (next: Snapshot) => {
      snapshot = next
    },
    /** How often the page has read the state. */
    taken: () => taken
  }
})
