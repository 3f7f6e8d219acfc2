/**
 * `--cursor-file`: saves the position of a listing between two runs. If `--max` ended the run within a page, the file also
 * has the ids of that page that were printed. So the next run neither loses nor repeats a record. Only the owner may read the
 * file, because it contains filter values.
 */
import { printable, realPathIfAny, replaceFile, systemCodeOf, writeProblem } from "@payments/copy"
import { Lists, readPlainFile } from "@payments/core"
import { CommandExit, ExitCode, usage } from "@payments/program"
import { Effect, Equal, FileSystem, Path, Schema } from "effect"

/** What a run appends to the file of `--output`. Another file would be cut; other records would not fit those in the file. */
const SavedOutput = Schema.Struct({
  path: Schema.String,
  format: Schema.String,
  /** The names of each field of `--fields`, or null for those of the format. */
  fields: Schema.NullOr(Schema.Array(Schema.Array(Schema.String))),
  /** The conditions of `--where`, as text. */
  conditions: Schema.Array(Schema.String)
})

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
  done: Schema.Boolean,
  /** The length of the file of `--output` at this position, in bytes; absent without `--output`. */
  outputBytes: Schema.optionalKey(Schema.Int),
  /** Absent without `--output`, and in the file of an earlier version. */
  output: Schema.optionalKey(SavedOutput)
})
export interface SavedListing extends Schema.Schema.Type<typeof SavedListing> {}

/** The listing that a run requests. The file must belong to the same listing. */
export interface ListingRequest extends Pick<SavedListing, "source" | "list" | "filters"> {
  /** The limit of the run. If it is undefined, a file with any limit is accepted. */
  readonly limit: number | undefined
  readonly output: typeof SavedOutput.Type | undefined
}

const SavedListingJson = Schema.fromJsonString(SavedListing)

const unusable = (file: string, problem: string) => usage(`--cursor-file: ${printable(file)} ${problem}`)

/** The size of the largest file that is read, in bytes. A file has a cursor and at most the ids of one page. */
const largestFile = 16 * 1024 * 1024

/** Reads the saved position. Returns undefined if the file does not exist. Fails if it belongs to another listing. */
export const read = Effect.fnUntraced(function*(file: string, request: ListingRequest) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if (request.output !== undefined && request.output.path === realPathIfAny(path.resolve(file))) {
    return yield* unusable(file, "is also the file of --output. Choose another.")
  }
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
  const difference = firstOther({
    "service or account": saved.source === request.source,
    list: saved.list === request.list,
    "selection of records": Equal.equals(saved.filters, request.filters),
    limit: request.limit === undefined || request.limit === saved.limit
  })
  if (difference !== undefined) {
    return yield* unusable(file, `belongs to another ${difference}. Choose another, or remove it.`)
  }
  if (saved.output !== undefined && request.output !== undefined) {
    const { conditions, fields, format, path: output } = saved.output
    if (output !== request.output.path) {
      return yield* unusable(
        file,
        `belongs to --output ${printable(output)}. Give that file, or choose another cursor file.`
      )
    }
    const changed = firstOther({
      "--format": format === request.output.format,
      "--fields": Equal.equals(fields, request.output.fields),
      "--where": Equal.equals(conditions, request.output.conditions)
    })
    if (changed !== undefined) {
      return yield* unusable(
        file,
        `belongs to another ${changed} of --output. Repeat the flags of the first run, or choose another cursor file and output.`
      )
    }
  }
  return saved
})

/** Returns the name of the first part that is not the same. */
const firstOther = (isSame: { readonly [part: string]: boolean }): string | undefined =>
  Object.keys(isSame).find((part) => isSame[part] === false)

/** Replaces the file and syncs it to disk. If the name is a symbolic link, replaces its target. */
export const write = Effect.fnUntraced(function*(file: string, saved: SavedListing) {
  const fs = yield* FileSystem.FileSystem
  const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
  const text = yield* Effect.orDie(Schema.encodeEffect(SavedListingJson)(saved))
  yield* Effect.mapError(replaceFile(target, `${text}\n`), (error) =>
    new CommandExit({
      exitCode: ExitCode.destination,
      problem: `--cursor-file: the position cannot be written to ${printable(file)}: ${
        writeProblem(systemCodeOf(error))
      }. The next run prints the last printed records again.`
    }))
})
