/** Temporary folders, and access to SQLite databases. */
import { Effect } from "effect"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"

/** A file system in memory, if the machine has one: these tests need no disk that survives a power failure. */
const parentFolder = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

/** Creates a folder, and removes it when the scope closes. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(parentFolder, "payments-export-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** How long a statement waits for a lock of another process, in milliseconds. Meanwhile this process does nothing else. */
const lockTimeout = 60_000

/** Returns rows of a database as plain objects. */
export const rowsOf = (file: string, sql: string): ReadonlyArray<Record<string, unknown>> => {
  const db = new DatabaseSync(file, { readOnly: true, timeout: lockTimeout })
  try {
    return db.prepare(sql).all().map((row) => ({ ...row }))
  } finally {
    db.close()
  }
}

/** Runs statements in a database, over a separate connection. */
export const execute = (file: string, sql: string): void => {
  const db = new DatabaseSync(file, { timeout: lockTimeout })
  try {
    db.exec(sql)
  } finally {
    db.close()
  }
}
