/**
 * `--cursor-file`: keeps where a listing stands between two runs. It holds the position and, where the last page was cut
 * by `--max`, the ids of that page that were already printed, so that going on neither loses nor repeats one. Filter
 * values are in it: it is readable by its owner alone.
 */
import { Position } from "@payments/core"
import { replaceFile } from "@payments/export"
import { usage } from "@payments/export/program"
import { Effect, FileSystem, Option, Schema } from "effect"

/** Where a listing stands. */
export interface Standing {
  /** The service it was read from. */
  readonly source: string
  /** Absent at the start. */
  readonly position: Position.Position | undefined
  /** Ids of the next page that are printed already. */
  readonly printed: ReadonlyArray<string>
  /** Whether the list's end was reached. */
  readonly done: boolean
}

/** The file cannot be used. */
const unusable = (problem: string) => usage(`--cursor-file: ${problem}`)

const Kept = Schema.fromJsonString(Schema.Struct({
  version: Schema.Literal(1),
  source: Schema.String,
  position: Schema.NullOr(Schema.String),
  printed: Schema.Array(Schema.String),
  done: Schema.Boolean
}))

/** What the file says of a listing of this service, or nothing if it is not there. */
export const read = Effect.fnUntraced(function*(file: string, source: string) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* fs.readFileString(file).pipe(
    Effect.catchIf((error) => error.reason._tag === "NotFound", () => Effect.succeed("")),
    Effect.mapError((error) => unusable(`the file cannot be read (${error.reason._tag}).`))
  )
  if (text === "") return undefined
  const unreadable = unusable("the file is not one of this program. Choose another, or remove it.")
  const kept = yield* Effect.mapError(Schema.decodeEffect(Kept)(text), () => unreadable)
  const position = kept.position === null ? Option.some(undefined) : Position.fromJson(kept.position)
  if (Option.isNone(position)) return yield* unreadable
  if (kept.source !== source) return yield* unusable("the file belongs to another service or account.")
  const standing: Standing = { source: kept.source, position: position.value, printed: kept.printed, done: kept.done }
  return standing
})

/** Replaces the file, durably. */
export const write = (file: string, standing: Standing) =>
  replaceFile(
    file,
    Schema.encodeSync(Kept)({
      version: 1,
      source: standing.source,
      position: standing.position === undefined ? null : Position.toJson(standing.position),
      printed: standing.printed,
      done: standing.done
    })
  ).pipe(Effect.mapError((error) => unusable(`the file cannot be written (${error.reason._tag}).`)))
