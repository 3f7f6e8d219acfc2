/**
 * Performs the answers of a list service on a socket: the one place that knows how an answer is cut, dripped, compressed
 * or never finished. Node's own server is used without a router, so that it costs little more than the bytes it sends.
 */
import type { Reply, ServiceRequest } from "@payments/core/testing"
import { Data, Effect } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { type Encode, makeEncoder } from "./Encoder.ts"

/** Where a socket listens. */
export interface ListenOptions {
  /** 127.0.0.1 unless given. */
  readonly host?: string | undefined
  /** A free one is taken for 0, the default. */
  readonly port?: number | undefined
}

/** The address cannot be listened on. */
export class SandboxError extends Data.TaggedError("SandboxError")<{
  readonly code: string
  readonly host: string
  readonly port: number
  /** What was to listen there. */
  readonly endpoint: "lists" | "controls"
}> {
  override get message() {
    const problem = this.code === "EADDRINUSE" ? "is in use" : `cannot be listened on (${this.code})`
    return `the sandbox cannot start: ${this.host} port ${this.port} ${problem}. Choose another one.`
  }
}

/** The error of a server that could not listen. */
export const listenError = (cause: unknown, at: Pick<SandboxError, "host" | "port" | "endpoint">): SandboxError =>
  new SandboxError({
    ...at,
    code: typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
      ? cause.code
      : "unknown"
  })

/** The base address for clients on this machine of a server that listens there: of all addresses, the loopback one. */
export const urlOf = (host: string, address: unknown, port: number): string => {
  const bound = typeof address === "object" && address !== null && "address" in address ? address.address : undefined
  const named = bound === "0.0.0.0" ? "127.0.0.1" : bound === "::" ? "::1" : host
  return `http://${named.includes(":") ? `[${named}]` : named}:${port}`
}

/** Listens until the scope closes, which cuts every connection; gives the base address. */
export const listen = Effect.fnUntraced(function*(
  { host = "127.0.0.1", port = 0 }: ListenOptions,
  answer: (request: ServiceRequest) => Reply,
  now: () => number
) {
  const encode = makeEncoder()
  const server = createServer((request, response) => {
    const { headers: { authorization }, method, url: target = "" } = request
    guarded(
      request,
      () => perform(answer({ method, target, authorization, now: now() }), encode, request, response)
    )
  })
  yield* Effect.acquireRelease(
    Effect.callback<void, SandboxError>((resume) => {
      server.once("error", (error) => resume(Effect.fail(listenError(error, { host, port, endpoint: "lists" }))))
      server.listen(port, host, () => resume(Effect.void))
    }),
    () => close(server)
  )
  const address = server.address()
  return urlOf(host, address, typeof address === "object" && address !== null ? address.port : port)
})

const close = (server: Server): Effect.Effect<void> =>
  Effect.callback((resume) => {
    server.close(() => resume(Effect.void))
    // Clients keep connections open for the next request; without this the server would wait for them to leave.
    server.closeAllConnections()
  })

/** Does something that must not bring the whole server down: where it throws, its own connection is reset. */
const guarded = (request: IncomingMessage, act: () => void): void => {
  try {
    act()
  } catch {
    request.socket.resetAndDestroy()
  }
}

const perform = (reply: Reply, encode: Encode, request: IncomingMessage, response: ServerResponse): void => {
  const act = () => send(reply, encode, request, response)
  if (reply.delayMs === undefined) act()
  else later(response, reply.delayMs, () => guarded(request, act))
}

/** Node takes a longer time for no time at all. */
const longestTimerMs = 2 ** 31 - 1

/** Does something after a while, unless the client has gone. */
const later = (response: ServerResponse, ms: number, act: () => void): void => {
  const forget = () => clearTimeout(timer)
  const timer = setTimeout(() => {
    // A body in small pieces waits many times.
    response.off("close", forget)
    act()
  }, Math.min(ms, longestTimerMs))
  response.once("close", forget)
}

const send = (reply: Reply, encode: Encode, request: IncomingMessage, response: ServerResponse): void => {
  if (reply.truncation?.after === "nothing") leave(reply.truncation.connection, request)
  else if (reply.encoding === undefined && reply.padding === undefined) {
    sendBody(reply, Buffer.from(reply.body), request, response)
  } else {
    encode(reply).then(
      (body) => guarded(request, () => sendBody(reply, body, request, response)),
      () => request.socket.resetAndDestroy()
    )
  }
}

const sendBody = (reply: Reply, body: Buffer, request: IncomingMessage, response: ServerResponse): void => {
  const { truncation } = reply
  const sized = truncation === undefined && reply.drip === undefined || reply.sized === true
  response.writeHead(reply.status, {
    ...reply.headers,
    ...(reply.encoding === undefined ? {} : { "content-encoding": reply.encoding }),
    ...(sized ? { "content-length": body.length } : {})
  })
  if (truncation === undefined && reply.drip === undefined) {
    response.end(body)
    return
  }
  const sent = truncation === undefined || truncation.after === "nothing" ? body : body.subarray(0, truncation.after)
  const end = () => {
    if (truncation === undefined) response.end()
    else leave(truncation.connection, request)
  }
  if (reply.drip === undefined) response.write(sent, end)
  else drip(response, sent, reply.drip, end)
}

const leave = (connection: NonNullable<Reply["truncation"]>["connection"], { socket }: IncomingMessage): void => {
  if (connection === "reset") socket.resetAndDestroy()
  else if (connection === "closed") socket.end()
}

const drip = (
  response: ServerResponse,
  body: Buffer,
  { bytes, everyMs }: NonNullable<Reply["drip"]>,
  end: () => void
): void => {
  if (body.length === 0) {
    end()
    return
  }
  later(response, everyMs, () =>
    response.write(
      body.subarray(0, bytes),
      () => drip(response, body.subarray(bytes), { bytes, everyMs }, end)
    ))
}
