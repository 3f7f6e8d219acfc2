/** A proxy before a server, which a test can stop and start again. */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { freePort } from "./FreePort.ts"

/** Makes a proxy, which does not listen yet. Closing the scope stops it. */
export const makeProxy = Effect.fnUntraced(function*(target: number) {
  const port = yield* Effect.promise(freePort)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1")
    for (const [one, other] of [[client, upstream], [upstream, client]] as const) {
      sockets.add(one)
      one.on("error", () => one.destroy())
      one.on("close", () => {
        sockets.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  const stop = Effect.promise(() =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      for (const socket of sockets) socket.destroy()
    })
  )
  yield* Effect.addFinalizer(() => stop)
  return {
    port,
    start: Effect.promise(() => new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))),
    /** Closes all connections and refuses new ones. */
    stop
  }
})
