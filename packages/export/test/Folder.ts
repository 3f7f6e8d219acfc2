/** Folders and databases of tests. */
import { Effect } from "effect"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"

/** Memory in the place of a disk, where there is any: what is tested here is not what a power cut does. */
const quickFolder = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

/** A folder that is gone when the scope closes. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(quickFolder, "payments-export-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** Rows of a database, as plain objects. */
export const rowsOf = (file: string, sql: string): ReadonlyArray<Record<string, unknown>> => {
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5000 })
  try {
    return db.prepare(sql).all().map((row) => ({ ...row }))
  } finally {
    db.close()
  }
}

/** Runs statements in a database of its own connection. */
export const execute = (file: string, sql: string): void => {
  const db = new DatabaseSync(file)
  try {
    db.exec(sql)
  } finally {
    db.close()
  }
}
