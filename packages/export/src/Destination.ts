/** Destinations by URL: which are known, and the sink behind each. */
import { Data, Effect, type FileSystem, Layer, type Path, Result, type Scope, type Stdio } from "effect"
import { join } from "node:path"
import * as DestinationPath from "./DestinationPath.ts"
import type { Reader } from "./engine/Store.ts"
import * as FileSink from "./files/FileSink.ts"
import { type Format, fromQuery } from "./files/render/Format.ts"
import * as PostgresUrl from "./postgres/PostgresUrl.ts"
import type { Sink, SinkError } from "./Sink.ts"
import * as SqliteSink from "./sqlite/SqliteSink.ts"
import { openReader } from "./sqlite/SqliteStore.ts"
import * as StdoutSink from "./StdoutSink.ts"
import * as ThreadedSink from "./thread/ThreadedSink.ts"

/** A place that keeps what is exported into it. */
export type Kept =
  | { readonly _tag: "Sqlite"; readonly file: string }
  | { readonly _tag: "Postgres"; readonly url: PostgresUrl.PostgresUrl }
  | { readonly _tag: "Files"; readonly folder: string; readonly format: Format }

/** Where to export: such a place, or stdout. */
export type Destination = Kept | { readonly _tag: "Stdout" }

/** The text names no destination. */
export class DestinationError extends Data.TaggedError("DestinationError")<{ readonly problem: string }> {
  override get message() {
    return `${this.problem} A destination is sqlite:FILE, postgres://HOST/DATABASE, file:FOLDER?format=ndjson|csv|parquet&compress=none|gzip|zstd or - (stdout).`
  }
}

/**
 * The destination that a text such as `sqlite:./payments.db` names. A password may stand in one of the environment, never in
 * an argument, which every user of the machine can read.
 */
export const parse = (
  text: string,
  from: "argument" | "environment" = "argument"
): Effect.Effect<Destination, DestinationError> => {
  if (text === "-") return Effect.succeed({ _tag: "Stdout" })
  const [, scheme, rest = ""] = /^([a-z]+):(.*)$/s.exec(text) ?? []
  const refuse = (problem: string) => Effect.fail(new DestinationError({ problem }))
  if (scheme === "sqlite") {
    const problem = DestinationPath.problemOf(scheme, rest)
    return problem === undefined ? Effect.succeed({ _tag: "Sqlite", file: rest }) : refuse(problem)
  }
  if (scheme === "postgres" || scheme === "postgresql") {
    if (!rest.startsWith("//")) return refuse("Two slashes follow the colon: write postgres://HOST/DATABASE.")
    const url = PostgresUrl.parse(text)
    if (Result.isFailure(url)) return refuse(url.failure)
    return from === "argument" && url.success.password !== undefined
      ? refuse(
        "A password is no argument. Give it in PGPASSWORD or a file that PGPASSFILE names, or all in PAYMENTS_TO."
      )
      : Effect.succeed({ _tag: "Postgres", url: url.success })
  }
  if (scheme !== "file") return refuse(DestinationPath.suggestionFor(text))
  const [folder = "", query = ""] = rest.split(/\?(.*)/s)
  const problem = DestinationPath.problemOf(scheme, folder)
  if (problem !== undefined) return refuse(problem)
  return Result.match(fromQuery(query), {
    onFailure: (failure) => refuse(`file: ${failure}.`),
    onSuccess: (format) => Effect.succeed({ _tag: "Files", folder, format })
  })
}

/** The driver is loaded when such a destination is named, and not before. */
const postgres = Effect.promise(() => import("./postgres/PostgresSink.ts"))

/** The sink of a destination. One that is kept has a thread of its own: what it does goes on beside reading. */
export const layer = (
  destination: Destination
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path | Stdio.Stdio> =>
  destination._tag === "Stdout"
    ? StdoutSink.layer
    : ThreadedSink.isAvailable()
    ? ThreadedSink.layer(destination)
    : layerHere(destination)

/** The sink of a destination that is kept, in this thread. */
export const layerHere = (
  destination: Kept
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path> => {
  switch (destination._tag) {
    case "Sqlite":
      return SqliteSink.layer(destination.file)
    case "Postgres":
      return Layer.unwrap(Effect.map(postgres, (sink) => sink.layer(destination.url)))
    case "Files":
      return FileSink.layer(destination.folder, destination.format)
  }
}

/** What a destination's own database can be asked, until the scope closes. The destination must be there. */
export const reader = (destination: Kept): Effect.Effect<Reader, SinkError, Scope.Scope> => {
  switch (destination._tag) {
    case "Sqlite":
      return openReader(destination.file, `sqlite:${destination.file}`)
    case "Postgres":
      return Effect.flatMap(postgres, (sink) => sink.reader(destination.url))
    case "Files":
      return openReader(join(destination.folder, FileSink.copyFile), `file:${destination.folder}`)
  }
}
