/** Writes text to stdout with backpressure. */
import { Context, Effect, Layer, PlatformError, Stdio, Stream } from "effect"
import { fstatSync, fsync, writeSync } from "node:fs"
import { errorCode } from "../filesystem/ErrorCode.ts"
import { isStdoutClosed } from "./ClosedStdout.ts"

let closed = false

/** Whether stdout was closed when the program started. */
export const isClosed = (): boolean => closed

/** Detects whether stdout is closed. Programs that this one starts have another stdout, so they do not inherit the variable. */
export const detectClosed = (): void => {
  closed = isStdoutClosed()
  delete process.env["PAYMENTS_STDOUT"]
}

type Write = (text: string) => Effect.Effect<void, PlatformError.PlatformError>

/** How to write to stdout, if not with the stream of `Stdio`. */
const Writer = Context.Reference<Write | undefined>("@payments/copy/Stdout/Writer", { defaultValue: () => undefined })

/**
 * Writes directly to the stdout of this process. A stream for each write would take a quarter of the time of a listing. The
 * programs provide this; tests record what `Stdio` gets.
 */
export const layerProcess = Layer.sync(Writer, () => lengthOfFile() === undefined ? writeToStream : writeToFile)

/** Passes what a command writes to stdout to another place. */
export const redirected = (writer: Write) => Effect.provideService(Writer, writer)

const lengthOfFile = (): number | undefined => {
  try {
    const stats = fstatSync(1)
    return stats.isFile() ? stats.size : undefined
  } catch {
    // `detectClosed` reports a closed stdout.
    return undefined
  }
}

/**
 * The length in bytes of the file that stdout is written to. Undefined if stdout is no file, or without
 * {@link layerProcess}.
 */
export const fileLength = Effect.map(Writer, (write) => write === writeToFile ? lengthOfFile() : undefined)

const writeToStream: Write = (text) =>
  Effect.callback((resume) => {
    process.stdout.write(text, (error) => {
      if (error == null) return resume(Effect.void)
      resumeAfterEvent(error, resume)
    })
  })

/** Writes as the stream of Node does, but without its copies of the text. */
const writeToFile: Write = (text) =>
  Effect.callback((resume) => {
    try {
      const bytes = Buffer.byteLength(text)
      let written = writeSync(1, text)
      // A disk that is nearly full takes a part.
      while (written < bytes) written += writeSync(1, Buffer.from(text), written)
      resume(Effect.void)
    } catch (error) {
      // `writeSync` throws only errors of the system.
      process.stdout.destroy(error as Error)
      resumeAfterEvent(error, resume)
    }
  })

/**
 * Fails after the event of the error. Unless the pipe was closed, the event ends the process (`handleOutputErrors`).
 * The first error closes the stream, and later writes fail with it too.
 */
const resumeAfterEvent = (
  error: unknown,
  resume: (failed: Effect.Effect<never, PlatformError.PlatformError>) => void
): void => void setImmediate(() => resume(Effect.fail(failure(process.stdout.errored ?? error))))

const failure = (cause: unknown) =>
  PlatformError.systemError({ module: "Stdio", method: "stdout", _tag: "Unknown", cause })

/** Writes text and waits while the queue of stdout is full. */
export const write = (text: string): Effect.Effect<void, PlatformError.PlatformError, Stdio.Stdio> =>
  Effect.flatMap(Writer, (writeDirectly) =>
    writeDirectly === undefined
      ? Effect.flatMap(Stdio.Stdio, (stdio) => Stream.run(Stream.make(text), stdio.stdout()))
      : writeDirectly(text))

/**
 * Waits until the system has everything that was written, and a file's content is on disk. {@link write} waits only until the
 * text is in this process's queue.
 */
export const flush: Effect.Effect<void, PlatformError.PlatformError> = Effect.callback((resume) => {
  const fail = (cause: unknown) => resume(Effect.fail(failure(cause)))
  // Writes are in order, so this one ends after all earlier ones.
  process.stdout.write("", (error) => {
    if (error != null) return fail(error)
    // Only a file can be synced: a pipe, a terminal and /dev/null fail with EINVAL, and some devices with ENOTSUP.
    fsync(1, (notSynced) => {
      const code = notSynced?.code
      if (notSynced === null || code === "EINVAL" || code === "ENOTSUP") resume(Effect.void)
      else fail(notSynced)
    })
  })
})

/** Returns the system's code of the error, such as `ENOSPC`. */
export const systemCodeOf = ({ reason: { cause } }: PlatformError.PlatformError): string =>
  errorCode(cause) ?? "unknown"

/** Whether the reader of stdout has closed the pipe. */
export const isBrokenPipe = (error: PlatformError.PlatformError): boolean => systemCodeOf(error) === "EPIPE"
