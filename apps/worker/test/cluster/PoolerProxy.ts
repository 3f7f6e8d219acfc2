/**
 * A connection pooler before a PostgreSQL server that needs no password: it frames the messages of protocol version 3
 * (https://www.postgresql.org/docs/current/protocol-message-formats.html) and lends each client a connection to the server
 * until a session, a transaction or a statement ends.
 */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"

/** When a client gives its connection back. */
export type Mode = "session" | "transaction" | "statement"

interface Server {
  readonly socket: Socket
  /** What the server said before it was ready for the first time. */
  greeting: Buffer
  client: Client | undefined
}

interface Client {
  readonly socket: Socket
  server: Server | undefined
  /** Messages that wait for a connection. */
  waiting: Array<Buffer>
  /** The number of Query and Sync messages that the server has not answered. */
  pending: number
}

/** Starts a pooler with at most `size` connections, until the scope closes. Returns its port. */
export const startPooler = (target: number, mode: Mode, size: number) =>
  Effect.acquireRelease(
    Effect.promise(() => listen(target, mode, size)),
    ({ close }) => Effect.promise(close)
  )

const listen = (target: number, mode: Mode, size: number): Promise<{ port: number; close: () => Promise<void> }> => {
  const servers: Array<Server> = []
  /** The connections that no client has. The last one is lent first, as PgBouncer does. */
  const idle: Array<Server> = []
  const queue: Array<Client> = []
  const sockets = new Set<Socket>()
  const track = (socket: Socket) => {
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on("error", () => {}) // either side may disconnect
    socket.on("close", () => sockets.delete(socket))
  }

  const openServer = (startup: Buffer, onReady: (server: Server) => void) => {
    const socket = connect(target, "127.0.0.1", () => socket.write(startup))
    track(socket)
    const server: Server = { socket, greeting: Buffer.alloc(0), client: undefined }
    servers.push(server)
    let isReady = false
    socket.on(
      "data",
      framesOf(false, (frame) => {
        if (!isReady) {
          // A pooler makes up the process's number and key (`K`), with which clients cancel statements.
          if (frame[0] === letter("K")) frame.writeInt32BE(1, 5)
          server.greeting = Buffer.concat([server.greeting, frame])
          isReady = frame[0] === letter("Z")
          if (isReady) onReady(server)
          return
        }
        const { client } = server
        client?.socket.write(frame)
        if (frame[0] !== letter("Z") || client === undefined) return
        client.pending--
        const isOver = mode === "statement" || (mode === "transaction" && frame[5] === letter("I"))
        if (client.pending === 0 && isOver) giveBack(server)
      })
    )
  }
  const giveBack = (server: Server) => {
    if (server.client !== undefined) server.client.server = undefined
    server.client = undefined
    idle.push(server)
    const next = queue.shift()
    if (next !== undefined) lend(next)
  }
  /** Sends the waiting messages of a client, as soon as there is a connection for it. */
  const lend = (client: Client) => {
    const server = client.server ?? idle.pop()
    if (server === undefined) {
      if (!queue.includes(client)) queue.push(client)
      return
    }
    server.client = client
    client.server = server
    for (const frame of client.waiting.splice(0)) {
      if (mode === "statement" && frame.includes("BEGIN\0")) {
        client.socket.destroy()
        return
      }
      if (frame[0] === letter("Q") || frame[0] === letter("S")) client.pending++
      server.socket.write(frame)
    }
  }

  const pooler = createServer((socket) => {
    track(socket)
    const client: Client = { socket, server: undefined, waiting: [], pending: 0 }
    let isStarted = false
    socket.on(
      "data",
      framesOf(true, (frame) => {
        if (!isStarted) {
          isStarted = true
          const greet = (server: Server) => socket.write(server.greeting)
          const [known] = servers
          if (servers.length < size) {
            openServer(frame, (server) => {
              greet(server)
              giveBack(server)
            })
          } else if (known !== undefined) greet(known)
          return
        }
        if (frame[0] === letter("X")) return
        client.waiting.push(frame)
        lend(client)
      })
    )
    socket.on("close", () => {
      const { server } = client
      if (server === undefined) return
      // A session that ends closes its connection, which ends an open transaction.
      servers.splice(servers.indexOf(server), 1)
      server.socket.destroy()
    })
  })
  return new Promise((resolve) =>
    pooler.listen(0, "127.0.0.1", () => {
      const address = pooler.address()
      resolve({
        port: typeof address === "object" && address !== null ? address.port : 0,
        close: () =>
          new Promise((closed) => {
            pooler.close(() => closed())
            for (const socket of sockets) socket.destroy()
          })
      })
    })
  )
}

const letter = (text: string): number => text.charCodeAt(0)

/** Returns a listener that splits data into messages. The first message of a client has no type. */
const framesOf = (startsUntyped: boolean, onFrame: (frame: Buffer) => void) => {
  let rest: Buffer = Buffer.alloc(0)
  let typeBytes = startsUntyped ? 0 : 1
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= typeBytes + 4) {
      const length = typeBytes + rest.readInt32BE(typeBytes)
      if (rest.length < length) return
      const frame = Buffer.from(rest.subarray(0, length))
      rest = rest.subarray(length)
      typeBytes = 1
      onFrame(frame)
    }
  }
}
