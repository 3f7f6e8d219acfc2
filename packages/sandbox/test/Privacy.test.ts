/** Nothing of a key, a cursor, a filter, a person or an error body is told, whatever goes wrong and however loud we are. */
import { assert, describe, it } from "@effect/vitest"
import { type Lists, PaymentsApi, PaymentsConfig, type PaymentsError } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Cause, Effect, Exit, Layer, Redacted, References, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { Otlp } from "effect/observability"
import type { ServerResponse } from "node:http"
import { inspect } from "node:util"
import { pageOf, scriptedServer } from "../../core/test/ScriptedServer.ts"
import { Sandbox } from "../src/index.ts"
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

/** Lists the invoices and logs what a program would log of it; gives the cursors that came, and the error that ended it. */
const list = Effect.fnUntraced(function*(query: Lists.InvoiceFilters & { readonly limit?: number }) {
  const cursors: Array<string> = []
  const { invoices } = yield* PaymentsApi
  const exit = yield* invoices.pages({ ...query, onBadRecord: "quarantine" }).pipe(
    Stream.runForEach((page) =>
      Effect.gen(function*() {
        if (page.next !== null) cursors.push(Redacted.value(page.next).cursor)
        yield* Effect.logInfo("a page came", page.requestId)
      })
    ),
    Effect.tapCause((cause) => Effect.logFatal("the listing ended", cause)),
    Effect.withSpan("test"),
    Effect.exit
  )
  // The listing's only error.
  const error = Exit.isFailure(exit) ? exit.cause.reasons.find(Cause.isFailReason)?.error : undefined
  return { cursors, error: error as PaymentsError | undefined }
})

/** Does something with the service; gives what came of it, and the traces, metrics and logs that left the process. */
const observed = Effect.fnUntraced(function*<A, E>(
  api: Layer.Layer<PaymentsApi, E>,
  work: Effect.Effect<A, never, PaymentsApi>
) {
  const { received, url } = yield* collector
  const telemetry = Otlp.layerJson({
    baseUrl: url,
    resource: { serviceName: "test" },
    loggerMergeWithExisting: false
  }).pipe(
    Layer.provide(FetchHttpClient.layer)
  )
  const result = yield* work.pipe(
    Effect.provide(api),
    Effect.provide(telemetry),
    Effect.provideService(References.MinimumLogLevel, "All")
  )
  // What is searched must be there to be searched: spans with the conventions' names, and metrics.
  assert.isTrue(received.some((text) => text.startsWith("/v1/traces") && text.includes("http.request.method")))
  assert.isTrue(
    received.some((text) => text.startsWith("/v1/metrics") && text.includes("http.client.request.duration"))
  )
  return { received, result }
})

describe.each(Object.entries(services))("%s, nothing leaks where a service", (_, service) => {
  it.live.each(Object.entries(everyCase))("%s", ([, { config, faults, query }]) =>
    Effect.gen(function*() {
      const { received, result: { cursors, error } } = yield* observed(
        service({ lists: { invoices: records }, faults }, config),
        list({ contract: canary.contract, ...query })
      )
      const told = [...received, ...(error === undefined ? [] : faces(error))]
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

/** What a service was sent or holds, in forms in which it could pass for an id, a code or a type. */
const echoed = {
  key: "5ec2e700-ca4a-4cca-9a21-c0ffee123456",
  otherKey: "sk_CANARYKEY5ecret",
  cursor: "c0ffee00c0ffee11c0ffee22c0ffee33",
  filter: "CANARY_CONTRACT_7",
  document: "4433221100",
  name: "CANARYNAME"
}

/** The value as it is, and as it could be wrapped or spelled. */
const spellings = (value: string): ReadonlyArray<string> => [
  value,
  value.toLowerCase(),
  value.toUpperCase(),
  `req-${value}`,
  ...(value === echoed.name ? [] : [`ERR_${value}`]),
  // Nobody can know those of a value that the client has not seen.
  ...([echoed.document, echoed.name, echoed.otherKey].includes(value)
    ? []
    : [Buffer.from(value).toString("hex"), Buffer.from(value).toString("base64url")])
]

/** Where a service may put it: in an error answer, or in a page that is none. */
const echoes: { readonly [where: string]: (response: ServerResponse, text: string) => void } = {
  "as a code": (response, code) => response.writeHead(403).end(JSON.stringify({ code })),
  "as a code that it nests": (response, code) => response.writeHead(403).end(JSON.stringify({ error: { code } })),
  "as a code in a list": (response, errorCode) =>
    response.writeHead(403).end(JSON.stringify({ errors: [{ errorCode }] })),
  "as the error itself": (response, error) => response.writeHead(401).end(JSON.stringify({ error })),
  "as the id of a refused request": (response, id) => response.writeHead(403, { "x-request-id": id }).end("{}"),
  "as the id of a broken page": (response, id) => response.writeHead(200, { "request-id": id }).end("[]"),
  "as the id of a page": (response, id) =>
    response.writeHead(200, { "x-correlation-id": id }).end(`{"items":[],"cursor":null}`),
  "as a content type": (response, type) =>
    response.writeHead(200, { "content-type": `${type}/${type}; charset=${type}` }).end("<html>"),
  "as the content type of an error": (response, type) =>
    response.writeHead(403, { "content-type": `${type}/x` }).end(type),
  "as a name of a field": (response, name) =>
    response.writeHead(200).end(JSON.stringify({
      items: [{ id: "a", contract: echoed.filter, [name]: 1 }, { id: "b", contract: echoed.filter, amount: name }],
      [name]: name,
      cursor: null
    })),
  "as the reason of a status": (response, reason) => response.writeHead(599, reason).end(reason),
  "as the address of a redirect": (response, to) => response.writeHead(302, { location: `/${to}` }).end(),
  "as a range": (response, range) => response.writeHead(206, { "content-range": range }).end("{}"),
  "as a coding": (response, coding) => response.writeHead(200, { "content-encoding": coding }).end(Buffer.of(0xff)),
  "as a wait": (response, wait) => response.writeHead(400, { "retry-after": wait }).end(wait)
}

describe.each([["the Node client", layerHttpClient], ["fetch", FetchHttpClient.layer]] as const)(
  "with %s, nothing leaks where a service repeats what it was sent or what it holds",
  (_, client) => {
    it.live.each(Object.entries(echoes))("%s", ([, echo]) =>
      Effect.gen(function*() {
        const { asked, url } = yield* echoing(echo)
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
        const { received, result } = yield* observed(
          api,
          Effect.forEach(texts, (text) => Effect.andThen(asked(text), list({ contract: echoed.filter, limit: 1 })))
        )
        const errors = result.flatMap(({ error }) => error === undefined ? [] : faces(error))
        const told = [...received, ...errors].join("\n").toLowerCase()
        for (const form of [...texts, ...Object.values(echoed).flatMap(forms)]) {
          assert.isFalse(told.includes(form.toLowerCase()), `${form} was shown`)
        }
      }).pipe(Effect.scoped))
  }
)

/** Gives a page and the cursor, and then the echo of the text that was set last. */
const echoing = Effect.fnUntraced(function*(echo: (response: ServerResponse, text: string) => void) {
  let text = ""
  const { url } = yield* scriptedServer((request, response) => {
    if (!request.url?.includes("cursor=")) pageOf(response, [`{"id":"0","contract":"${echoed.filter}"}`], echoed.cursor)
    else echo(response, text)
  })
  return {
    url,
    asked: (given: string) =>
      Effect.sync(() => {
        text = given
      })
  }
})

describe("what a service says of a request in a usual form", () => {
  it.live("is shown: a code, an id and a content type", () =>
    Effect.gen(function*() {
      const { asked, url } = yield* echoing((response, id) =>
        response.writeHead(403, { "x-request-id": id, "content-type": "application/problem+json" })
          .end(`{"code":"BAD_FILTER"}`)
      )
      yield* asked("4bf92f3577b34da6a3ce929d0e0e4736")
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
