/** The one name of a file that several paths can name. */
import { lstatSync, readlinkSync, realpathSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { errorCode } from "./ErrorCode.ts"

/**
 * Returns the result of `realpath`. For a missing file, returns the path that it would have, also if a dangling link
 * names it. Throws if the folder does not exist.
 */
export const realPathOf = (path: string): string => {
  try {
    return realpathSync.native(path)
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error
  }
  const parent = realpathSync.native(dirname(path))
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
  // A cycle of links throws ELOOP above.
  return isLink ? realPathOf(resolve(parent, readlinkSync(path))) : join(parent, basename(path))
}

/** Returns the {@link realPathOf} a path, or undefined if its folder does not exist or cannot be read. */
export const realPathIfAny = (path: string): string | undefined => {
  try {
    return realPathOf(path)
  } catch {
    return undefined // the use of the path reports the problem
  }
}
