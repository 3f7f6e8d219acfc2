/** A TCP proxy before a server of this machine, on a fixed port, which passes, stalls or refuses connections. */
import { Effect, type Scope } from "effect"
import { connect, createServer, type Socket } from "node:net"

export interface TcpGate {
  readonly port: number
  /** Passes connections to the server on that port. */
  readonly open: (target: number) => Effect.Effect<void>
  /** Closes every connection and refuses new ones. */
  readonly refuse: Effect.Effect<void>
  /** Keeps every connection, accepts new ones, and drops all data. */
  readonly stall: Effect.Effect<void>
  /** Stalls, as {@link stall} does, at the first chunk that contains the text. */
  readonly stallAt: (text: string) => Effect.Effect<void>
  readonly droppedChunks: Effect.Effect<number>
}

/** Runs until the scope closes. It refuses connections until it is opened. */
export const makeTcpGate = (port: number): Effect.Effect<TcpGate, never, Scope.Scope> =>
  Effect.gen(function*() {
    const sockets = new Set<Socket>()
    let target = 0
    let isStalled = false
    let droppedChunks = 0
    let stallText: string | undefined
    const forward = (from: Socket, to: Socket) => {
      sockets.add(from)
      from.on("error", () => {}) // either side may disconnect on purpose
      from.on("data", (chunk) => {
        if (stallText !== undefined && chunk.includes(stallText)) isStalled = true
        if (isStalled) droppedChunks++
        else to.write(chunk)
      })
      from.on("close", () => {
        sockets.delete(from)
        to.destroy()
      })
    }
    const server = createServer((client) => {
      const upstream = connect(target, "127.0.0.1")
      forward(client, upstream)
      forward(upstream, client)
    })
    const refuse = Effect.callback<void>((resume) => {
      if (server.listening) server.close(() => resume(Effect.void))
      else resume(Effect.void)
      for (const socket of sockets) socket.destroy()
    })
    yield* Effect.addFinalizer(() => refuse)
    return {
      port,
      open: (to) =>
        Effect.callback<void>((resume) => {
          target = to
          isStalled = false
          if (server.listening) resume(Effect.void)
          else server.listen(port, "127.0.0.1", () => resume(Effect.void))
        }),
      refuse,
      stall: Effect.sync(() => void (isStalled = true)),
      stallAt: (text) => Effect.sync(() => void (stallText = text)),
      droppedChunks: Effect.sync(() => droppedChunks)
    }
  })
