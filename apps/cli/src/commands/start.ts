/**
 * `payments start`, which `npm start` runs: the main job in one word. All three lists of the API that the environment
 * names go into ./payments.db; where it names none, those of an embedded sandbox go into ./payments-sandbox.db.
 */
import { Lists, PaymentsApi, type PaymentsApi as Api, PaymentsConfig, type PaymentsConfigError } from "@payments/core"
import { Destination } from "@payments/export"
import { logLine, print } from "@payments/export/program"
import { Config, Effect, Layer } from "effect"
import { Command } from "effect/cli"
import type { HttpClient } from "effect/http"
import { exportLists } from "./export.ts"

/** The sandbox's data: 25,000 records, and a few faults, so that retries are seen to work. */
const demonstration = {
  seed: 1,
  records: { payoutRequests: 10_000, payinSources: 5000, invoices: 10_000 },
  faults: [
    { fault: "status", status: 429, retryAfter: 1, rate: 0.004 },
    { fault: "status", status: 500, rate: 0.012 },
    { fault: "reset", rate: 0.008 }
  ]
} as const

/** `payments start`. `api` is the service of the environment, `http` what the embedded sandbox is asked over. */
export const startCommand = <R>(
  api: Layer.Layer<Api, PaymentsConfigError, R>,
  http: Layer.Layer<HttpClient.HttpClient>
) =>
  Command.make(
    "start",
    {},
    Effect.fnUntraced(function*() {
      if (yield* isConfigured) return yield* run("./payments.db").pipe(Effect.provide(api))
      yield* logLine(
        "No PAYMENTS_BASE_URL and PAYMENTS_API_KEY in the environment: reading the embedded sandbox, with made-up records. Some of its answers fail on purpose."
      )
      const { Sandbox } = yield* Effect.promise(() => import("@payments/sandbox"))
      const config = Layer.effect(
        PaymentsConfig,
        Effect.flatMap(Sandbox, ({ url }) => Sandbox.config(url, `sandbox seed ${demonstration.seed}`))
      )
      const sandboxed = PaymentsApi.layer.pipe(
        Layer.provide(http),
        Layer.provide(config),
        Layer.provide(Layer.orDie(Sandbox.layer(demonstration)))
      )
      yield* run("./payments-sandbox.db").pipe(Effect.provide(sandboxed))
    })
  ).pipe(
    Command.withDescription("Export everything: from the API in the environment, or else from an embedded sandbox")
  )

/** One setting is enough to mean the real service; the missing one is then reported, not replaced by a sandbox. */
const isConfigured = Effect.map(
  Effect.forEach(
    ["PAYMENTS_BASE_URL", "PAYMENTS_API_KEY", "PAYMENTS_API_KEY_FILE"],
    (name) => Effect.orDie(Config.String(name).pipe(Config.withDefault("")))
  ),
  (values) => values.some((value) => value !== "")
)

const run = Effect.fnUntraced(function*(file: string) {
  yield* exportLists(Lists.all.map(({ name }) => name)).pipe(
    Effect.provide(Destination.layer({ _tag: "Sqlite", file }))
  )
  // `npm start` runs before anybody has put the programs on the PATH.
  const script = yield* Effect.orDie(Config.String("npm_lifecycle_event").pipe(Config.withDefault("")))
  const program = script === "start" ? "./bin/payments" : "payments"
  yield* print(`
Next, look at the rows:
  ${program} query --from sqlite:${file} "SELECT id, status, amount FROM invoices LIMIT 5"
or read the API yourself:
  ${program} --help
`)
})
