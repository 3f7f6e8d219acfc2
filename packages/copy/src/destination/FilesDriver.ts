/** `file:FOLDER?format=…`. */
import { Effect, Result } from "effect"
import { join, resolve } from "node:path"
import * as FileSink from "../files/FileSink.ts"
import { type Format, fromQuery } from "../files/render/Format.ts"
import { problemOf } from "./DestinationPath.ts"
import type { Driver } from "./Driver.ts"
import { inSqliteFile } from "./SqliteDriver.ts"

/** A folder of files, which are rendered from an SQLite file in it. */
export interface FilesDestination {
  readonly _tag: "Files"
  readonly folder: string
  readonly format: Format
}

/** {@inheritDoc FilesDriver.ts} */
export const files: Driver<FilesDestination> = {
  kind: "Files",
  schemes: ["file"],
  form: ["file:FOLDER", "?format=ndjson|csv|parquet", "&compress=none|gzip|zstd"],
  parse: ({ rest }) => {
    const [folder = "", query = ""] = rest.split(/\?(.*)/s)
    const problem = problemOf("file", folder)
    if (problem !== undefined) return Result.fail(problem)
    return Result.mapBoth(fromQuery(query), {
      onFailure: (failure) => `file: ${failure}.`,
      onSuccess: (format) => ({ _tag: "Files", folder, format }) as const
    })
  },
  operations: (destination) => {
    const { folder, format, keepSnapshots } = destination
    const location = `file:${folder}`
    return {
      ...inSqliteFile(location, { isLocal: true, path: folder, file: join(folder, FileSink.copyFile) }),
      shown: `${location}?format=${format.format}&compress=${format.compress}`,
      relativeTo: (base) => ({ ...destination, folder: resolve(base, folder) }),
      layer: FileSink.layer(folder, format, undefined, keepSnapshots),
      rendered: {
        lock: FileSink.lockForRedaction(folder),
        renderAgain: (after, keep = keepSnapshots) => FileSink.renderAgain(folder, format, keep, after),
        prune: (keep, isDryRun) => FileSink.pruneSnapshots(folder, keep, isDryRun),
        // Only `verify` needs what reads files back.
        verify: Effect.flatMap(
          Effect.promise(() => import("../files/VerifyFiles.ts")),
          ({ verifyFiles }) => verifyFiles(folder)
        )
      }
    }
  }
}
