/**
 * Finds the file that a path names before SQLite opens it, and checks later that the path still names the same file.
 * SQLite opens whatever file a name leads to and writes its log next to it. If one file had two names, or if a name led
 * to another file later, a list could have two writers.
 */
import { Result } from "effect"
import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { basename, resolve } from "node:path"
import { errorCode } from "../filesystem/ErrorCode.ts"
import { realPathOf } from "../filesystem/RealPath.ts"
import { DestinationMoved, NotADestination } from "../port/Sink.ts"

const ownerOnly = 0o600

/** Device and inode. Two files that exist at the same time never share both. */
type Identity = Pick<BigIntStats, "dev" | "ino">

/**
 * Returns the real path of the database that the path names. With `create`, it creates a missing file with permissions
 * for its owner only, also as the target of a dangling symbolic link. Throws if the path names anything except a plain
 * file with one name.
 */
export const locate = (path: string, access: "read" | "write" | "create"): string => {
  const given = resolve(path)
  requirePlainFile(given)
  const file = realPathOf(given)
  if (access === "create") requireOwned(file)
  else if (statsOf(file) === undefined) {
    throw new NotADestination({ problem: "there is nothing there. Export into it first.", isEmpty: true })
  } else if (access === "write") accessSync(file, constants.R_OK | constants.W_OK)
  requirePlainFile(file)
  return file
}

/** Throws if the path exists and is not a plain file, or if the file has a second name. */
const requirePlainFile = (path: string): void => {
  const stats = statsOf(path)
  if (stats === undefined) return
  if (!stats.isFile()) {
    throw new NotADestination({ problem: `it is ${kindOf(stats)}, not a plain file. Name a file.` })
  }
  if (stats.nlink > 1n) throw new NotADestination({ problem: hardLinked })
}

const hardLinked =
  "the file has a second name (a hard link), but SQLite keeps its log next to one name only. Remove the other name, or copy the file."

const kindOf = (stats: BigIntStats): string => {
  if (stats.isDirectory()) return "a folder"
  if (stats.isFIFO()) return "a named pipe"
  return stats.isSocket() ? "a socket" : "a device"
}

/**
 * Creates the file with permissions for its owner only; SQLite would create it readable by other users. Throws if the
 * file is not writable: SQLite would open it read-only, and read-only locks do not exclude other programs.
 */
export const requireOwned = (file: string): void => {
  try {
    closeSync(openSync(file, "wx", ownerOnly))
  } catch (error) {
    // Do not open an existing file: closing it would release every lock that this process has on it
    // (https://sqlite.org/howtocorrupt.html, 2.2).
    if (errorCode(error) !== "EEXIST") throw error
  }
  accessSync(file, constants.R_OK | constants.W_OK)
}

const statsOf = (path: string): BigIntStats | undefined => statSync(path, { bigint: true, throwIfNoEntry: false })

/** An open database, and the log and the index that SQLite keeps next to it. */
export class OpenFile {
  readonly #path: string
  readonly #file: string
  readonly #database: Identity | undefined
  #companions: ReadonlyArray<readonly [path: string, identity: Identity]> = []

  /** Remembers the file's identity. The caller creates the object before SQLite opens the file. */
  constructor(path: string, file: string) {
    this.#path = resolve(path)
    this.#file = file
    this.#database = statsOf(file)
  }

  /** Remembers the identities of the log and the index, which SQLite has opened. */
  rememberCompanions(): void {
    this.#companions = [`${this.#file}-wal`, `${this.#file}-shm`].flatMap((path) => {
      const stats = statsOf(path)
      return stats === undefined ? [] : [[path, stats] as const]
    })
  }

  /** Throws if the database is no longer at its path, or has a second name. */
  requireInPlace(): void {
    const { nlink } = requireSame(this.#path, this.#database)
    if (nlink > 1n) throw new NotADestination({ problem: hardLinked })
  }

  /** Whether the database is no longer at its path, but its log still is. */
  hasOrphanedLog(): boolean {
    const [log] = this.#companions
    return log !== undefined && isSame(statsOf(log[0]), log[1]) && !isSame(statsOf(this.#file), this.#database)
  }

  /** Throws if the log or the index is no longer at its path: no other program would read what SQLite writes. */
  requireCompanions(): void {
    for (const [path, identity] of this.#companions) requireSame(path, identity)
  }
}

const requireSame = (path: string, identity: Identity | undefined): BigIntStats => {
  const stats = statsOf(path)
  if (stats !== undefined && isSame(stats, identity)) return stats
  throw new DestinationMoved({ problem: `${basename(path)} was moved, removed or replaced` })
}

/** Whether both files exist and are the same one. */
const isSame = (left: Identity | undefined, right: Identity | undefined): boolean =>
  left !== undefined && left.dev === right?.dev && left.ino === right.ino

/** Opens the file. If another file has replaced it meanwhile, closes it again and returns undefined. */
export const openUnreplaced = <A>(file: string, open: () => A, close: (opened: A) => void): A | undefined => {
  const before = statsOf(file)
  const opened = open()
  if (isSame(statsOf(file), before)) return opened
  close(opened)
  return undefined
}

/** Writes a note for other programs. Nothing depends on the note, so an error, such as a full disk, is ignored. */
export const writeNote = (file: string, note: string): void => {
  removeNote(file)
  try {
    // The flag creates a new file, so that no symbolic link is followed.
    writeFileSync(file, note, { flag: "wx", mode: ownerOnly })
  } catch {
    removeNote(file)
  }
}

export const readNote = (file: string): string | undefined =>
  Result.getOrUndefined(Result.try(() => readFileSync(file, "utf8")))

export const removeNote = (file: string): void => {
  try {
    rmSync(file, { force: true })
  } catch {
    // The next program that writes a note replaces this one.
  }
}
