/** Maps exceptions of SQLite and the file system to reasons of a `SinkError`. */
import { errorCode } from "../filesystem/ErrorCode.ts"
import { denialProblem, isDenial, type PathUse } from "../filesystem/Permission.ts"
import { isReason } from "../port/ErrorMessage.ts"
import {
  AccessDenied,
  Damaged,
  DestinationFailed,
  DestinationMoved,
  DiskFull,
  Locked,
  NotADestination,
  type SinkReason
} from "../port/Sink.ts"

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
const sqliteCode = {
  error: 1,
  permission: 3,
  busy: 5,
  readOnly: 8,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  constraint: 19,
  format: 24,
  notADatabase: 26
} as const
/** SQLite's extended result codes. */
const extended = { databaseMoved: 1032, shortRead: 522, corruptFileSystem: 8458, trigger: 1811 } as const

/** Returns the extended result code of an error from SQLite. */
const errcodeOf = (error: unknown): number | undefined =>
  typeof error === "object" && error !== null && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode
    : undefined

/** SQLite's codes for an invalid statement, or for a statement whose computation fails or takes too much memory. */
const statementCodes: ReadonlySet<number | undefined> = new Set([1, 7, 8, 18, 20, 23, 25])

/** Whether a user's statement is the cause of the error. */
export const isStatementError = (error: unknown): error is Error =>
  error instanceof Error && statementCodes.has(primary(errcodeOf(error)))

/** Whether another connection has a lock that the statement needs. */
export const isBusy = (error: unknown): boolean => primary(errcodeOf(error)) === sqliteCode.busy

export const isNoDatabase = (error: unknown): boolean => primary(errcodeOf(error)) === sqliteCode.notADatabase

const primary = (errcode: number | undefined): number | undefined => errcode === undefined ? undefined : errcode & 0xff

export const damageOf = (error: unknown): string | undefined => {
  if (error instanceof Damaged) return error.problem
  // The driver throws this for an integer beyond 2^53. This program writes none into columns that it reads as numbers.
  if (error instanceof RangeError && errorCode(error) === "ERR_OUT_OF_RANGE") {
    return "a number is too large"
  }
  const errcode = errcodeOf(error)
  const code = primary(errcode)
  switch (code) {
    case sqliteCode.error:
      // The program's own statements are valid. They fail only if a table, a column or a stored JSON text was altered.
      return /no such|no column named|malformed|already exists|duplicate column name/.test(String(error))
        ? "a table is not what was written"
        : undefined
    case sqliteCode.corrupt:
    case sqliteCode.format:
      return `pages of it cannot be read (SQLite ${code})`
    case sqliteCode.constraint:
      return errcode === extended.trigger ? undefined : "its rows and their indexes contradict each other (SQLite 19)"
    default:
      return errcode === extended.shortRead || errcode === extended.corruptFileSystem
        ? `it ends too early (SQLite ${errcode})`
        : undefined
  }
}

export const denialIn = (error: unknown, files: ReadonlyArray<PathUse>): AccessDenied | undefined => {
  const mayBeDenial = isDenial(errorCode(error)) ||
    [sqliteCode.permission, sqliteCode.readOnly, sqliteCode.cannotOpen].some((denial) =>
      denial === primary(errcodeOf(error))
    )
  const path = error instanceof Error && "path" in error && typeof error.path === "string" ? [{ path: error.path }] : []
  const problem = mayBeDenial ? denialProblem([...files, ...path]) : undefined
  return problem === undefined ? undefined : new AccessDenied({ problem })
}

/** Returns the reason for an exception, or undefined if no problem of the files explains it: then it is a defect. */
export const reasonOf = (error: unknown): SinkReason | undefined => {
  if (isReason(error)) return error
  const errcode = errcodeOf(error)
  const damage = damageOf(error)
  if (damage !== undefined) return new Damaged({ problem: damage })
  if (errcode === extended.databaseMoved) {
    return new DestinationMoved({ problem: "the database was moved, removed or replaced" })
  }
  switch (primary(errcode)) {
    case undefined:
      return error instanceof Error && "code" in error && "syscall" in error
        ? reasonOfCode(String(error.code))
        : undefined
    case sqliteCode.busy:
      return new Locked({ label: "the database" })
    case sqliteCode.full:
      return new DiskFull()
    case sqliteCode.notADatabase:
      return new NotADestination({
        problem: "it is not an SQLite database, or its first page is damaged. Choose another file."
      })
    default:
      return new DestinationFailed({ code: `SQLite ${primary(errcode)}` })
  }
}

/** Returns the reason for a code of the system, such as `ENOSPC`. */
export const reasonOfCode = (code: string): SinkReason =>
  code === "ENOSPC" ? new DiskFull() : new DestinationFailed({ code })
