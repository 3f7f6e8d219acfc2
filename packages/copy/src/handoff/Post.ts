/**
 * Sends a webhook to an address. Only https, or http to this machine. Private and link-local addresses are refused unless
 * they are allowed: a name that leads into the network of the worker must not reach its services. A name is resolved once
 * for a connection, which goes to the checked address. Redirects are not followed, and of an answer only the status and
 * `Retry-After` are read. A proxy is used only if it is configured. It resolves the names, so it must refuse private
 * addresses itself.
 */
import { Monotonic } from "@payments/core"
import { type Clock, DateTime, Duration, Effect, Result, type Scope } from "effect"
import { Headers } from "effect/http"
import { lookup, type LookupAddress, type LookupAllOptions } from "node:dns"
import * as http from "node:http"
import * as https from "node:https"
import { BlockList, isIP, isIPv6, type LookupFunction } from "node:net"
import type { Answer } from "./Decision.ts"
import { TunnelAgent } from "./ProxyTunnel.ts"

export interface Target {
  readonly url: URL
  /** Limits the time from the beginning of a request to the status of its answer. */
  readonly timeout: Duration.Duration
  /** Whether private and link-local addresses are allowed. */
  readonly allowPrivate: boolean
  /** An HTTP proxy through which https goes. Undefined: no proxy, whatever the environment says. */
  readonly proxy?: URL | undefined
}

/** The specification recommends 15 to 30 seconds ("Request timeouts"). */
export const postTimeout = Duration.seconds(20)

/** A body that goes on for longer closes its connection. The next request waits for no more than that. */
const [longestBodyBytes, longestBodyMs] = [65_536, 100]

/**
 * When a connection ends later than this, its request is not sent again at once: its texts may have been erased meanwhile. A
 * sender reads them less than 0.9 s before it sends them, so with this time it stays below a second.
 */
const resendMs = 100

/** Addresses that are not public (IANA's registries of special-purpose addresses). */
const notPublic = new BlockList()
for (
  const network of [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2002::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8"
  ]
) {
  const [address = "", bits = ""] = network.split("/")
  notPublic.addSubnet(address, Number(bits), isIPv6(address) ? "ipv6" : "ipv4")
}

const loopback = new BlockList()
loopback.addSubnet("127.0.0.0", 8, "ipv4")
loopback.addAddress("::1", "ipv6")

const isIn = (list: BlockList, address: string): boolean => list.check(address, isIPv6(address) ? "ipv6" : "ipv4")

/** Without the brackets of an IPv6 address. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, "$1")

const isLoopbackHost = (host: string): boolean => host === "localhost" || (isIP(host) !== 0 && isIn(loopback, host))

/** Whether a host is this machine by its name (RFC 6761 §6.3) or its address. */
const isThisMachine = (host: string): boolean => /^(?:.*\.)?localhost\.?$/.test(host) || isLoopbackHost(host)

/** Whether a connection to the resolved address of a host is allowed. */
export const isAllowed = ({ allowPrivate, url }: Pick<Target, "allowPrivate" | "url">, address: string): boolean =>
  isLoopbackHost(hostOf(url)) ? isIn(loopback, address) : allowPrivate || !isIn(notPublic, address)

/**
 * Returns why nothing may be sent to an address, as the end of a sentence; undefined if it may. A proxy resolves the names,
 * so with a proxy only addresses and the names of this machine are checked.
 */
export const urlProblem = (target: Pick<Target, "allowPrivate" | "url" | "proxy">): string | undefined => {
  const { password, protocol, username } = target.url
  const host = hostOf(target.url)
  if (protocol !== "https:" && protocol !== "http:") return "it must begin with https://"
  if (protocol === "http:" && !isLoopbackHost(host)) {
    return "it must begin with https://: http is allowed to this machine only"
  }
  if (username !== "" || password !== "") return "it must not contain a user name or a password"
  if (isThisMachine(host) && protocol === "https:" && target.proxy !== undefined && !target.allowPrivate) {
    return "with a proxy, it is the machine of the proxy, which only allow_private = true allows"
  }
  return isIP(host) !== 0 && !isAllowed(target, host) ? "private and link-local addresses are not allowed" : undefined
}

class AddressRefused extends Error {}

/** How a name is resolved to all its addresses. */
type Resolve = (
  name: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: Array<LookupAddress>) => void
) => void

/** Resolves a name, and fails if any of its addresses is not allowed. */
export const checkedLookup =
  (target: Pick<Target, "allowPrivate" | "url">, resolve: Resolve = lookup): LookupFunction =>
  (name, options, callback) =>
    resolve(name, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, [])
      const isRefused = addresses.length === 0 || addresses.some(({ address }) => !isAllowed(target, address))
      const [{ address, family } = { address: "", family: 0 }] = addresses
      if (isRefused) return callback(new AddressRefused(), [])
      return options.all === true ? callback(null, addresses) : callback(null, address, family)
    })

/** Sends a body with headers. */
export type Post = (headers: { readonly [name: string]: string }, body: Uint8Array) => Effect.Effect<Answer>

/** Connections stay open between requests until the scope closes. The URL must have no {@link urlProblem}. */
export const makePost = (target: Target): Effect.Effect<Post, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const options = { keepAlive: true, lookup: checkedLookup(target) }
        // The proxy resolves the name. This machine needs none.
        if (target.proxy !== undefined && target.url.protocol === "https:") {
          return new TunnelAgent(target.proxy, target.timeout)
        }
        return target.url.protocol === "http:" ? new http.Agent(options) : new https.Agent(options)
      }),
      (agent) => Effect.sync(() => agent.destroy())
    ),
    (agent) => (headers, body) =>
      Effect.flatMap(
        Effect.clockWith((clock) => request(target, { agent, clock }, headers, body)),
        (reply) => Effect.map(DateTime.now, (now) => answerOf(reply, DateTime.toEpochMillis(now)))
      )
  )

type Reply = Pick<http.IncomingMessage, "statusCode" | "headers"> | Error

class TimedOut extends Error {}

const request = (
  { timeout, url }: Target,
  { agent, clock }: { readonly agent: http.Agent; readonly clock: Clock.Clock },
  headers: { readonly [name: string]: string },
  body: Uint8Array
): Effect.Effect<Reply> =>
  Effect.callback<Reply>((resume) => {
    let current: http.ClientRequest | undefined
    // Its status has arrived, or nobody waits for it any more. A connection can fail then, too.
    let isOver = false
    const since = Monotonic.millisUnsafe(clock)
    const stop = () => {
      isOver = true
      clearTimeout(timer)
      current?.destroy()
    }
    const end = (reply: Reply) => {
      clearTimeout(timer)
      resume(Effect.succeed(reply))
    }
    const start = (isSecond: boolean) => {
      const sent = (url.protocol === "http:" ? http : https).request(url, {
        agent,
        method: "POST",
        headers: { ...headers, "content-type": "application/json", "content-length": body.length }
      })
      current = sent
      sent.on("response", (response) => {
        isOver = true
        clearTimeout(timer)
        const { headers: given, statusCode } = response
        // Before the end, the connection could not be used for the next request.
        discard(response, () => end({ statusCode, headers: given }))
      })
      sent.on("error", (error: NodeJS.ErrnoException) => {
        if (isOver) return
        // The receiver has closed an idle connection, and the request crossed its end.
        const isCrossed = sent.reusedSocket && error.code === "ECONNRESET"
        if (isCrossed && !isSecond && Monotonic.millisUnsafe(clock) - since < resendMs) return start(true)
        end(error)
      })
      sent.end(body)
    }
    start(false)
    const timer = setTimeout(() => {
      stop()
      end(new TimedOut())
    }, Duration.toMillis(timeout))
    return Effect.sync(stop)
  })

/** Reads the rest of an answer, so that its connection can be used again, but not for long. Then calls `done`. */
const discard = (response: http.IncomingMessage, done: () => void): void => {
  let bytes = 0
  const timer = setTimeout(() => response.destroy(), longestBodyMs)
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > longestBodyBytes) response.destroy()
  })
  response.on("error", () => {}) // the status has arrived, and "close" follows
  response.on("close", () => {
    clearTimeout(timer)
    done()
  })
}

const answerOf = (reply: Reply, now: number): Answer => {
  if (reply instanceof Error) return { _tag: "NoAnswer", problem: problemOf(reply) }
  const retryAfter = reply.headers["retry-after"]
  if (retryAfter === undefined) return { _tag: "Status", status: reply.statusCode ?? 0, retryAfter }
  const parsed = Headers.parseRetryAfter(retryAfter)
  return {
    _tag: "Status",
    status: reply.statusCode ?? 0,
    retryAfter: Result.isSuccess(parsed) ? Headers.retryAfterDelay(parsed.success, now) : undefined
  }
}

const problemOf = (error: NodeJS.ErrnoException) =>
  error instanceof TimedOut
    ? "timeout"
    : error instanceof AddressRefused
    ? "address"
    // EPROTO: the server does not speak TLS.
    : /^EPROTO$|CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO_/.test(error.code ?? "")
    ? "tls"
    : "connection"
