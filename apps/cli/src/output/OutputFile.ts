/**
 * `--output`: the file that a listing appends its records to. The position in `--cursor-file` says how long the file
 * was when it was saved. A run that was killed between the two has written records after that position. The next run
 * cuts them off and reads them again, so the file and the position always agree.
 */
import { errorCode, printable, realPathOf, writeProblem } from "@payments/copy"
import { CommandExit, ExitCode, usage } from "@payments/program"
import { Effect } from "effect"
import { closeSync, constants, fstatSync, fsyncSync, ftruncateSync, openSync, statSync, writeSync } from "node:fs"
import { resolve } from "node:path"

export interface OutputFile {
  /** Whether the file had no records when it was opened. */
  readonly isNew: boolean
  readonly append: (text: string) => Effect.Effect<void, CommandExit>
  /** Waits until the content is on disk. Returns its length in bytes. */
  readonly sync: Effect.Effect<number, CommandExit>
}

/** Where the listing starts: at a saved position with the length of the file then, at a given cursor, or at the first page. */
export type OutputStart =
  | { readonly _tag: "Saved"; readonly bytes: number | undefined }
  | { readonly _tag: "Cursor" }
  | { readonly _tag: "First" }

const attempt = <A>(file: string, use: () => A) =>
  Effect.try({
    try: use,
    catch: (error) =>
      new CommandExit({
        exitCode: ExitCode.destination,
        problem: `--output: ${printable(file)} cannot be written: ${writeProblem(errorCode(error) ?? "unknown")}.`
      })
  })

/** Returns the real path of the file, which may be missing. */
export const realPath = (file: string) => attempt(file, () => realPathOf(resolve(file)))

/** Opens the file until the scope closes. Refuses a file that does not belong to the start. */
export const open = Effect.fnUntraced(function*(file: string, start: OutputStart) {
  const refuse = (problem: string) => usage(`--output: ${printable(file)} ${problem}`)
  const notAFile = "is not a regular file. Choose another, or write to it with >."
  // To open a named pipe waits for its reader, and no signal ends that.
  const found = yield* attempt(file, () => statSync(file, { throwIfNoEntry: false }))
  if (found?.isFile() === false) return yield* refuse(notAFile)
  // Only the owner may read the records.
  const flags = constants.O_CREAT | constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK
  const fd = yield* Effect.acquireRelease(
    attempt(file, () => openSync(file, flags, 0o600)),
    (opened) => Effect.sync(() => closeSync(opened))
  )
  const stats = yield* attempt(file, () => fstatSync(fd))
  if (!stats.isFile()) return yield* refuse(notAFile)
  if (start._tag === "First" && stats.size > 0) {
    return yield* refuse("already has content. Choose another file, or continue it with its --cursor-file.")
  }
  if (start._tag === "Saved") {
    const { bytes = 0 } = start
    if (stats.size < bytes) {
      return yield* refuse("is shorter than at the position in the cursor file. Remove both files to start again.")
    }
    if (start.bytes === undefined && stats.size > 0) {
      return yield* refuse("was not written with this cursor file. Choose another file.")
    }
    yield* attempt(file, () => ftruncateSync(fd, bytes))
  }
  let length = start._tag === "Saved" ? start.bytes ?? 0 : stats.size
  const output: OutputFile = {
    isNew: length === 0,
    append: (text) =>
      attempt(file, () => {
        const bytes = Buffer.from(text)
        try {
          // A disk that is nearly full takes a part.
          for (let written = 0; written < bytes.length;) written += writeSync(fd, bytes, written)
        } catch (error) {
          // The next record must not be appended to a part of this one.
          ftruncateSync(fd, length)
          throw error
        }
        length += bytes.length
      }),
    sync: attempt(file, () => {
      fsyncSync(fd)
      return length
    })
  }
  return output
})
