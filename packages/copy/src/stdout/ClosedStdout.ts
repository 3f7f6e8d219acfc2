/**
 * Detects a closed stdout. The launcher of a program uses this too, so this file imports no other module of the
 * package.
 */

/**
 * Whether stdout was closed when the program started. Node replaces a closed stdout by /dev/null, opened for reading
 * and writing. Other programs open /dev/null in the same way to discard a child's output. So only the shell script that
 * starts Node sees the difference. It passes the result in PAYMENTS_STDOUT.
 */
export const isStdoutClosed = (): boolean => process.env["PAYMENTS_STDOUT"] === "closed"
