/**
 * `--cursor-file`: keeps where a listing stands between two runs. Where `--max` cut the last page, it also holds the ids
 * of that page that were already printed, so that going on neither loses nor repeats one. Filter values are in it: it is
 * readable by its owner alone.
 */
import { Lists, readPlainFile } from "@payments/core"
import { ExitCode, printable, replaceFile, systemCodeOf } from "@payments/export"
import { CommandExit, usage } from "@payments/export/program"
import { Effect, Equal, FileSystem, Path, Schema } from "effect"

const Standing = Schema.Struct({
  version: Schema.Literal(1),
  /** The service it was read from. */
  source: Schema.String,
  list: Lists.ListName,
  limit: Lists.PageLimit,
  filters: Schema.Record(Schema.String, Schema.String),
  /** Null at the start, and at the end. */
  cursor: Schema.NullOr(Schema.String),
  /** Ids of the page at the cursor that are printed already. */
  printed: Schema.Array(Schema.String),
  /** Whether the list's end was reached. */
  done: Schema.Boolean
})
/** Where a listing stands. */
export interface Standing extends Schema.Schema.Type<typeof Standing> {}

/** What a run asks, which must be what the file was kept for. */
export interface Asked extends Pick<Standing, "source" | "list" | "filters"> {
  /** Any limit, if the run names none. */
  readonly limit: number | undefined
}

const StandingJson = Schema.fromJsonString(Standing)

const unusable = (file: string, problem: string) => usage(`--cursor-file: ${printable(file)} ${problem}`)

/** It holds a cursor, and at most the ids of one page. */
const largestFile = 16 * 1024 * 1024

/** The position is lost, and the next run prints again what this one has printed since the file was last written. */
const unwritable = (file: string, code: string) =>
  new CommandExit({
    exitCode: ExitCode.destination,
    problem: `--cursor-file: the position cannot be written to ${printable(file)}: ${
      problems[code] ?? "the system refuses it"
    } (${code}). The last records that were printed are printed again by the next run.`
  })

const problems: { readonly [code: string]: string } = {
  ENOSPC: "there is no space left",
  EDQUOT: "there is no space left for this user",
  EFBIG: "the file would be larger than this user may make it",
  EACCES: "there is no permission to write in its folder",
  EPERM: "there is no permission to write it",
  EROFS: "its folder can only be read",
  ENOENT: "its folder is gone"
}

/** What the file says of the listing that is asked for, or nothing if it is not there. */
export const read = Effect.fnUntraced(function*(file: string, asked: Asked) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const text = yield* readPlainFile(file, { maxBytes: largestFile }).pipe(
    Effect.map((found) => found.text),
    Effect.catchIf(({ kind }) => kind === "notFound", () => Effect.succeed("")),
    Effect.mapError(({ problem }) => unusable(file, `${problem}.`))
  )
  if (
    text === "" && !(yield* Effect.orElseSucceed(fs.exists(path.dirname(file)), () => false))
  ) {
    return yield* unusable(file, "cannot be kept: its folder is not there.")
  }
  // Also the empty file that a script has made to be sure of its name.
  if (text === "") return undefined
  const standing = yield* Effect.mapError(
    Schema.decodeEffect(StandingJson)(text),
    () => unusable(file, "is no cursor file of this program. Choose another, or remove it.")
  )
  const other = standing.source !== asked.source
    ? "service or account"
    : standing.list !== asked.list
    ? "list"
    : !Equal.equals(standing.filters, asked.filters)
    ? "selection of records"
    : asked.limit !== undefined && asked.limit !== standing.limit
    ? "limit"
    : undefined
  if (other !== undefined) return yield* unusable(file, `belongs to another ${other}. Choose another, or remove it.`)
  return standing
})

/** Replaces the file, durably; where the name is a link, what it leads to. */
export const write = Effect.fnUntraced(function*(file: string, standing: Standing) {
  const fs = yield* FileSystem.FileSystem
  const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
  const text = yield* Effect.orDie(Schema.encodeEffect(StandingJson)(standing))
  yield* replaceFile(target, `${text}\n`).pipe(
    Effect.mapError((error) => unwritable(file, systemCodeOf(error)))
  )
})
