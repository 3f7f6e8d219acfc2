/**
 * `file:FOLDER?format=…`. A scan writes into the folder's SQLite copy (`copy.db`). When the scan is complete, the list
 * is rendered from the copy into new files, and `manifest.json` is replaced to name them. A reader that starts with the
 * manifest always gets a whole snapshot. By default, a file that the manifest named stays until its list is rendered
 * twice more. Only if personal data was removed from the copy, older files are removed at once.
 */
import { Lists } from "@payments/core"
import {
  DateTime,
  Effect,
  Equal,
  FileSystem,
  Layer,
  Option,
  Path,
  type PlatformError,
  type Scope,
  Stream
} from "effect"
import { digestOf, makeFolder, replaceFile, syncFolder } from "../filesystem/AtomicFile.ts"
import { errorCode } from "../filesystem/ErrorCode.ts"
import { columnsOf } from "../plan/Columns.ts"
import { Sink, SinkError } from "../port/Sink.ts"
import { shownRule } from "../rule/StoredRule.ts"
import { makeSink } from "../session/SqlSink.ts"
import { openDatabase } from "../sqlite/SqliteClient.ts"
import { denialIn, reasonOfCode } from "../sqlite/SqliteErrors.ts"
import { requireCurrentVersion } from "../sqlite/SqliteSchema.ts"
import { openStore, type SqliteStore } from "../sqlite/SqliteStore.ts"
import { unfilled } from "../store/Filling.ts"
import type { FullRow, Store } from "../store/Store.ts"
import { rowsOf } from "./CopyRows.ts"
import * as Manifest from "./Manifest.ts"
import { encoderOf } from "./render/Encoders.ts"
import { extensionOf, type Format } from "./render/Format.ts"
import { renderFile } from "./render/RenderFile.ts"
import * as Renderings from "./Renderings.ts"

/** The name of the SQLite copy in the folder. */
export const copyFile = "copy.db"
const ownerOnlyFolder = 0o700

/**
 * How many earlier snapshots of a list a folder keeps by default, besides the one that the manifest names. A reader
 * that has read the manifest just before it was replaced still finds the files that it named.
 */
export const defaultKeepSnapshots = 1

export const defaultFormat: Format = { format: "ndjson", compress: "none", formulas: "escape" }

/** A sink that writes these lists into the folder. Creates a missing folder. */
export const layer = (
  folder: string,
  format: Format = defaultFormat,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all,
  keepSnapshots: number = defaultKeepSnapshots
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    Sink,
    Effect.gen(function*() {
      const platform = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
      const location = `file:${folder}`
      yield* onDisk(location, makeFolder(folder, ownerOnlyFolder))
      const renderer = yield* openRenderer({ folder, format, lists, keepSnapshots, after: "export" })
      const { store } = renderer
      const copySink = makeSink(store, lists)
      const publish = (ended?: Lists.AnyList) => Effect.provideContext(publishWith(renderer, ended), platform)
      // Passes render no files: a list is rendered after its full scans.
      return Sink.of({
        ...copySink,
        // An earlier run may have ended before it rendered its last commit, or it may have rendered another format.
        lock: (list, onLocked) => Effect.tap(copySink.lock(list, onLocked), () => publish()),
        // Render a list again as soon as its new columns are filled: its scan may take hours.
        begin: (list, request) =>
          Effect.gen(function*() {
            const { columns } = yield* unfilled(store, list)
            const session = yield* copySink.begin(list, request)
            if (columns.length > 0) yield* publish()
            return session
          }),
        publish
      })
    })
  )

/**
 * Renders the lists of an existing folder whose files may have data that was removed from the copy. Removes files with
 * personal data that was erased or rewritten. Waits while another program renders. The lists keep their formats;
 * `format` is that of a list that was not rendered yet.
 */
export const renderAgain = Effect.fn("Export.renderAgain")(function*(
  folder: string,
  format: Format,
  keepSnapshots: number = defaultKeepSnapshots,
  after: "prune" | "redaction" = "redaction"
) {
  const renderer = yield* openRenderer({ folder, format, lists: Lists.all, keepSnapshots, after })
  return yield* publishWith(renderer, undefined)
}, Effect.scoped)

/** Keeps `verify` from comparing the files of an existing folder with its copy until the scope closes. */
export const lockForRedaction = Effect.fnUntraced(
  function*(folder: string): Effect.fn.Return<void, SinkError, Path.Path | Scope.Scope> {
    const path = yield* Path.Path
    const client = yield* openDatabase(path.join(folder, copyFile), `file:${folder}`, "maintain")
    yield* client.lock(Renderings.redactionLabel, "wait")
  }
)

/**
 * Removes the files of all snapshots of an existing folder except those that the manifest names and `keepSnapshots`
 * earlier ones of each list. Waits while another program renders. A dry run removes nothing. Returns the number of the
 * files.
 */
export const pruneSnapshots = Effect.fn("Export.pruneSnapshots")(function*(
  folder: string,
  keepSnapshots: number,
  isDryRun: boolean
) {
  const [fs, path] = [yield* FileSystem.FileSystem, yield* Path.Path]
  const location = `file:${folder}`
  const client = yield* openDatabase(path.join(folder, copyFile), location, "maintain")
  yield* client.run(requireCurrentVersion)
  yield* client.lock(Renderings.manifestLabel, "wait")
  const renderings = Renderings.make(client)
  const { length } = yield* renderings.stale(keepSnapshots)
  if (!isDryRun) yield* removeStale({ folder, fs, keepSnapshots, location, path, renderings })
  return length
}, Effect.scoped)

const openRenderer = Effect.fnUntraced(
  function*(options: Pick<Renderer, "folder" | "format" | "lists" | "keepSnapshots" | "after">) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const location = `file:${options.folder}`
    const store = yield* openStore(path.join(options.folder, copyFile), location, options.lists)
    const renderings = Renderings.make(store)
    const renderer: Renderer = { ...options, fs, path, location, store, renderings, checked: new Map() }
    return renderer
  }
)

interface Renderer {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly store: SqliteStore
  readonly folder: string
  readonly location: string
  readonly format: Format
  /** What renders the files. Except for an export, a list that is rendered already keeps its format. */
  readonly after: "export" | "prune" | "redaction"
  readonly keepSnapshots: number
  readonly lists: ReadonlyArray<Lists.AnyList>
  readonly renderings: Renderings.Renderings
  /** The size, time and inode of each file, by name, when its digest was last checked. */
  readonly checked: Map<string, string>
}

type Snapshot = Pick<Store, "scans" | "missing" | "rows" | "columns">

/**
 * Renders the list whose scans have just ended, and every other list that is not rendered yet and that no incomplete
 * scan has changed. One program renders at a time; others wait. Rendering reads a snapshot of the copy, so scans may
 * write meanwhile.
 *
 * If personal data was removed from the copy, files of its earlier editions are removed. So each list that has such
 * files is rendered again, also if an incomplete scan has changed it: the manifest then names no certificate. If
 * personal data is removed while a list is rendered, rendering begins again.
 */
const publishWith = (renderer: Renderer, ended: Lists.AnyList | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    const { store } = renderer
    yield* store.lock(Renderings.manifestLabel, "wait")
    while ((yield* publishOnce(renderer, ended)) === "outdated") yield* Effect.yieldNow
    // If the folder was moved meanwhile, the files are not at its path.
    yield* store.requireInPlace
  }))

/** Renders the current content of the copy, unless personal data is removed meanwhile. */
const publishOnce = (renderer: Renderer, ended: Lists.AnyList | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    const { renderings, store } = renderer
    const snapshot = yield* store.snapshot
    const source = yield* snapshot.source
    if (source === undefined) return "done"
    const { edition, rewriting, rule } = yield* snapshot.personal
    // The rewrite itself renders the files at its end.
    if (rewriting && renderer.after !== "redaction") return "done"
    yield* cleanUp(renderer)
    const stored = yield* renderings.manifest
    const shown = shownRule(rule)
    const personal = shown === undefined ? {} : { personal: shown }
    let manifest: Manifest.Manifest = stored === undefined
      ? { version: 1, source, ...personal, lists: {} }
      : Manifest.fromText(stored.text)
    if (manifest.source !== source) {
      manifest = { ...manifest, source }
      if (!(yield* replaceManifest(renderer, [], manifest, edition))) return "outdated"
    }
    for (const list of renderer.lists) {
      const renderedEdition = yield* renderings.editionOf(list)
      const isCurrentEdition = renderedEdition === undefined || renderedEdition === edition
      const known = yield* Renderings.evidenceOf(snapshot, list)
      // The next export of the list fills its new columns and then renders it.
      if (known === undefined || (yield* unfilled(snapshot, list)).columns.length > 0) {
        if (isCurrentEdition) continue
        const { [list.label]: _, ...lists } = manifest.lists
        manifest = { ...manifest, lists }
        if (!(yield* replaceManifest(renderer, [], manifest, edition))) return "outdated"
        yield* renderings.withdraw(list)
        yield* removeStale(renderer)
        continue
      }
      if (isCurrentEdition && !known.isConsistent && list.name !== ended?.name) continue
      const before = manifest.lists[list.label]
      const format = renderer.after !== "export" && before !== undefined ? Manifest.formatIn(before) : renderer.format
      const intact = before !== undefined && (yield* isIntact(renderer, list, format, before)) ? before : undefined
      const now = { ...formatOf(format, list), ...known.evidence }
      const revision = yield* Renderings.revisionOf(snapshot, list)
      // Files of an earlier edition have nothing that was removed if no row has changed since.
      const unchangedFiles = yield* filesAt(renderer, intact, revision)
      const isUnchanged = unchangedFiles !== undefined && Equal.equals(intact, { ...now, files: unchangedFiles })
      if (isUnchanged && isCurrentEdition) continue
      const files = unchangedFiles ??
        (yield* render(renderer, snapshot, format, {
          list,
          scan: now.scan,
          revision,
          edition,
          number: yield* renderings.nextNumber
        }))
      manifest = { ...manifest, lists: { ...manifest.lists, [list.label]: { ...now, files } } }
      if (!(yield* replaceManifest(renderer, files, manifest, edition))) return "outdated"
      yield* removeStale(renderer)
    }
    if (!Equal.equals(manifest.personal, shown)) {
      const { personal: _, ...others } = manifest
      if (!(yield* replaceManifest(renderer, [], { ...others, ...personal }, edition))) return "outdated"
    }
    return "done"
  }))

/** Completes an interrupted run: replaces an outdated manifest, and removes incomplete and old files. */
const cleanUp = Effect.fnUntraced(function*(renderer: Renderer) {
  const { folder, fs, location, path, renderings } = renderer
  const target = path.join(folder, Manifest.manifestFile)
  const stored = yield* renderings.manifest
  if (stored !== undefined && (yield* readBytes(renderer, target))?.equals(Buffer.from(stored.text)) !== true) {
    yield* onDisk(location, replaceFile(target, stored.text))
  }
  for (const name of yield* onDisk(location, fs.readDirectory(folder))) {
    if (leftover.test(name)) yield* onDisk(location, fs.remove(path.join(folder, name), { force: true }))
  }
  yield* removeStale(renderer)
})

/** The temporary file that `replaceFile` leaves when its process is killed. */
const leftover = /^manifest\.json\.[0-9a-f-]{36}\.new$/

/** Removes incomplete and old rendered files, and those that may have removed personal data, but no other files. */
const removeStale = Effect.fnUntraced(function*(
  { folder, fs, keepSnapshots, location, path, renderings }: Pick<
    Renderer,
    "folder" | "fs" | "keepSnapshots" | "location" | "path" | "renderings"
  >
) {
  for (const file of yield* renderings.stale(keepSnapshots)) {
    yield* onDisk(location, fs.remove(path.join(folder, file), { force: true }))
    yield* renderings.deleteEntry(file)
  }
})

/**
 * Records rendered files and replaces the manifest. The copy is written first: after a crash in between, the next run
 * replaces the outdated manifest, and `verify` knows its expected text. Returns false and replaces nothing if personal
 * data was removed after this edition.
 */
const replaceManifest = Effect.fnUntraced(
  function*(
    renderer: Renderer,
    files: ReadonlyArray<Manifest.RenderedFile>,
    manifest: Manifest.Manifest,
    edition: number
  ) {
    const { folder, location, path, renderings } = renderer
    const text = Manifest.toText(manifest)
    yield* onDisk(location, syncFolder(folder))
    if (!(yield* renderings.complete(files, text, edition))) return false
    yield* onDisk(location, replaceFile(path.join(folder, Manifest.manifestFile), text))
    return true
  }
)

/** NDJSON has only the records' texts, so it has no columns. */
const formatOf = ({ compress, format, formulas }: Format, list: Lists.AnyList) => {
  if (format === "ndjson") return { format, compress }
  const columns = columnsOf(list).map(({ name }) => name)
  return format === "csv"
    ? { format, compress, formulas, dialect: Manifest.csvDialect, columns }
    : { format, compress, columns }
}

/** Whether the files have the requested format and the list's columns, and their bytes are unchanged. */
const isIntact = Effect.fnUntraced(
  function*(
    renderer: Renderer,
    list: Lists.AnyList,
    wantedFormat: Format,
    { columns, compress, dialect, files, format, formulas }: Manifest.RenderedList
  ) {
    const wanted = { formulas: undefined, dialect: undefined, columns: undefined, ...formatOf(wantedFormat, list) }
    if (!Equal.equals({ format, compress, formulas, dialect, columns }, wanted)) return false
    for (const file of files) if (!(yield* isUnchanged(renderer, file))) return false
    return true
  }
)

/** Returns the files if they were rendered from this revision of the rows. */
const filesAt = Effect.fnUntraced(
  function*({ renderings }: Renderer, entry: Manifest.RenderedList | undefined, revision: number) {
    const [first] = entry?.files ?? []
    if (first === undefined || (yield* renderings.revisionIn(first.file)) !== revision) return undefined
    return entry?.files
  }
)

const isAbsent = ({ reason }: SinkError): boolean => reason._tag === "Failed" && reason.code === "ENOENT"

/** Whether a file's bytes are unchanged. The file is read again only if its size, time or inode changes. */
const isUnchanged = Effect.fnUntraced(
  function*({ checked, folder, fs, location, path }: Renderer, { bytes, file, sha256 }: Manifest.RenderedFile) {
    const target = path.join(folder, file)
    const { ino, mtime, size } = yield* onDisk(location, fs.stat(target))
    if (Number(size) !== bytes) return false
    const stamp = [size, Option.getOrUndefined(ino), Option.getOrUndefined(mtime)?.getTime()].join(" ")
    if (checked.get(file) === stamp) return true
    if ((yield* onDisk(location, digestOf(target))) !== sha256) return false
    checked.set(file, stamp)
    return true
  },
  Effect.catchIf(isAbsent, () => Effect.succeed(false))
)

/** The names of the files consist of the list's name, the time and a number. */
const render = Effect.fnUntraced(
  function*(renderer: Renderer, snapshot: Snapshot, format: Format, rendering: Renderings.Rendering) {
    const { folder, fs, location, path, renderings } = renderer
    const { list, number } = rendering
    const time = DateTime.formatIso(yield* DateTime.now).replaceAll(/\D/g, "")
    const renderOne = Effect.fnUntraced(function*(suffix: string, isIn: (row: FullRow) => boolean) {
      const file = `${list.label}-${time}-${number}${suffix}${extensionOf(format)}`
      yield* renderings.addEntry(rendering, file)
      const rows = Stream.map(rowsOf(snapshot, list), (chunk) => chunk.filter(isIn))
      const encoder = yield* encoderOf(list, format)
      return {
        file,
        ...(yield* onDisk(location, renderFile({ fs, target: path.join(folder, file), rows, encoder, format })))
      }
    })
    if (format.format !== "ndjson") return [yield* renderOne("", () => true)]
    // NDJSON cannot mark a row as missing, so missing rows have a file of their own.
    const present = yield* renderOne("", ({ missingSince }) => missingSince === undefined)
    if ((yield* snapshot.missing(list)).length === 0) return [present]
    const missing = yield* renderOne("-missing", ({ missingSince }) => missingSince !== undefined)
    return [present, { ...missing, missing: true as const }]
  }
)

const readBytes = ({ fs, location }: Renderer, target: string) =>
  onDisk(location, Effect.map(fs.readFile(target), (bytes) => Buffer.from(bytes))).pipe(
    Effect.catchIf(isAbsent, () => Effect.undefined)
  )

/** Maps an error of the file system to a `SinkError`. */
export const onDisk = <A, E extends PlatformError.PlatformError | SinkError, R>(
  location: string,
  effect: Effect.Effect<A, E, R>
) =>
  Effect.mapError(effect, (error): SinkError => {
    if (error._tag === "SinkError") return error
    const cause = error.reason.cause
    const reason = denialIn(cause, []) ?? reasonOfCode(errorCode(cause) ?? error.reason._tag)
    return new SinkError({ location, reason })
  })
