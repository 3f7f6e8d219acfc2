/** Parses the URL of a destination, such as `sqlite:./payments.db`. */
import { Data, Effect, Result } from "effect"
import { type Format, fromQuery } from "../files/render/Format.ts"
import * as PostgresUrl from "../postgres/PostgresUrl.ts"
import * as DestinationPath from "./DestinationPath.ts"

/** A destination that stores the exported records. */
export type StoredDestination =
  & {
    /** The source whose copy is read, if one was chosen. Opening the copy of another one for reading or maintenance fails. */
    readonly boundTo?: string | undefined
  }
  & (
    | { readonly _tag: "Sqlite"; readonly file: string }
    | {
      readonly _tag: "Postgres"
      readonly url: PostgresUrl.PostgresUrl
      /** The name of this process in a cluster, which people then see as the holder of a lock. */
      readonly runner?: string | undefined
    }
    | {
      readonly _tag: "Files"
      readonly folder: string
      readonly format: Format
      /** How many earlier snapshots of a list the folder keeps, if a setting says so. */
      readonly keepSnapshots?: number | undefined
    }
  )

/** A stored destination, or stdout. */
export type Destination = StoredDestination | { readonly _tag: "Stdout" }

/** The text is not a valid destination. */
export class DestinationError extends Data.TaggedError("DestinationError")<{ readonly problem: string }> {
  override get message() {
    return `${this.problem} A destination is sqlite:FILE, postgres://HOST/DATABASE, file:FOLDER?format=ndjson|csv|parquet&compress=none|gzip|zstd or - (stdout).`
  }
}

/** Why a text from this place may not contain a password. A text from the environment may. */
const passwordProblems = {
  argument:
    "Other users of this machine can read a password in an argument. Set PGPASSWORD, PGPASSFILE or PAYMENTS_TO instead.",
  file: "No password stands in this file. Set PGPASSFILE or PGPASSWORD instead.",
  environment: undefined
}

/** Parses a text such as `sqlite:./payments.db`. */
export const parse = (
  text: string,
  from: keyof typeof passwordProblems = "argument"
): Effect.Effect<Destination, DestinationError> => {
  if (text === "-") return Effect.succeed({ _tag: "Stdout" })
  const [, scheme, rest = ""] = /^([a-z]+):(.*)$/s.exec(text) ?? []
  const refuse = (problem: string) => Effect.fail(new DestinationError({ problem }))
  if (scheme === "sqlite") {
    const problem = DestinationPath.problemOf(scheme, rest)
    return problem === undefined ? Effect.succeed({ _tag: "Sqlite", file: rest }) : refuse(problem)
  }
  if (scheme === "postgres" || scheme === "postgresql") {
    if (!rest.startsWith("//")) {
      return refuse("The two slashes after the colon are missing: write postgres://HOST/DATABASE.")
    }
    const url = PostgresUrl.parse(text)
    if (Result.isFailure(url)) return refuse(url.failure)
    const passwordProblem = passwordProblems[from]
    return passwordProblem !== undefined && url.success.password !== undefined
      ? refuse(passwordProblem)
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

/** Returns the destination as text, without the password. */
export const shown = (destination: StoredDestination): string => {
  switch (destination._tag) {
    case "Sqlite":
      return `sqlite:${destination.file}`
    case "Files": {
      const { compress, format } = destination.format
      return `file:${destination.folder}?format=${format}&compress=${compress}`
    }
    case "Postgres":
      return PostgresUrl.shown(destination.url)
  }
}
