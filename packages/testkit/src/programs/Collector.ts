/** An OTLP collector on a local socket, which keeps what it receives. */
import { Effect, type Scope } from "effect"
import { createServer } from "node:http"
import { gunzipSync } from "node:zlib"
import { listening } from "../Listening.ts"

export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, unknown>>
  /** The bytes as Latin-1: protobuf contains texts as they are. */
  readonly body: string
}

interface Point {
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: { readonly stringValue?: string } }>
  readonly asDouble?: number
  readonly count?: number
}

interface MetricsBody {
  readonly resourceMetrics: ReadonlyArray<{
    readonly resource: Point
    readonly scopeMetrics: ReadonlyArray<{
      readonly metrics: ReadonlyArray<
        & { readonly name: string; readonly unit: string }
        & { readonly [type in "gauge" | "sum" | "histogram"]?: { readonly dataPoints: ReadonlyArray<Point> } }
      >
    }>
  }>
}

const textsOf = ({ attributes }: Point): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]))

/** `status` is the collector's answer; "never" keeps every request open. Closing the scope stops it. */
export const startCollector = Effect.fnUntraced(function*(
  status: number | "never" = 200
): Effect.fn.Return<{ readonly url: string; readonly received: ReadonlyArray<Received> }, never, Scope.Scope> {
  const received: Array<Received> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const bytes = Buffer.concat(chunks)
      const body = (request.headers["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes).toString("latin1")
      received.push({ path: request.url ?? "", headers: request.headers, body })
      if (status !== "never") response.writeHead(status).end("{}")
    })
  })
  return { url: `http://127.0.0.1:${yield* listening(server)}`, received }
})

/** Returns the attributes of the resource and the points of the last export of metrics, in JSON. */
export const lastMetrics = (received: ReadonlyArray<Received>) => {
  const { body } = received.findLast(({ path }) => path === "/v1/metrics") ?? { body: `{"resourceMetrics":[]}` }
  const [own] = (JSON.parse(body) as MetricsBody).resourceMetrics // the format of OTLP
  const metrics = own?.scopeMetrics.flatMap((scope) => scope.metrics) ?? []
  return {
    resource: own === undefined ? {} : textsOf(own.resource),
    unitOf: (name: string) => metrics.find((metric) => metric.name === name)?.unit,
    names: metrics.map(({ name }) => name),
    /** The value of the point with these attributes. For a histogram, it is the count. */
    valueOf: (name: string, labels: Readonly<Record<string, string>>) => {
      const { gauge, histogram, sum } = metrics.find((metric) => metric.name === name) ?? {}
      const point = (gauge ?? histogram ?? sum)?.dataPoints.find((candidate) => {
        const texts = textsOf(candidate)
        return Object.entries(labels).every(([label, value]) => texts[label] === value)
      })
      return point?.asDouble ?? point?.count
    }
  }
}
