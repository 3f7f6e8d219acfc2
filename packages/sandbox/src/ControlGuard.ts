/**
 * Keeps web pages away from the control endpoint. A page in a browser on this machine can send requests to it in two ways.
 * A cross-origin request has an `Origin` header. With DNS rebinding, the page points its own host name at this address,
 * and the request has that name in its `Host` header. The user's own tools send neither.
 */
import type { IncomingMessage } from "node:http"

/** Returns why a request is refused, or undefined if it is accepted. `host` is the address of the endpoint. */
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
