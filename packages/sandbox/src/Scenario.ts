/** Named sets of faults: a day that a service may have. */
import { catalogue, type Fault } from "@payments/core/testing"
import { Result, Schema, SchemaIssue } from "effect"

/** What a scenario is. */
export interface Scenario {
  readonly description: string
  readonly faults: ReadonlyArray<Fault>
}

/** The scenarios, by name. A listing comes whole through `calm`, `flaky`, `throttled` and `hostile`. */
export const scenarios = {
  calm: {
    description: "Nothing goes wrong.",
    faults: []
  },
  flaky: {
    description: "Late answers, and now and then an error, a cut connection or half a body.",
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
    description: "What the document allows and nobody expects: odd pages, compressed bodies, HTML errors, new fields.",
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
    description: "After 5 seconds the service fails for 20 seconds, then comes back.",
    faults: [
      { fault: "status", status: 503, afterMs: 5000, untilMs: 20_000 },
      { fault: "reset", afterMs: 20_000, untilMs: 25_000 }
    ]
  },
  drift: {
    description:
      "The service changes under its clients: amounts as text in some records, ids that are gone, new fields.",
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

/** As many faults as may lie over a service. */
const mostFaults = 100

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/** What the text holds by the schema, or what is wrong with it, without any value of it. */
const decode = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, value: unknown, name: string) =>
  Result.mapError(Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })(value), ({ issue }) => {
    const [first] = formatIssue(issue).issues
    const path = (first?.path ?? []).map((part) => String(typeof part === "object" ? part.key : part))
    return `${[name, ...path].filter((part) => part !== "").join(".")}: ${first?.message ?? "not as expected"}`
  })

const parse = (text: string): Result.Result<unknown, string> =>
  Result.try({ try: (): unknown => JSON.parse(text), catch: () => "no JSON" })

/** What JSON text holds by the schema; or what is wrong with it. */
export const readJson = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, text: string) =>
  Result.flatMap(parse(text), (value) => decode(schema, value, ""))

/** The faults that JSON text holds, one or an array of them or the name of a scenario; or what is wrong with it. */
export const faultsFromJson = (text: string): Result.Result<ReadonlyArray<Fault>, string> =>
  Result.flatMap(parse(text), (value): Result.Result<ReadonlyArray<Fault>, string> => {
    if (typeof value === "string") {
      const scenario = Object.entries(scenarios).find(([name]) => name === value)
      return scenario === undefined
        ? Result.fail(`no such scenario; one of ${Object.keys(scenarios).join(", ")}`)
        : Result.succeed(scenario[1].faults)
    }
    const given: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
    if (given.length > mostFaults) return Result.fail(`${given.length} faults are too many; at most ${mostFaults}`)
    return Result.all(given.map((one, index) => faultOf(one, `fault ${index}`)))
  })

const faultOf = (value: unknown, where: string): Result.Result<Fault, string> => {
  const name: unknown = typeof value === "object" && value !== null && "fault" in value ? value.fault : undefined
  const known = Object.entries(catalogue).find(([key]) => key === name)
  if (known !== undefined) return decode(known[1], value, where)
  // What was written is said again only where it may be a misspelt name.
  const unknown = typeof name === "string" && /^\w{1,40}$/.test(name) ? `unknown fault \`${name}\`` : "unknown fault"
  return Result.fail(`${where}: ${unknown}; one of ${Object.keys(catalogue).join(", ")}`)
}
