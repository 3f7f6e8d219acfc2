/**
 * Whether a folder's files are what was rendered, told from the folder alone: every byte of the manifest and of each file
 * that it names, against what the copy has kept of them; then every record of each file, as another program reads it, against
 * the copy's rows. Those rows are compared with their certificates elsewhere.
 */
import { Lists } from "@payments/core"
import { Effect, FileSystem, Path } from "effect"
import { createHash } from "node:crypto"
import { layoutOf } from "../engine/Columns.ts"
import { unfilled } from "../engine/Filling.ts"
import type { FullRow } from "../engine/Store.ts"
import { NotADestination, SinkError } from "../Sink.ts"
import { openReader } from "../sqlite/SqliteStore.ts"
import { digestOf } from "./AtomicFile.ts"
import { takerOf } from "./CopyRows.ts"
import { copyFile, onDisk } from "./FileSink.ts"
import * as Manifest from "./Manifest.ts"
import * as Renderings from "./Renderings.ts"

/** Where a folder differs from what was rendered. */
export interface FileDifference {
  /** Its name in the folder; the list's name where its files are outdated. */
  readonly file: string
  /**
   * `absent`: it is not there. `changed`: its bytes are others. `unknown`: there is a manifest, but nothing was rendered.
   * `outdated`: the list was read to its end, and is not shown so yet, or the manifest does not name it yet; the next export
   * does. `damaged`: the copy, which knows what the files must be, cannot be read to its end. `differs`:
   * its bytes are those that were rendered, but another program reads other records from it.
   */
  readonly kind: "absent" | "changed" | "unknown" | "outdated" | "damaged" | "differs"
  /** Where it differs. It may name a record by its id. */
  readonly problem?: string
}

const sha256Of = (text: string): string => createHash("sha256").update(text).digest("hex")

/** Compares; an empty answer means that nothing differs. Waits for whoever renders. Fails where there is no copy to tell. */
export const verifyFiles = Effect.fn("Export.verifyFiles")(
  function*(folder: string, lists: ReadonlyArray<Lists.AnyList> = Lists.all) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const location = `file:${folder}`
    const copy = path.join(folder, copyFile)
    if (!(yield* onDisk(location, fs.exists(copy)))) {
      const problem = `it holds no ${copyFile}: nothing was exported there.`
      return yield* new SinkError({ location, reason: new NotADestination({ problem }) })
    }
    const store = yield* openReader(copy, location, lists)
    yield* store.lock(Renderings.manifestLabel, "wait")
    const renderings = Renderings.readerOf(store)

    /** The hash of the file on disk; undefined where there is no file. */
    const digestIn = Effect.fnUntraced(function*(name: string) {
      const file = path.join(folder, name)
      return (yield* onDisk(location, fs.exists(file))) ? yield* onDisk(location, digestOf(file)) : undefined
    })
    const compare = Effect.fnUntraced(function*(file: string, expected: string) {
      const found = yield* digestIn(file)
      const differences: ReadonlyArray<FileDifference> = found === expected
        ? []
        : [{ file, kind: found === undefined ? "absent" : "changed" }]
      return differences
    })

    const snapshot = yield* store.snapshot
    const kept = yield* renderings.manifest
    const found = yield* digestIn(Manifest.manifestFile)
    if (kept === undefined) {
      return found === undefined
        ? []
        : [{ file: Manifest.manifestFile, kind: "unknown" } as const]
    }
    const differences: Array<FileDifference> = []
    if (found !== sha256Of(kept.text)) {
      const isBefore = found === (kept.previous === undefined ? undefined : sha256Of(kept.previous))
      const kind = isBefore ? "outdated" : found === undefined ? "absent" : "changed"
      differences.push({ file: Manifest.manifestFile, kind })
    }
    for (const { file, sha256 } of yield* renderings.current) differences.push(...(yield* compare(file, sha256)))
    const unreadable = new Set(differences.map(({ file }) => file))
    const { lists: shownLists } = Manifest.fromText(kept.text)
    for (const list of lists) {
      const shown = shownLists[list.label]
      const [first] = shown?.files ?? []
      const isCurrent = first !== undefined &&
        (yield* renderings.revisionIn(first.file)) === (yield* Renderings.revisionOf(snapshot, list))
      // Until the list's new columns are filled, its files have those that they were rendered with.
      const { columns: lacking } = yield* unfilled(snapshot, list)
      const filled = layoutOf(list).columns.filter((column) => !lacking.includes(column))
      const names = new Set(shown?.columns ?? filled.map(({ name }) => name))
      const columns = layoutOf(list).columns.filter(({ name }) => names.has(name))
      for (const { file, missing = false, records } of shown?.files ?? []) {
        if (unreadable.has(file) || shown === undefined) continue
        const { compress, format, formulas = "escape" } = shown
        const isIn = ({ missingSince }: FullRow) => format !== "ndjson" || (missingSince !== undefined) === missing
        const take = isCurrent ? takerOf(snapshot, list, isIn) : undefined
        const { differenceIn } = yield* Effect.promise(() => import("./ReadBack.ts"))
        const problem = yield* differenceIn(path.join(folder, file), {
          list,
          columns,
          format: { format, compress, formulas },
          records,
          take
        })
        if (problem !== undefined) differences.push({ file, kind: "differs", problem })
      }
      const known = yield* Renderings.evidenceOf(snapshot, list)
      if (known?.settled !== true) continue
      const hasColumns = shown?.format === "ndjson" || filled.every(({ name }) => names.has(name))
      if (shown?.scan !== known.evidence.scan || !isCurrent || !hasColumns) {
        differences.push({ file: list.label, kind: "outdated" })
      }
    }
    return differences
  },
  Effect.scoped,
  Effect.catchIf(
    ({ reason }) => reason._tag === "Damaged",
    () => Effect.succeed<ReadonlyArray<FileDifference>>([{ file: copyFile, kind: "damaged" }])
  )
)
