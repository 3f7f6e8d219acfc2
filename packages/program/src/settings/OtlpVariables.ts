/**
 * The settings of the OTLP export: the environment variables of the OpenTelemetry specification. An invalid setting
 * gets a warning and turns its signal off. It never ends the program, because platforms set these variables for all
 * programs.
 *
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
import { Config, Duration, Effect, Redacted } from "effect"

/** What is exported, as the names of the variables spell it. */
export const signals = ["TRACES", "METRICS", "LOGS"] as const
/** One of {@link signals}. */
export type Signal = typeof signals[number]

export interface SignalSettings {
  readonly url: string
  readonly protocol: "http/protobuf" | "http/json"
  /** They often contain a key. */
  readonly headers: Redacted.Redacted<Readonly<Record<string, string>>>
  readonly compression: "gzip" | "none"
  /** The limit of one request. */
  readonly timeout: Duration.Duration
}

export interface OtlpSettings {
  readonly signals: { readonly [name in Signal]?: SignalSettings }
  readonly serviceName: string | undefined
  readonly attributes: Readonly<Record<string, string>>
  readonly metricInterval: Duration.Duration
  readonly temporality: "cumulative" | "delta"
  /** The share of traces that is exported: 0 to 1. */
  readonly traceRatio: number
  /** One sentence for each setting that is invalid. It does not contain the value, which may be a secret. */
  readonly problems: ReadonlyArray<string>
}

const perSignal = ["ENDPOINT", "PROTOCOL", "HEADERS", "COMPRESSION", "TIMEOUT"] as const

export const otlpVariables: ReadonlyArray<string> = [
  ...perSignal.map((name) => `OTEL_EXPORTER_OTLP_${name}`),
  ...signals.flatMap((signal) => perSignal.map((name) => `OTEL_EXPORTER_OTLP_${signal}_${name}`)),
  ...signals.map((signal) => `OTEL_${signal}_EXPORTER`),
  "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
  "OTEL_METRIC_EXPORT_INTERVAL",
  "OTEL_RESOURCE_ATTRIBUTES",
  "OTEL_SDK_DISABLED",
  "OTEL_SERVICE_NAME",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG"
]

/** Reads the environment, through the current `ConfigProvider`. */
export const readOtlpSettings: Effect.Effect<OtlpSettings> = Effect.gen(function*() {
  const values = new Map<string, string>()
  for (const name of otlpVariables) {
    const value = yield* Effect.orDie(Config.String(name).pipe(Config.withDefault("")))
    // The specification treats empty values as unset.
    if (value.trim() !== "") values.set(name, value.trim())
  }
  return parseOtlpSettings(values)
})

/** Collects a sentence for each value that is invalid. */
const makeReader = (values: ReadonlyMap<string, string>) => {
  const problems = new Set<string>()
  return {
    values,
    /** The same problem of a setting for all signals is reported once. */
    problems,
    /** Parses the first of these variables that is set. Records a problem if its value is invalid. */
    first: <A>(
      names: ReadonlyArray<string>,
      expected: string,
      fallback: A,
      parse: (text: string) => A | undefined
    ): A | undefined => {
      const name = names.find((candidate) => values.has(candidate))
      if (name === undefined) return fallback
      const value = parse(values.get(name) ?? "")
      if (value === undefined) problems.add(`${name} is ignored. Expected: ${expected}.`)
      return value
    }
  }
}

type Reader = ReturnType<typeof makeReader>

const parseOtlpSettings = (values: ReadonlyMap<string, string>): OtlpSettings => {
  const reader = makeReader(values)
  const { first, problems } = reader
  const isOff = values.get("OTEL_SDK_DISABLED")?.toLowerCase() === "true" ||
    ![...values.keys()].some((name) => name.endsWith("_ENDPOINT"))
  const used: { [name in Signal]?: SignalSettings } = {}
  for (const signal of isOff ? [] : signals) {
    const settings = signalSettings(reader, signal)
    if (settings !== undefined) used[signal] = settings
  }
  if (Object.keys(used).length === 0) return { ...off, problems: [...problems] }
  const minute = Duration.minutes(1)
  const { "service.name": name, ...attributes } =
    first(["OTEL_RESOURCE_ATTRIBUTES"], "NAME=VALUE,… with percent-encoded values", {}, pairsOf) ?? {}
  const others = {
    signals: used,
    serviceName: values.get("OTEL_SERVICE_NAME") ?? name,
    attributes,
    metricInterval: first(["OTEL_METRIC_EXPORT_INTERVAL"], "milliseconds", minute, millisOf) ?? minute,
    temporality: first(
      ["OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"],
      "cumulative or delta",
      "cumulative",
      (text) => oneOf(text.toLowerCase(), "cumulative", "delta")
    ) ?? "cumulative",
    traceRatio: traceRatio(reader)
  } as const
  return { ...others, problems: [...problems] }
}

const signalSettings = ({ first, values }: Reader, signal: Signal): SignalSettings | undefined => {
  const own = `OTEL_EXPORTER_OTLP_${signal}_`
  const read = <A>(name: string, expected: string, fallback: A, parse: (text: string) => A | undefined) =>
    first([`${own}${name}`, `OTEL_EXPORTER_OTLP_${name}`], expected, fallback, parse)
  const exporter = first([`OTEL_${signal}_EXPORTER`], "otlp or none", "otlp", (text) => oneOf(text, "otlp", "none"))
  if (exporter !== "otlp") return undefined
  const url = values.has(`${own}ENDPOINT`)
    ? first([`${own}ENDPOINT`], "an address such as http://127.0.0.1:4318/v1/traces", "", addressOf)
    : first(["OTEL_EXPORTER_OTLP_ENDPOINT"], "an address such as http://127.0.0.1:4318", "", (text) => {
      const base = addressOf(text)
      return base === undefined ? undefined : `${base.replace(/\/+$/, "")}/v1/${signal.toLowerCase()}`
    })
  if (url === undefined || url === "") return undefined
  const protocol = read(
    "PROTOCOL",
    "http/protobuf or http/json",
    "http/protobuf",
    (text) => oneOf(text, "http/protobuf", "http/json")
  )
  const headers = read("HEADERS", "NAME=VALUE,… with percent-encoded values", {}, pairsOf)
  const compression = read("COMPRESSION", "gzip or none", "none", (text) => oneOf(text, "gzip", "none"))
  const timeout = read("TIMEOUT", "milliseconds", Duration.seconds(10), millisOf)
  // With another protocol or without its headers, the collector would refuse the signal.
  if (protocol === undefined || headers === undefined) return undefined
  return {
    url,
    protocol,
    headers: Redacted.make(headers),
    compression: compression ?? "none",
    timeout: timeout ?? Duration.seconds(10)
  }
}

const traceRatio = ({ first }: Reader): number => {
  // A trace never begins in another process, so the "parentbased_" samplers decide as the others do.
  const sampler = first(
    ["OTEL_TRACES_SAMPLER"],
    "always_on, always_off, traceidratio, or one of them after parentbased_",
    "always_on",
    (text) => /^(?:parentbased_)?(always_on|always_off|traceidratio)$/.exec(text)?.[1]
  )
  if (sampler !== "traceidratio") return sampler === "always_off" ? 0 : 1
  return first(["OTEL_TRACES_SAMPLER_ARG"], "a number from 0 to 1", 1, ratioOf) ?? 1
}

const oneOf = <const A extends string>(text: string, ...values: ReadonlyArray<A>): A | undefined =>
  values.find((value) => value === text)

const off: Omit<OtlpSettings, "problems"> = {
  signals: {},
  serviceName: undefined,
  attributes: {},
  metricInterval: Duration.zero,
  temporality: "cumulative",
  traceRatio: 1
}

const addressOf = (text: string): string | undefined =>
  URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) ? text : undefined

const millisOf = (text: string): Duration.Duration | undefined =>
  /^\d{1,9}$/.test(text) && Number(text) > 0 ? Duration.millis(Number(text)) : undefined

const ratioOf = (text: string): number | undefined =>
  /^\d*\.?\d+(?:e[-+]?\d+)?$/i.test(text) && Number(text) <= 1 ? Number(text) : undefined

/** Parses `NAME=VALUE,…`. Both are percent-encoded. */
const pairsOf = (text: string): Readonly<Record<string, string>> | undefined => {
  const pairs: Record<string, string> = {}
  for (const pair of text.split(",").filter((part) => part.trim() !== "")) {
    const [, name, value] = /^\s*([^=\s]+)\s*=(.*)$/.exec(pair) ?? []
    if (name === undefined || value === undefined) return undefined
    try {
      pairs[decodeURIComponent(name)] = decodeURIComponent(value.trim())
    } catch {
      return undefined
    }
  }
  return pairs
}
