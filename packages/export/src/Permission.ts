/** Why the system lets this program not use a path: which file or folder is in the way, whose it is, and what to do. */
import { accessSync, constants, statSync } from "node:fs"
import { dirname, resolve } from "node:path"

/** The system's codes for what this program may not do. */
const codes = new Set<unknown>(["EACCES", "EPERM", "EROFS"])

/** Whether an error of the file system says that this program may not use a path. */
export const isDenial = (code: unknown): boolean => codes.has(code)

/** A path, and whether it is only to be read. */
export interface Use {
  readonly path: string
  readonly isOnlyRead?: boolean
}

/** What prevents this use of the paths; undefined where the system names nothing. */
export const denialOf = (uses: ReadonlyArray<Use>): string | undefined => {
  for (const use of uses) {
    const problem = denialOfOne({ ...use, path: resolve(use.path) })
    if (problem !== undefined) return problem
  }
  return undefined
}

const denialOfOne = ({ isOnlyRead = false, path }: Use): string | undefined => {
  const folders = foldersOf(path)
  const closed = folders.find((folder) => refusalOf(folder, constants.X_OK) !== undefined)
  if (closed !== undefined) return problemOf(closed, "may not be entered", refusalOf(closed, constants.X_OK))
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined || stats.isDirectory()) {
    const folder = stats === undefined ? folders.findLast(exists) ?? "/" : path
    const refusal = refusalOf(folder, constants.W_OK | constants.X_OK)
    const unreadable = refusalOf(folder, constants.R_OK)
    if (unreadable !== undefined && stats !== undefined) return problemOf(folder, "may not be read", unreadable)
    return refusal === undefined ? undefined : problemOf(folder, "is a folder in which nothing may be made", refusal)
  }
  const unreadable = refusalOf(path, constants.R_OK)
  if (unreadable !== undefined) return problemOf(path, "may not be read", unreadable)
  const readOnly = isOnlyRead ? undefined : refusalOf(path, constants.W_OK)
  return readOnly === undefined ? undefined : problemOf(path, "may not be written", readOnly)
}

const exists = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined

/** The folders that lead to the path, from the root on. */
const foldersOf = (path: string): ReadonlyArray<string> => {
  const parent = dirname(path)
  return parent === path ? [] : [...foldersOf(parent), parent]
}

/** The code with which the system refuses it; undefined where it does not, or where nothing is there. */
const refusalOf = (path: string, mode: number): string | undefined => {
  try {
    accessSync(path, mode)
    return undefined
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : ""
    return isDenial(code) ? code : undefined
  }
}

const problemOf = (path: string, what: string, refusal: string | undefined): string => {
  if (refusal === "EROFS") return `${path} is on a file system that can only be read. Choose another place (EROFS).`
  const { mode, uid } = statSync(path)
  const me = process.getuid?.()
  const whose = me === undefined
    ? ""
    : uid === me
    ? ` It belongs to this user, with the permissions ${octal(mode)}: change them (chmod).`
    : ` It belongs to user ${uid}, with the permissions ${
      octal(mode)
    }, and this program runs as user ${me}: run it as that user, or have owner or permissions changed (chown, chmod).`
  return `${path} ${what} (${refusal}).${whose}`
}

const octal = (mode: number): string => `0${(mode & 0o7777).toString(8)}`
