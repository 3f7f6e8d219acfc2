/** The version of HTTP that a server chooses when a TLS connection is made (RFC 7301). Nothing is sent over the connection. */
import { Duration, Effect, Option } from "effect"
import { isIP } from "node:net"
import type { Checked } from "../config/KeySource.ts"

/** The protocols that are offered, the preferred one first, and the versions that they stand for. */
const versions = { "h2": "2", "http/1.1": "1.1" } as const

export type HttpVersion = (typeof versions)[keyof typeof versions]

/**
 * Connects to the address, which must begin with `https:`. Returns 1.1 if the server chooses no protocol, or why no connection was
 * made. The certificate is checked as for requests, also with the authorities of `NODE_EXTRA_CA_CERTS`.
 */
export const connectForVersion = (url: URL, deadline: Duration.Duration): Effect.Effect<Checked<HttpVersion>> =>
  // Loaded on first use: other programs need no TLS before their first request.
  Effect.flatMap(Effect.promise(() => import("node:tls")), ({ connect }) =>
    Effect.callback<Checked<HttpVersion>>((resume) => {
      const host = url.hostname.replace(/^\[(.*)\]$/, "$1")
      const socket = connect({
        host,
        port: url.port === "" ? 443 : Number(url.port),
        ALPNProtocols: Object.keys(versions),
        ...(isIP(host) > 0 ? {} : { servername: host })
      })
      const end = (found: Checked<HttpVersion>) => {
        socket.destroy()
        resume(Effect.succeed(found))
      }
      socket.once("secureConnect", () =>
        end({ value: socket.alpnProtocol === "h2" ? versions.h2 : versions["http/1.1"] }))
      socket.on("error", (error) =>
        end({ problem: `there is no secure connection (${codeOf(error)})` }))
      return Effect.sync(() =>
        socket.destroy()
      )
    })).pipe(
      Effect.timeoutOption(deadline),
      Effect.map(
        Option.getOrElse(() => ({ problem: `there is no secure connection after ${Duration.format(deadline)}` }))
      )
    )

/** The codes of Node and OpenSSL have no address. */
const codeOf = (error: Error): string =>
  "code" in error && /^[A-Z_0-9]+$/.test(String(error.code)) ? String(error.code) : "unknown"
