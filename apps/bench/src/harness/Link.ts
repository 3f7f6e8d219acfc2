/** A TCP proxy between one runner and PostgreSQL. A cut keeps its connections open and delivers nothing. */
import { connect, createServer, type Server, type Socket } from "node:net"

/**
 * What happens to the data of a cut. `late`: it is delivered when the cut ends, as TCP does after a partition. `lost`:
 * the connections are reset, as by a firewall that has forgotten them.
 */
export type Healing = "late" | "lost"

/** A connection of the proxy to the server. The server reports its port as `inet_client_port()`. */
export interface LinkConnection {
  readonly port: number
  /** Milliseconds since the epoch. */
  readonly since: number
  /** The process behind the proxy at that time. */
  readonly instance: string
}

export class Link implements AsyncDisposable {
  /** The oldest comes first. */
  readonly connections: Array<LinkConnection> = []
  /** The process that uses the proxy now. */
  instance = ""
  readonly #server: Server
  readonly #target: number
  readonly #sockets = new Set<Socket>()
  #isCut = false
  /** Connections that arrived during a cut. */
  #waiting: Array<Socket> = []

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer((client) => {
      this.#keep(client)
      if (this.#isCut) this.#waiting.push(client.pause())
      else this.#forward(client)
    })
  }

  /** The server is on that port of this machine. */
  static async start(target: number): Promise<Link> {
    const link = new Link(target)
    await new Promise<void>((resolve) => link.#server.listen(0, "127.0.0.1", resolve))
    return link
  }

  get port(): number {
    const address = this.#server.address()
    return typeof address === "object" && address !== null ? address.port : 0
  }

  /** Stops the delivery in both directions. Neither side sees that the other side has closed its connection. */
  cut(): void {
    this.#isCut = true
    for (const socket of this.#sockets) socket.pause()
  }

  heal(how: Healing): void {
    this.#isCut = false
    const waiting = this.#waiting
    this.#waiting = []
    if (how === "lost") {
      for (const socket of this.#sockets) socket.resetAndDestroy()
      return
    }
    for (const socket of this.#sockets) socket.resume()
    for (const client of waiting) this.#forward(client)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    socket.on("error", () => {}) // "close" follows
    socket.on("close", () => this.#sockets.delete(socket))
  }

  #forward(client: Socket): void {
    const { instance } = this
    const upstream = connect(this.#target, "127.0.0.1")
    this.#keep(upstream)
    upstream.once("connect", () => {
      this.connections.push({ port: upstream.localPort ?? 0, since: wallMs(), instance })
      if (this.#isCut) upstream.pause()
    })
    for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
      from.on("data", (chunk) => to.write(chunk))
      // The data that was received before the end is still delivered.
      from.on("close", () => to.end())
    }
    if (!this.#isCut) client.resume()
  }
}

/**
 * Milliseconds since the epoch. The times of this test are compared with those of the server's clock on the same
 * machine.
 */
// oxlint-disable-next-line no-restricted-properties -- the server's clock is the wall clock
export const wallMs = (): number => Date.now()
