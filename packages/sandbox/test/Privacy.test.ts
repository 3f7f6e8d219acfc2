/** Nothing of a key, a cursor, a filter, a person or an error body is told, whatever goes wrong and however loud we are. */
import { assert, describe, it } from "@effect/vitest"
import { PaymentsApi, type PaymentsError } from "@payments/core"
import { Cause, Effect, Exit, Layer, Redacted, References, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { Otlp } from "effect/observability"
import { inspect } from "node:util"
import { scriptedServer } from "../../core/test/ScriptedServer.ts"
import { everyCase } from "./FaultCases.ts"
import { canary, records } from "./FaultOutcomes.ts"
import { services } from "./FaultServices.ts"

/** A collector of traces, metrics and logs, as they would leave the process. */
const collector = Effect.gen(function*() {
  const received: Array<string> = []
  const { url } = yield* scriptedServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
      received.push(`${request.url} ${Buffer.concat(chunks).toString()}`)
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  })
  return { url, received }
})

/** A secret as it could be written. */
const forms = (secret: string): ReadonlyArray<string> => [
  secret,
  encodeURIComponent(secret),
  new URLSearchParams({ "": secret }).toString().slice(1),
  Buffer.from(secret).toString("base64").replace(/=+$/, ""),
  Buffer.from(secret).toString("base64url"),
  JSON.stringify(secret).slice(1, -1)
]

/** Everything that may be printed of an error. */
const faces = (error: PaymentsError): ReadonlyArray<string> => [
  error.message,
  String(error),
  error.stack ?? "",
  JSON.stringify(error),
  inspect(error, { depth: 12, showHidden: true }),
  Cause.pretty(Cause.fail(error))
]

describe.each(Object.entries(services))("%s, nothing leaks where a service", (_, service) => {
  it.live.each(Object.entries(everyCase))("%s", ([, { config, faults, query }]) =>
    Effect.gen(function*() {
      const { received, url } = yield* collector
      const cursors: Array<string> = []
      const telemetry = Otlp.layerJson({
        baseUrl: url,
        resource: { serviceName: "test" },
        loggerMergeWithExisting: false
      }).pipe(
        Layer.provide(FetchHttpClient.layer)
      )
      const exit = yield* Effect.gen(function*() {
        const { invoices } = yield* PaymentsApi
        yield* invoices.pages({ contract: canary.contract, ...query, onBadRecord: "quarantine" }).pipe(
          Stream.runForEach((page) =>
            Effect.sync(() => {
              if (page.next !== null) cursors.push(Redacted.value(page.next).cursor)
            })
          ),
          Effect.tapCause((cause) => Effect.logFatal("the listing ended", cause)),
          Effect.withSpan("test")
        )
      }).pipe(
        Effect.provide(service({ lists: { invoices: records }, faults }, config)),
        Effect.exit,
        Effect.provide(telemetry),
        Effect.provideService(References.MinimumLogLevel, "All")
      )
      const error = Exit.isFailure(exit) ? exit.cause.reasons.find(Cause.isFailReason)?.error : undefined
      const told = [...received, ...(error === undefined ? [] : faces(error as PaymentsError))] // the listing's only error
      // What is searched must be there to be searched: spans with the conventions' names, and metrics.
      assert.isTrue(told.some((text) => text.startsWith("/v1/traces") && text.includes("http.request.method")))
      assert.isTrue(
        told.some((text) => text.startsWith("/v1/metrics") && text.includes("http.client.request.duration"))
      )
      assert.strictEqual(
        error !== undefined,
        told.some((text) => text.startsWith("/v1/logs") && text.includes("the listing ended"))
      )
      const secrets = [...Object.values(canary), ...cursors.filter((cursor) => cursor.length > 4)]
      for (const form of secrets.flatMap(forms)) {
        for (const text of told) assert.isFalse(text.includes(form), "a secret was told")
      }
    }).pipe(Effect.scoped))
})
