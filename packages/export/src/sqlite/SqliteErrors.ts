/** What SQLite and the file system throw, as reasons of ours. */
import { Failed, Full, LeaseLost, Locked, Moved, NotADestination, OtherSource, type SinkReason } from "../Sink.ts"

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
const sqliteCode = { busy: 5, full: 13, notADatabase: 26 } as const
/** Extended ones. */
const databaseMoved = 1032

/** The result code of an error from SQLite, the extended one. */
const errcodeOf = (error: unknown): number | undefined =>
  typeof error === "object" && error !== null && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode
    : undefined

/** Whether another connection has locked what was asked for. */
export const isBusy = (error: unknown): boolean => primary(errcodeOf(error)) === sqliteCode.busy

const primary = (errcode: number | undefined): number | undefined => errcode === undefined ? undefined : errcode & 0xff

/** The reason; undefined for what no file does, which is a bug of ours. */
export const reasonOf = (error: unknown): SinkReason | undefined => {
  if (
    error instanceof Locked || error instanceof LeaseLost || error instanceof Moved || error instanceof OtherSource ||
    error instanceof NotADestination
  ) return error
  const errcode = errcodeOf(error)
  if (errcode === databaseMoved) return new Moved({ problem: "the database was moved, removed or replaced" })
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
      return new NotADestination({ problem: "it is not an SQLite database. Choose another file." })
    default:
      return new Failed({ code: `SQLite ${primary(errcode)}` })
  }
}

/** The reason of a system code, such as `ENOSPC`. */
export const reasonOfCode = (code: string): SinkReason => code === "ENOSPC" ? new Full() : new Failed({ code })
