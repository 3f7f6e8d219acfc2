/** A TCP proxy between one runner and PostgreSQL. A cut keeps its connections open and delivers nothing. */
import { keepIn, listen, type Listening } from "@payments/testkit/Listening"
import { connect, createServer, type Socket } from "node:net"

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
  readonly #listening: Listening
  readonly #target: number
  readonly #sockets: Set<Socket>
  #isCut = false
  /** Connections that arrived during a cut. */
  #waiting: Array<Socket> = []

  private constructor(target: number, listening: Listening, sockets: Set<Socket>) {
    this.#target = target
    this.#listening = listening
    this.#sockets = sockets
  }

  /** The server is on that port of this machine. */
  static async start(target: number): Promise<Link> {
    const sockets = new Set<Socket>()
    const server = createServer((client) => {
      if (link.#isCut) link.#waiting.push(client.pause())
      else link.#forward(client)
    })
    const link: Link = new Link(target, await listen(server, sockets), sockets)
    return link
  }

  get port(): number {
    return this.#listening.port
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
    await this.#listening.close()
  }

  #forward(client: Socket): void {
    const { instance } = this
    const upstream = connect(this.#target, "127.0.0.1")
    keepIn(this.#sockets, upstream)
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
