/**
 * The server of every measurement of a client: a bare `node:http` server in another process. It sends prepared bytes,
 * so that the server costs little. The records are those of the sandbox, with undocumented fields.
 *
 * | address | response |
 * |---|---|
 * | `/v0/payoutRequests` | the pages, by cursor |
 * | `/v1/invoices` | the pages of invoices, prepared at the first request |
 * | `/slow/v0/payoutRequests` | the same, 50 ms later |
 * | `/times/N/v0/payoutRequests` | the same pages N times over, each time under new cursors |
 * | `/down/v0/payoutRequests` | 503 |
 * | `/v1/payouts` | the same records in Stripe's list shape, by `starting_after` |
 * | `/requests` | the number of requests since the last request of this address |
 */
import { records } from "@payments/sandbox"
import * as Listening from "@payments/testkit/Listening"
import { page } from "@payments/testkit/PageBody"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

export const pageSize = 100
const slowMs = 50

/** Listens on a free port of this machine. Returns the address. */
export const listen = async (length: number): Promise<string> => {
  const { bodies, stripe } = prepare("payoutRequests", length)
  let invoices: ReadonlyArray<Buffer> | undefined
  let requests = 0
  const respond = (request: IncomingMessage, response: ServerResponse): void => {
    const url = request.url ?? ""
    if (url === "/requests") {
      send(response, Buffer.from(String(requests)))
      requests = 0
      return
    }
    requests++
    if (url.startsWith("/v1/invoices")) {
      invoices ??= prepare("invoices", length).bodies
      return send(response, invoices[pageOfCursor(parameter(url, "cursor"))])
    }
    if (url.startsWith("/v1/payouts")) return send(response, stripe.get(parameter(url, "starting_after")))
    if (url.startsWith("/down/")) return void response.writeHead(503).end()
    const index = pageOfCursor(parameter(url, "cursor"))
    const times = /^\/times\/(\d+)\//.exec(url)?.[1]
    if (times !== undefined) return send(response, repeated(bodies, index, Number(times)))
    if (url.startsWith("/slow/")) return void setTimeout(() => send(response, bodies[index]), slowMs)
    send(response, bodies[index])
  }
  const { port } = await Listening.listen(createServer({ keepAliveTimeout: 600_000 }, respond))
  return `http://127.0.0.1:${port}`
}

const send = (response: ServerResponse, body: Buffer | undefined): void => {
  if (body === undefined) return void response.writeHead(400).end()
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body)
}

const prepare = (of: "payoutRequests" | "invoices", length: number) => {
  const { textAt } = records(of, length, 1)
  const bodies: Array<Buffer> = []
  const stripe = new Map<string | undefined, Buffer>()
  let before: string | undefined
  for (let from = 0; from < length; from += pageSize) {
    const items = Array.from({ length: Math.min(pageSize, length - from) }, (_, offset) => textAt(from + offset))
    const more = from + pageSize < length
    const cursor = more ? cursorOfPage(bodies.length + 1) : null
    const list = `[${items.join(",")}]`
    bodies.push(Buffer.from(page(items, cursor)))
    stripe.set(before, Buffer.from(`{"object":"list","data":${list},"has_more":${more},"url":"/v1/payouts"}`))
    before = /"id":"([^"]*)"/.exec(items.at(-1) ?? "")?.[1]
  }
  return { bodies, stripe }
}

/** Makes a cursor of the usual length, so that its cost is realistic. All cursors have the same length. */
const cursorOfPage = (number: number): string =>
  Buffer.from(`payoutRequests:100:${String(number).padStart(10, "0")}`).toString("base64url")

const pageOfCursor = (cursor: string | undefined): number =>
  cursor === undefined ? 0 : Number(Buffer.from(cursor, "base64url").toString().slice(-10))

/** Returns page number `number` of the list repeated `times` times. Its cursor leads to the next page. */
const repeated = (bodies: ReadonlyArray<Buffer>, number: number, times: number): Buffer | undefined => {
  const body = bodies[number % bodies.length]
  const last = number + 1 === bodies.length * times
  if (body === undefined) return undefined
  const end = body.lastIndexOf(`,"cursor":`)
  const cursor = last ? null : cursorOfPage(number + 1)
  return Buffer.concat([body.subarray(0, end), Buffer.from(`,"cursor":${JSON.stringify(cursor)},"count":${pageSize}}`)])
}

const parameter = (url: string, name: string): string | undefined =>
  new URL(url, "http://localhost").searchParams.get(name) ?? undefined
