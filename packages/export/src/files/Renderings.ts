/**
 * What a folder's copy remembers of the files that were rendered from it: their names before they are there, so that none
 * is left over; their digests and the manifest's text, so that `verify` knows what there must be.
 */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { number, optional, text } from "../engine/Rows.ts"
import * as ScanTotals from "../engine/ScanTotals.ts"
import type { SinkError } from "../Sink.ts"
import type { SqliteClient } from "../sqlite/SqliteClient.ts"
import type { SqliteStore } from "../sqlite/SqliteStore.ts"
import * as Manifest from "./Manifest.ts"

/** The lock of a program that renders, or that reads the rendered files and the manifest together. */
export const manifestLabel = "manifest"

/** A rendering of a list: its files take each other's place as one. */
export interface Rendering {
  readonly number: number
  readonly list: Lists.AnyList
  readonly scan: number
  /** What {@link revisionOf} said. */
  readonly revision: number
}

/** What a folder's copy says of its files. */
export interface RenderingsReader {
  /**
   * What `manifest.json` has to be, and what it was before, which it still is where its replacement was interrupted; undefined
   * before anything was rendered.
   */
  readonly manifest: Effect.Effect<
    { readonly text: string; readonly previous: string | undefined } | undefined,
    SinkError
  >
  /** The revision of the list that the file was rendered from. */
  readonly revisionIn: (file: string) => Effect.Effect<number | undefined, SinkError>
  /** The files of the last whole rendering of each list. */
  readonly current: Effect.Effect<ReadonlyArray<Manifest.RenderedFile>, SinkError>
}

/** The renderings of a folder. A program that writes them has locked its manifest. */
export interface Renderings extends Pick<RenderingsReader, "manifest" | "revisionIn"> {
  /** The number of the next rendering. */
  readonly next: Effect.Effect<number, SinkError>
  /** Remembers a file before it is there. */
  readonly note: (rendering: Rendering, file: string) => Effect.Effect<void, SinkError>
  /** Remembers the files when they are whole, and the manifest that names them. */
  readonly complete: (files: ReadonlyArray<Manifest.RenderedFile>, manifest: string) => Effect.Effect<void, SinkError>
  /** The files that are not whole, and those of which two later renderings are. */
  readonly stale: Effect.Effect<ReadonlyArray<string>, SinkError>
  readonly forget: (file: string) => Effect.Effect<void, SinkError>
}

/** How many whole renderings of the same list are newer than that of the row `r`. */
const newer = `(SELECT count(DISTINCT rendering) FROM rendered
  WHERE list = r.list AND rendering > r.rendering AND sha256 IS NOT NULL)`

/** Reads what the copy says. */
export const readerOf = ({ run }: Pick<SqliteClient, "run">): RenderingsReader => ({
  manifest: run((db) => {
    const row = db.get("SELECT text, previous FROM manifest")
    // Without one that can be read, every list is rendered anew.
    return row === undefined || !Manifest.isManifest(text(row, "text"))
      ? undefined
      : { text: text(row, "text"), previous: optional(row, "previous") }
  }),
  revisionIn: (file) =>
    run((db) => {
      const revision = db.get("SELECT revision FROM rendered WHERE file = ?", file)?.["revision"]
      return typeof revision === "number" ? revision : undefined
    }),
  current: run((db) =>
    db.all(`SELECT file, records, bytes, sha256 FROM rendered AS r WHERE sha256 IS NOT NULL AND ${newer} = 0`)
      .map((row) => ({
        file: text(row, "file"),
        records: number(row, "records"),
        bytes: number(row, "bytes"),
        sha256: text(row, "sha256")
      }))
  )
})

/** Reads and writes it. */
export const make = ({ run, transaction }: Pick<SqliteClient, "run" | "transaction">): Renderings => ({
  ...readerOf({ run }),
  next: run((db) => number(db.get("SELECT coalesce(max(rendering), 0) + 1 AS n FROM rendered"), "n")),
  note: ({ list, number: rendering, revision, scan }, file) =>
    transaction(manifestLabel, (db) =>
      db.run(
        "INSERT INTO rendered (file, list, rendering, scan, revision) VALUES (?, ?, ?, ?, ?)",
        file,
        list.label,
        rendering,
        scan,
        revision
      )),
  complete: (files, manifest) =>
    transaction(manifestLabel, (db) => {
      for (const { bytes, file, records, sha256 } of files) {
        db.run("UPDATE rendered SET records = ?, bytes = ?, sha256 = ? WHERE file = ?", records, bytes, sha256, file)
      }
      db.run(
        "INSERT OR REPLACE INTO manifest (only, text, previous) VALUES (1, ?, (SELECT text FROM manifest))",
        manifest
      )
    }),
  stale: run((db) =>
    db.all(`SELECT file FROM rendered AS r WHERE sha256 IS NULL OR ${newer} >= 2`).map((row) => text(row, "file"))
  ),
  forget: (file) => transaction(manifestLabel, (db) => db.run("DELETE FROM rendered WHERE file = ?", file))
})

/** Grows with every commit that changes a row of the list. */
export const revisionOf = (
  { run }: Pick<SqliteClient, "run">,
  list: Lists.AnyList
): Effect.Effect<number, SinkError> =>
  run((db) => number(db.get("SELECT revision FROM revisions WHERE list = ?", list.label), "revision"))

/** What is known of the list's rows. */
export const evidenceOf = Effect.fnUntraced(function*(
  store: Pick<SqliteStore, "location" | "run" | "scans">,
  list: Lists.AnyList
) {
  const scans = yield* Effect.forEach(
    yield* store.scans(list),
    (scan) => Effect.map(ScanTotals.ofScan(store, scan), (totals) => ({ ...scan, totals }))
  )
  const whole = scans.find(({ part, state }) => part === "" && state === "complete")
  // Those that a later one of the same part has made obsolete are not among the scans above.
  const changed = yield* store.run((db) =>
    db.get(
      `SELECT 1 FROM scans WHERE list = ? AND scan > ? AND (tally ->> '$.counts.inserted')
        + (tally ->> '$.counts.updated') + (tally ->> '$.counts.returned') > 0 LIMIT 1`,
      list.label,
      whole?.scan ?? 0
    )
  )
  return Manifest.evidenceOf(scans, changed !== undefined)
})
