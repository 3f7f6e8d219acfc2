/** `sqlite:FILE`. */
import { Result } from "effect"
import { resolve } from "node:path"
import { queryFile } from "../sqlite/FileQuery.ts"
import * as SqliteSink from "../sqlite/SqliteSink.ts"
import { openSnapshot } from "../sqlite/SqliteSnapshot.ts"
import { openMaintenance, openReader, pendingMigration } from "../sqlite/SqliteStore.ts"
import type { AsOf } from "../statement/AsOf.ts"
import { sqliteDialect } from "../statement/Dialect.ts"
import { problemOf } from "./DestinationPath.ts"
import type { Driver, LocalPlace, Operations } from "./Driver.ts"

export interface SqliteDestination {
  readonly _tag: "Sqlite"
  readonly file: string
}

/** The operations of every destination whose tables are in an SQLite file. */
export const inSqliteFile = (location: string, place: LocalPlace) => ({
  location,
  place,
  dialect: sqliteDialect,
  sqliteFile: place.file,
  reader: openReader(place.file, location),
  snapshot: openSnapshot(place.file, location),
  maintenance: openMaintenance(place.file, location),
  pendingMigration: pendingMigration(place.file, location),
  query: (sql: string, parameters: ReadonlyArray<string>, asOf?: AsOf) =>
    queryFile({ file: place.file, location, sql, parameters, asOf })
} satisfies Partial<Operations>)

/** {@inheritDoc SqliteDriver.ts} */
export const sqlite: Driver<SqliteDestination> = {
  kind: "Sqlite",
  schemes: ["sqlite"],
  form: ["sqlite:FILE", "", ""],
  parse: ({ rest }) => {
    const problem = problemOf("sqlite", rest)
    return problem === undefined ? Result.succeed({ _tag: "Sqlite", file: rest }) : Result.fail(problem)
  },
  operations: (destination) => {
    const { file } = destination
    return {
      ...inSqliteFile(`sqlite:${file}`, { isLocal: true, path: file, file }),
      shown: `sqlite:${file}`,
      relativeTo: (folder) => ({ ...destination, file: resolve(folder, file) }),
      layer: SqliteSink.layer(file)
    }
  }
}
