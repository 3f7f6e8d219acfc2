/**
 * The messages on standard input and output. Only JSON reaches the protocol: its reader stops at any other text for half a second,
 * and loses the messages that arrived with it.
 */
import { Effect, Result, Stdio, Stream } from "effect"

/** Standard input and output for the protocol. */
export const messages = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  const refuse = Effect.ignore(Stream.run(Stream.make(parseError), stdio.stdout()))
  const encoder = new TextEncoder()
  const stdin = stdio.stdin.pipe(
    Stream.decodeText,
    Stream.splitLines,
    Stream.filterMapEffect((line) =>
      isJson(line)
        ? Effect.succeed(Result.succeed(encoder.encode(`${line}\n`)))
        : Effect.as(line.trim() === "" ? Effect.void : refuse, Result.fail(undefined))
    )
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

/** The response to a line that is not JSON (https://www.jsonrpc.org/specification#error_object). */
const parseError = `${JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32700, message: "Parse error" } })}\n`

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
