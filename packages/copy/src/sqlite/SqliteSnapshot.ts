/** A {@link Snapshot} of an SQLite file. Each step blocks the thread for some milliseconds only. */
import { Effect, type Scope } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import { hashed, snapshotOver } from "../sql/SqlSnapshot.ts"
import type { RowContent, Snapshot } from "../store/Snapshot.ts"
import type { SqliteClient } from "./SqliteClient.ts"
import { rowsOf } from "./SqliteRows.ts"
import { sqlOver } from "./SqliteSql.ts"
import { openReader } from "./SqliteStore.ts"

/** The limits of a step: ids, and characters of texts, so that most texts are freed before they grow old. */
const [stepIds, stepCharacters] = [5000, 512 * 1024] as const

export const openSnapshot = (file: string, location: string): Effect.Effect<Snapshot, SinkError, Scope.Scope> =>
  Effect.map(
    Effect.flatMap(openReader(file, location), (reader) => reader.snapshot),
    ({ run, ...reader }) => snapshotOver(sqlOver({ run }, location), reader, contentsOver(run))
  )

const contentsOver = (run: SqliteClient["run"]): Snapshot["contents"] => (list, by, after = "") =>
  run((db) => {
    const found: Array<RowContent> = []
    let length = 0
    const rows = db.prepare(
      `SELECT id, raw, missing_since IS NOT NULL FROM ${layoutOf(list).table} WHERE id > ? ORDER BY id LIMIT ${stepIds}`
    )
    // Arrays take less time than objects, and this reads every row.
    rows.setReturnArrays(true)
    for (const row of rowsOf(rows, [after])) {
      const [id, raw, missing] = row as unknown as readonly [string, string, number] // by setReturnArrays
      found.push({ id, content: hashed({ dialect: "sqlite" }, raw, by), missing: missing === 1 })
      length += raw.length
      if (length > stepCharacters) break
    }
    return found
  })
