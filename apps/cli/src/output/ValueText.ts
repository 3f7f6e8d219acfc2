/**
 * Values that are not typed as arguments, because every user of the machine can read the arguments of a process. `@FILE` is the
 * content of a file and `@-` that of stdin. `@@x` is the text `@x`.
 */
import { printable } from "@payments/copy"
import { readPlainFile } from "@payments/core"
import { type CommandExit, logLine, usage } from "@payments/program"
import { Effect, type FileSystem, Stdio, Stream } from "effect"

/** The size of the largest content, in bytes. No service accepts a longer value in an address. */
const largestValue = 16 * 1024

/** Whether the argument names stdin. A process can read only one value from stdin. */
export const isStdin = (text: string): boolean => text === "@-"

/** Whether a file or stdin gives the value of the argument. */
export const isFromFile = (text: string): boolean => text.startsWith("@") && !text.startsWith("@@")

/** What a file that a command writes has in place of a value that it must not show. */
export const notShown = "a text (not shown)"

export type Lines = "one" | "any"

/** Returns the value that an argument gives or names. The error names the flag or argument `name`. */
export const valueText = Effect.fnUntraced(function*(
  name: string,
  text: string,
  lines: Lines = "one"
): Effect.fn.Return<string, CommandExit, FileSystem.FileSystem | Stdio.Stdio> {
  if (!isFromFile(text)) return text.startsWith("@@") ? text.slice(1) : text
  if (text === "@") {
    return yield* usage(`${name}: @ needs a file name, or - for standard input. Write @@ for the text @.`)
  }
  const from = isStdin(text) ? "standard input" : printable(text.slice(1))
  const refuse = (problem: string) =>
    usage(`${name}: ${from} ${problem}. Write @@ at the start of a text that starts with @.`)
  const content = isStdin(text)
    ? yield* Effect.mapError(stdinText, refuse)
    : (yield* Effect.mapError(
      readPlainFile(text.slice(1), { maxBytes: largestValue }),
      ({ problem }) => refuse(problem)
    )).text
  const value = content.replace(/\r?\n$/, "")
  if (value === "") return yield* refuse("is empty")
  return lines === "one" && /[\r\n]/.test(value) ? yield* refuse("has more than one line") : value
})

/** Reads stdin to its end. Fails with what is wrong. */
const stdinText = Effect.gen(function*() {
  const { stdin, stdinIsTerminal } = yield* Stdio.Stdio
  if (yield* stdinIsTerminal) yield* logLine("Type the value, then Enter and Ctrl-D:")
  const chunks: Array<Uint8Array> = []
  let size = 0
  yield* Effect.mapError(
    Stream.runForEachWhile(stdin, (chunk) =>
      Effect.sync(() => {
        chunks.push(chunk)
        size += chunk.length
        return size <= largestValue
      })),
    ({ reason }) => `cannot be read (${reason._tag})`
  )
  if (size > largestValue) return yield* Effect.fail(`contains more than ${largestValue / 1024} KiB`)
  return yield* Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks)),
    catch: () => "is not UTF-8 text"
  })
})
