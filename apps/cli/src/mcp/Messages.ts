/**
 * The messages on standard input and output. Only JSON reaches the protocol: its reader stops at any other text for half a second,
 * and loses the messages that arrived with it.
 */
import { Deferred, Effect, Exit, Result, Sink, Stdio, Stream } from "effect"

/** Returns standard input and output for the protocol, and an effect that ends when the output cannot be written. */
export const makeMessages = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  const failed = yield* Deferred.make<void>()
  const stdout = Sink.onExit(
    stdio.stdout(),
    (exit) => Exit.isFailure(exit) ? Effect.asVoid(Deferred.succeed(failed, undefined)) : Effect.void
  )
  const refuse = Effect.ignore(Stream.run(Stream.make(parseError), stdout))
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
  return { stdio: Stdio.make({ ...stdio, stdin, stdout: () => stdout }), failed: Deferred.await(failed) }
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
