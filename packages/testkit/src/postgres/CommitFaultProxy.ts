/** A TCP proxy before a PostgreSQL server, which can break the connection around a COMMIT or stall it. */
import { connect, createServer, type Socket } from "node:net"
import { keepIn, listen, type Listening } from "../Listening.ts"

/** What the proxy does with a COMMIT. */
export type CommitAction =
  | "pass"
  /** Disconnects before the server receives it. */
  | "disconnectBefore"
  /** Disconnects after the server has run it, before the client receives the response. */
  | "disconnectAfter"
  /** Forwards it and disconnects at the same moment, so that it may or may not run. */
  | "race"
  /** Drops it, and keeps both connections open. */
  | "stall"

export type CommitFaultProxy = Listening

/** The server is on that port of this machine. */
export const startProxy = (target: number, decide: () => CommitAction): Promise<CommitFaultProxy> => {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1")
    keepIn(sockets, upstream)
    const disconnect = () => {
      client.destroy()
      upstream.destroy()
    }
    let onResponse: (() => void) | undefined
    client.on("data", (chunk) => {
      // The driver sends a statement in one write and waits for the response. No text of these tests contains a NUL.
      const action = chunk.includes("COMMIT\0") ? decide() : "pass"
      switch (action) {
        case "stall":
          return
        case "disconnectBefore":
          return disconnect()
        case "disconnectAfter":
          onResponse = disconnect
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
    upstream.on("data", (chunk) => onResponse === undefined ? client.write(chunk) : onResponse())
    client.on("close", () => upstream.end())
    upstream.on("close", () => client.destroy())
  })
  return listen(server, sockets)
}
