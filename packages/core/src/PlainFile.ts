/**
 * Reads the small files that a setting names: keys, passwords, certificates, positions. Only plain files are read, also
 * through symbolic links (a mounted Kubernetes secret is one), and never more than a bound: a FIFO would wait for its
 * writer for ever, a device such as `/dev/zero` has no end. Neither is opened.
 */
import { Data, Effect, FileSystem, Option, type PlatformError } from "effect"
import { BodyBytes } from "./internal/BodyBytes.ts"

/** Why a file was not read. No message repeats what it holds. */
export class PlainFileError extends Data.TaggedError("PlainFileError")<{
  /** `unreadable`: it is there, but may not be read or cannot be. */
  readonly kind: "notFound" | "notPlain" | "tooLarge" | "notText" | "unreadable"
  /** What is wrong, without the file's name: `is not there`. */
  readonly problem: string
}> {
  override get message() {
    return this.problem
  }
}

/** What a file holds, and who may read it. */
export interface PlainFile {
  /** Its text, a byte order mark at its beginning aside. */
  readonly text: string
  /** The permission bits, such as `0o600`. */
  readonly mode: number
}

/** Reads a plain file of UTF-8 text that holds no more than so many bytes. */
export const readPlainFile = (
  path: string,
  { maxBytes }: { readonly maxBytes: number }
): Effect.Effect<PlainFile, PlainFileError, FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    // Opening a FIFO waits for a writer, so check the path first. Check again after opening: the path may have been replaced.
    yield* plain(fs.stat(path), maxBytes)
    const file = yield* Effect.mapError(fs.open(path), unreadable)
    const { mode } = yield* plain(file.stat, maxBytes)
    const read = new BodyBytes(maxBytes)
    // Count the bytes: the file may grow after the check, and files below /proc report no size.
    for (;;) {
      const part = yield* Effect.mapError(file.readAlloc(chunkBytes), unreadable)
      if (Option.isNone(part)) break
      read.add(part.value)
      if (read.size > maxBytes) return yield* tooLarge(maxBytes)
    }
    const bytes = read.take()
    const text = yield* Effect.try({
      try: () => decode(bytes),
      catch: () => new PlainFileError({ kind: "notText", problem: `is not UTF-8 text (line ${firstBadLine(bytes)})` })
    })
    return { text, mode: mode & 0o777 }
  }).pipe(Effect.scoped)

const decode = (bytes: Uint8Array): string => new TextDecoder("utf-8", { fatal: true }).decode(bytes)

/** The number of the first line that is not UTF-8. No byte of a longer character is a line end. */
const firstBadLine = (bytes: Uint8Array): number => {
  let line = 1
  let start = 0
  for (let at = 0; at <= bytes.length; at++) {
    const byte = bytes[at] ?? lineFeed
    if (byte !== lineFeed && byte !== carriageReturn) continue
    try {
      decode(bytes.subarray(start, at))
    } catch {
      // This line is not UTF-8.
      return line
    }
    if (byte === carriageReturn && bytes[at + 1] === lineFeed) at++
    start = at + 1
    line++
  }
  return line
}

const lineFeed = 0x0a
const carriageReturn = 0x0d

const chunkBytes = 64 * 1024

const plain = (
  stat: Effect.Effect<FileSystem.File.Info, PlatformError.PlatformError>,
  maxBytes: number
): Effect.Effect<FileSystem.File.Info, PlainFileError> =>
  Effect.flatMap(Effect.mapError(stat, unreadable), (info) =>
    info.type !== "File"
      ? Effect.fail(new PlainFileError({ kind: "notPlain", problem: `is ${kinds[info.type]}, not a plain file` }))
      : info.size > maxBytes
      ? Effect.fail(tooLarge(maxBytes))
      : Effect.succeed(info))

const kinds: { readonly [Type in FileSystem.File.Type]: string } = {
  File: "a file",
  Directory: "a folder",
  SymbolicLink: "a symbolic link",
  BlockDevice: "a device",
  CharacterDevice: "a device",
  FIFO: "a pipe",
  Socket: "a socket",
  Unknown: "of an unknown kind"
}

const tooLarge = (maxBytes: number): PlainFileError =>
  new PlainFileError({ kind: "tooLarge", problem: `holds more than ${maxBytes / 1024} KiB` })

const unreadable = ({ reason }: PlatformError.PlatformError): PlainFileError =>
  reason._tag === "NotFound"
    ? new PlainFileError({ kind: "notFound", problem: "is not there" })
    : new PlainFileError({
      kind: "unreadable",
      problem: reason._tag === "PermissionDenied" ? "may not be read by this user" : `cannot be read (${reason._tag})`
    })
