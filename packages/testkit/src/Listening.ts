/** Servers that listen on this machine, and close every connection when they end. */
import { Effect } from "effect"
import type { AddressInfo, Server, Socket } from "node:net"

export interface Listening {
  readonly port: number
  /** Closes every connection and refuses new ones. */
  readonly close: () => Promise<void>
}

/** Keeps a socket in the set while it is open. */
export const keepIn = (sockets: Set<Socket>, socket: Socket): void => {
  sockets.add(socket)
  socket.setNoDelay(true)
  socket.on("error", () => {}) // either side may disconnect on purpose; "close" follows
  socket.on("close", () => sockets.delete(socket))
}

/** Listens on a port, by default a free one. `close` also closes `sockets`, to which a proxy adds its own connections. */
export const listen = (server: Server, sockets = new Set<Socket>(), port = 0): Promise<Listening> =>
  new Promise((resolve, reject) => {
    server.on("connection", (socket: Socket) => keepIn(sockets, socket))
    // A server that stalls between two requests must not close the connection at the second one.
    if ("keepAliveTimeout" in server) server.keepAliveTimeout = 0
    server.once("error", reject)
    server.listen(port, "127.0.0.1", () =>
      resolve({
        port: (server.address() as AddressInfo).port, // of a server that listens on TCP
        close: () =>
          new Promise((closed) => {
            server.close(() => closed())
            for (const socket of sockets) socket.destroy()
          })
      }))
  })

/** Listens on a free port until the scope closes. */
export const scopedListening = (server: Server) =>
  Effect.acquireRelease(Effect.promise(() => listen(server)), ({ close }) => Effect.promise(close))

/** Listens on this machine until the scope closes. Returns the port. */
export const listening = (server: Server) => Effect.map(scopedListening(server), ({ port }) => port)
