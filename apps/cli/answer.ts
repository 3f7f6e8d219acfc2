/**
 * Answers `--version`, and `--help` of a command from a text that the build wrote (`finish.ts`). The launcher loads this file alone:
 * no library, so that the answer is immediate.
 */
import { fitted, hasColors, isStdoutClosed } from "@payments/program/launch"
import { fstatSync, readFileSync, writeSync } from "node:fs"
import { join } from "node:path"

/** The build replaces this name with the version. */
declare const PAYMENTS_VERSION: string

/**
 * Returns false if the program has to answer: for other arguments, and if stdout cannot be written, because the program reports
 * that.
 */
export const answer = (args: ReadonlyArray<string>, folder: string): boolean => {
  const text = args.length === 1 && isVersion(args[0]) ? `${PAYMENTS_VERSION}\n` : helpOf(args, folder)
  return text !== undefined && !isStdoutClosed() && write(Buffer.from(text))
}

const isVersion = (word: string | undefined): boolean => word === "--version" || word === "-v"

const isHelp = (word: string): boolean => word === "--help" || word === "-h"

const helpOf = (args: ReadonlyArray<string>, folder: string): string | undefined => {
  const path = args.filter((word) => !isHelp(word))
  // The path becomes the name of a file.
  if (path.length !== args.length - 1 || !path.every((word) => /^[a-z]+(-[a-z]+)*$/.test(word))) return undefined
  try {
    const colored = readFileSync(`${join(folder, "help", ...path)}.txt`, "utf8")
    // oxlint-disable-next-line no-control-regex -- colours are control sequences
    const text = hasColors(process.env, isTerminal) ? colored : colored.replaceAll(/\u001b\[[\d;]*m/g, "")
    return fitted(text, isTerminal() ? terminalWidth() : Infinity)
  } catch {
    // There is no such command. The program says so.
    return undefined
  }
}

/** Loads `node:tty` only if stdout can be a terminal, because that takes 2 ms. */
const isTerminal = (): boolean => fstatSync(1).isCharacterDevice() && process.getBuiltinModule("node:tty").isatty(1)

const terminalWidth = (): number => {
  const { WriteStream } = process.getBuiltinModule("node:tty")
  const [columns = 0] = new WriteStream(1).getWindowSize()
  return columns || Infinity
}

const write = (bytes: Buffer): boolean => {
  for (let written = 0; written < bytes.length;) {
    try {
      written += writeSync(1, bytes, written)
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined
      if (code === "EPIPE") return true
      if (code !== "EAGAIN") return false
      // The reader of a pipe is slow.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
    }
  }
  return true
}
