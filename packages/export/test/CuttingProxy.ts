/** A TCP proxy before a PostgreSQL server, which can cut a connection around a COMMIT or keep one from arriving. */
import { connect, createServer, type Socket } from "node:net"

/** What becomes of a COMMIT on its way. */
export type Verdict =
  | "pass"
  /** The server never sees it. */
  | "cutBefore"
  /** The server carries it out; its answer never arrives. */
  | "cutAfter"
  /** It is sent on and the connection cut in the same moment: whether it is carried out nobody knows. */
  | "race"
  /** It never arrives, and both connections stay. */
  | "hold"

/** A proxy that runs. */
export interface CuttingProxy {
  readonly port: number
  readonly close: () => Promise<void>
}

/** Starts one before the server on that port of this machine. */
export const startProxy = (target: number, decide: () => Verdict): Promise<CuttingProxy> => {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1")
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on("error", () => {}) // cut on purpose, by either side
      socket.on("close", () => sockets.delete(socket))
    }
    const cut = () => {
      client.destroy()
      upstream.destroy()
    }
    let answered: (() => void) | undefined
    client.on("data", (chunk) => {
      // The driver sends a statement in one write and waits for its answer; no text that it sends holds a NUL inside.
      const verdict = chunk.includes("COMMIT\0") ? decide() : "pass"
      switch (verdict) {
        case "hold":
          return
        case "cutBefore":
          return cut()
        case "cutAfter":
          answered = cut
          break
        case "race":
          upstream.end(chunk)
          client.destroy()
          return
        case "pass":
          break
      }
      upstream.write(chunk)
    })
    upstream.on("data", (chunk) => answered === undefined ? client.write(chunk) : answered())
    client.on("close", () => upstream.end())
    upstream.on("close", () => client.destroy())
  })
  return new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resolve({
        port: typeof address === "object" && address !== null ? address.port : 0,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed())
            for (const socket of sockets) socket.destroy()
          })
      })
    })
  })
}
