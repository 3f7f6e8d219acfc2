/**
 * Stores data about rendered files in a folder's copy. The name of a file is stored before the file is created, so that
 * an incomplete file is found and removed. The digests and the manifest's text are stored for `verify`.
 */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { SinkError } from "../port/Sink.ts"
import type { SqliteClient } from "../sqlite/SqliteClient.ts"
import type { SqliteStore } from "../sqlite/SqliteStore.ts"
import { renamedVersion } from "../store/Migrations.ts"
import { readNumber, readOptional, readText } from "../store/StoredRows.ts"
import * as Manifest from "./Manifest.ts"

/** The label of the lock for rendering, and for reading the rendered files and the manifest together. */
export const manifestLabel = "manifest"

/** The label of the lock for erasing and rewriting texts of the copy until the files are rendered again. */
export const redactionLabel = "redaction"

/** A rendering of a list into one or two files. */
export interface Rendering {
  readonly number: number
  readonly list: Lists.AnyList
  readonly scan: number
  /** The {@link revisionOf} the list that is rendered. */
  readonly revision: number
  /** The {@link PersonalState.edition} of the rows that are rendered. A file of an older edition may still have data that was removed. */
  readonly edition: number
}

export interface RenderingsReader {
  /**
   * The text of `manifest.json` and its previous text, or undefined before the first rendering. If its replacement was
   * interrupted, the file still has the previous text. After a removal of personal data, the previous text is not
   * stored: its digests cover what was removed.
   */
  readonly manifest: Effect.Effect<
    { readonly text: string; readonly previous: string | undefined } | undefined,
    SinkError
  >
  /** Returns the revision of the list from which the file was rendered. */
  readonly revisionIn: (file: string) => Effect.Effect<number | undefined, SinkError>
  /** Returns the edition of the last complete rendering of a list. */
  readonly editionOf: (list: Lists.AnyList) => Effect.Effect<number | undefined, SinkError>
  /** The files of the last complete rendering of each list. */
  readonly current: Effect.Effect<ReadonlyArray<Manifest.RenderedFile>, SinkError>
}

/** The writer has the lock {@link manifestLabel}. */
export interface Renderings extends Pick<RenderingsReader, "manifest" | "revisionIn" | "editionOf"> {
  readonly nextNumber: Effect.Effect<number, SinkError>
  /** Stores the name of a file before the file is created. */
  readonly addEntry: (rendering: Rendering, file: string) => Effect.Effect<void, SinkError>
  /**
   * Stores the digests of complete files, and the manifest that names them. Returns false and stores nothing if
   * personal data was removed after this edition: the files may still have it.
   */
  readonly complete: (
    files: ReadonlyArray<Manifest.RenderedFile>,
    manifest: string,
    edition: number
  ) => Effect.Effect<boolean, SinkError>
  /** Makes all renderings of a list incomplete, so that its files are removed. The manifest no longer names them. */
  readonly withdraw: (list: Lists.AnyList) => Effect.Effect<void, SinkError>
  /**
   * Returns the incomplete files, those with more than `keepSnapshots` later complete renderings, and older ones that
   * may have removed personal data.
   */
  readonly stale: (keepSnapshots: number) => Effect.Effect<ReadonlyArray<string>, SinkError>
  /** Deletes the stored name of a file that was removed. */
  readonly deleteEntry: (file: string) => Effect.Effect<void, SinkError>
}

/** SQL for the number of complete renderings of the same list that are newer than the rendering of row `r`. */
const newer = `(SELECT count(DISTINCT rendering) FROM rendered
  WHERE list = r.list AND rendering > r.rendering AND sha256 IS NOT NULL)`

const rowsEdition = "(SELECT edition FROM personal)"

/** SQL for the last complete renderings. */
const isCurrent = `sha256 IS NOT NULL AND ${newer} = 0`

export const readerOf = ({ run }: Pick<SqliteClient, "run">): RenderingsReader => ({
  manifest: run((db) => {
    const row = db.get("SELECT text, previous FROM manifest")
    // Without a readable manifest, every list is rendered again.
    return row === undefined || !Manifest.isManifest(readText(row, "text"))
      ? undefined
      : { text: readText(row, "text"), previous: readOptional(row, "previous") }
  }),
  revisionIn: (file) =>
    run((db) => {
      const revision = db.get("SELECT revision FROM rendered WHERE file = ?", file)?.["revision"]
      return typeof revision === "number" ? revision : undefined
    }),
  editionOf: (list) =>
    run((db) => {
      const rendered = db.get(`SELECT edition FROM rendered AS r WHERE list = ? AND ${isCurrent}`, list.label)
      return rendered === undefined ? undefined : readNumber(rendered, "edition")
    }),
  current: run((db) =>
    db.all(`SELECT file, records, bytes, sha256 FROM rendered AS r WHERE ${isCurrent}`)
      .map((row) => ({
        file: readText(row, "file"),
        records: readNumber(row, "records"),
        bytes: readNumber(row, "bytes"),
        sha256: readText(row, "sha256")
      }))
  )
})

export const make = ({ run, transaction }: Pick<SqliteClient, "run" | "transaction">): Renderings => ({
  ...readerOf({ run }),
  nextNumber: run((db) => readNumber(db.get("SELECT coalesce(max(rendering), 0) + 1 AS n FROM rendered"), "n")),
  addEntry: ({ edition, list, number: rendering, revision, scan }, file) =>
    transaction(manifestLabel, (db) =>
      db.run(
        "INSERT INTO rendered (file, list, rendering, scan, revision, edition) VALUES (?, ?, ?, ?, ?, ?)",
        file,
        list.label,
        rendering,
        scan,
        revision,
        edition
      )),
  complete: (files, manifest, rendered) =>
    transaction(manifestLabel, (db) => {
      if (readNumber(db.get("SELECT edition FROM personal"), "edition") !== rendered) return false
      const isPreviousKept = db.get("SELECT 1 FROM rendered WHERE edition <> ?", rendered) === undefined
      for (const { bytes, file, records, sha256 } of files) {
        db.run(
          "UPDATE rendered SET records = ?, bytes = ?, sha256 = ?, edition = ? WHERE file = ?",
          records,
          bytes,
          sha256,
          rendered,
          file
        )
      }
      db.run(
        "INSERT OR REPLACE INTO manifest (only, text, previous) VALUES (1, ?, (SELECT text FROM manifest WHERE ?))",
        manifest,
        Number(isPreviousKept)
      )
      return true
    }),
  withdraw: (list) =>
    transaction(manifestLabel, (db) => db.run("UPDATE rendered SET sha256 = NULL WHERE list = ?", list.label)),
  stale: (keepSnapshots) =>
    run((db) =>
      db.all(
        `SELECT file FROM rendered AS r
        WHERE sha256 IS NULL OR ${newer} > ? OR (edition <> ${rowsEdition} AND ${newer} >= 1)`,
        keepSnapshots
      ).map((row) => readText(row, "file"))
    ),
  deleteEntry: (file) => transaction(manifestLabel, (db) => db.run("DELETE FROM rendered WHERE file = ?", file))
})

/** Returns the revision of a list, which increases with every commit that changes a row of the list. */
export const revisionOf = (
  { run }: Pick<SqliteClient, "run">,
  list: Lists.AnyList
): Effect.Effect<number, SinkError> =>
  run((db) => readNumber(db.get("SELECT revision FROM revisions WHERE list = ?", list.label), "revision"))

export const evidenceOf = Effect.fnUntraced(function*(
  store: Pick<SqliteStore, "location" | "run" | "scans">,
  list: Lists.AnyList
) {
  const scans = yield* Effect.forEach(
    yield* store.scans(list),
    (scan) => Effect.map(ScanTotals.ofScan(store, scan), (totals) => ({ ...scan, totals }))
  )
  const whole = scans.find(({ part, state }) => part === "" && state === "complete")
  // `scans` omits scans before the last complete one of each part, so this query reads the table.
  const changed = yield* store.run((db) => {
    const version = readNumber(db.get("PRAGMA user_version"), "user_version")
    const count = (name: string) => `(${version < renamedVersion ? "tally" : "totals"} ->> '$.counts.${name}')`
    return db.get(
      `SELECT 1 FROM scans WHERE list = ? AND kind IN ('full', 'part') AND scan > ?
        AND ${count("inserted")} + ${count("updated")} + ${count("returned")} > 0 LIMIT 1`,
      list.label,
      whole?.scan ?? 0
    )
  })
  // A pass may begin during a full scan and write before its end, so their numbers do not show which one wrote last.
  const changedByPass = yield* store.run((db) =>
    db.get(
      `SELECT 1 FROM scans WHERE list = ?1 AND kind IN ('head', 'window')
        AND last_change > coalesce((SELECT last_change FROM scans WHERE scan = ?2), 0) LIMIT 1`,
      list.label,
      whole?.scan ?? 0
    )
  )
  return Manifest.evidenceOf(scans, { byScan: changed !== undefined, byPass: changedByPass !== undefined })
})
