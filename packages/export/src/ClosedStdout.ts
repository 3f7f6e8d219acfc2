/** Detects a closed stdout. The launcher of a program uses this too, so this file imports no other module of the package. */
import { fstatSync, readFileSync, statSync } from "node:fs"

/**
 * Whether stdout was closed when the program started. Node replaces a closed stdout by /dev/null, opened for reading and
 * writing. On Linux that can be detected here; `bin/payments` checks stdout itself and passes the result in PAYMENTS_STDOUT.
 */
export const isStdoutClosed = (): boolean => {
  const detected = process.env["PAYMENTS_STDOUT"]
  return detected === undefined ? isReplaced() : detected === "closed"
}

const isReplaced = (): boolean => {
  try {
    const opened = fstatSync(1)
    if (!opened.isCharacterDevice() || opened.rdev !== statSync("/dev/null").rdev) return false
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/fdinfo/1", "utf8"))?.[1]
    // 2 is O_RDWR. A shell's redirection to /dev/null opens it only for writing.
    return flags !== undefined && (Number.parseInt(flags, 8) & 3) === 2
  } catch {
    // Not Linux.
    return false
  }
}
