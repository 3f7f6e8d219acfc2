/**
 * What a folder's copy remembers of the files that were rendered from it: their names before they are there, so that none
 * is left over; their digests and the manifest's text, so that `verify` knows what there must be.
 */
import type { Lists } from "@payments/core"
import type { Effect } from "effect"
import type { DatabaseSync } from "node:sqlite"
import type { RenderedFile } from "./Manifest.ts"
import type { SinkError } from "./Sink.ts"
import type { SqliteStore } from "./SqliteStore.ts"

/** A rendering of a list: its files take each other's place as one. */
export interface Rendering {
  readonly number: number
  readonly list: Lists.AnyList
  readonly scan: number
  /** What {@link revisionOf} said. */
  readonly revision: number
}

/** The renderings of a folder. Whoever writes them holds its manifest. */
export interface Renderings {
  /** What `manifest.json` has to be; undefined before anything was rendered by this version. */
  readonly manifest: Effect.Effect<string | undefined, SinkError>
  /** The number of the next rendering. */
  readonly next: Effect.Effect<number, SinkError>
  /** Remembers a file before it is there. */
  readonly note: (rendering: Rendering, file: string) => Effect.Effect<void, SinkError>
  /** Remembers what the files have come to, and the manifest that names them. */
  readonly complete: (files: ReadonlyArray<RenderedFile>, manifest: string) => Effect.Effect<void, SinkError>
  /** The revision of the list that the file was rendered from. */
  readonly revisionIn: (file: string) => Effect.Effect<number | undefined, SinkError>
  /** The files of the last whole rendering of each list. */
  readonly current: Effect.Effect<ReadonlyArray<RenderedFile>, SinkError>
  /** The files that are not whole, and those of which two later renderings are. */
  readonly stale: Effect.Effect<ReadonlyArray<string>, SinkError>
  readonly forget: (file: string) => Effect.Effect<void, SinkError>
}

const isWhole = "(sha256 IS NOT NULL OR rendering = 0)"

/** How many whole renderings of the same list are newer than that of the row `r`. */
const newer = `(SELECT count(DISTINCT rendering) FROM rendered
  WHERE list = r.list AND rendering > r.rendering AND ${isWhole})`

/** Over the store. */
export const make = ({ query, transaction }: Pick<SqliteStore, "query" | "transaction">): Renderings => ({
  manifest: query((db) => optional(db.prepare("SELECT text FROM manifest").get()?.["text"])),
  next: query((db) => Number(db.prepare("SELECT coalesce(max(rendering), 0) + 1 AS n FROM rendered").get()?.["n"])),
  note: ({ list, number, revision, scan }, file) =>
    transaction((db) => {
      db.prepare("INSERT INTO rendered (file, list, rendering, scan, revision) VALUES (?, ?, ?, ?, ?)")
        .run(file, list.label, number, scan, revision)
    }),
  complete: (files, manifest) =>
    transaction((db) => {
      const note = db.prepare("UPDATE rendered SET records = ?, bytes = ?, sha256 = ? WHERE file = ?")
      for (const { bytes, file, records, sha256 } of files) note.run(records, bytes, sha256, file)
      db.prepare("INSERT OR REPLACE INTO manifest (only, text) VALUES (1, ?)").run(manifest)
    }),
  revisionIn: (file) =>
    query((db) => {
      const revision = db.prepare("SELECT revision FROM rendered WHERE file = ?").get(file)?.["revision"]
      return typeof revision === "number" ? revision : undefined
    }),
  current: query((db) =>
    db.prepare(`SELECT file, records, bytes, sha256 FROM rendered AS r WHERE sha256 IS NOT NULL AND ${newer} = 0`).all()
      .map(({ bytes, file, records, sha256 }) => ({
        file: String(file),
        records: Number(records),
        bytes: Number(bytes),
        sha256: String(sha256)
      }))
  ),
  stale: query((db) => filesOf(db, `SELECT file FROM rendered AS r WHERE NOT ${isWhole} OR ${newer} >= 2`)),
  forget: (file) => transaction((db) => void db.prepare("DELETE FROM rendered WHERE file = ?").run(file))
})

/**
 * Grows with every change of the list's rows: their writes are counted by the scans that made them, whole or not, and each
 * that goes missing is told.
 */
export const revisionOf = (
  { query }: Pick<SqliteStore, "query">,
  list: Lists.AnyList
): Effect.Effect<number, SinkError> =>
  query((db) => {
    const row = db.prepare(
      `SELECT (SELECT coalesce(sum((tally ->> '$.counts.inserted') + (tally ->> '$.counts.updated')
        + (tally ->> '$.counts.returned')), 0) FROM scans WHERE list = ?1)
      + (SELECT count(*) FROM changes WHERE list = ?1 AND kind = 'missing') AS revision`
    ).get(list.label)
    return Number(row?.["revision"])
  })

const filesOf = (db: DatabaseSync, sql: string): ReadonlyArray<string> =>
  db.prepare(sql).all().map(({ file }) => String(file))

const optional = (value: unknown): string | undefined => value === undefined ? undefined : String(value)
