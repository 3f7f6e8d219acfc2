/**
 * A local HTTP server whose answers the test scripts. It covers cases that the sandbox's faults cannot express, such as
 * a header, a byte that is not text, or a proxy.
 */
import { Effect } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { scopedListening } from "./Listening.ts"
import { page } from "./PageBody.ts"

/** Answers one request; `count` is its number, from 1. */
export type Script = (request: IncomingMessage, response: ServerResponse, count: number) => void

/**
 * Runs the server until the scope closes. Returns its address and the paths that were requested. Reports `CONNECT`
 * tunnels to `onTunnel` and refuses them.
 */
export const scriptedServer = Effect.fnUntraced(function*(
  script: Script,
  onTunnel: (host: string) => void = () => {}
) {
  const requests: Array<string> = []
  const server = createServer((request, response) => {
    requests.push(request.url ?? "")
    script(request, response, requests.length)
  })
  server.on("connect", (request, socket) => {
    onTunnel(request.url ?? "")
    socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n")
  })
  const { close, port } = yield* scopedListening(server)
  return { url: `http://127.0.0.1:${port}`, requests, close }
})

/** Sends a page of these records, which are JSON texts. */
export const pageOf = (response: ServerResponse, records: ReadonlyArray<string>, cursor: string | null) =>
  response.writeHead(200, { "content-type": "application/json" })
    .end(page(records, cursor))
