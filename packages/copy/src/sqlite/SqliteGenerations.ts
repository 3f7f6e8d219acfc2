/** The generations of an SQLite file, and the numbers of its changes. */
import { type ChangeRange, isLost, type KnownChange, type Lineage, newName } from "../port/Generations.ts"
import { generationVersion } from "../store/Migrations.ts"
import { readNumber, readText, type Row, toChangeRange, toGeneration } from "../store/Rows.ts"
import type { NewGeneration } from "../store/Store.ts"
import type { Database } from "./SqliteClient.ts"

/** SQL for the number of the last change. It grows also after all changes were removed. */
export const lastChange = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"

/** SQL for the name of the current generation. */
export const currentGeneration = "(SELECT generation FROM generations ORDER BY number DESC LIMIT 1)"

/** SQL for the generation of a change or a position. NULL is the first generation. */
export const ownGeneration = "coalesce(generation, (SELECT generation FROM generations WHERE number = 1))"

/** Returns the version of the tables. */
export const versionOf = (db: Database): number =>
  readNumber(db.get("SELECT user_version AS version FROM pragma_user_version"), "version")

/** Whether the file has generations. A reader may read a file of an earlier version. */
export const hasGenerations = (db: Database): boolean => versionOf(db) >= generationVersion

/** Returns the generations, the current one last. */
export const lineageIn = (db: Database): Lineage =>
  hasGenerations(db)
    ? db.all("SELECT generation, began_after, began_at, reason FROM generations ORDER BY number").map(toGeneration)
    : []

/** Returns which changes the file has. */
export const rangeIn = (db: Database): ChangeRange =>
  toChangeRange(db.get(
    `SELECT ${hasGenerations(db) ? currentGeneration : "NULL"} AS generation,
      coalesce((SELECT seq FROM changes_pruned), 0) AS pruned, ${lastChange} AS last`
  ))

/** Begins a generation. The caller starts the transaction. */
export const beginIn = (db: Database, { after, instead, now, reason }: NewGeneration): Lineage => {
  const { generation: current, last } = rangeIn(db)
  if (instead === undefined || instead === current) {
    const beganAfter = Math.min(after ?? last, last)
    const name = newName()
    db.run(
      "INSERT INTO generations (generation, began_after, began_at, reason) VALUES (?, ?, ?, ?)",
      name,
      beganAfter,
      now,
      reason
    )
    db.run("UPDATE changes SET generation = ? WHERE seq > ?", name, beganAfter)
  }
  return lineageIn(db)
}

/**
 * Returns the generation of the changes that a commit writes, and their numbers so far. Begins one if the writer knows a higher
 * number. `bound` has the columns `generation` and `last`.
 */
export const generationFor = (
  db: Database,
  bound: Row | undefined,
  known: KnownChange | undefined,
  now: string
): KnownChange => {
  const current = { generation: readText(bound, "generation"), seq: readNumber(bound, "last") }
  const mayBeLost = known !== undefined && (known.generation !== current.generation || current.seq < known.seq)
  if (!mayBeLost || !isLost(known, lineageIn(db), current.seq)) return current
  const lineage = beginIn(db, { reason: "writer", now })
  return { ...current, generation: lineage.at(-1)?.generation ?? current.generation }
}
