/** The settings of the whole process for people: which source is used, proxies, certificates, PostgreSQL, telemetry. */
import { printable } from "@payments/copy"
import { Effect } from "effect"
import { variableText } from "../settings/Setting.ts"
import { ChosenSource } from "./ChosenSource.ts"
import { masked, type ShownSetting } from "./ShownValues.ts"

/** Variables of Node, the PostgreSQL driver and OpenTelemetry that change what the programs do. */
const variables = [
  "HTTPS_PROXY",
  "https_proxy",
  "HTTP_PROXY",
  "http_proxy",
  "NO_PROXY",
  "no_proxy",
  "NODE_EXTRA_CA_CERTS",
  "NODE_TLS_REJECT_UNAUTHORIZED",
  "PGHOST",
  "PGPORT",
  "PGUSER",
  "PGDATABASE",
  "PGPASSWORD",
  "PGPASSFILE",
  "PGSSLMODE",
  "PGSSLROOTCERT",
  "OTEL_SDK_DISABLED",
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  "OTEL_EXPORTER_OTLP_HEADERS",
  "OTEL_SERVICE_NAME",
  "NO_COLOR",
  "FORCE_COLOR"
]

/** Variables whose whole value may be a secret. */
const secrets = new Set(["PGPASSWORD", "OTEL_EXPORTER_OTLP_HEADERS"])

/** Returns the settings that are set, and those with a default that people may want to see. */
export const processSettings: Effect.Effect<ReadonlyArray<ShownSetting>, never, ChosenSource> = Effect.gen(
  function*() {
    const { fileToEdit, namedBy } = yield* ChosenSource
    const file = yield* Effect.option(fileToEdit)
    const trace = yield* variableText("PAYMENTS_TRACE_HEADERS")
    const set = yield* Effect.forEach(
      variables,
      (name) =>
        Effect.map(
          variableText(name),
          (text) => text === undefined || text === "" ? [] : [{ name, value: withoutSecret(name, text), from: name }]
        )
    )
    return [
      ...(file._tag === "None" ? [] : [{ name: "config", ...file.value, value: printable(file.value.value) }]),
      ...(namedBy === undefined ? [] : [{ name: "source", ...namedBy, value: printable(namedBy.value) }]),
      trace === undefined
        ? { name: "trace_headers", value: "false", from: "default" }
        : { name: "trace_headers", value: trace, from: "PAYMENTS_TRACE_HEADERS" },
      ...set.flat()
    ]
  }
)

/** Masks a secret, and the user and password in a URL. */
const withoutSecret = (name: string, text: string): string =>
  secrets.has(name) ? masked : text.includes("@") ? text.replace(/^([a-z0-9+.-]+:\/\/)?.*@/is, `$1${masked}@`) : text
