/**
 * Keeps web pages from the control endpoint. A page in a browser on this machine can send requests to it: plain ones,
 * which carry an `Origin`, and ones under a name of its own that it has pointed at this address (DNS rebinding), which
 * carry that name as `Host`. Neither can be the doing of whoever started the sandbox.
 */
import type { IncomingMessage } from "node:http"

/** Why a request is refused, and with which status; undefined lets it in. `host` is where the endpoint listens. */
export const refusalOf = (
  { headers, method, socket }: IncomingMessage,
  host: string
): { readonly status: number; readonly problem: string } | undefined => {
  if (headers.origin !== undefined) return { status: 403, problem: "requests of web pages are refused" }
  const own = [host, "localhost", "127.0.0.1", "::1", (socket.localAddress ?? host).replace(/^::ffff:/, "")]
  const port = socket.localPort ?? 80
  const names = own.map((name) => name.includes(":") ? `[${name}]` : name).flatMap((name) =>
    port === 80 ? [name, `${name}:80`] : [`${name}:${port}`]
  )
  if (!names.includes(headers.host?.toLowerCase() ?? "")) {
    return { status: 403, problem: "the Host is not this endpoint's address" }
  }
  const isJson = /^application\/json *(;|$)/i.test(headers["content-type"] ?? "")
  if ((method === "PUT" || method === "POST") && !isJson) {
    return { status: 415, problem: "the body must be application/json" }
  }
  return undefined
}
