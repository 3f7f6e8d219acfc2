/** A gate before a server of this machine: its port stays the same while connections are let through, held or refused. */
import { Effect, type Scope } from "effect"
import { connect, createServer, type Socket } from "node:net"

/** A gate that stands. */
export interface Gate {
  readonly port: number
  /** Lets connections through to the server on that port. */
  readonly open: (target: number) => Effect.Effect<void>
  /** Cuts every connection and refuses new ones. */
  readonly refuse: Effect.Effect<void>
  /** Keeps every connection, accepts new ones, and lets nothing through. */
  readonly hold: Effect.Effect<void>
  /** Does so with the first that a client sends of which this is a part. */
  readonly holdAt: (text: string) => Effect.Effect<void>
  /** How often something has not been let through. */
  readonly heldBack: Effect.Effect<number>
}

/** Puts a gate on the port, refusing at first, until the scope closes. */
export const gateOn = (port: number): Effect.Effect<Gate, never, Scope.Scope> =>
  Effect.gen(function*() {
    const sockets = new Set<Socket>()
    let target = 0
    let held = false
    let heldBack = 0
    let holdsAt: string | undefined
    const pass = (from: Socket, to: Socket) => {
      sockets.add(from)
      from.on("error", () => {}) // cut on purpose, by either side
      from.on("data", (chunk) => {
        if (holdsAt !== undefined && chunk.includes(holdsAt)) held = true
        if (held) heldBack++
        else to.write(chunk)
      })
      from.on("close", () => {
        sockets.delete(from)
        to.destroy()
      })
    }
    const server = createServer((client) => {
      const upstream = connect(target, "127.0.0.1")
      pass(client, upstream)
      pass(upstream, client)
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
          held = false
          if (server.listening) resume(Effect.void)
          else server.listen(port, "127.0.0.1", () => resume(Effect.void))
        }),
      refuse,
      hold: Effect.sync(() => void (held = true)),
      holdAt: (text) => Effect.sync(() => void (holdsAt = text)),
      heldBack: Effect.sync(() => heldBack)
    }
  })
