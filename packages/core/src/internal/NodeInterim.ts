/**
 * Lets undici's connections skip interim answers. A client that did not ask for `100 Continue` must still skip it
 * (RFC 9110 §15.2); undici, which never asks, closes the connection instead.
 */
import type { buildConnector, Dispatcher, Pool } from "@effect/platform-node/Undici"
import type { Socket } from "node:net"

type Connector = buildConnector.connector

/** What an agent makes its pools of. */
export interface Undici {
  readonly Pool: typeof Pool
  readonly buildConnector: typeof buildConnector
}

/** Makes the pools of an agent: as the agent would, over connections that skip interim answers. */
export const skippingPools =
  ({ Pool, buildConnector }: Undici) => (origin: string | URL, options: Pool.Options): Dispatcher => {
    const { connect } = options
    const make: Connector = typeof connect === "function" ? connect : buildConnector({ ...connect })
    return new Pool(origin, {
      ...options,
      connect: (target, done) =>
        make(target, (...outcome) => {
          const [error, socket] = outcome
          // The TLS handshake may have chosen HTTP/2, whose interim answers undici skips by itself.
          if (error === null && !("alpnProtocol" in socket && socket.alpnProtocol === "h2")) skipInterim(socket)
          done(...outcome)
        })
    })
  }

/** Of any interim answer but 101, which changes the protocol and is no answer to a request for a page. */
const start = Buffer.from("HTTP/1.1 1")
const switching = Buffer.from("HTTP/1.1 101")
const end = Buffer.from("\r\n\r\n")

/** More than the headers of any answer may take. */
const longest = 64 * 1024

/** Removes interim answers from what is read. One or more of them can precede the answer to each request. */
const skipInterim = (socket: Socket): void => {
  const read = socket.read.bind(socket)
  let expected = true
  /** Bytes that begin an interim answer, or may begin one. */
  let held: Buffer = Buffer.alloc(0)
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
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      const rest = behindInterim(held)
      if (rest.length > 0 && (rest.length > longest || !mayBeInterim(rest))) {
        expected = false
        held = Buffer.alloc(0)
        return rest
      }
      held = rest
    }
  }
}

/** What follows the whole interim answers. */
const behindInterim = (bytes: Buffer): Buffer => {
  let rest = bytes
  while (mayBeInterim(rest) && rest.length > switching.length) {
    const at = rest.indexOf(end, start.length)
    if (at === -1) break
    rest = rest.subarray(at + end.length)
  }
  return rest
}

const mayBeInterim = (bytes: Buffer): boolean => {
  const compared = Math.min(bytes.length, start.length)
  return bytes.subarray(0, compared).equals(start.subarray(0, compared)) &&
    !bytes.subarray(0, switching.length).equals(switching)
}
