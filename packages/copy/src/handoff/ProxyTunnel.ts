/** Connections through an HTTP proxy (`CONNECT`, RFC 9110 §9.3.6). The proxy sees the name of the host, and no content. */
import { Duration } from "effect"
import * as http from "node:http"
import * as https from "node:https"
import { isIPv6 } from "node:net"
import type { Duplex } from "node:stream"
import * as tls from "node:tls"

/** Its errors have nothing of the proxy's answers. */
export class TunnelAgent extends https.Agent {
  readonly #proxy: URL
  readonly #timeoutMs: number
  readonly #pending = new Set<http.ClientRequest>()

  /** `timeout` limits the time until the tunnel exists. */
  constructor(proxy: URL, timeout: Duration.Duration) {
    super({ keepAlive: true })
    this.#proxy = proxy
    this.#timeoutMs = Duration.toMillis(timeout)
  }

  override createConnection(
    options: https.RequestOptions,
    callback: (error: Error | null, stream: Duplex) => void = () => {}
  ): undefined {
    const host = options.host ?? ""
    const place = `${isIPv6(host) ? `[${host}]` : host}:${options.port ?? 443}`
    const request = http.request({
      host: this.#proxy.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: this.#proxy.port === "" ? 80 : Number(this.#proxy.port),
      method: "CONNECT",
      path: place,
      headers: { host: place },
      agent: false
    })
    this.#pending.add(request)
    // With an error, the agent does not use the stream.
    const fail = (error: Error) => callback(error, undefined as unknown as Duplex)
    request.setTimeout(this.#timeoutMs, () => request.destroy(new Error("the proxy did not answer")))
    request.on("close", () => this.#pending.delete(request))
    request.on("error", fail)
    request.on("connect", ({ statusCode = 0 }, socket, head) => {
      socket.setTimeout(0)
      // What a server would send before the client is not TLS.
      if (statusCode >= 200 && statusCode < 300 && head.length === 0) {
        // The options of a request are those of its connection, but `path` would be a socket's.
        const { path: _, ...connection } = options
        return callback(null, tls.connect({ ...connection as tls.ConnectionOptions, socket }))
      }
      socket.destroy()
      fail(new Error("the proxy refused the connection"))
    })
    request.end()
    return undefined
  }

  override destroy(): void {
    for (const request of this.#pending) request.destroy()
    super.destroy()
  }
}
