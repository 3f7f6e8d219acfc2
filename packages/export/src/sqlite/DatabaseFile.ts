/**
 * Which file a path names, before SQLite opens it, and whether it still is that file afterwards. SQLite follows a name to
 * whatever it leads to and writes its log beside it; two names of one file, or one name of two files, break the promise that a
 * list has one writer.
 */
import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { Moved, NotADestination } from "../Sink.ts"

const ownerOnly = 0o600

/** Device and inode: two files that exist at one time never share both. */
type Identity = Pick<BigIntStats, "dev" | "ino">

/**
 * The real path of the database that the path names. To be written, it is made if it is not there, readable by its owner alone,
 * also where the path is a symbolic link to nothing. Refuses everything but a plain file of one name.
 */
export const locate = (path: string, access: "read" | "write"): string => {
  const given = resolve(path)
  requirePlainFile(given)
  const file = realPathOf(given)
  if (access === "write") requireOwned(file)
  else if (statsOf(file) === undefined) {
    throw new NotADestination({ problem: "there is nothing there. Export into it first." })
  }
  requirePlainFile(file)
  return file
}

/** Refuses what a name leads to, unless that is nothing or a plain file without a second name. */
const requirePlainFile = (path: string): void => {
  const stats = statsOf(path)
  if (stats === undefined) return
  if (!stats.isFile()) {
    throw new NotADestination({ problem: `it is ${kindOf(stats)}, not a plain file. Name a file.` })
  }
  if (stats.nlink > 1n) throw new NotADestination({ problem: hardLinked })
}

const hardLinked =
  "the file has a second name (a hard link), and SQLite keeps its log beside one name only. Remove the other name, or copy the file."

const kindOf = (stats: BigIntStats): string =>
  stats.isDirectory()
    ? "a folder"
    : stats.isFIFO()
    ? "a named pipe"
    : stats.isSocket()
    ? "a socket"
    : "a device"

/** As `realpath` has it. Where the last part of the path is a link to nothing, the path of the file that it would lead to. */
const realPathOf = (path: string): string => {
  try {
    return realpathSync.native(path)
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error
  }
  const parent = realpathSync.native(dirname(path))
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
  // A loop of links ends above with ELOOP.
  return isLink ? realPathOf(resolve(parent, readlinkSync(path))) : join(parent, basename(path))
}

/**
 * Makes the file, readable by its owner alone, before SQLite would make it readable by others. Fails where it may not be written:
 * SQLite would open it for reading, where no lock excludes another one.
 */
export const requireOwned = (file: string): void => {
  createOwned(file)
  accessSync(file, constants.R_OK | constants.W_OK)
}

const createOwned = (file: string): void => {
  try {
    closeSync(openSync(file, "wx", ownerOnly))
  } catch (error) {
    // One that is there is not even opened: closing it again would end every lock that this process has on it
    // (https://sqlite.org/howtocorrupt.html, 2.2).
    if (codeOf(error) !== "EEXIST") throw error
  }
}

const codeOf = (error: unknown): unknown => error instanceof Error && "code" in error ? error.code : undefined

const statsOf = (path: string): BigIntStats | undefined => statSync(path, { bigint: true, throwIfNoEntry: false })

/** A database that is open, and the log and the index that SQLite keeps beside it meanwhile. */
export class OpenFile {
  readonly #path: string
  readonly #file: string
  readonly #database: Identity | undefined
  #companions: ReadonlyArray<readonly [path: string, identity: Identity]> = []

  /** Remembers which file it is: to be called before SQLite opens it. */
  constructor(path: string, file: string) {
    this.#path = resolve(path)
    this.#file = file
    this.#database = statsOf(file)
  }

  /** Remembers the files that SQLite has opened beside it. */
  rememberCompanions(): void {
    this.#companions = [`${this.#file}-wal`, `${this.#file}-shm`].flatMap((path) => {
      const stats = statsOf(path)
      return stats === undefined ? [] : [[path, stats] as const]
    })
  }

  /** Fails where the database is no longer at its path, or has a second name. */
  requireInPlace(): void {
    const stats = statsOf(this.#path)
    if (stats === undefined || !isSame(stats, this.#database)) {
      throw new Moved({ problem: `${basename(this.#path)} was moved, removed or replaced` })
    }
    if (stats.nlink > 1n) throw new NotADestination({ problem: hardLinked })
  }

  /** Whether the database is no longer at its path, but its log still is. */
  leavesItsLog(): boolean {
    const [log] = this.#companions
    const stats = log === undefined ? undefined : statsOf(log[0])
    const isThere = stats !== undefined && isSame(stats, log?.[1])
    const database = statsOf(this.#file)
    return isThere && (database === undefined || !isSame(database, this.#database))
  }

  /** Fails where the log or its index is no longer at its path: what SQLite writes there no other program would read. */
  requireCompanions(): void {
    for (const [path, identity] of this.#companions) {
      const stats = statsOf(path)
      if (stats === undefined || !isSame(stats, identity)) {
        throw new Moved({ problem: `${basename(path)} was moved, removed or replaced` })
      }
    }
  }
}

const isSame = (one: Identity, other: Identity | undefined): boolean => one.dev === other?.dev && one.ino === other.ino

/** Runs what opens the file at the path; undefined where another file is there afterwards. */
export const openingSame = <A>(file: string, open: () => A, close: (opened: A) => void): A | undefined => {
  const before = statsOf(file)
  const opened = open()
  const after = statsOf(file)
  if (after !== undefined && isSame(after, before)) return opened
  close(opened)
  return undefined
}

/** A note for other programs, which nothing depends on: that it cannot be written, on a full disk say, hinders nobody. */
export const writeNote = (file: string, note: string): void => {
  removeNote(file)
  try {
    // Made anew, so that no link is followed.
    writeFileSync(file, note, { flag: "wx", mode: ownerOnly })
  } catch {
    removeNote(file)
  }
}

/** {@inheritDoc writeNote} Undefined where there is none. */
export const readNote = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return undefined
  }
}

/** {@inheritDoc writeNote} */
export const removeNote = (file: string): void => {
  try {
    rmSync(file, { force: true })
  } catch {
    // The next holder replaces it.
  }
}
