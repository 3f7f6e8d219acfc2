/** A TCP proxy before a server of this machine, on a fixed port, which passes, stalls or refuses connections. */
import { Effect, type Scope } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { keepIn, listen, type Listening } from "./Listening.ts"

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
  /** Holds the data of all open connections for some milliseconds after the first chunk that matches, and then passes it on. */
  readonly holdAfter: (matches: (chunk: Buffer) => boolean, ms: number) => Effect.Effect<void>
}

/** Runs until the scope closes. It refuses connections until it is opened. */
export const makeTcpGate = (port: number): Effect.Effect<TcpGate, never, Scope.Scope> =>
  Effect.gen(function*() {
    const sockets = new Set<Socket>()
    let target = 0
    let isStalled = false
    let droppedChunks = 0
    let stallText: string | undefined
    let holding: NodeJS.Timeout | undefined
    let hold: { readonly matches: (chunk: Buffer) => boolean; readonly ms: number } | undefined
    const forward = (from: Socket, to: Socket) => {
      from.on("data", (chunk: Buffer) => {
        if (stallText !== undefined && chunk.includes(stallText)) isStalled = true
        if (isStalled) droppedChunks++
        else to.write(chunk)
        if (hold?.matches(chunk) !== true) return
        for (const socket of sockets) socket.pause()
        holding = setTimeout(() => sockets.forEach((socket) => socket.resume()), hold.ms)
        hold = undefined
      })
      from.on("close", () => to.destroy())
    }
    const accept = (client: Socket) => {
      const upstream = connect(target, "127.0.0.1")
      keepIn(sockets, upstream)
      forward(client, upstream)
      forward(upstream, client)
    }
    let listening: Listening | undefined
    const refuse = Effect.promise(async () => {
      await listening?.close()
      listening = undefined
    })
    yield* Effect.addFinalizer(() => Effect.andThen(Effect.sync(() => clearTimeout(holding)), refuse))
    return {
      port,
      open: (to) =>
        Effect.promise(async () => {
          target = to
          isStalled = false
          listening ??= await listen(createServer(accept), sockets, port)
        }),
      refuse,
      stall: Effect.sync(() => void (isStalled = true)),
      stallAt: (text) => Effect.sync(() => void (stallText = text)),
      droppedChunks: Effect.sync(() => droppedChunks),
      holdAfter: (matches, ms) => Effect.sync(() => void (hold = { matches, ms }))
    }
  })
