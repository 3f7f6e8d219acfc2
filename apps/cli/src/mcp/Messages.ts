/**
 * The messages on standard input and output, one line each. Only JSON reaches the protocol: its reader stops at any other text
 * for half a second, and loses the messages that arrived with it. A line that is too long is refused, and never kept in memory.
 */
import { Effect, Result, Stdio, Stream } from "effect"

/** The longest line. The arguments of a call take a few kilobytes. */
export const maxLineBytes = 1024 * 1024

/** Standard input and output for the protocol. */
export const messages = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  const refuse = (refusal: string) => Effect.ignore(Stream.run(Stream.make(refusal), stdio.stdout()))
  const stdin = stdio.stdin.pipe(
    Stream.mapAccum((): Line => emptyLine, linesOf, { onHalt: (last) => [last] }),
    Stream.filterMapEffect(({ buffer, bytes }) => {
      if (bytes > maxLineBytes) return Effect.as(refuse(tooLong), Result.fail(undefined))
      const text = buffer.toString("utf8", 0, bytes)
      if (isJson(text)) return Effect.succeed(Result.succeed<Uint8Array>(Buffer.from(`${text}\n`)))
      return Effect.as(text.trim() === "" ? Effect.void : refuse(parseError), Result.fail(undefined))
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

/** An error response (https://www.jsonrpc.org/specification#error_object). The id of the request is not known. */
const refusal = (code: number, message: string) =>
  `${JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } })}\n`

const parseError = refusal(-32_700, "Parse error")
const tooLong = refusal(-32_600, `Invalid Request: a message has at most ${maxLineBytes} bytes`)

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
