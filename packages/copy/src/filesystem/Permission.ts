/** Explains why the system denies the use of a path: which file or folder prevents it, who owns that, and what to do. */
import { accessSync, constants, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { errorCode } from "./ErrorCode.ts"

const denials = new Set<unknown>(["EACCES", "EPERM", "EROFS"])

export const isDenial = (code: unknown): boolean => denials.has(code)

export interface PathUse {
  readonly path: string
  readonly isReadOnly?: boolean
}

/** Explains why one of the paths cannot be used. Returns undefined if the system denies none of them. */
export const denialProblem = (uses: ReadonlyArray<PathUse>): string | undefined => {
  for (const use of uses) {
    const problem = pathProblem({ ...use, path: resolve(use.path) })
    if (problem !== undefined) return problem
  }
  return undefined
}

const pathProblem = ({ isReadOnly = false, path }: PathUse): string | undefined => {
  const folders = foldersOf(path)
  const inaccessible = folders.find((folder) => denialCode(folder, constants.X_OK) !== undefined)
  if (inaccessible !== undefined) {
    return problemOf(inaccessible, "may not be entered", denialCode(inaccessible, constants.X_OK))
  }
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined || stats.isDirectory()) {
    const folder = stats === undefined ? folders.findLast(exists) ?? "/" : path
    const unwritable = denialCode(folder, constants.W_OK | constants.X_OK)
    const unreadable = denialCode(folder, constants.R_OK)
    if (unreadable !== undefined && stats !== undefined) return problemOf(folder, "may not be read", unreadable)
    return unwritable === undefined
      ? undefined
      : problemOf(folder, "is a folder in which this program may not create files", unwritable)
  }
  const unreadable = denialCode(path, constants.R_OK)
  if (unreadable !== undefined) return problemOf(path, "may not be read", unreadable)
  const unwritable = isReadOnly ? undefined : denialCode(path, constants.W_OK)
  return unwritable === undefined ? undefined : problemOf(path, "may not be written", unwritable)
}

const exists = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined

/** From the root down. */
const foldersOf = (path: string): ReadonlyArray<string> => {
  const parent = dirname(path)
  return parent === path ? [] : [...foldersOf(parent), parent]
}

/** Returns the code of the denial. Returns undefined if access is allowed or the path does not exist. */
const denialCode = (path: string, mode: number): string | undefined => {
  try {
    accessSync(path, mode)
    return undefined
  } catch (error) {
    const code = errorCode(error)
    return isDenial(code) ? code : undefined
  }
}

const problemOf = (path: string, problem: string, code: string | undefined): string => {
  if (code === "EROFS") return `${path} is on a read-only file system (EROFS). Choose another place.`
  const { mode, uid } = statSync(path)
  const user = process.getuid?.()
  const remedy = user === undefined
    ? ""
    : uid === user
    ? ` It belongs to this user, with the permissions ${octal(mode)}: change them (chmod).`
    : ` It belongs to user ${uid}, with the permissions ${
      octal(mode)
    }, and this program runs as user ${user}: run it as that user, or change the owner or the permissions (chown, chmod).`
  return `${path} ${problem} (${code}).${remedy}`
}

const octal = (mode: number): string => `0${(mode & 0o7777).toString(8)}`
