/**
 * `payments start`, which `npm start` runs. Exports all lists of the API in `PAYMENTS_BASE_URL` into ./payments.db. If no API
 * is configured, it exports the lists of an embedded sandbox into ./payments-sandbox.db.
 */
import { Destination } from "@payments/copy"
import { Lists, PaymentsApi, type PaymentsApi as Api, PaymentsConfig } from "@payments/core"
import { ChosenSource, environmentPersonal, logLine, print, type ProgramError, usage } from "@payments/program"
import { Config, Effect, Layer } from "effect"
import { Command } from "effect/cli"
import type { HttpClient } from "effect/http"
import { type ResultFormat, resultFormatFlag } from "../output/ResultOutput.ts"
import { exportLists, type ExportOutput } from "./export.ts"

/**
 * The options of the sandbox: 10,000 records in each list, and a few faults that show how retries work. A few large amounts
 * would hide all others in a chart.
 */
const demonstration = {
  seed: 1,
  records: 10_000,
  unusualAmounts: false,
  faults: [
    { fault: "status", status: 429, retryAfter: 1, rate: 0.004 },
    { fault: "status", status: 500, rate: 0.012 },
    { fault: "reset", rate: 0.008 }
  ]
} as const

/** Makes the command. `api` takes its settings from environment variables. `http` reaches the embedded sandbox. */
export const startCommand = <R>(
  api: Layer.Layer<Api, ProgramError, R>,
  http: Layer.Layer<HttpClient.HttpClient>
) =>
  Command.make(
    "start",
    { format: resultFormatFlag },
    Effect.fnUntraced(function*({ format }) {
      if ((yield* ChosenSource).isNamed) {
        return yield* usage(
          "start reads the environment or a sandbox. For a source, use payments export --source NAME."
        )
      }
      if (yield* isConfigured) return yield* run("./payments.db", format).pipe(Effect.provide(api))
      yield* logLine(
        "PAYMENTS_BASE_URL and PAYMENTS_API_KEY are not set. Reading the embedded sandbox, with made-up records; some requests fail on purpose."
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
      yield* run("./payments-sandbox.db", format).pipe(Effect.provide(sandboxed))
    })
  ).pipe(
    Command.withDescription(
      "Export all lists from the API in PAYMENTS_BASE_URL, or from an embedded sandbox if no API is configured"
    ),
    Command.withExamples([
      {
        command: "payments start",
        description: "into ./payments.db; without settings, made-up records into ./payments-sandbox.db"
      },
      { command: "payments start --log-level debug", description: "and show each request" }
    ])
  )

/** Whether any setting of the real service is set. If another one is missing, the command reports it and uses no sandbox. */
const isConfigured = Effect.map(
  Effect.forEach(
    ["PAYMENTS_BASE_URL", "PAYMENTS_API_KEY", "PAYMENTS_API_KEY_FILE"],
    (name) => Effect.orDie(Config.String(name).pipe(Config.withDefault("")))
  ),
  (values) => values.some((value) => value !== "")
)

const run = Effect.fnUntraced(function*(file: string, format: ResultFormat) {
  const output: ExportOutput = {
    isStored: true,
    format,
    next: `payments start${format === "text" ? "" : ` --format ${format}`}`,
    acceptMissing: (list, records) =>
      `payments export ${Lists.byName[list].label} --to sqlite:${file} --accept-missing ${records}`
  }
  const personal = yield* environmentPersonal
  yield* exportLists(Lists.all.map(({ name }) => name), { personal }, output).pipe(
    Effect.provide(Destination.layer({ _tag: "Sqlite", file }))
  )
  if (format === "json") return
  // After `npm start` the program is usually not on the PATH yet.
  const script = yield* Effect.orDie(Config.String("npm_lifecycle_event").pipe(Config.withDefault("")))
  const program = script === "start" ? "./bin/payments" : "payments"
  yield* print(`
Next, look at the rows:
  ${program} query --from sqlite:${file} "SELECT id, status, amount FROM invoices LIMIT 5"
draw a chart:
  ${program} query settled-by-day --chart --from sqlite:${file}
or read the API yourself:
  ${program} --help
`)
})
