/**
 * Sends the answers of a list service over a socket. Only this module truncates, delays, compresses and chunks answers. It
 * uses Node's server without a router, which adds little to the cost of sending the bytes.
 */
import type { Reply, ServiceRequest } from "@payments/core/testing"
import { Data, Effect } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { type Encode, makeEncoder } from "./Encoder.ts"

/** Where a socket listens. */
export interface ListenOptions {
  /** The address; default 127.0.0.1. */
  readonly host?: string | undefined
  /** The port; 0, the default, selects a free port. */
  readonly port?: number | undefined
}

/** The server cannot listen at the address. */
export class SandboxError extends Data.TaggedError("SandboxError")<{
  /** Node's error code, or `unknown`. */
  readonly code: string
  readonly host: string
  readonly port: number
  /** Which server could not listen. */
  readonly endpoint: "lists" | "controls" | "receiver"
}> {
  override get message() {
    const problem = this.code === "EADDRINUSE" ? "is in use" : `cannot be used (${this.code})`
    return `the sandbox cannot start: ${this.host} port ${this.port} ${problem}. Choose another port or address.`
  }
}

/** Returns the error for a server that could not listen. */
export const listenError = (cause: unknown, at: Pick<SandboxError, "host" | "port" | "endpoint">): SandboxError =>
  new SandboxError({
    ...at,
    code: typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
      ? cause.code
      : "unknown"
  })

/**
 * Returns the base address of a server for clients on this machine. If the server listens on all addresses, this is the
 * loopback address.
 */
export const urlOf = (host: string, address: unknown, port: number): string => {
  const bound = typeof address === "object" && address !== null && "address" in address ? address.address : undefined
  const reachable = bound === "0.0.0.0" ? "127.0.0.1" : bound === "::" ? "::1" : host
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`
}

/** Listens until the scope closes, which closes every connection. Returns the base address. */
export const listen = (options: ListenOptions, answer: (request: ServiceRequest) => Reply, now: () => number) =>
  listenWith({ ...options, endpoint: "lists" }, (request, send) => {
    const { headers: { authorization, "if-none-match": ifNoneMatch }, method, url: target = "" } = request
    send(answer({ method, target, authorization, ifNoneMatch, now: now() }))
  })

/** Does the same, for a function that sends the answer when it has read the request. */
export const listenWith = Effect.fnUntraced(function*(
  { endpoint, host = "127.0.0.1", port = 0 }: ListenOptions & Pick<SandboxError, "endpoint">,
  onRequest: (request: IncomingMessage, send: (reply: Reply) => void) => void
) {
  const encode = makeEncoder()
  const server = createServer((request, response) =>
    resetOnError(
      request,
      () => onRequest(request, (reply) => resetOnError(request, () => perform(reply, encode, request, response)))
    )
  )
  yield* Effect.acquireRelease(
    Effect.callback<void, SandboxError>((resume) => {
      server.once("error", (error) => resume(Effect.fail(listenError(error, { host, port, endpoint }))))
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
    // Clients keep idle connections open. Without this, the server would wait until they close them.
    server.closeAllConnections()
  })

/** Runs an action. If it throws, resets only the connection of this request, so that the server keeps running. */
const resetOnError = (request: IncomingMessage, action: () => void): void => {
  try {
    action()
  } catch {
    request.socket.resetAndDestroy()
  }
}

const perform = (reply: Reply, encode: Encode, request: IncomingMessage, response: ServerResponse): void => {
  const action = () => send(reply, encode, request, response)
  if (reply.delayMs === undefined) action()
  else runAfter(response, reply.delayMs, () => resetOnError(request, action))
}

/** The longest delay of a timer in Node. A timer with a longer delay fires immediately. */
const longestTimerMs = 2 ** 31 - 1

/** Runs an action after some time, unless the connection closes before. */
const runAfter = (response: ServerResponse, ms: number, action: () => void): void => {
  const cancel = () => clearTimeout(timer)
  const timer = setTimeout(() => {
    // A body in many chunks would otherwise add a listener for each.
    response.off("close", cancel)
    action()
  }, Math.min(ms, longestTimerMs))
  response.once("close", cancel)
}

const send = (reply: Reply, encode: Encode, request: IncomingMessage, response: ServerResponse): void => {
  if (reply.truncation?.after === "nothing") endConnection(reply.truncation.connection, request)
  else if (reply.encoding === undefined && reply.padding === undefined) {
    sendBody(reply, Buffer.from(reply.body), request, response)
  } else {
    encode(reply).then(
      (body) => resetOnError(request, () => sendBody(reply, body, request, response)),
      () => request.socket.resetAndDestroy()
    )
  }
}

const sendBody = (reply: Reply, body: Buffer, request: IncomingMessage, response: ServerResponse): void => {
  const { truncation } = reply
  const hasContentLength = truncation === undefined && reply.drip === undefined || reply.sized === true
  response.writeHead(reply.status, {
    ...reply.headers,
    ...(reply.encoding === undefined ? {} : { "content-encoding": reply.encoding }),
    ...(hasContentLength ? { "content-length": body.length } : {})
  })
  if (truncation === undefined && reply.drip === undefined) {
    response.end(body)
    return
  }
  const sentBody = truncation === undefined || truncation.after === "nothing"
    ? body
    : body.subarray(0, truncation.after)
  const end = () => {
    if (truncation === undefined) response.end()
    else endConnection(truncation.connection, request)
  }
  if (reply.drip === undefined) response.write(sentBody, end)
  else drip(response, sentBody, reply.drip, end)
}

/** Ends the connection of a truncated answer. An `open` connection stays open. */
const endConnection = (
  connection: NonNullable<Reply["truncation"]>["connection"],
  { socket }: IncomingMessage
): void => {
  if (connection === "reset") socket.resetAndDestroy()
  else if (connection === "closed") socket.end()
}

/** Sends a body in small chunks, one after each pause. */
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
  runAfter(response, everyMs, () =>
    response.write(
      body.subarray(0, bytes),
      () => drip(response, body.subarray(bytes), { bytes, everyMs }, end)
    ))
}
