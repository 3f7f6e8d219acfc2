/**
 * A local HTTP server whose answers the test scripts. It covers cases that the sandbox's faults cannot express, such as
 * a header, a byte that is not text, or a proxy.
 */
import { Effect } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { page } from "./PageBody.ts"

/** Answers one request; `count` is its number, from 1. */
export type Script = (request: IncomingMessage, response: ServerResponse, count: number) => void

/**
 * Runs the server until the scope closes. Returns its address and the paths that were requested. Reports `CONNECT`
 * tunnels to `onTunnel` and refuses them.
 */
export const scriptedServer = (script: Script, onTunnel: (host: string) => void = () => {}) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly requests: Array<string>; readonly close: () => void }>(
      (resume) => {
        const requests: Array<string> = []
        const server = createServer((request, response) => {
          requests.push(request.url ?? "")
          script(request, response, requests.length)
        })
        server.on("connect", (request, socket) => {
          onTunnel(request.url ?? "")
          socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n")
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          const close = () => {
            server.close()
            server.closeAllConnections()
          }
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, requests, close }))
        })
      }
    ),
    ({ close }) => Effect.sync(close)
  )

/** Sends a page of these records, which are JSON texts. */
export const pageOf = (response: ServerResponse, records: ReadonlyArray<string>, cursor: string | null) =>
  response.writeHead(200, { "content-type": "application/json" })
    .end(page(records, cursor))
