/**
 * Files that a command writes, such as that of `--output`. A file takes its name when all of it is on disk, so a reader never
 * sees a part, also after a kill. Only its owner may read it.
 */
import {
  Destination,
  errorCode,
  printable,
  realPathIfAny,
  replaceFileWith,
  Stdout,
  systemCodeOf,
  writeProblem
} from "@payments/copy"
import { CommandExit, ExitCode, textFlag, usage } from "@payments/program"
import { Effect, FileSystem, PlatformError, Stdio } from "effect"
import { closeSync, openSync, writeSync } from "node:fs"
import { resolve, sep } from "node:path"

export const outputFlag = textFlag(
  "output",
  "FILE",
  "write to this file instead of stdout; its ending chooses the format; it is replaced when everything is written"
)

/** The formats of a file, by the ending of its name. */
const formatsByEnding = {
  csv: "csv",
  json: "json",
  ndjson: "ndjson",
  xlsx: "xlsx",
  journal: "hledger",
  beancount: "beancount"
} as const

/**
 * Returns the format that a command writes: the given one, or that of the ending of `--output`. Undefined if stdout chooses. A
 * workbook needs a file.
 */
export const formatIn = <Format extends string>(
  { format, output }: { readonly format: Format | undefined; readonly output: string | undefined },
  formats: ReadonlyArray<Format>
): Effect.Effect<Format | undefined, CommandExit> => {
  if (output === "-") return usage("--output: name a file. Without --output, the command writes to stdout.")
  if (output === undefined) {
    return format === "xlsx" ? usage("--format xlsx needs a file: --output report.xlsx.") : Effect.succeed(format)
  }
  if (format !== undefined) return Effect.succeed(format)
  const [ending, found] = Object.entries(formatsByEnding).find(([one]) => output.toLowerCase().endsWith(`.${one}`)) ??
    []
  const named = formats.find((one) => one === found)
  return named === undefined || ending === undefined
    ? usage(`--output: the ending of ${printable(output)} names no format. Choose one with --format.`)
    : Effect.succeed(named)
}

/** Why a file cannot be written. `code` is that of the system. */
export const notWritten = (flag: string, file: string, code: string) =>
  new CommandExit({
    exitCode: ExitCode.destination,
    problem: `${flag}: ${printable(file)} cannot be written: ${writeProblem(code)}.`,
    reason: "Output"
  })

/** Replaces the file with what `write` puts in a temporary file. */
export const writeFileWith = Effect.fnUntraced(function*<A, E, R>(
  flag: string,
  file: string,
  write: (temporary: FileSystem.File, name: string) => Effect.Effect<A, E, R>
) {
  const fs = yield* FileSystem.FileSystem
  // If the name is a symbolic link, its target is replaced.
  const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
  return yield* Effect.catchIf(
    replaceFileWith(target, write),
    (error): error is PlatformError.PlatformError => error instanceof PlatformError.PlatformError,
    (error) => notWritten(flag, file, systemCodeOf(error))
  )
})

/** Runs a command's printing, and writes to the file what it prints to stdout. Without a file it only runs it. */
export const printingTo = <A, E, R>(file: string | undefined, printing: Effect.Effect<A, E, R>) =>
  file === undefined ? printing : writeFileWith("--output", file, (_, temporary) => redirect(file, temporary, printing))

const redirect = Effect.fnUntraced(function*<A, E, R>(
  file: string,
  temporary: string,
  printing: Effect.Effect<A, E, R>
) {
  const stdio = yield* Stdio.Stdio
  let failure: CommandExit | undefined
  const attempt = <B>(step: () => B) =>
    Effect.suspend(() => {
      try {
        return Effect.succeed(step())
      } catch (error) {
        failure = notWritten("--output", file, errorCode(error) ?? "unknown")
        return Effect.fail(failure)
      }
    })
  const fd = yield* Effect.acquireRelease(
    attempt(() => openSync(temporary, "r+")),
    (opened) => Effect.sync(() => closeSync(opened))
  )
  const write = (text: string) =>
    Effect.orDie(attempt(() => {
      const bytes = Buffer.from(text)
      // A disk that is nearly full takes a part.
      for (let written = 0; written < bytes.length;) written += writeSync(fd, bytes, written)
    }))
  return yield* printing.pipe(
    Stdout.redirected(write),
    Effect.provideService(Stdio.Stdio, { ...stdio, stdoutIsTerminal: Effect.succeed(false) }),
    // A writer of stdout has no error of its own.
    Effect.catchDefect((defect) => failure === undefined ? Effect.die(defect) : Effect.fail(failure))
  )
}, Effect.scoped)

/** A file that a flag names. */
export interface NamedFile {
  readonly flag: string
  readonly file: string | undefined
}

/** Fails if two files are the same, or if one would replace a file of the copy that the command reads. */
export const checkWrittenFiles = Effect.fnUntraced(
  function*(named: ReadonlyArray<NamedFile>, destination: Destination.StoredDestination) {
    const files = named.flatMap(({ file, flag }) => file === undefined ? [] : [{ flag, path: realPath(file) }])
    const [first, second] = files
    if (first !== undefined && first.path === second?.path) {
      return yield* usage(`${first.flag} and ${second.flag} name the same file.`)
    }
    const { place } = Destination.operations(destination)
    if (!place.isLocal) return
    const copy = realPath(place.path)
    for (const { flag, path } of files) {
      // The files of a database that SQLite adds have its name, `-` and a suffix.
      const isOfCopy = path === copy || path.startsWith(place.path === place.file ? `${copy}-` : withSeparator(copy))
      if (isOfCopy) return yield* usage(`${flag} names a file of the copy that the query reads. Name another file.`)
    }
  }
)

export const realPath = (path: string): string => realPathIfAny(resolve(path)) ?? resolve(path)

const withSeparator = (folder: string): string => folder.endsWith(sep) ? folder : folder + sep
