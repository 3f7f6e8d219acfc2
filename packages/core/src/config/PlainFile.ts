/**
 * Reads the small files that settings name: keys, passwords, certificates, positions. Reads only plain files (POSIX:
 * regular files), and never more than a limit. Opening a FIFO would wait for a writer, and a device such as `/dev/zero`
 * never ends. Follows symbolic links, because a mounted Kubernetes secret is one.
 */
import { Data, Effect, FileSystem, Option, type PlatformError } from "effect"
import { BodyBytes } from "./BodyBytes.ts"
import { systemCode } from "./SystemCode.ts"

/** Why a file was not read. The message does not repeat the content of the file. */
export class PlainFileError extends Data.TaggedError("PlainFileError")<{
  /** `unreadable`: the file exists, but this user may not read it, or reading failed. */
  readonly kind: "notFound" | "notPlain" | "tooLarge" | "notText" | "unreadable"
  /** What is wrong, as a phrase that follows the file's name: `does not exist`. */
  readonly problem: string
}> {
  override get message() {
    return this.problem
  }
}

/** The content and the permissions of a file. */
export interface PlainFile {
  /** The text, without a byte order mark at the start. */
  readonly text: string
  /** The permission bits, such as `0o600`. */
  readonly mode: number
  /** The user id of the owner, if the file system has one. */
  readonly owner: number | undefined
}

/**
 * Returns the permission bits that users other than the owner have. A file of root may be readable by its group: Kubernetes
 * mounts a secret that way for a program that does not run as root.
 */
export const bitsOfOthers = ({ mode, owner }: Pick<PlainFile, "mode" | "owner">): number =>
  mode & (owner === 0 ? 0o037 : 0o077)

/** Reads a plain file of UTF-8 text. Fails if it contains more than `maxBytes` bytes. */
export const readPlainFile = (
  path: string,
  { maxBytes }: { readonly maxBytes: number }
): Effect.Effect<PlainFile, PlainFileError, FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    // Opening a FIFO waits for a writer, so check the path first. Check again after opening: the path may have been
    // replaced.
    yield* checkPlain(fs.stat(path), maxBytes)
    const file = yield* Effect.mapError(fs.open(path), unreadable)
    const { mode, uid } = yield* checkPlain(file.stat, maxBytes)
    const read = new BodyBytes(maxBytes)
    // Count the bytes: the file may grow after the check, and files in /proc report no size.
    for (;;) {
      const part = yield* Effect.mapError(file.readAlloc(chunkBytes), unreadable)
      if (Option.isNone(part)) break
      read.add(part.value)
      if (read.size > maxBytes) return yield* tooLarge(maxBytes)
    }
    const bytes = read.finish()
    const text = yield* Effect.try({
      try: () => decode(bytes),
      catch: () => new PlainFileError({ kind: "notText", problem: `is not UTF-8 text (line ${firstBadLine(bytes)})` })
    })
    return { text, mode: mode & 0o777, owner: Option.getOrUndefined(uid) }
  }).pipe(Effect.scoped)

const decode = (bytes: Uint8Array): string => new TextDecoder("utf-8", { fatal: true }).decode(bytes)

/** Returns the number of the first line that is not UTF-8. Bytes of multi-byte characters never equal a line feed. */
const firstBadLine = (bytes: Uint8Array): number => {
  let line = 1
  let start = 0
  for (let at = 0; at <= bytes.length; at++) {
    const byte = bytes[at] ?? lineFeed
    if (byte !== lineFeed && byte !== carriageReturn) continue
    try {
      decode(bytes.subarray(start, at))
    } catch {
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

const checkPlain = (
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
  new PlainFileError({ kind: "tooLarge", problem: `contains more than ${maxBytes / 1024} KiB` })

const unreadable = ({ reason }: PlatformError.PlatformError): PlainFileError =>
  // The home of many system users is no folder, such as /dev/null.
  reason._tag === "NotFound" || systemCode(reason) === "ENOTDIR"
    ? new PlainFileError({ kind: "notFound", problem: "does not exist" })
    : new PlainFileError({
      kind: "unreadable",
      problem: reason._tag === "PermissionDenied" ? "may not be read by this user" : `cannot be read (${reason._tag})`
    })
