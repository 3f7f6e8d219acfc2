/** What a program writes: results to stdout, everything else to stderr, a line of progress among it. */
import { Effect, Logger, Stdio, Stream } from "effect"
import { Ended } from "./Ended.ts"
import { ExitCode } from "./ExitCode.ts"
import * as Stdout from "./Stdout.ts"

/**
 * Writes text to stdout and waits until it is taken. A reader that has seen enough, such as `head`, is no reason to end
 * otherwise than without one: the rest is not written.
 */
export const print = (text: string) =>
  Effect.orDie(Effect.catchIf(Stdout.write(text), Stdout.isUnread, () => Effect.void))

/** Writes text as {@link print} does, for a command that is there for nothing else: it is done once nobody reads it. */
export const printOrEnd = (text: string) =>
  Effect.catch(
    Stdout.write(text),
    (error) => Stdout.isUnread(error) ? new Ended({ exitCode: ExitCode.done, problem: "" }) : Effect.die(error)
  )

/** Ends a command that is there for its output alone where stdout is closed. */
export const requireOutput: Effect.Effect<void, Ended> = Effect.suspend(() =>
  Stdout.isClosed()
    ? new Ended({
      exitCode: ExitCode.destination,
      problem:
        "the output cannot be written: standard output is closed (EBADF). To have no output, redirect it: > /dev/null"
    })
    : Effect.void
)

/** Whether the line of progress is on the terminal. All output of a process goes to one. */
let isDrawn = false

/** What takes the line of progress from the terminal, if it is there: a message must not stand behind it. */
const erased = (): string => {
  if (!isDrawn) return ""
  isDrawn = false
  return "\r\u001b[K"
}

const writeToStderr = (text: () => string) =>
  Effect.flatMap(
    Stdio.Stdio,
    (stdio) => Effect.ignore(Stream.run(Stream.fromEffect(Effect.sync(text)), stdio.stderr()))
  )

/** Writes a line to stderr, which is where a program talks. Talk that cannot be written is no reason to stop working. */
export const say = (line: string) => writeToStderr(() => `${erased()}${line}\n`)

/** Shows a line of progress in the place of the former one, until {@link say} or {@link eraseProgress}. */
export const drawProgress = (line: string) =>
  writeToStderr(() => {
    isDrawn = true
    return `\r\u001b[K${line}`
  })

/** Takes the line of progress away. */
export const eraseProgress = Effect.suspend(() => isDrawn ? writeToStderr(erased) : Effect.void)

/**
 * Ends the process with a word, not with a stack trace, when its output cannot be written. That nobody reads it any more
 * ends no work: {@link print} and {@link printOrEnd} say what comes of it.
 */
export const guardOutput = (name: string): void => {
  Stdout.detectClosed()
  process.stderr.on("error", () => {})
  process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") return
    process.stderr.write(`${erased()}${name}: the output cannot be written (${code}).\n`)
    process.exit(ExitCode.destination)
  })
}

/** Logs as the program talks: each message is a line on stderr. */
export const lineLogger = (name: string) =>
  Logger.layer([
    Logger.make(({ message }) => {
      process.stderr.write(`${erased()}${name}: ${(Array.isArray(message) ? message : [message]).join(" ")}\n`)
    })
  ])
