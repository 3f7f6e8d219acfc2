/** Scenarios: named sets of faults, each with a description. */
import { catalogue, type Fault } from "@payments/core/testing"
import { Result, Schema, SchemaIssue } from "effect"

/** A scenario. */
export interface Scenario {
  readonly description: string
  readonly faults: ReadonlyArray<Fault>
}

/** The scenarios, by name. With `calm`, `flaky`, `throttled` and `hostile`, a listing returns every record. */
export const scenarios = {
  calm: {
    description: "Nothing goes wrong.",
    faults: []
  },
  flaky: {
    description: "Late answers, and sometimes an error, a lost connection or half a body.",
    faults: [
      { fault: "latency", ms: 5, jitterMs: 20 },
      { fault: "status", status: 503, rate: 0.02 },
      { fault: "status", status: 500, shape: "nested", rate: 0.01 },
      { fault: "reset", rate: 0.01 },
      { fault: "close", rate: 0.01 },
      { fault: "truncate", rate: 0.01 },
      { fault: "truncate", framing: "chunked", rate: 0.01 }
    ]
  },
  throttled: {
    description: "20 requests per second and key, and 429 with Retry-After beyond them.",
    faults: [{ fault: "rateLimit", perSecond: 20, burst: 20 }]
  },
  hostile: {
    description:
      "Answers that the document allows but clients may not expect: odd pages, compressed bodies, HTML errors, new fields.",
    faults: [
      { fault: "emptyPage", every: 7 },
      { fault: "shortPage", records: 33, every: 5 },
      { fault: "largePage", joined: 3, every: 11 },
      { fault: "field", field: "__proto__", value: `{"polluted":true}`, share: 0.02 },
      { fault: "field", field: "riskScore", value: "1e400", share: 0.02 },
      { fault: "envelope", member: "count", value: "-1", every: 3 },
      { fault: "envelope", member: "pageInfo", value: `{"cursor":"not this one"}`, every: 4 },
      { fault: "contentType", value: "text/plain;charset=UTF-8", every: 6 },
      { fault: "compress", encoding: "gzip", every: 9 },
      { fault: "drip", bytes: 4096, everyMs: 1, every: 8 },
      { fault: "body", text: "<html><h1>502 Bad Gateway</h1></html>", status: 502, rate: 0.02 },
      { fault: "status", status: 503, shape: "text", retryAfter: "soon", rate: 0.01 }
    ]
  },
  outage: {
    description: "After 5 seconds the service fails for 20 seconds, then works again.",
    faults: [
      { fault: "status", status: 503, afterMs: 5000, untilMs: 20_000 },
      { fault: "reset", afterMs: 20_000, untilMs: 25_000 }
    ]
  },
  drift: {
    description:
      "The service no longer matches its document: amounts as text, missing ids, other timestamps, new fields.",
    faults: [
      { fault: "field", field: "amount", value: `"12,50"`, share: 0.005 },
      { fault: "field", field: "id", share: 0.001 },
      { fault: "field", field: "state", value: `"SETTLED_V2"`, share: 1 },
      { fault: "field", field: "createdAt", value: "1714557600", share: 0.005 }
    ]
  }
} as const satisfies { readonly [name: string]: Scenario }

/** The name of a scenario. */
export type ScenarioName = keyof typeof scenarios

/** The most faults that a service can have. */
const maxFaults = 100

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/** Decodes a value. The problem names the path in the value, and contains nothing of the value itself. */
const decode = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, value: unknown, name: string) =>
  Result.mapError(Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })(value), ({ issue }) => {
    const [first] = formatIssue(issue).issues
    const path = (first?.path ?? []).map((part) => String(typeof part === "object" ? part.key : part))
    return `${[name, ...path].filter((part) => part !== "").join(".")}: ${first?.message ?? "invalid"}`
  })

const parse = (text: string): Result.Result<unknown, string> =>
  Result.try({ try: (): unknown => JSON.parse(text), catch: () => "the text is not JSON" })

/** Decodes JSON text. Fails with the problem. */
export const readJson = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => (text: string) =>
  Result.flatMap(parse(text), (value) => decode(schema, value, ""))

/** Decodes faults from JSON text: one fault, an array of faults, or the name of a scenario. Fails with the problem. */
export const faultsFromJson = (text: string): Result.Result<ReadonlyArray<Fault>, string> =>
  Result.flatMap(parse(text), (value): Result.Result<ReadonlyArray<Fault>, string> => {
    if (typeof value === "string") {
      const scenario = Object.entries(scenarios).find(([name]) => name === value)
      return scenario === undefined
        ? Result.fail(`unknown scenario; one of ${Object.keys(scenarios).join(", ")}`)
        : Result.succeed(scenario[1].faults)
    }
    const given: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
    if (given.length > maxFaults) return Result.fail(`${given.length} faults are too many; give at most ${maxFaults}`)
    return Result.all(given.map((fault, index) => decodeFault(fault, `fault ${index}`)))
  })

const decodeFault = (value: unknown, path: string): Result.Result<Fault, string> => {
  const name: unknown = typeof value === "object" && value !== null && "fault" in value ? value.fault : undefined
  const known = Object.entries(catalogue).find(([key]) => key === name)
  if (known !== undefined) return decode(known[1], value, path)
  // The problem repeats the name only if it can be a misspelled fault. Other text could be a secret.
  const unknown = typeof name === "string" && /^\w{1,40}$/.test(name) ? `unknown fault \`${name}\`` : "unknown fault"
  return Result.fail(`${path}: ${unknown}; one of ${Object.keys(catalogue).join(", ")}`)
}
