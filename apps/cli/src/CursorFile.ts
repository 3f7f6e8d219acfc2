/**
 * `--cursor-file`: saves the position of a listing between two runs. If `--max` ended the run within a page, the file also
 * has the ids of that page that were printed. So the next run neither loses nor repeats a record. Only the owner may read the
 * file, because it contains filter values.
 */
import { Lists, readPlainFile } from "@payments/core"
import { ExitCode, printable, replaceFile, systemCodeOf } from "@payments/export"
import { CommandExit, usage } from "@payments/export/program"
import { Effect, Equal, FileSystem, Path, Schema } from "effect"

const SavedListing = Schema.Struct({
  version: Schema.Literal(1),
  /** The service and account that the listing reads. */
  source: Schema.String,
  list: Lists.ListName,
  limit: Lists.PageLimit,
  filters: Schema.Record(Schema.String, Schema.String),
  /** The cursor of the next page; null at the start and at the end of the list. */
  cursor: Schema.NullOr(Schema.String),
  /** Ids of the records of the page at the cursor that were printed. */
  printed: Schema.Array(Schema.String),
  /** Whether the listing reached the end of the list. */
  done: Schema.Boolean
})
/** The saved position of a listing. */
export interface SavedListing extends Schema.Schema.Type<typeof SavedListing> {}

/** The listing that a run requests. The file must belong to the same listing. */
export interface ListingRequest extends Pick<SavedListing, "source" | "list" | "filters"> {
  /** The limit of the run. If it is undefined, a file with any limit is accepted. */
  readonly limit: number | undefined
}

const SavedListingJson = Schema.fromJsonString(SavedListing)

const unusable = (file: string, problem: string) => usage(`--cursor-file: ${printable(file)} ${problem}`)

/** The size of the largest file that is read, in bytes. A file has a cursor and at most the ids of one page. */
const largestFile = 16 * 1024 * 1024

/** The error if the position cannot be written. */
const unwritable = (file: string, code: string) =>
  new CommandExit({
    exitCode: ExitCode.destination,
    problem: `--cursor-file: the position cannot be written to ${printable(file)}: ${
      problems[code] ?? "the system refuses it"
    } (${code}). The next run prints the last printed records again.`
  })

const problems: { readonly [code: string]: string } = {
  ENOSPC: "there is no space left",
  EDQUOT: "the disk quota of this user is used up",
  EFBIG: "the file would be larger than this user's limit",
  EACCES: "this user may not write in its folder",
  EPERM: "this user may not write it",
  EROFS: "its folder is read-only",
  ENOENT: "its folder does not exist any more"
}

/** Reads the saved position. Returns undefined if the file does not exist. Fails if it belongs to another listing. */
export const read = Effect.fnUntraced(function*(file: string, request: ListingRequest) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const text = yield* readPlainFile(file, { maxBytes: largestFile }).pipe(
    Effect.map((content) => content.text),
    Effect.catchIf(({ kind }) => kind === "notFound", () => Effect.succeed("")),
    Effect.mapError(({ problem }) => unusable(file, `${problem}.`))
  )
  if (
    text === "" && !(yield* Effect.orElseSucceed(fs.exists(path.dirname(file)), () => false))
  ) {
    return yield* unusable(file, "cannot be written: its folder does not exist.")
  }
  // An empty file also means the start: a script may have created the file to reserve its name.
  if (text === "") return undefined
  const saved = yield* Effect.mapError(
    Schema.decodeEffect(SavedListingJson)(text),
    () => unusable(file, "is not a cursor file of this program. Choose another, or remove it.")
  )
  const difference = saved.source !== request.source
    ? "service or account"
    : saved.list !== request.list
    ? "list"
    : !Equal.equals(saved.filters, request.filters)
    ? "selection of records"
    : request.limit !== undefined && request.limit !== saved.limit
    ? "limit"
    : undefined
  if (difference !== undefined) {
    return yield* unusable(file, `belongs to another ${difference}. Choose another, or remove it.`)
  }
  return saved
})

/** Replaces the file and syncs it to disk. If the name is a symbolic link, replaces its target. */
export const write = Effect.fnUntraced(function*(file: string, saved: SavedListing) {
  const fs = yield* FileSystem.FileSystem
  const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
  const text = yield* Effect.orDie(Schema.encodeEffect(SavedListingJson)(saved))
  yield* replaceFile(target, `${text}\n`).pipe(
    Effect.mapError((error) => unwritable(file, systemCodeOf(error)))
  )
})
