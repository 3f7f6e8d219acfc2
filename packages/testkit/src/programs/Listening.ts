import { Effect } from "effect"
import type { AddressInfo, Server, Socket } from "node:net"

/** Listens on this machine until the scope closes. Returns the port. */
export const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly sockets: Set<Socket> }>((resume) => {
      const sockets = new Set<Socket>()
      server.on("connection", (socket) => sockets.add(socket.on("error", () => {})))
      server.listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo // of a server that listens on TCP
        resume(Effect.succeed({ port, sockets }))
      })
    }),
    ({ sockets }) =>
      Effect.sync(() => {
        server.close()
        for (const socket of sockets) socket.destroy()
      })
  ).pipe(Effect.map(({ port }) => port))
