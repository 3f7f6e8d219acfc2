/** A {@link Snapshot} of a PostgreSQL schema: one transaction that reads and sees no later commit. */
import { Effect, type Scope } from "effect"
import type { SinkError } from "../port/Sink.ts"
import { tableIn } from "../sql/SqlDialect.ts"
import { contentOf, snapshotOver } from "../sql/SqlSnapshot.ts"
import { raw, type Sql, sql } from "../sql/SqlStatement.ts"
import type { Snapshot } from "../store/Snapshot.ts"
import { readBoolean, readText } from "../store/StoredRows.ts"
import { settingsOf } from "./PostgresSettings.ts"
import { sqlOver } from "./PostgresSql.ts"
import { openSnapshot as openSchema } from "./PostgresStore.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

const chunkRows = 5000

export const openSnapshot = (url: PostgresUrl): Effect.Effect<Snapshot, SinkError, Scope.Scope> =>
  Effect.map(Effect.flatMap(settingsOf(url), openSchema), ({ query, reader, schema }) => {
    const db = sqlOver(query, reader.location, schema)
    return snapshotOver(db, reader, contentsOver(db))
  })

const contentsOver = (db: Sql): Snapshot["contents"] => (list, by, after = "") =>
  db.read(
    // The column of ids is sorted by bytes (COLLATE "C").
    sql`SELECT id, ${contentOf(raw("raw"), by)} AS content, missing_since IS NOT NULL AS missing
    FROM ${tableIn(list)} WHERE id > ${after} ORDER BY id LIMIT ${chunkRows}`,
    (rows) =>
      rows.map((row) => ({
        id: readText(row, "id"),
        content: readText(row, "content"),
        missing: readBoolean(row, "missing")
      }))
  )
