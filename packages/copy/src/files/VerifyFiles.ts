/**
 * Checks a folder's files with the data in the folder alone. First it compares the digests of the manifest and of each
 * file with those in the copy. Then it reads each file as another program does, and compares its records with the
 * copy's rows. `verify` compares these rows with their certificates.
 */
import { Lists } from "@payments/core"
import { Effect, FileSystem, Path } from "effect"
import { createHash } from "node:crypto"
import { digestOf } from "../filesystem/AtomicFile.ts"
import { layoutOf, tableOf } from "../plan/Columns.ts"
import { NotADestination, SinkError } from "../port/Sink.ts"
import { openReader, type SqliteReader } from "../sqlite/SqliteStore.ts"
import { unfilled } from "../store/Filling.ts"
import { columnNamesBefore4 } from "../store/Migrations.ts"
import type { FullRow } from "../store/Store.ts"
import { rowReader } from "./CopyRows.ts"
import { copyFile, onDisk } from "./FileSink.ts"
import * as Manifest from "./Manifest.ts"
import * as Renderings from "./Renderings.ts"

/** A difference between the files in a folder and the files that were rendered into it. */
export interface FileDifference {
  /** The name of the file, or the name of the list if its files are outdated. */
  readonly file: string
  /**
   * `absent`: the file does not exist. `changed`: its bytes have changed. `unknown`: there is a manifest, but the copy
   * has no data about rendered files. `outdated`: a complete scan is not rendered yet, or the manifest does not name
   * its files yet. The next export repairs that. `damaged`: the copy, which has the digests, cannot be read completely.
   * `differs`: the bytes are unchanged, but the file's records differ from the copy's rows.
   */
  readonly kind: "absent" | "changed" | "unknown" | "outdated" | "damaged" | "differs"
  /** The place of the difference. It may contain the id of a record. */
  readonly problem?: string
}

const sha256Of = (text: string): string => createHash("sha256").update(text).digest("hex")

/**
 * Returns the differences of a folder. Waits while another program renders, erases or rewrites. Fails without a copy.
 */
export const verifyFiles = Effect.fn("Export.verifyFiles")(
  function*(folder: string, lists: ReadonlyArray<Lists.AnyList> = Lists.all) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const location = `file:${folder}`
    const copy = path.join(folder, copyFile)
    if (!(yield* onDisk(location, fs.exists(copy)))) {
      const problem = `it has no ${copyFile}: nothing was exported there.`
      return yield* new SinkError({ location, reason: new NotADestination({ problem }) })
    }
    const store = yield* openReader(copy, location, lists)
    // Until an erasure or a rewrite is complete, the files are older than the rows.
    yield* store.lock(Renderings.redactionLabel, "wait")
    yield* store.lock(Renderings.manifestLabel, "wait")
    const renderings = Renderings.readerOf(store)

    /** Returns the digest of the file on disk, or undefined if it does not exist. */
    const digestIn = Effect.fnUntraced(function*(name: string) {
      const file = path.join(folder, name)
      return (yield* onDisk(location, fs.exists(file))) ? yield* onDisk(location, digestOf(file)) : undefined
    })
    const snapshot = yield* store.snapshot
    const stored = yield* renderings.manifest
    const found = yield* digestIn(Manifest.manifestFile)
    if (stored === undefined) {
      return found === undefined ? [] : [{ file: Manifest.manifestFile, kind: "unknown" } as const]
    }
    const differences: Array<FileDifference> = []
    if (found !== sha256Of(stored.text)) {
      const isPrevious = found === (stored.previous === undefined ? undefined : sha256Of(stored.previous))
      const kind = isPrevious ? "outdated" : found === undefined ? "absent" : "changed"
      differences.push({ file: Manifest.manifestFile, kind })
    }
    for (const { file, sha256 } of yield* renderings.current) {
      const digest = yield* digestIn(file)
      if (digest !== sha256) differences.push({ file, kind: digest === undefined ? "absent" : "changed" })
    }
    const unreadable = new Set(differences.map(({ file }) => file))
    const { lists: entries } = Manifest.fromText(stored.text)
    for (const list of lists) {
      const entry = entries[list.label]
      differences.push(...(yield* differencesOf(list, entry, { folder, path, renderings, snapshot, unreadable })))
    }
    return differences
  },
  Effect.scoped,
  Effect.catchIf(
    ({ reason }) => reason._tag === "Damaged",
    () => Effect.succeed<ReadonlyArray<FileDifference>>([{ file: copyFile, kind: "damaged" }])
  )
)

/** Compares the files of a list, as its entry in the manifest describes them, with its rows. */
const differencesOf = Effect.fnUntraced(function*(
  list: Lists.AnyList,
  entry: Manifest.RenderedList | undefined,
  { folder, path, renderings, snapshot, unreadable }: {
    readonly folder: string
    readonly path: Path.Path
    readonly renderings: Renderings.RenderingsReader
    readonly snapshot: Effect.Success<SqliteReader["snapshot"]>
    /** The files that another difference names. */
    readonly unreadable: ReadonlySet<string>
  }
) {
  const differences: Array<FileDifference> = []
  const [first] = entry?.files ?? []
  const isCurrent = first !== undefined &&
    (yield* renderings.revisionIn(first.file)) === (yield* Renderings.revisionOf(snapshot, list))
  // Until the list's new columns are filled, its files have only the columns with which they were rendered.
  const { columns: unfilledColumns } = yield* unfilled(snapshot, list)
  const filled = layoutOf(list).columns.filter((column) => !unfilledColumns.includes(column))
  // Manifests did not name the columns before the version of the tables that records them.
  const names = new Set(entry?.columns ?? columnNamesBefore4(tableOf(list)))
  const columns = layoutOf(list).columns.filter(({ name }) => names.has(name))
  for (const { file, missing = false, records } of entry?.files ?? []) {
    if (unreadable.has(file) || entry === undefined) continue
    const { compress, format, formulas = "escape" } = entry
    const isIn = ({ missingSince }: FullRow) => format !== "ndjson" || (missingSince !== undefined) === missing
    const nextRows = isCurrent ? rowReader(snapshot, list, isIn) : undefined
    const { differenceIn } = yield* Effect.promise(() => import("./ReadBack.ts"))
    const problem = yield* differenceIn(path.join(folder, file), {
      list,
      columns,
      format: { format, compress, formulas },
      records,
      nextRows
    })
    if (problem !== undefined) differences.push({ file, kind: "differs", problem })
  }
  const known = yield* Renderings.evidenceOf(snapshot, list)
  if (known?.isConsistent !== true) return differences
  const hasColumns = entry?.format === "ndjson" || filled.every(({ name }) => names.has(name))
  if (entry?.scan !== known.evidence.scan || !isCurrent || !hasColumns) {
    differences.push({ file: list.label, kind: "outdated" })
  }
  return differences
})
