/** Messages for people, wrapped for the terminal. */
import { logLine } from "@payments/program"
import { Effect, Stdio, Terminal } from "effect"

/** Returns the text with its words wrapped for the terminal that is stderr. Without a terminal the text is unchanged. */
export const wrapped = Effect.fnUntraced(function*(text: string) {
  const isTerminal = yield* (yield* Stdio.Stdio).stderrIsTerminal
  const width = isTerminal ? yield* (yield* Terminal.Terminal).columns : 0
  if (width === 0) return text
  const { wrapWords } = yield* Effect.promise(() => import("./TextWidth.ts"))
  return wrapWords(text, width).join("\n")
})

/** Writes a message for people to stderr, wrapped for the terminal. */
export const logWrapped = (text: string) => Effect.flatMap(wrapped(text), logLine)
