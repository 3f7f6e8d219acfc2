/**
 * Keeps web pages away from the control endpoint. A page in a browser on this machine can send requests to it.
 *
 * - A cross-origin request has an `Origin` header. Tools such as curl do not send one.
 * - With DNS rebinding, the host name of the page resolves to this machine, and the `Host` header contains that name.
 *   Tools send the address of the endpoint.
 * - Without the server's permission, a page cannot send `application/json` to another origin, so bodies must have that
 *   type.
 */
import type { IncomingMessage } from "node:http"

/** Returns why a request is refused, or undefined if it is accepted. The endpoint listens on the address `host`. */
export const refusalOf = (
  { headers, method, socket }: IncomingMessage,
  host: string
): { readonly status: number; readonly problem: string } | undefined => {
  if (headers.origin !== undefined) {
    return { status: 403, problem: "requests from web pages are refused; send no Origin header" }
  }
  const ownHosts = [host, "localhost", "127.0.0.1", "::1", (socket.localAddress ?? host).replace(/^::ffff:/, "")]
  const port = socket.localPort ?? 80
  const accepted = ownHosts.map((name) => name.includes(":") ? `[${name}]` : name).flatMap((name) =>
    port === 80 ? [name, `${name}:80`] : [`${name}:${port}`]
  )
  if (!accepted.includes(headers.host?.toLowerCase() ?? "")) {
    return { status: 403, problem: "the Host header is not the address of this endpoint" }
  }
  const isJson = /^application\/json *(;|$)/i.test(headers["content-type"] ?? "")
  if ((method === "PUT" || method === "POST") && !isJson) {
    return { status: 415, problem: "the Content-Type must be application/json" }
  }
  return undefined
}
