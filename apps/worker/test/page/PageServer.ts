/** Servers of the page for tests. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { createServer } from "node:http"
import { routes } from "../../src/page/StatusPage.ts"
import { Status } from "../../src/state/Status.ts"
import type { Snapshot } from "../../src/state/StatusSnapshot.ts"

/** Serves the page on a free port, and returns its address. Closing the scope stops the server. */
export const servePage = Effect.gen(function*() {
  const status = yield* Status
  const server = NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0, gracefulShutdownTimeout: "1 second" })
  const context = yield* Layer.build(
    HttpRouter.serve(routes, { disableLogger: true, disableListenLog: true }).pipe(
      Layer.provide(Layer.succeed(Status, status)),
      Layer.provideMerge(server)
    )
  )
  const { address } = yield* HttpServer.HttpServer.pipe(Effect.provide(context))
  return `http://127.0.0.1:${"port" in address ? address.port : 0}`
})

/** Serves the page over a state that the test sets. */
export const pageServer = Effect.fnUntraced(function*(initial: Snapshot) {
  let snapshot = initial
  let taken = 0
  const current = Effect.sync(() => {
    taken++
    return snapshot
  })
  const url = yield* Effect.provideService(servePage, Status, {
    current,
    set: () => Effect.void,
    update: () => Effect.void,
    fleet: Effect.never,
    setReader: () => Effect.void,
    noteRateUnsafe: () => {},
    setCluster: () => Effect.void,
    remove: () => Effect.void
  })
  return {
    url,
    set: (next: Snapshot) => {
      snapshot = next
    },
    /** How often the page has read the state. */
    taken: () => taken
  }
})
