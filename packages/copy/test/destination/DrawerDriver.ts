/** `drawer:NAME`, a kind of destination that only tests have: a server that keeps the tables in the SQLite file `NAME.drawer`. */
import { Effect, Layer, Result } from "effect"
import { resolve } from "node:path"
import type { Driver } from "../../src/destination/Driver.ts"
import { Sink } from "../../src/port/Sink.ts"
import { makeSink } from "../../src/session/SqlSink.ts"
import { queryFile } from "../../src/sqlite/FileQuery.ts"
import { openSnapshot } from "../../src/sqlite/SqliteSnapshot.ts"
import { openMaintenance, openReader, openStore, pendingMigration } from "../../src/sqlite/SqliteStore.ts"
import { sqliteDialect } from "../../src/statement/Dialect.ts"

/** A drawer of the server. */
export interface DrawerDestination {
  readonly _tag: "Drawer"
  readonly name: string
}

/** {@inheritDoc DrawerDriver.ts} */
export const drawer: Driver<DrawerDestination> = {
  kind: "Drawer",
  schemes: ["drawer"],
  form: ["drawer:NAME", "", ""],
  parse: ({ rest }) =>
    rest === "" ? Result.fail("drawer: has no name.") : Result.succeed({ _tag: "Drawer", name: rest }),
  operations: (destination) => {
    const location = `drawer:${destination.name}`
    const file = `${destination.name}.drawer`
    return {
      shown: location,
      location,
      place: {
        isLocal: false,
        server: "the cabinet",
        accessProblem: Effect.undefined,
        spelling: Effect.succeed(file),
        identity: Effect.succeed(file),
        cleaning: "VACUUM"
      },
      dialect: sqliteDialect,
      relativeTo: (folder) => ({ ...destination, name: resolve(folder, destination.name) }),
      layer: Layer.effect(Sink, Effect.map(openStore(file, location), (store) => makeSink(store))),
      reader: openReader(file, location),
      snapshot: openSnapshot(file, location),
      maintenance: openMaintenance(file, location),
      pendingMigration: pendingMigration(file, location),
      query: (sql, parameters) => queryFile({ file, location, sql, parameters })
    }
  }
}
