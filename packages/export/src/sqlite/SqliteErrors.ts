/** Maps what SQLite and the file system throw to a reason of a `SinkError`. */
import { denialProblem, isDenial, type PathUse } from "../Permission.ts"
import {
  Damaged,
  Denied,
  Failed,
  Full,
  LeaseLost,
  Locked,
  Moved,
  NotADestination,
  OtherMerchant,
  OtherSource,
  RowsRemoved,
  type SinkReason
} from "../Sink.ts"

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
/** Extended ones. */
const extended = { databaseMoved: 1032, shortRead: 522, corruptFileSystem: 8458, trigger: 1811 } as const

/** The result code of an error from SQLite, the extended one. */
const errcodeOf = (error: unknown): number | undefined =>
  typeof error === "object" && error !== null && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode
    : undefined

/** SQLite's codes for a statement that is wrong, or that fails for what it computes. */
const statementCodes: ReadonlySet<number | undefined> = new Set([1, 8, 18, 20, 23, 25])

/** Whether it is the statement that is wrong, where somebody else has written it. */
export const isStatementError = (error: unknown): error is Error =>
  error instanceof Error && statementCodes.has(primary(errcodeOf(error)))

/** Whether another connection has locked what was asked for. */
export const isBusy = (error: unknown): boolean => primary(errcodeOf(error)) === sqliteCode.busy

/** Whether the file is no SQLite database. */
export const isNoDatabase = (error: unknown): boolean => primary(errcodeOf(error)) === sqliteCode.notADatabase

const primary = (errcode: number | undefined): number | undefined => errcode === undefined ? undefined : errcode & 0xff

/** What an error says of damage to the database; undefined where it says nothing of that. */
export const damageOf = (error: unknown): string | undefined => {
  if (error instanceof Damaged) return error.problem
  // The driver's, for an integer beyond 2^53 where none was written.
  if (error instanceof RangeError && "code" in error && error.code === "ERR_OUT_OF_RANGE") {
    return "a number is too large"
  }
  const errcode = errcodeOf(error)
  const code = primary(errcode)
  switch (code) {
    case sqliteCode.error:
      // All statements are fixed: they fail where a table, a column or a tally is not what was written.
      return /no such|no column named|malformed/.test(String(error)) ? "a table is not what was written" : undefined
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

/** What an error says of the permissions of these files; undefined where it says nothing of them. */
export const denialIn = (error: unknown, files: ReadonlyArray<PathUse>): Denied | undefined => {
  const code = error instanceof Error && "code" in error ? error.code : undefined
  const isOne = isDenial(code) ||
    [sqliteCode.permission, sqliteCode.readOnly, sqliteCode.cannotOpen].some((one) => one === primary(errcodeOf(error)))
  const path = error instanceof Error && "path" in error && typeof error.path === "string" ? [{ path: error.path }] : []
  const problem = isOne ? denialProblem([...files, ...path]) : undefined
  return problem === undefined ? undefined : new Denied({ problem })
}

/** The reason; undefined for what no file does, which is a bug of ours. */
export const reasonOf = (error: unknown): SinkReason | undefined => {
  if (
    error instanceof Locked || error instanceof LeaseLost || error instanceof Moved || error instanceof OtherSource ||
    error instanceof OtherMerchant || error instanceof NotADestination || error instanceof Damaged ||
    error instanceof RowsRemoved ||
    error instanceof Denied
  ) return error
  const errcode = errcodeOf(error)
  const damage = damageOf(error)
  if (damage !== undefined) return new Damaged({ problem: damage })
  if (errcode === extended.databaseMoved) return new Moved({ problem: "the database was moved, removed or replaced" })
  switch (primary(errcode)) {
    case undefined:
      return error instanceof Error && "code" in error && "syscall" in error
        ? reasonOfCode(String(error.code))
        : undefined
    case sqliteCode.busy:
      return new Locked({ label: "the database" })
    case sqliteCode.full:
      return new Full()
    case sqliteCode.notADatabase:
      return new NotADestination({
        problem: "it is not an SQLite database, or its first page is damaged. Choose another file."
      })
    default:
      return new Failed({ code: `SQLite ${primary(errcode)}` })
  }
}

/** The reason of a system code, such as `ENOSPC`. */
export const reasonOfCode = (code: string): SinkReason => code === "ENOSPC" ? new Full() : new Failed({ code })
