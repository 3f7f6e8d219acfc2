/**
 * The messages on standard input and output, one line each. Only messages of JSON-RPC reach the protocol. At other
 * text, its reader stops for half a second and loses the messages that arrived with it. It does not answer other JSON.
 * A line that is too long is refused, and never kept in memory.
 */
import { Days, isJsonObject } from "@payments/core"
import { Effect, Result, Stdio, Stream } from "effect"
import { McpProtocol } from "effect/ai"

/** The versions of the protocol that the server speaks. `Mcp.test.ts` connects the official client with each. */
export const protocols = [
  McpProtocol.v2025_11_25,
  McpProtocol.v2025_06_18,
  McpProtocol.v2025_03_26,
  McpProtocol.v2024_11_05
] as const

const versions: ReadonlyArray<string> = protocols.map(({ protocolVersion }) => protocolVersion)

/** The longest line. The arguments of a call take a few kilobytes. */
export const maxLineBytes = 1024 * 1024

/** Standard input and output for the protocol. */
export const messages = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  const refuse = (refusal: string) => Effect.ignore(Stream.run(Stream.make(refusal), stdio.stdout()))
  let hasBegun = false
  const stdin = stdio.stdin.pipe(
    Stream.mapAccum((): Line => emptyLine, linesOf, { onHalt: (last) => [last] }),
    Stream.filterMapEffect(({ buffer, bytes }) => {
      if (bytes > maxLineBytes) return Effect.as(refuse(tooLong), Result.fail(undefined))
      const text = buffer.toString("utf8", 0, bytes)
      if (text.trim() === "") return Effect.succeed(Result.fail(undefined))
      const refused = refusalOf(text, hasBegun)
      if (refused === undefined) hasBegun ||= begins(text)
      return refused === undefined
        ? Effect.succeed(Result.succeed<Uint8Array>(Buffer.from(`${text}\n`)))
        : Effect.as(refuse(refused), Result.fail(undefined))
    })
  )
  return Stdio.make({ ...stdio, stdin })
})

/** Ends when the reader of standard output has closed it. The protocol would try to write again for ever. */
export const readerClosed = Effect.callback<void>((resume) => {
  const end = () => {
    // An open standard input would keep the process alive.
    process.stdin.destroy()
    resume(Effect.void)
  }
  process.stdout.once("error", end)
  return Effect.sync(() => process.stdout.off("error", end))
})

/** A line, or its beginning. The buffer has room for more; it is empty if the line is too long. */
interface Line {
  readonly bytes: number
  readonly buffer: Buffer
}

const emptyLine: Line = { bytes: 0, buffer: Buffer.alloc(0) }

const append = (line: Line, part: Uint8Array): Line => {
  const bytes = line.bytes + part.length
  if (bytes > maxLineBytes) return { ...emptyLine, bytes }
  // The buffer grows to twice its size, because a line can arrive byte by byte.
  const buffer = bytes <= line.buffer.length
    ? line.buffer
    : Buffer.concat([line.buffer.subarray(0, line.bytes)], Math.max(bytes, 2 * line.buffer.length))
  buffer.set(part, line.bytes)
  return { bytes, buffer }
}

/** Returns the line that the chunk leaves unfinished, and the lines that it ends. */
const linesOf = (unfinished: Line, chunk: Uint8Array): readonly [unfinished: Line, lines: ReadonlyArray<Line>] => {
  const lines: Array<Line> = []
  let line = unfinished
  let start = 0
  for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
    lines.push(append(line, chunk.subarray(start, end)))
    line = emptyLine
    start = end + 1
  }
  return [append(line, chunk.subarray(start)), lines]
}

type Id = string | number | null

/** An error response (https://www.jsonrpc.org/specification#error_object). */
const refusal = (code: number, message: string, id: Id = null, data?: unknown) =>
  `${JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, data } })}\n`

const invalid = (problem: string, id?: Id) => refusal(-32_600, `Invalid Request: ${problem}`, id)

const parseError = refusal(-32_700, "Parse error")
const tooLong = refusal(-32_600, `Invalid Request: a message has at most ${maxLineBytes} bytes`)

/** The deepest nesting of a message. The arguments of a call have two levels below it. */
const maxDepth = 64

/** Whether brackets outside of strings are nested deeper. The protocol does not answer messages that exhaust its stack. */
const isTooDeep = (json: string): boolean => {
  let depth = 0
  for (const [mark] of json.matchAll(/"(?:[^"\\]+|\\.)*"|[[\]{}]/g)) {
    if (mark === "[" || mark === "{") depth++
    else if (mark === "]" || mark === "}") depth--
    if (depth > maxDepth) return true
  }
  return false
}

/**
 * Returns the response to a line that is no message of JSON-RPC, asks for an unknown version, or precedes `initialize`; undefined for
 * any other. `hasBegun` says whether a line before it {@link begins} the session.
 */
const refusalOf = (line: string, hasBegun: boolean): string | undefined => {
  let message: unknown
  try {
    message = JSON.parse(line)
  } catch {
    return parseError
  }
  // The protocol answers batches itself, which some of its versions have.
  if (Array.isArray(message) && message.every((element) => problemOf(element) === undefined) && !isTooDeep(line)) {
    return undefined
  }
  const problem = problemOf(message)
  if (problem !== undefined) return problem
  return isTooDeep(line)
    ? invalid(`it is nested deeper than ${maxDepth} levels`, idOf(message))
    : versionProblem(message) ?? (hasBegun ? undefined : orderProblem(message))
}

/** The requests that the protocol answers without a session. It would call any other one an internal error. */
const firstMethods: ReadonlySet<unknown> = new Set(["initialize", "ping"])

const orderProblem = (message: unknown): string | undefined =>
  isJsonObject(message) && "id" in message && "method" in message && !firstMethods.has(message["method"])
    ? invalid("initialize comes first, and it was not sent or was refused", idOf(message))
    : undefined

/** Whether a line is an `initialize` with the parameters that each version of the protocol requires. */
const begins = (line: string): boolean => {
  if (!line.includes("initialize")) return false
  const message: unknown = JSON.parse(line)
  if (!isJsonObject(message) || message["method"] !== "initialize" || !isJsonObject(message["params"])) return false
  const { capabilities, clientInfo } = message["params"]
  return isJsonObject(capabilities) && isJsonObject(clientInfo) && typeof clientInfo["name"] === "string" &&
    typeof clientInfo["version"] === "string"
}

/** Parsing rounds integers beyond 2^53, so the response would have another id, which may be that of another request. */
const isId = (value: unknown): value is string | number =>
  typeof value === "string" ||
  (typeof value === "number" && Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)))

const idOf = (message: unknown): Id => isJsonObject(message) && isId(message["id"]) ? message["id"] : null

const problemOf = (message: unknown): string | undefined => {
  if (!isJsonObject(message)) return invalid("a message is an object")
  const id = idOf(message)
  if ("id" in message && id === null) {
    return invalid("an id is a text or a number, and a whole number is at most 2^53 - 1")
  }
  if (message["jsonrpc"] !== "2.0") return invalid("jsonrpc is \"2.0\"", id)
  return typeof message["method"] === "string" || "result" in message || "error" in message
    ? undefined
    : invalid("a request has a method", id)
}

/**
 * Returns the response to `initialize` with a version that is neither known nor a day after every known one. The protocol answers
 * a newer one with the newest that it knows
 * (https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation).
 */
const versionProblem = (message: unknown): string | undefined => {
  if (!isJsonObject(message) || message["method"] !== "initialize" || !isJsonObject(message["params"])) return undefined
  const requested = message["params"]["protocolVersion"]
  const version = typeof requested === "string" ? requested : ""
  if (versions.includes(version)) return undefined
  const isNewer = Days.isDay(version) && versions.every((known) => version > known)
  return isNewer
    ? undefined
    : refusal(-32_602, "Unsupported protocol version", idOf(message), {
      supported: versions,
      requested: typeof requested === "string" ? requested.slice(0, 32) : null
    })
}
