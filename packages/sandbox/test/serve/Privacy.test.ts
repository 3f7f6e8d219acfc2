/** No trace, metric, log or error contains a key, a cursor, a filter value, personal data or an error body, at any log level. */
import { assert, describe, it } from "@effect/vitest"
import { type Lists, PaymentsApi, PaymentsConfig, type PaymentsError } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { page } from "@payments/testkit/PageBody"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Cause, Effect, Exit, Layer, Redacted, References, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { Otlp } from "effect/observability"
import type { ServerResponse } from "node:http"
import { inspect } from "node:util"
import { Sandbox } from "../../src/index.ts"
import { everyCase } from "./FaultCases.ts"
import { canary, records } from "./FaultOutcomes.ts"
import { services } from "./FaultServices.ts"

/** Starts a collector of traces, metrics and logs, as they leave the process. */
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

/** Returns the encodings in which a secret could be written. */
const encodings = (secret: string): ReadonlyArray<string> => [
  secret,
  encodeURIComponent(secret),
  new URLSearchParams({ "": secret }).toString().slice(1),
  Buffer.from(secret).toString("base64").replace(/=+$/, ""),
  Buffer.from(secret).toString("base64url"),
  JSON.stringify(secret).slice(1, -1)
]

/** Returns an error in all ways in which it could be printed. */
const renderings = (error: PaymentsError): ReadonlyArray<string> => [
  error.message,
  String(error),
  error.stack ?? "",
  JSON.stringify(error),
  inspect(error, { depth: 12, showHidden: true }),
  Cause.pretty(Cause.fail(error))
]

/**
 * Lists the invoices, and logs as a program does. Returns the cursors of the pages and the error that ended the
 * listing.
 */
const list = Effect.fnUntraced(function*(query: Lists.InvoiceFilters & { readonly limit?: number }) {
  const cursors: Array<string> = []
  const { invoices } = yield* PaymentsApi
  const exit = yield* invoices.pages({ ...query, onBadRecord: "quarantine" }).pipe(
    Stream.runForEach(({ next, requestId }) =>
      Effect.gen(function*() {
        if (next !== null) cursors.push(Redacted.value(next).cursor)
        yield* Effect.logInfo("page received", requestId)
      })
    ),
    Effect.tapCause((cause) => Effect.logFatal("listing failed", cause)),
    Effect.withSpan("test"),
    Effect.exit
  )
  // A listing has no other error type.
  const error = Exit.isFailure(exit) ? exit.cause.reasons.find(Cause.isFailReason)?.error : undefined
  return { cursors, error: error as PaymentsError | undefined }
})

/** Runs an effect with telemetry. Returns its result, and the traces, metrics and logs that left the process. */
const withTelemetry = Effect.fnUntraced(function*<A, E>(
  api: Layer.Layer<PaymentsApi, E>,
  work: Effect.Effect<A, never, PaymentsApi>
) {
  const { received, url } = yield* collector
  const telemetry = Otlp.layerJson({
    baseUrl: url,
    resource: { serviceName: "test" },
    loggerMergeWithExisting: false,
    // So long that everything is delivered, also on a busy machine.
    shutdownTimeout: "1 minute"
  }).pipe(
    Layer.provide(FetchHttpClient.layer)
  )
  const result = yield* work.pipe(
    Effect.provide(api),
    Effect.provide(telemetry),
    Effect.provideService(References.MinimumLogLevel, "All")
  )
  // Without any spans and metrics, the search for secrets would prove nothing.
  assert.isTrue(received.some((text) => text.startsWith("/v1/traces") && text.includes("http.request.method")))
  assert.isTrue(
    received.some((text) => text.startsWith("/v1/metrics") && text.includes("http.client.request.duration"))
  )
  return { received, result }
})

describe.each(Object.entries(services))("%s, nothing leaks if a service", (_, service) => {
  it.live.each(Object.entries(everyCase))("%s", ([, { config, faults, query }]) =>
    Effect.gen(function*() {
      const { received, result: { cursors, error } } = yield* withTelemetry(
        service({ lists: { invoices: records }, faults }, config),
        list({ contract: canary.contract, ...query })
      )
      const output = [...received, ...(error === undefined ? [] : renderings(error))]
      assert.strictEqual(
        error !== undefined,
        output.some((text) => text.startsWith("/v1/logs") && text.includes("listing failed"))
      )
      // A fault sends an empty cursor, which every text contains.
      const secrets = [...Object.values(canary), ...cursors.filter((cursor) => cursor !== "")]
      for (const form of secrets.flatMap(encodings)) {
        for (const text of output) assert.isFalse(text.includes(form), "the output contains a secret")
      }
    }).pipe(Effect.scoped))
})

/** Values that a service received in requests or stores. They look like ids, codes or types. */
const echoed = {
  key: "5ec2e700-ca4a-4cca-9a21-c0ffee123456",
  otherKey: "sk_CANARYKEY5ecret",
  cursor: "c0ffee00c0ffee11c0ffee22c0ffee33",
  filter: "CANARY_CONTRACT_7",
  document: "4433221100",
  name: "CANARYNAME"
}

/** Returns a value in the spellings that a service could use. */
const spellings = (value: string): ReadonlyArray<string> => [
  value,
  value.toLowerCase(),
  value.toUpperCase(),
  `req-${value}`,
  ...(value === echoed.name ? [] : [`ERR_${value}`]),
  // The client cannot recognize encodings of a value that it has never received.
  ...([echoed.document, echoed.name, echoed.otherKey].includes(value)
    ? []
    : [Buffer.from(value).toString("hex"), Buffer.from(value).toString("base64url")])
]

/** The places where a service could repeat a value. */
const echoes: { readonly [where: string]: (response: ServerResponse, text: string) => void } = {
  "as a code": (response, code) => response.writeHead(403).end(JSON.stringify({ code })),
  "as a nested code": (response, code) => response.writeHead(403).end(JSON.stringify({ error: { code } })),
  "as a code in a list": (response, errorCode) =>
    response.writeHead(403).end(JSON.stringify({ errors: [{ errorCode }] })),
  "as the error itself": (response, error) => response.writeHead(401).end(JSON.stringify({ error })),
  "as the id of a refused request": (response, id) => response.writeHead(403, { "x-request-id": id }).end("{}"),
  "as the id of a broken page": (response, id) => response.writeHead(200, { "request-id": id }).end("[]"),
  "as the id of a page": (response, id) => response.writeHead(200, { "x-correlation-id": id }).end(page()),
  "as a content type": (response, type) =>
    response.writeHead(200, { "content-type": `${type}/${type}; charset=${type}` }).end("<html>"),
  "as the content type of an error": (response, type) =>
    response.writeHead(403, { "content-type": `${type}/x` }).end(type),
  "as the name of a field": (response, name) =>
    response.writeHead(200).end(JSON.stringify({
      items: [{ id: "a", contract: echoed.filter, [name]: 1 }, { id: "b", contract: echoed.filter, amount: name }],
      [name]: name,
      cursor: null
    })),
  "as the reason of a status": (response, reason) => response.writeHead(599, reason).end(reason),
  "as the address of a redirect": (response, to) => response.writeHead(302, { location: `/${to}` }).end(),
  "as a content range": (response, range) => response.writeHead(206, { "content-range": range }).end("{}"),
  "as a content encoding": (response, coding) =>
    response.writeHead(200, { "content-encoding": coding }).end(Buffer.of(0xff)),
  "as a Retry-After": (response, wait) => response.writeHead(400, { "retry-after": wait }).end(wait)
}

describe.each([["the Node client", layerHttpClient], ["fetch", FetchHttpClient.layer]] as const)(
  "with %s, nothing leaks if a service repeats what it received or stores",
  (_, client) => {
    it.live.each(Object.entries(echoes))("%s", ([, echo]) =>
      Effect.gen(function*() {
        const { setEcho, url } = yield* startEchoService(echo)
        const api = PaymentsApi.layer.pipe(
          Layer.provide(client),
          Layer.provide(Layer.effect(
            PaymentsConfig,
            Effect.map(
              PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make(echoed.key) }),
              (config) => ({ ...config, retry: { ...config.retry, attempts: 1 } })
            )
          )),
          Layer.orDie
        )
        const texts = Object.values(echoed).flatMap(spellings)
        const { received, result } = yield* withTelemetry(
          api,
          Effect.forEach(texts, (text) => Effect.andThen(setEcho(text), list({ contract: echoed.filter, limit: 1 })))
        )
        const errors = result.flatMap(({ error }) => error === undefined ? [] : renderings(error))
        const output = [...received, ...errors].join("\n").toLowerCase()
        for (const form of [...texts, ...Object.values(echoed).flatMap(encodings)]) {
          assert.isFalse(output.includes(form.toLowerCase()), `the output contains ${form}`)
        }
      }).pipe(Effect.scoped))
  }
)

/** Starts a service that returns one page with the cursor, and then answers with the text that `setEcho` set. */
const startEchoService = Effect.fnUntraced(function*(echo: (response: ServerResponse, text: string) => void) {
  let text = ""
  const { url } = yield* scriptedServer((request, response) => {
    if (!request.url?.includes("cursor=")) pageOf(response, [`{"id":"0","contract":"${echoed.filter}"}`], echoed.cursor)
    else echo(response, text)
  })
  return {
    url,
    setEcho: (value: string) =>
      Effect.sync(() => {
        text = value
      })
  }
})

describe("an error with an ordinary code, request id and content type", () => {
  it.live("shows all three", () =>
    Effect.gen(function*() {
      const { setEcho, url } = yield* startEchoService((response, id) =>
        response.writeHead(403, { "x-request-id": id, "content-type": "application/problem+json" })
          .end(`{"code":"BAD_FILTER"}`)
      )
      yield* setEcho("4bf92f3577b34da6a3ce929d0e0e4736")
      const api = PaymentsApi.layer.pipe(
        Layer.provide(layerHttpClient),
        Layer.provide(Layer.effect(PaymentsConfig, Sandbox.config(url)))
      )
      const error = yield* PaymentsApi.use(({ invoices }) =>
        Stream.runDrain(invoices.pages({ contract: echoed.filter }))
      )
        .pipe(Effect.provide(api), Effect.flip)
      assert.include(error.message, "[code BAD_FILTER, request 4bf92f3577b34da6a3ce929d0e0e4736]")
      assert.strictEqual(error.body?.contentType, "application/problem+json")
    }).pipe(Effect.scoped))
})
