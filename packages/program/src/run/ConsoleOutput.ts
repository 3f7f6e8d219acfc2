/** The output of a program: results go to stdout; messages and a line of progress go to stderr. */
import { printable, Stdout, writeProblem } from "@payments/copy"
import { Context, Effect, Logger, type PlatformError, Stdio, Stream } from "effect"
import { errorOutput, noteOutput, withVersion } from "../contract/index.ts"
import { ExitCode } from "../outcome/ExitCode.ts"
import { CommandExit, type ErrorFacts, factsOf, type Next, nextMembers } from "../outcome/ProgramError.ts"
import { wordsIn } from "../terminal/HelpWidth.ts"

/**
 * Writes text to stdout and waits until the system accepts it. If the reader has closed the pipe, as `head` does, the
 * text is dropped and the program continues.
 */
export const print = (text: string) =>
  Effect.orDie(Effect.catchIf(Stdout.write(text), Stdout.isBrokenPipe, () => Effect.void))

/**
 * Writes text as {@link print} does. If the reader has closed the pipe, the command ends: it does nothing but print.
 */
export const printOrEnd = (text: string) => endWithReader(Stdout.write(text))

/** Waits as {@link Stdout.flush} does. If the reader has closed the pipe, the command ends. */
export const flushOrEnd = Effect.suspend(() => endWithReader(Stdout.flush))

const endWithReader = <R>(output: Effect.Effect<void, PlatformError.PlatformError, R>) =>
  Effect.catch(
    output,
    (error) =>
      Stdout.isBrokenPipe(error) ? new CommandExit({ exitCode: ExitCode.done, problem: "" }) : Effect.die(error)
  )

/** Fails if stdout is closed, for a command that only prints. */
export const requireOutput: Effect.Effect<void, CommandExit> = Effect.suspend(() =>
  Stdout.isClosed()
    ? new CommandExit({
      exitCode: ExitCode.destination,
      problem:
        "the output cannot be written: standard output is closed (EBADF). To discard the output, redirect it: > /dev/null",
      reason: "Output",
      retryable: false
    })
    : Effect.void
)

/**
 * The lengths of the lines of progress on the terminal. A process has one terminal, so this is a variable of the
 * module.
 */
let drawn: ReadonlyArray<number> = []

/** The text that erases the lines of progress, if there are any, so that a message starts on a clean line. */
const eraseText = (): string => {
  if (drawn.length === 0) return ""
  // A terminal that has become narrower since has wrapped the lines.
  // Some terminals report a width of 0.
  const width = process.stderr.columns || Infinity
  const rows = drawn.reduce((sum, length) => sum + Math.max(1, Math.ceil(length / width)), 0)
  drawn = []
  return `\r\u001b[K${"\u001b[A\u001b[K".repeat(rows - 1)}`
}

const writeToStderr = (text: () => string) =>
  Effect.flatMap(
    Stdio.Stdio,
    (stdio) => Effect.ignore(Stream.run(Stream.fromEffect(Effect.sync(text)), stdio.stderr()))
  )

/**
 * Writes a line to stderr, wrapped for a terminal. An error of stderr is ignored, so that it does not stop the
 * program's work.
 */
export const logLine = (line: string) => writeToStderr(() => `${eraseText()}${onTerminal(line)}\n`)

export interface MessageState {
  readonly format: MessageFormat
  /** The command that {@link logNote} printed last. */
  next: Next | undefined
}

/** `json`: an error, and a note with the command that continues, is one line of JSON. `text`: lines for people. */
export type MessageFormat = "text" | "json"

/** `run` provides it. */
export const Messages = Context.Reference<MessageState>("@payments/program/Messages", {
  defaultValue: () => ({ format: "text", next: undefined })
})

/** Returns `json` if the words of the command line have `--format json` or `ndjson`. */
export const messageFormatOf = (args: ReadonlyArray<string>): MessageFormat =>
  args.some((word, index) =>
      /^--format=(nd)?json$/.test(word) || (word === "--format" && /^(nd)?json$/.test(args[index + 1] ?? ""))
    )
    ? "json"
    : "text"

/**
 * Writes a note to stderr. `next` is the command that continues. If the run fails afterwards, its error has the command
 * too. Only on a terminal may it contain a cursor or a filter value.
 */
export const logNote = (note: { readonly message: string; readonly next: Next | undefined }) =>
  Effect.flatMap(Messages, (messages) => {
    messages.next = note.next
    return logLine(
      messages.format === "json"
        ? jsonLine(withVersion(noteOutput, { note: { message: note.message, ...nextMembers(note.next) } }))
        : note.message
    )
  })

export const logError = (program: string, facts: ErrorFacts) =>
  Effect.flatMap(
    Messages,
    ({ format, next }) => logLine(errorText(program, { ...facts, next: facts.next ?? next ?? null }, format))
  )

/**
 * Wraps the lines between words for the terminal of stderr. JSON stays one line. An indented line stays whole too: it
 * is a command to copy, or part of a table.
 */
export const onTerminal = (text: string): string => {
  const { columns } = process.stderr
  return !process.stderr.isTTY || !columns
    ? text
    : text.split("\n").flatMap((line) => /^[ {]/.test(line) ? [line] : wordsIn(line, "", columns)).join("\n")
}

/**
 * Formats an error as one line of JSON, or as lines for people. A settings error ends with the command that checks
 * them.
 */
export const errorText = (program: string, facts: ErrorFacts, format: MessageFormat): string => {
  if (format === "json") return jsonLine(withVersion(errorOutput, { error: { ...facts, ...nextMembers(facts.next) } }))
  const lines = facts.message.split("\n").map((line) => `${program}: ${line}`)
  return facts.exitCode === ExitCode.configuration && typeof facts.next === "string"
    ? [...lines, `${program}: check the settings with: ${facts.next}`].join("\n")
    : lines.join("\n")
}

/** The line is safe on a terminal. */
const jsonLine = (value: unknown): string => printable(JSON.stringify(value))

/**
 * Replaces the lines of progress. No line may be as wide as the terminal. {@link logLine} and {@link eraseProgress}
 * remove the lines.
 */
export const drawProgress = (text: string) =>
  writeToStderr(() => {
    const erased = eraseText()
    drawn = text.split("\n").map((line) => line.length)
    return `${erased === "" ? "\r\u001b[K" : erased}${text}`
  })

/** Removes the lines of progress. */
export const eraseProgress = Effect.suspend(() => drawn.length > 0 ? writeToStderr(eraseText) : Effect.void)

/**
 * If stdout cannot be written, the process ends with a message instead of a stack trace. A closed pipe does not end the
 * process: {@link print} and {@link printOrEnd} handle it.
 */
export const handleOutputErrors = (name: string, args: ReadonlyArray<string>): void => {
  Stdout.detectClosed()
  process.stderr.on("error", () => {})
  process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") return
    const facts = factsOf(
      new CommandExit({
        exitCode: ExitCode.destination,
        problem: `the output cannot be written: ${writeProblem(code ?? "unknown")}.`,
        reason: "Output",
        retryable: false
      })
    )
    process.stderr.write(`${eraseText()}${errorText(name, facts, messageFormatOf(args))}\n`)
    process.exit(ExitCode.destination)
  })
}

/** A logger that writes each message as a line on stderr. */
export const lineLogger = (name: string) =>
  Logger.layer([
    Logger.make(({ logLevel, message }) => {
      const level = logLevel === "Debug" ? "debug: " : ""
      process.stderr.write(
        `${eraseText()}${name}: ${level}${(Array.isArray(message) ? message : [message]).join(" ")}\n`
      )
    })
  ])
