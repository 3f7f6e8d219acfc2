/**
 * Makes undici's connections skip interim answers (status 1xx). A client must skip a `100 Continue` even if it did not
 * request one (RFC 9110 §15.2). undici never requests one, and closes the connection when it receives one.
 */
import type { buildConnector, Dispatcher, Pool } from "@effect/platform-node/Undici"
import type { Socket } from "node:net"

type Connector = buildConnector.connector

/** The parts of undici that a pool needs. */
export interface Undici {
  readonly Pool: typeof Pool
  readonly buildConnector: typeof buildConnector
}

/**
 * Returns the `factory` of an agent: it creates the same pools as the agent, over connections that skip interim
 * answers.
 */
export const makePoolFactory =
  ({ Pool, buildConnector }: Undici) => (origin: string | URL, options: Pool.Options): Dispatcher => {
    const { connect } = options
    const make: Connector = typeof connect === "function" ? connect : buildConnector({ ...connect })
    return new Pool(origin, {
      ...options,
      connect: (target, done) =>
        make(target, (...outcome) => {
          const [error, socket] = outcome
          // In HTTP/2, which the TLS handshake may have selected, undici skips interim answers itself.
          if (error === null && !("alpnProtocol" in socket && socket.alpnProtocol === "h2")) skipInterim(socket)
          done(...outcome)
        })
    })
  }

/**
 * Interim answers start like this. A 101 (Switching Protocols) is left to undici, because no HTTP answer follows it.
 */
const start = Buffer.from("HTTP/1.1 1")
const switching = Buffer.from("HTTP/1.1 101")
const end = Buffer.from("\r\n\r\n")

/** The most bytes of an unfinished interim answer. Longer ones are passed on to undici. */
const longest = 64 * 1024

/** Removes interim answers from the bytes that the socket reads. One or more of them can precede each final answer. */
const skipInterim = (socket: Socket): void => {
  const read = socket.read.bind(socket)
  /** Whether the next bytes can be an interim answer: after a request, until its final answer starts. */
  let expected = true
  /** Bytes that start an interim answer, or may start one. */
  let buffered: Buffer = Buffer.alloc(0)
  socket.write = new Proxy(socket.write, {
    apply: (write, self, given) => {
      expected = true
      return Reflect.apply(write, self, given)
    }
  })
  socket.read = (size?: number): unknown => {
    for (;;) {
      const chunk: unknown = read(size)
      if (!expected || !Buffer.isBuffer(chunk)) return chunk
      buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk])
      const rest = afterInterim(buffered)
      if (rest.length > 0 && (rest.length > longest || !mayBeInterim(rest))) {
        expected = false
        buffered = Buffer.alloc(0)
        return rest
      }
      buffered = rest
    }
  }
}

/** Returns the bytes after all complete interim answers. */
const afterInterim = (bytes: Buffer): Buffer => {
  let rest = bytes
  while (mayBeInterim(rest) && rest.length > switching.length) {
    const at = rest.indexOf(end, start.length)
    if (at === -1) break
    rest = rest.subarray(at + end.length)
  }
  return rest
}

/** Whether the bytes start an interim answer, or are too short to exclude one. */
const mayBeInterim = (bytes: Buffer): boolean => {
  const compared = Math.min(bytes.length, start.length)
  return bytes.subarray(0, compared).equals(start.subarray(0, compared)) &&
    !bytes.subarray(0, switching.length).equals(switching)
}
