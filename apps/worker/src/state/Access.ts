/**
 * Decides who may read the names and amounts that the worker serves over HTTP: the status page, its events, the
 * metrics.
 *
 * - A web page that the operator opens can let its own host name resolve to this worker (DNS rebinding). It can then
 *   read the answers. Its requests have that name as `Host`. So only known hosts are answered.
 * - With a token, each request needs it: as bearer, or as the password that a browser asks for.
 *
 * The health checks are always answered, because orchestrators send neither. Without the right to more, the answer is
 * the status and one boolean.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { contract } from "@payments/program"
import { Effect, Redacted } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash, timingSafeEqual } from "node:crypto"
import { IncomingMessage } from "node:http"
import { outputs } from "../contract/WorkerOutputs.ts"

/** Who may read more than whether the worker is well. */
export interface Access {
  readonly host: string
  /** The names and addresses of this worker besides those of loopback and of the connection. */
  readonly allowedHosts: ReadonlyArray<string>
  readonly token: Redacted.Redacted | undefined
}

export interface Credentials {
  /** The headers `Host` and `Authorization`. */
  readonly host: string | undefined
  readonly authorization: string | undefined
  /** The address of this machine to which the request was sent. */
  readonly localAddress: string | undefined
}

export interface Refusal {
  readonly status: 401 | 403
  readonly problem: string
}

const loopback = ["localhost", "127.0.0.1", "::1"]

/**
 * Makes the function that says why a request is refused, or returns undefined for an accepted one. The port of a host
 * is not compared, because a container or a proxy may have another one.
 */
export const makeAccess = ({ allowedHosts, host, token }: Access): (request: Credentials) => Refusal | undefined => {
  const known = new Set([...loopback, host, ...allowedHosts].map(nameOf))
  const expected = token === undefined ? undefined : digestOf(Redacted.value(token))
  return (request) => {
    const name = request.host === undefined ? undefined : nameOf(request.host)
    const isKnown = name !== undefined &&
      (known.has(name) || name === request.localAddress?.replace(/^::ffff:/, "").toLowerCase())
    if (!isKnown) {
      return { status: 403, problem: "The Host header is not a name of this worker. Allow the name with --allow-host." }
    }
    // Comparing digests takes the same time for all texts, whatever their lengths are.
    return expected === undefined || timingSafeEqual(expected, digestOf(tokenIn(request.authorization)))
      ? undefined
      : { status: 401, problem: "This needs the token of --token-file, as Authorization: Bearer." }
  }
}

/** The name or address in a `Host` header or a setting, without the port. */
const nameOf = (host: string): string => {
  const [, address, name = address] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host) ?? [undefined, host]
  return (name ?? "").toLowerCase().replace(/\.$/, "")
}

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest()

/** The token of a bearer, or the password that a browser has asked for. The user's name may be anything. */
const tokenIn = (authorization: string | undefined): string => {
  const [, scheme = "", credentials = ""] = /^(bearer|basic) +(\S+) *$/i.exec(authorization ?? "") ?? []
  return scheme.toLowerCase() === "basic"
    ? Buffer.from(credentials, "base64").toString("utf8").replace(/^[^:]*:/, "")
    : credentials
}

const headers = { "cache-control": "no-store", "x-content-type-options": "nosniff" }
/** Lets a browser ask for a password. Chromium reads only the first scheme of a header, so Bearer is not named. */
const challenge = { "www-authenticate": "Basic realm=\"payments-worker\", charset=\"UTF-8\"" }

export const guard = (access: Access) => {
  const refusalOf = makeAccess(access)
  return HttpRouter.middleware((answer) =>
    Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      const incoming = NodeHttpServerRequest.toIncomingMessage(request)
      const refusal = refusalOf({
        host: request.headers["host"],
        authorization: request.headers["authorization"],
        localAddress: incoming instanceof IncomingMessage ? incoming.socket.localAddress : undefined
      })
      if (refusal === undefined) return yield* answer
      const [, check] = /^\/health\/([a-z]+)(?:\?|$)/.exec(request.url) ?? []
      if (check !== undefined) {
        const { status } = yield* answer
        return HttpServerResponse.jsonUnsafe(
          contract.withVersion(outputs.health, { [check]: status === 200 }),
          { status, headers }
        )
      }
      return HttpServerResponse.text(`${refusal.problem}\n`, {
        status: refusal.status,
        headers: refusal.status === 401 ? { ...headers, ...challenge } : headers
      })
    }), { global: true })
}
