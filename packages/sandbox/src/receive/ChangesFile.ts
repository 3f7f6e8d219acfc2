/**
 * A file of lines to which a receiver appends the changes that it applies, each once. The changes of a request are synced to
 * the disk before it is answered. After a kill in the middle of a line, the next start removes that part of a line, and the
 * sender repeats the change.
 */
import { Data, Effect, type Scope } from "effect"
import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs"
import type { Deliveries } from "./Deliveries.ts"

/** The file cannot be used. */
export class ChangesFileError extends Data.TaggedError("ChangesFileError")<{
  /** Node's error code; undefined if a line is not that of a receiver. */
  readonly code: string | undefined
  /** Undefined unless a line is not that of a receiver. */
  readonly line: number | undefined
}> {
  override get message() {
    return this.code === undefined
      ? `line ${this.line} is not a change that a receiver has written`
      : `it cannot be written (${this.code})`
  }
}

export interface ChangesFile {
  /** Appends lines, all or none. Throws the system's error. */
  readonly append: (lines: ReadonlyArray<string>) => void
}

/** Opens the file, and adds the changes that it has to what was applied. */
export const openChangesFile = (
  file: string,
  deliveries: Deliveries
): Effect.Effect<ChangesFile, ChangesFileError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.try({ try: () => openSync(file, "a+", 0o600), catch: systemError }),
    (fd) => Effect.sync(() => closeSync(fd))
  ).pipe(
    Effect.flatMap((fd) =>
      Effect.try({
        // A device or a pipe may have no end.
        try: () => fstatSync(fd).isFile() ? makeFile(fd, recover(fd, deliveries)) : fail(notPlain),
        catch: (error) => error instanceof ChangesFileError ? error : systemError(error)
      })
    )
  )

/** The code for a device or a pipe. */
const notPlain = "ENOTSUP"

const fail = (code: string): never => {
  throw new ChangesFileError({ code, line: undefined })
}

const systemError = (error: unknown): ChangesFileError =>
  new ChangesFileError({
    code: error instanceof Error && "code" in error ? String(error.code) : "unknown",
    line: undefined
  })

const makeFile = (fd: number, start: number): ChangesFile => {
  let size = start
  return {
    append: (lines) => {
      const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""))
      try {
        for (let written = 0; written < bytes.length;) written += writeSync(fd, bytes, written)
        fsyncSync(fd)
        size += bytes.length
      } catch (error) {
        // The sender repeats all of them.
        ftruncateSync(fd, size)
        throw error
      }
    }
  }
}

const chunkBytes = 65_536

/** Reads the whole lines, removes what follows them, and returns the size of the file. */
const recover = (fd: number, deliveries: Deliveries): number => {
  let [size, at, line, rest] = [0, 0, 0, Buffer.alloc(0)]
  const chunk = Buffer.alloc(chunkBytes)
  for (let read = readSync(fd, chunk, 0, chunkBytes, at); read > 0; read = readSync(fd, chunk, 0, chunkBytes, at)) {
    at += read
    const text = Buffer.concat([rest, chunk.subarray(0, read)])
    let from = 0
    for (let end = text.indexOf(10, from); end !== -1; end = text.indexOf(10, from)) {
      line++
      addLine(text.toString("utf8", from, end), line, deliveries)
      from = end + 1
    }
    size += from
    rest = text.subarray(from)
  }
  if (rest.length === 0) return size
  // Only what a receiver has begun to write is removed.
  if (!lineStart.startsWith(rest.toString("utf8", 0, lineStart.length))) {
    throw new ChangesFileError({ code: undefined, line: line + 1 })
  }
  ftruncateSync(fd, size)
  return size
}

const lineStart = `{"generation":"`

const addLine = (text: string, line: number, deliveries: Deliveries): void => {
  const [, generation, number] = /^\{"generation":"([^"\\]*)","list":"[^"\\]*","seq":(\d+)[,}]/.exec(text) ?? []
  if (generation === undefined) throw new ChangesFileError({ code: undefined, line })
  deliveries.apply({ generation, numbers: [Number(number)] })
}

/** Returns the line of a change, from its exact text, which begins with its number. */
export const changeLine = (
  { generation, list }: { readonly generation: string; readonly list: string },
  change: string
): string => `{"generation":${JSON.stringify(generation)},"list":${JSON.stringify(list)},${change.slice(1)}`
