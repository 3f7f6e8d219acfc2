/** Text on its way to stdout: written whole, waiting for its reader, and made harmless for a terminal. */
import { Effect, type PlatformError, Stdio, Stream } from "effect"
import { fstatSync, readFileSync, statSync } from "node:fs"

let closed = false

/** Whether stdout was closed when the program began. */
export const isClosed = (): boolean => closed

/**
 * Finds out whether stdout is closed. Node hides it: it opens /dev/null in its place, for reading and writing, which is how
 * it is recognized where Linux says so. `bin/payments` looks itself and says what it saw.
 */
export const detectClosed = (): void => {
  const seen = process.env["PAYMENTS_STDOUT"]
  closed = seen === undefined ? isReplaced() : seen === "closed"
}

const isReplaced = (): boolean => {
  try {
    const opened = fstatSync(1)
    if (!opened.isCharacterDevice() || opened.rdev !== statSync("/dev/null").rdev) return false
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/fdinfo/1", "utf8"))?.[1]
    // O_RDWR. Redirections of shells open it for writing alone.
    return flags !== undefined && (Number.parseInt(flags, 8) & 3) === 2
  } catch {
    // Not Linux.
    return false
  }
}

/** Writes text and waits until it is taken. */
export const write = (text: string): Effect.Effect<void, PlatformError.PlatformError, Stdio.Stdio> =>
  Effect.flatMap(Stdio.Stdio, (stdio) => Stream.run(Stream.make(text), stdio.stdout()))

/** What the system calls the error, such as `ENOSPC`. */
export const codeOf = ({ reason: { cause } }: PlatformError.PlatformError): string =>
  typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : "unknown"

/** Whether nobody reads it any more. */
export const isUnread = (error: PlatformError.PlatformError): boolean => codeOf(error) === "EPIPE"

/** Control characters, line ends, and invisible marks, such as those that change the direction of the text around them. */
const unprintable = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

const escaped = (character: string): string =>
  character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")

/** Code units that are escaped at once: the matches of a long text take many times its memory. */
const atOnce = 64 * 1024

/** The text with what a terminal would obey, or not show, escaped as in JSON. */
export const printable = (text: string): string => {
  if (text.length <= atOnce) return text.replaceAll(unprintable, escaped)
  const pieces: Array<string> = []
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = from + atOnce
    // Not between the halves of a surrogate pair.
    if ((text.codePointAt(to - 1) ?? 0) > 0xffff) to++
    pieces.push(text.slice(from, to).replaceAll(unprintable, escaped))
  }
  return pieces.join("")
}
