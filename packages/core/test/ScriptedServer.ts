/**
 * A real server on this machine that answers each request as the test says: for what the sandbox's faults cannot express,
 * such as a header, a byte that is no text, or what a connection goes through.
 */
import { Effect } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

/** Answers one request; `count` is its number, from 1. */
export type Script = (request: IncomingMessage, response: ServerResponse, count: number) => void

/** Runs the server until the scope closes; gives its address and the paths that were asked. Tunnels are told and refused. */
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

/** Answers with a page of these records, as JSON text. */
export const pageOf = (response: ServerResponse, records: ReadonlyArray<string>, cursor: string | null) =>
  response.writeHead(200, { "content-type": "application/json" })
    .end(`{"items":[${records.join(",")}],"cursor":${JSON.stringify(cursor)},"count":${records.length}}`)
