/**
 * `file:FOLDER?format=…`. The folder holds its own SQLite copy (`copy.db`), which is what a scan writes; when a scan is
 * complete, the list's files are rendered from it beside the old ones and take their place when `manifest.json` names them.
 * Who reads the manifest first always has a whole snapshot: a file that it named stays until its list is rendered twice more.
 */
import { Lists } from "@payments/core"
import { DateTime, Effect, Equal, FileSystem, Layer, Option, Path, type PlatformError, Stream } from "effect"
import { columnsOf } from "../engine/Columns.ts"
import { unfilled } from "../engine/Filling.ts"
import { makeSink } from "../engine/SqlSink.ts"
import type { FullRow, Store } from "../engine/Store.ts"
import { Sink, SinkError } from "../Sink.ts"
import { denialIn, reasonOfCode } from "../sqlite/SqliteErrors.ts"
import { openStore, type SqliteStore } from "../sqlite/SqliteStore.ts"
import { digestOf, makeFolder, replaceFile, syncFolder } from "./AtomicFile.ts"
import { rowsOf } from "./CopyRows.ts"
import * as Manifest from "./Manifest.ts"
import { encoderOf } from "./render/Encoders.ts"
import { extensionOf, type Format } from "./render/Format.ts"
import { renderFile } from "./render/RenderFile.ts"
import * as Renderings from "./Renderings.ts"

/** The folder's own copy of the lists. */
export const copyFile = "copy.db"
const ownerOnlyFolder = 0o700

/** NDJSON as it is. */
export const defaultFormat: Format = { format: "ndjson", compress: "none", formulas: "escape" }

/** Writes these lists into the folder, which is made if it is not there. */
export const layer = (
  folder: string,
  format: Format = defaultFormat,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    Sink,
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const platform = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
      const location = `file:${folder}`
      yield* onDisk(location, makeFolder(folder, ownerOnlyFolder))
      const store = yield* openStore(path.join(folder, copyFile), location, lists)
      const rows = makeSink(store, lists)
      const renderer: Renderer = {
        fs,
        path,
        store,
        folder,
        location,
        format,
        lists,
        renderings: Renderings.make(store),
        checked: new Map()
      }
      const publish = (ended?: Lists.AnyList) => Effect.provideContext(publishWith(renderer, ended), platform)
      return Sink.of({
        location,
        // An earlier run may have ended between its last commit and its rendering, or rendered another format.
        lock: (list, onLocked) => Effect.tap(rows.lock(list, onLocked), () => publish()),
        ...(rows.inspect === undefined ? {} : { inspect: rows.inspect }),
        begin: rows.begin,
        publish
      })
    })
  )

interface Renderer {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly store: SqliteStore
  readonly folder: string
  readonly location: string
  readonly format: Format
  readonly lists: ReadonlyArray<Lists.AnyList>
  readonly renderings: Renderings.Renderings
  /** By name, how each file looked when it held the bytes that were rendered. */
  readonly checked: Map<string, string>
}

type Snapshot = Pick<Store, "scans" | "missing" | "rows" | "columns">

/**
 * Makes the folder show what the copy holds: the list whose scans have just ended, and any other that is not shown and that
 * no scan has changed without reaching its end. One program renders at a time; others wait. It reads the copy as it was
 * when it began, so that scans may go on meanwhile.
 */
const publishWith = (renderer: Renderer, ended: Lists.AnyList | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    const { renderings, store } = renderer
    yield* store.lock(Renderings.manifestLabel, "wait")
    const snapshot = yield* store.snapshot
    const source = yield* snapshot.source
    if (source === undefined) return
    yield* mend(renderer)
    const kept = yield* renderings.manifest
    let shown: Manifest.Manifest = kept === undefined
      ? { version: 1, source, lists: {} }
      : Manifest.fromText(kept.text)
    if (shown.source !== source) {
      shown = { ...shown, source }
      yield* show(renderer, [], shown)
    }
    for (const list of renderer.lists) {
      const known = yield* Renderings.evidenceOf(snapshot, list)
      if (known === undefined || !(known.settled || list.name === ended?.name)) continue
      // The next export of the list fills its new columns and then renders it.
      if ((yield* unfilled(snapshot, list)).columns.length > 0) continue
      const before = shown.lists[list.label]
      const intact = before !== undefined && (yield* isIntact(renderer, list, before)) ? before : undefined
      const now = { ...formatOf(renderer, list), ...known.evidence }
      const revision = yield* Renderings.revisionOf(snapshot, list)
      const same = yield* filesAt(renderer, intact, revision)
      if (same !== undefined && Equal.equals(intact, { ...now, files: same })) continue
      const files = same ??
        (yield* render(renderer, snapshot, { list, scan: now.scan, revision, number: yield* renderings.next }))
      const shownList = { ...now, files }
      shown = { ...shown, lists: { ...shown.lists, [list.label]: shownList } }
      yield* show(renderer, files, shown)
      yield* removeStale(renderer)
    }
    // A folder that was moved meanwhile shows nothing at its path.
    yield* store.requireInPlace
  }))

/** Puts right what a run that was cut has left: the manifest first, then what nobody needs. */
const mend = Effect.fnUntraced(function*(renderer: Renderer) {
  const { folder, fs, location, path, renderings } = renderer
  const target = path.join(folder, Manifest.manifestFile)
  const kept = yield* renderings.manifest
  if (kept !== undefined && (yield* readBytes(renderer, target))?.equals(Buffer.from(kept.text)) !== true) {
    yield* onDisk(location, replaceFile(target, kept.text))
  }
  for (const name of yield* onDisk(location, fs.readDirectory(folder))) {
    if (leftover.test(name)) yield* onDisk(location, fs.remove(path.join(folder, name), { force: true }))
  }
  yield* removeStale(renderer)
})

/** What `replaceFile` leaves of a manifest when its process is killed. */
const leftover = /^manifest\.json\.[0-9a-f-]{36}\.new$/

/** Only what was rendered here is removed. */
const removeStale = Effect.fnUntraced(function*({ folder, fs, location, path, renderings }: Renderer) {
  for (const file of yield* renderings.stale) {
    yield* onDisk(location, fs.remove(path.join(folder, file), { force: true }))
    yield* renderings.forget(file)
  }
})

/** Files that are on disk. The copy first: a manifest that is behind it is put right by the next run, and `verify` knows what it must be. */
const show = Effect.fnUntraced(
  function*(renderer: Renderer, files: ReadonlyArray<Manifest.RenderedFile>, manifest: Manifest.Manifest) {
    const { folder, location, path, renderings } = renderer
    const text = Manifest.toText(manifest)
    yield* onDisk(location, syncFolder(folder))
    yield* renderings.complete(files, text)
    yield* onDisk(location, replaceFile(path.join(folder, Manifest.manifestFile), text))
  }
)

/** What the manifest says of the format. NDJSON has the records' texts alone, and no columns. */
const formatOf = ({ format: { compress, format, formulas } }: Renderer, list: Lists.AnyList) => {
  if (format === "ndjson") return { format, compress }
  const columns = columnsOf(list).map(({ name }) => name)
  return format === "csv"
    ? { format, compress, formulas, dialect: Manifest.csvDialect, columns }
    : { format, compress, columns }
}

/** Whether the files have the requested format and the list's columns, and hold the bytes that were rendered. */
const isIntact = Effect.fnUntraced(
  function*(
    renderer: Renderer,
    list: Lists.AnyList,
    { columns, compress, dialect, files, format, formulas }: Manifest.ListShown
  ) {
    const wanted = { formulas: undefined, dialect: undefined, columns: undefined, ...formatOf(renderer, list) }
    if (!Equal.equals({ format, compress, formulas, dialect, columns }, wanted)) return false
    for (const file of files) if (!(yield* isUnchanged(renderer, file))) return false
    return true
  }
)

/** The files, if they were rendered from the same rows. */
const filesAt = Effect.fnUntraced(
  function*({ renderings }: Renderer, shown: Manifest.ListShown | undefined, revision: number) {
    const [first] = shown?.files ?? []
    if (first === undefined || (yield* renderings.revisionIn(first.file)) !== revision) return undefined
    return shown?.files
  }
)

const isAbsent = ({ reason }: SinkError): boolean => reason._tag === "Failed" && reason.code === "ENOENT"

/** Whether a file holds the bytes that were rendered. It is read whole once, and again when its size, time or inode changes. */
const isUnchanged = Effect.fnUntraced(
  function*({ checked, folder, fs, location, path }: Renderer, { bytes, file, sha256 }: Manifest.RenderedFile) {
    const target = path.join(folder, file)
    const { ino, mtime, size } = yield* onDisk(location, fs.stat(target))
    if (Number(size) !== bytes) return false
    const look = [size, Option.getOrUndefined(ino), Option.getOrUndefined(mtime)?.getTime()].join(" ")
    if (checked.get(file) === look) return true
    if ((yield* onDisk(location, digestOf(target))) !== sha256) return false
    checked.set(file, look)
    return true
  },
  Effect.catchIf(isAbsent, () => Effect.succeed(false))
)

/** Writes the list's files beside those that are there. Their names are made of the list's, the time and a number. */
const render = Effect.fnUntraced(
  function*(renderer: Renderer, snapshot: Snapshot, rendering: Renderings.Rendering) {
    const { folder, format, fs, location, path, renderings } = renderer
    const { list, number } = rendering
    const time = DateTime.formatIso(yield* DateTime.now).replaceAll(/\D/g, "")
    const one = Effect.fnUntraced(function*(mark: string, isIn: (row: FullRow) => boolean) {
      const file = `${list.label}-${time}-${number}${mark}${extensionOf(format)}`
      yield* renderings.note(rendering, file)
      const rows = Stream.map(rowsOf(snapshot, list), (some) => some.filter(isIn))
      const encoder = yield* encoderOf(list, format)
      return {
        file,
        ...(yield* onDisk(location, renderFile(fs, path.join(folder, file), rows, encoder, format)))
      }
    })
    if (format.format !== "ndjson") return [yield* one("", () => true)]
    // A line has no room for the mark of a missing row.
    const present = yield* one("", ({ missingSince }) => missingSince === undefined)
    if ((yield* snapshot.missing(list)).length === 0) return [present]
    const gone = yield* one("-missing", ({ missingSince }) => missingSince !== undefined)
    return [present, { ...gone, missing: true as const }]
  }
)

const readBytes = ({ fs, location }: Renderer, target: string) =>
  onDisk(location, Effect.map(fs.readFile(target), (bytes) => Buffer.from(bytes))).pipe(
    Effect.catchIf(isAbsent, () => Effect.undefined)
  )

/** A file that cannot be read or written is a reason of ours. */
export const onDisk = <A, E extends PlatformError.PlatformError | SinkError, R>(
  location: string,
  effect: Effect.Effect<A, E, R>
) =>
  Effect.mapError(effect, (error): SinkError => {
    if (error._tag === "SinkError") return error
    const cause = error.reason.cause
    const denied = denialIn(cause, [])
    if (denied !== undefined) return new SinkError({ location, reason: denied })
    const code = typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : error.reason._tag
    return new SinkError({ location, reason: reasonOfCode(code) })
  })
