/**
 * Checks how an address is reached: its name, a connection and its certificate. It sends no request. So no key leaves
 * this machine before the certificate is checked.
 */
import { errorCode } from "@payments/copy"
import { DateTime, Duration, Effect } from "effect"
import { lookup } from "node:dns/promises"
import * as net from "node:net"
import * as tls from "node:tls"
import { ExitCode } from "../outcome/ExitCode.ts"
import { variableText } from "../settings/Setting.ts"
import { failed, type Finding, ok, skipped, warning, within } from "./Finding.ts"

/** A certificate that is valid for less time gets a warning. */
const renewalTime = Duration.days(14)

/** Reports each finding. Returns whether requests can reach the address, as far as that is known. */
export const checkAddress = Effect.fnUntraced(function*<E, R>(
  url: URL,
  limit: Duration.Duration,
  report: (finding: Finding) => Effect.Effect<void, E, R>
) {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1")
  const port = url.port === "" ? url.protocol === "https:" ? 443 : 80 : Number(url.port)
  const nowMs = DateTime.toEpochMillis(yield* DateTime.now)
  const proxy = yield* proxyOf(url)
  if (proxy !== undefined) {
    yield* report(
      skipped("connection", `${proxy} names a proxy, so the requests below show whether ${host} is reached`)
    )
    return true
  }
  const step = Effect.fnUntraced(
    function*<A>(check: string, effect: Effect.Effect<A, Finding>, found: (result: A) => Finding) {
      const finding = yield* effect.pipe(Effect.map(found), Effect.catch(Effect.succeed), within(check, limit))
      yield* report(finding)
      return finding.state !== "failed"
    }
  )
  return (yield* step("name", addressesOf(host), (addresses) => ok("name", `${host}: ${some(addresses)}`))) &&
    (yield* step("connection", connectTo(host, port), () => ok("connection", `${host}, port ${port}: accepted`))) &&
    (url.protocol === "https:"
      ? yield* step("tls", certificateOf(host, port), (certificate) => judge(host, certificate, nowMs))
      : yield* Effect.as(report(skipped("tls", `${host}: plain HTTP, which never leaves this machine`)), true))
})

const mostAddresses = 4

const some = (addresses: ReadonlyArray<string>): string => {
  const more = addresses.length - mostAddresses
  return `${addresses.slice(0, mostAddresses).join(", ")}${more > 0 ? ` and ${more} more` : ""}`
}

/** Returns the variable that names the proxy for the address, by the rules of the Node client. */
const proxyOf = Effect.fnUntraced(function*({ hostname, port, protocol }: URL) {
  // The client reaches this machine directly, and plain HTTP is for this machine only.
  if (protocol === "http:") return undefined
  const excluded = ((yield* variableText("NO_PROXY")) ?? (yield* variableText("no_proxy")) ?? "").split(/[\s,]+/)
  const isExcluded = excluded.filter((entry) => entry !== "").some((entry) => {
    const [, name = "", only = ""] = /^(.*?)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? []
    const suffix = name.replace(/^\*?\./, "")
    return entry === "*" ||
      ((only === "" || only === (port || "443")) && (hostname === suffix || hostname.endsWith(`.${suffix}`)))
  })
  if (isExcluded) return undefined
  for (const name of ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"]) {
    const value = yield* variableText(name)
    if (value !== undefined && value !== "") return name
  }
  return undefined
})

const codeOf = (error: unknown): string =>
  error instanceof AggregateError ? codeOf(error.errors[0]) : errorCode(error) ?? "unknown"

/** The finding of an address that cannot be reached. `found` has no code. */
const unreachable = (check: string, found: string, advice: string, error: unknown): Finding =>
  failed(check, ExitCode.unavailable, `${found} (${codeOf(error)})`, { advice, reason: codeOf(error) })

const addressesOf = (host: string): Effect.Effect<ReadonlyArray<string>, Finding> =>
  net.isIP(host) > 0 ? Effect.succeed(["is an address"]) : Effect.tryPromise({
    try: () => lookup(host, { all: true }),
    catch: (error) =>
      unreachable("name", `${host}: cannot be resolved`, "Check the base address and this machine's DNS.", error)
  }).pipe(Effect.map((found) => found.map(({ address }) => address)))

const connectTo = (host: string, port: number): Effect.Effect<void, Finding> =>
  Effect.callback((resume) => {
    const socket = net.connect({ host, port })
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.void)
    })
    socket.on("error", (error) =>
      resume(Effect.fail(unreachable(
        "connection",
        `${host}, port ${port}: refused or unreachable`,
        "Check the base address, the firewall, and that the service is up.",
        error
      ))))
    return Effect.sync(() => socket.destroy())
  })

interface Presented {
  readonly validTo: number
  readonly issuer: string
  readonly protocol: string
  /** Why the client does not accept the certificate; undefined if it does. */
  readonly problem: string | undefined
}

const certificateOf = (host: string, port: number): Effect.Effect<Presented, Finding> =>
  Effect.callback((resume) => {
    const socket = tls.connect({
      host,
      port,
      ALPNProtocols: ["http/1.1"],
      // Nothing is sent. Without the certificate, its problem could not be described.
      rejectUnauthorized: false,
      ...(net.isIP(host) > 0 ? {} : { servername: host })
    })
    socket.once("secureConnect", () => {
      const { issuer, valid_to: validTo } = socket.getPeerCertificate()
      const problem: unknown = socket.authorizationError
      const name: unknown = issuer?.CN ?? issuer?.O
      const protocol = socket.getProtocol() ?? "TLS"
      socket.destroy()
      resume(Effect.succeed({
        validTo: Date.parse(validTo),
        issuer: typeof name === "string" ? name : "an unnamed authority",
        protocol,
        problem: problem === null || problem === undefined
          ? undefined
          : problem instanceof Error
          ? codeOf(problem)
          : String(problem)
      }))
    })
    socket.on("error", (error) =>
      resume(Effect.fail(unreachable(
        "tls",
        `${host}: no secure connection`,
        "Check the port of the base address: it may not speak TLS.",
        error
      ))))
    return Effect.sync(() => socket.destroy())
  })

/** What the codes of OpenSSL and Node mean for the chain of certificates. */
const chainProblems: { readonly [code: string]: readonly [problem: string, advice: string] } = {
  DEPTH_ZERO_SELF_SIGNED_CERT: ["is self-signed", "If it is the right one, name its file in NODE_EXTRA_CA_CERTS."],
  SELF_SIGNED_CERT_IN_CHAIN: [
    "comes from a root authority that this machine does not trust",
    "Name the authority's file in NODE_EXTRA_CA_CERTS."
  ],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: [
    "has no chain to a trusted authority: the server sends no intermediate certificate, or the authority is unknown",
    "The server should send the whole chain. Or name the authority's file in NODE_EXTRA_CA_CERTS."
  ],
  CERT_HAS_EXPIRED: ["has expired", "The operators of the service must renew it. Check this machine's clock too."],
  CERT_NOT_YET_VALID: ["is not valid yet", "Check this machine's clock."],
  ERR_TLS_CERT_ALTNAME_INVALID: ["is for another name", "Check the base address."]
}

const dayMs = Duration.toMillis(Duration.days(1))

const judge = (host: string, { issuer, problem, protocol, validTo }: Presented, nowMs: number): Finding => {
  const leftMs = validTo - nowMs
  const until = Number.isNaN(validTo)
    ? "an unknown day"
    : `${new Date(validTo).toISOString().slice(0, 10)} (${leftMs < 0 ? "past" : `${Math.floor(leftMs / dayMs)} days`})`
  const facts = `${host}: certificate of ${issuer}, valid until ${until}, ${protocol}`
  if (problem !== undefined) {
    const [what, advice] =
      chainProblems[/UNABLE_TO_GET_ISSUER_CERT/.test(problem) ? "UNABLE_TO_VERIFY_LEAF_SIGNATURE" : problem] ??
        ["is not accepted", "Check the certificate and its authority."]
    return failed("tls", ExitCode.unavailable, `${facts}; it ${what} (${problem})`, { advice, reason: problem })
  }
  return leftMs < Duration.toMillis(renewalTime)
    ? warning("tls", facts, "The operators of the service should renew it.")
    : ok("tls", facts)
}
