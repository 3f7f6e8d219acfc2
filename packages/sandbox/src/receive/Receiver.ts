/**
 * A receiver of hand-offs: checks the signature of each request, applies each change once, and answers. A request is applied
 * as a whole before the next one is read, and answered only then.
 */
import { membersOf, rewriteItems } from "@payments/core"
import { json, type Reply, serviceTime } from "@payments/core/testing"
import { Effect, Result, Schema, type Scope } from "effect"
import type { IncomingMessage } from "node:http"
import { type ListenOptions, listenWith, type SandboxError } from "../serve/SocketServer.ts"
import { changeLine, type ChangesFile, type ChangesFileError, openChangesFile } from "./ChangesFile.ts"
import { type Deliveries, type DeliveryKind, makeDeliveries } from "./Deliveries.ts"
import { makeAnswers, type ReceiverFault } from "./ReceiverFaults.ts"

/** A request as its signature covers it. */
export interface SignedRequest {
  /** By their names in lower case. */
  readonly headers: { readonly [name: string]: string | undefined }
  readonly body: Uint8Array
}

export interface ReceiverOptions extends ListenOptions {
  /** Returns why the signature of a request is wrong; undefined if it is right. */
  readonly signatureProblem: (request: SignedRequest) => string | undefined
  readonly faults?: ReadonlyArray<ReceiverFault> | undefined
  /** Of the faults. Default 1. */
  readonly seed?: number | undefined
  /** A file to which the changes are appended, each once. */
  readonly to?: string | undefined
  /** Runs after each request was decided. */
  readonly onRequest?: ((received: Received) => void) | undefined
}

/** A request and what became of it. */
export interface Received {
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Undefined if the request has no valid one. */
  readonly id: string | undefined
  readonly body: Pick<Body, "list" | "generation" | "first" | "last"> & { readonly changes: number } | undefined
  /** Why the request was refused without a fault. */
  readonly problem: string | undefined
  /** Undefined for a refused request, and for one without changes. */
  readonly delivery: DeliveryKind | undefined
  /** The number of changes that it has applied. */
  readonly applied: number
  /** The status of the answer. Undefined if there is none. */
  readonly status: number | undefined
  readonly faults: ReadonlyArray<string>
  /** The exact texts of the changes. */
  readonly changes: ReadonlyArray<string>
}

/** Counts of all requests. */
export interface ReceiverSummary {
  readonly requests: number
  readonly refused: number
  readonly deliveries: { readonly [kind in DeliveryKind]: number }
  /** Changes that were applied. */
  readonly applied: number
  /** Numbers that were passed over: of changes that are not sent, or that were skipped. */
  readonly passedOver: number
}

export interface Receiver {
  readonly url: string
  readonly summary: () => ReceiverSummary
}

const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** What a receiver reads of a body. A test of the connection has no changes, and no list. */
const Body = Schema.Struct({
  type: Schema.Literals(["payments.changes", "payments.test"]),
  list: Schema.optionalKey(Schema.String),
  generation: Schema.optionalKey(Schema.String),
  first: Schema.optionalKey(count),
  last: Schema.optionalKey(count),
  changes: Schema.Array(Schema.Struct({ seq: count })),
  schemaVersion: Schema.Literal(1)
})
type Body = typeof Body.Type

const isBody = Schema.is(Body)

/** The most bytes of a request. A batch is smaller, unless it has one change that is larger. */
const mostBytes = 64 * 1024 * 1024

/** Listens until the scope closes. */
export const receive = Effect.fnUntraced(function*(
  options: ReceiverOptions
): Effect.fn.Return<Receiver, SandboxError | ChangesFileError, Scope.Scope> {
  const deliveries = makeDeliveries()
  const file = options.to === undefined ? undefined : yield* openChangesFile(options.to, deliveries)
  const now = yield* serviceTime
  const answers = makeAnswers(options.faults ?? [], options.seed ?? 1, now())
  const summary = makeSummary()
  const decide = makeDecide(options, { deliveries, file, answers, now })
  const url = yield* listenWith({ ...options, endpoint: "receiver" }, (request, send) =>
    readBody(request, (body) => {
      const { passedOver, received, reply } = decide(request, body)
      summary.add(received, passedOver)
      options.onRequest?.(received)
      send(reply)
    }))
  return { url, summary: summary.get }
})

/** Calls `use` with the body, or with undefined if it is too large. A request that ends early is not used. */
const readBody = (request: IncomingMessage, use: (body: Uint8Array | undefined) => void): void => {
  const chunks: Array<Buffer> = []
  let size = 0
  request.on("data", (chunk: Buffer) => {
    size += chunk.length
    if (size > mostBytes) chunks.length = 0
    else chunks.push(chunk)
  })
  request.on("end", () => use(size > mostBytes ? undefined : Buffer.concat(chunks)))
  request.on("error", () => {}) // the sender sends it again
}

interface Decided {
  readonly received: Received
  readonly reply: Reply
  readonly passedOver: number
}

interface Applying {
  readonly deliveries: Deliveries
  readonly file: ChangesFile | undefined
  readonly answers: ReturnType<typeof makeAnswers>
  readonly now: () => number
}

const makeDecide = (
  { signatureProblem }: ReceiverOptions,
  { answers, deliveries, file, now }: Applying
): (request: IncomingMessage, body: Uint8Array | undefined) => Decided =>
(request, bytes) => {
  const at = now()
  const headers = headersOf(request)
  const nothing = { id: idOf(headers), body: undefined, delivery: undefined, applied: 0, faults: [], changes: [] }
  const refuse = (status: number, problem: string): Decided => ({
    received: { ...nothing, at, problem, status },
    reply: json(JSON.stringify({ problem }), status),
    passedOver: 0
  })
  if (bytes === undefined) return refuse(413, "tooLarge")
  if (request.method !== "POST") return refuse(405, "notPost")
  const problem = signatureProblem({ headers, body: bytes })
  if (problem !== undefined) return refuse(401, problem)
  const found = bodyIn(bytes)
  if (found === undefined) return refuse(400, "malformed")
  const { body, texts } = found
  const { generation = "", list = "" } = body
  const delivery = { generation, numbers: body.changes.map(({ seq }) => seq) }
  const judged = deliveries.judge(delivery)
  const fresh = texts.filter((_, index) => judged.fresh.has(delivery.numbers[index] ?? 0))
  const answered = answers({ list, id: nothing.id ?? "", now: at }, json(`{"applied":${fresh.length}}`))
  if (answered.isApplied) {
    const written = Result.try(() => file?.append(fresh.map((text) => changeLine({ generation, list }, text))))
    if (Result.isFailure(written)) return refuse(500, "notWritten")
    deliveries.apply(delivery)
  }
  const { reply } = answered
  return {
    received: {
      ...nothing,
      at,
      body: { ...body, changes: delivery.numbers.length },
      problem: undefined,
      delivery: delivery.numbers.length === 0 ? undefined : judged.kind,
      applied: answered.isApplied ? fresh.length : 0,
      status: reply.truncation?.after === "nothing" ? undefined : reply.status,
      faults: answered.faults,
      changes: texts
    },
    reply,
    passedOver: answered.isApplied ? judged.passedOver : 0
  }
}

const headersOf = ({ headers }: IncomingMessage): SignedRequest["headers"] =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value])
  )

const idOf = (headers: SignedRequest["headers"]): string | undefined =>
  /^[\w-]{1,64}$/.exec(headers["webhook-id"] ?? "")?.[0]

/** Reads a body, and cuts out the exact texts of its changes. */
const bodyIn = (
  bytes: Uint8Array
): { readonly body: Body; readonly texts: ReadonlyArray<string> } | undefined => {
  const text = Buffer.from(bytes).toString()
  const parsed = Result.try((): unknown => JSON.parse(text))
  if (Result.isFailure(parsed) || !isBody(parsed.success)) return undefined
  const texts: Array<string> = []
  rewriteItems(membersOf(text).get("changes") ?? "[]", (change) => {
    texts.push(change)
    return change
  })
  const isOurs = texts.length === parsed.success.changes.length && texts.every((change) => change.startsWith(`{"seq":`))
  return isOurs ? { body: parsed.success, texts } : undefined
}

const makeSummary = () => {
  let [requests, refused, applied, passedOver] = [0, 0, 0, 0]
  const deliveries: { [kind in DeliveryKind]: number } = { new: 0, repeat: 0, partial: 0, outOfOrder: 0 }
  return {
    add: (received: Received, passed: number): void => {
      requests++
      if (received.problem !== undefined) refused++
      if (received.delivery !== undefined) deliveries[received.delivery]++
      applied += received.applied
      passedOver += passed
    },
    get: (): ReceiverSummary => ({ requests, refused, deliveries: { ...deliveries }, applied, passedOver })
  }
}
