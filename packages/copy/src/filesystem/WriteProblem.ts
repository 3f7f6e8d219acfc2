/** Explains why the system does not write a file or standard output. */

const problems: { readonly [code: string]: string } = {
  ENOSPC: "there is no space left",
  EDQUOT: "the disk quota of this user is used up",
  EFBIG: "the file would be larger than this user's limit",
  EACCES: "this user may not write in its folder",
  EPERM: "this user may not write it",
  EROFS: "its folder is read-only",
  ENOENT: "its folder does not exist",
  EBADF: "it is not open for writing",
  EIO: "the device reports an error"
}

/** Returns the problem in words, with the system's code: `there is no space left (ENOSPC)`. */
export const writeProblem = (code: string): string => `${problems[code] ?? "the system refuses it"} (${code})`
