/**
 * An `HttpClient` whose requests a {@link ListService} answers in process, without a socket. Time is the clock of the
 * fiber.
 */
import { Effect, Layer, Stream } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import type { ListService } from "./ListService.ts"
import type { Reply } from "./Reply.ts"
import { serviceTime } from "./ServiceTime.ts"

/** Provides an `HttpClient` that sends all requests to the service that `make` creates. */
export const layerClient = (make: (now: number) => ListService): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.gen(function*() {
      const now = yield* serviceTime
      const service = make(now())
      return HttpClient.make(Effect.fnUntraced(function*(request, url) {
        const { reply } = service.answer({
          method: request.method,
          target: url.pathname + url.search,
          authorization: request.headers["authorization"],
          ifNoneMatch: request.headers["if-none-match"],
          now: now()
        })
        return yield* perform(request, reply)
      }))
    })
  )

const perform = Effect.fnUntraced(function*(request: HttpClientRequest.HttpClientRequest, reply: Reply) {
  if (reply.delayMs !== undefined) yield* Effect.sleep(reply.delayMs)
  if (reply.truncation?.after === "nothing") {
    if (reply.truncation.connection === "open") return yield* Effect.never
    return yield* new HttpClientError.HttpClientError({
      reason: new HttpClientError.TransportError({ request, cause: connectionLost })
    })
  }
  const { headers, status } = reply
  const body = reply.body === ""
    ? null
    : reply.truncation === undefined && reply.drip === undefined && reply.padding === undefined
    ? reply.body
    : yield* Stream.toReadableStreamEffect(chunksOf(reply))
  return HttpClientResponse.fromWeb(request, new Response(body, { status, headers }))
})

/** The error of Node for a connection that was reset. */
const connectionLost = Object.assign(new Error("connection lost"), { code: "ECONNRESET" })

/** Returns the body in its chunks. The chunks are decompressed, since `HttpClient` hides the encoding. */
const chunksOf = ({ body, truncation, drip, padding }: Reply): Stream.Stream<Uint8Array<ArrayBuffer>, Error> => {
  const bytes = new TextEncoder().encode(body)
  const sent = truncation === undefined || truncation.after === "nothing" ? bytes : bytes.subarray(0, truncation.after)
  const chunks = drip === undefined
    ? Stream.make(sent)
    : Stream.range(0, Math.ceil(sent.length / drip.bytes) - 1).pipe(
      Stream.mapEffect((index) =>
        Effect.as(Effect.sleep(drip.everyMs), sent.subarray(index * drip.bytes, (index + 1) * drip.bytes))
      )
    )
  const spaces = Stream.map(Stream.range(1, padding ?? 0), () => new Uint8Array(1024 * 1024).fill(0x20))
  const end = truncation === undefined
    ? Stream.empty
    : truncation.connection === "open"
    ? Stream.never
    : Stream.fail(connectionLost)
  return Stream.concat(Stream.concat(chunks, padding === undefined ? Stream.empty : spaces), end)
}
