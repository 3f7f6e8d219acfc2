/**
 * `file:FOLDER?format=ndjson`. The folder holds its own SQLite copy (`copy.db`), which is what a scan writes; when a scan
 * is complete, the list's file is rendered from it beside the old one and takes its place when `manifest.json` names it.
 * Who reads the manifest first always has a whole snapshot: a file that it named stays until its list is rendered twice more.
 */
import { Lists } from "@payments/core"
import { Effect, Equal, FileSystem, Layer, Option, Path, type PlatformError, Schema } from "effect"
import { createHash } from "node:crypto"
import { replaceFile } from "./AtomicFile.ts"
import * as Certificate from "./Certificate.ts"
import { Sink, SinkError } from "./Sink.ts"
import { openStore, reasonOfCode, type SqliteStore } from "./SqliteStore.ts"
import { makeSink } from "./SqlSink.ts"

/** The formats a folder can be rendered in. */
export const formats = ["ndjson"] as const

/** One rendered file. */
const RenderedFile = Schema.Struct({
  file: Schema.String,
  records: Schema.Int,
  bytes: Schema.Int,
  /** Lower-case hex. */
  sha256: Schema.String
})

/** What `manifest.json` says. */
export const Manifest = Schema.Struct({
  version: Schema.Literal(1),
  /** Whose data it is. */
  source: Schema.String,
  /** By the list's name, as on the command line. */
  lists: Schema.Record(
    Schema.String,
    Schema.Struct({
      files: Schema.Array(RenderedFile),
      /** Of the scan that the files show. */
      certificate: Certificate.Certificate
    })
  )
})
/** {@inheritDoc Manifest} */
export interface Manifest extends Schema.Schema.Type<typeof Manifest> {}

const ManifestJson = Schema.fromJsonString(Manifest)
const manifestFile = "manifest.json"
/** The folder's own copy, which the files are rendered from. */
export const copyFile = "copy.db"
const ownerOnly = { folder: 0o700, file: 0o600 } as const
const rowsAtOnce = 1000

/** Writes into the folder, which is made if it is not there. */
export const layer = (folder: string): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    Sink,
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const platform = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
      const location = `file:${folder}`
      yield* onDisk(location, fs.makeDirectory(folder, { recursive: true, mode: ownerOnly.folder }))
      const store = yield* openStore(path.join(folder, copyFile), location)
      const rows = makeSink(store)
      const renderer: Renderer = { fs, path, store, folder, location }
      return Sink.of({
        location,
        hold: rows.hold,
        begin: Effect.fnUntraced(function*(list, request) {
          const session = yield* rows.begin(list, request)
          const publish = Effect.provideContext(publishWith(renderer, list), platform)
          // An earlier run may have ended between its last commit and its rendering.
          if (session.resumeAt === undefined) yield* publish
          return { ...session, publish }
        })
      })
    })
  )

interface Renderer {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly store: SqliteStore
  readonly folder: string
  readonly location: string
}

/**
 * Renders every list whose last complete scan the manifest does not show: this one, which is ours, and any other that
 * nobody is writing, for a manifest may have been lost. One program renders at a time; others wait.
 */
const publishWith = (renderer: Renderer, own: Lists.AnyList) =>
  Effect.scoped(Effect.gen(function*() {
    const { store } = renderer
    yield* store.hold("manifest", "wait")
    const source = yield* store.source
    if (source === undefined) return
    for (const list of Lists.all) {
      if (yield* isShown(renderer, list, source)) continue
      const rendering = Effect.gen(function*() {
        if (list !== own) yield* store.hold(list.label, "refuse")
        const complete = yield* lastComplete(store, list)
        if (complete !== undefined) yield* render(renderer, list, complete, source)
      })
      yield* Effect.scoped(rendering).pipe(
        Effect.catchIf(({ reason }) => list !== own && reason._tag === "Locked", () => Effect.void)
      )
    }
  }))

/** The certificate of the list's last complete scan, if the rows still are what it left: no later scan has written any. */
const lastComplete = (store: SqliteStore, list: Lists.AnyList) =>
  Effect.map(store.scans(list), (scans) => {
    const last = scans.find(({ checkpoint, state }) => state !== "running" || checkpoint !== undefined)
    return last?.state === "complete" && last.part === "" && last.certificate !== undefined
      ? Option.getOrUndefined(Certificate.fromJson(last.certificate))
      : undefined
  })

/** Whether the manifest shows the list as its last complete scan left it, or there is none to show. */
const isShown = Effect.fnUntraced(function*(renderer: Renderer, list: Lists.AnyList, source: string) {
  const complete = yield* lastComplete(renderer.store, list)
  const before = yield* readManifest(renderer, source)
  return complete === undefined || Equal.equals(before?.lists[list.label]?.certificate, complete)
})

const render = Effect.fnUntraced(
  function*(renderer: Renderer, list: Lists.AnyList, complete: Certificate.Certificate, source: string) {
    const { folder, fs, location, path, store } = renderer
    const before = yield* readManifest(renderer, source)
    const file = `${list.label}-${complete.completedAt.replaceAll(/\D/g, "")}.ndjson`
    yield* store.noteRendered(list, complete.scan, file)
    const written = yield* onDisk(location, writeNdjson(renderer, list, path.join(folder, file)))
    const manifest: Manifest = {
      version: 1,
      source,
      lists: { ...before?.lists, [list.label]: { files: [{ file, ...written }], certificate: complete } }
    }
    yield* onDisk(
      location,
      replaceFile(path.join(folder, manifestFile), `${JSON.stringify(manifest, null, 2)}\n`)
    )
    // Only what was rendered here is removed, and not what the last manifest named: somebody may still read that.
    const kept = new Set([...filesOf(manifest, list), ...filesOf(before, list)])
    for (const stale of (yield* store.rendered(list)).filter((name) => !kept.has(name))) {
      yield* onDisk(location, fs.remove(path.join(folder, stale), { force: true }))
      yield* store.forgetRendered(stale)
    }
  }
)

/**
 * The manifest of this source's data, if there is a readable one. A broken one is made anew from the copy; one of other
 * data, left behind by a copy that is gone, is none of ours.
 */
const readManifest = ({ folder, fs, location, path }: Renderer, source: string) =>
  onDisk(location, fs.readFileString(path.join(folder, manifestFile))).pipe(
    Effect.map((text) =>
      Option.filter(Schema.decodeOption(ManifestJson)(text), (manifest) => manifest.source === source)
    ),
    Effect.catchIf(
      (error) => error.reason._tag === "Failed" && error.reason.code === "ENOENT",
      () => Effect.succeedNone
    ),
    Effect.map(Option.getOrUndefined)
  )

const filesOf = (manifest: Manifest | undefined, list: Lists.AnyList): ReadonlyArray<string> =>
  (manifest?.lists[list.label]?.files ?? []).map(({ file }) => file)

/** Writes each record's exact text on a line of its own, in bounded memory, and has it on disk when it returns. */
const writeNdjson = Effect.fnUntraced(
  function*({ fs, store }: Renderer, list: Lists.AnyList, target: string) {
    const file = yield* fs.open(target, { flag: "w", mode: ownerOnly.file })
    const sha256 = createHash("sha256")
    let records = 0
    let bytes = 0
    for (let after = -1;;) {
      const rows = yield* store.rows(list, after, rowsAtOnce)
      const last = rows.at(-1)
      if (last === undefined) break
      const lines = new TextEncoder().encode(`${rows.map(({ raw }) => raw).join("\n")}\n`)
      yield* file.writeAll(lines)
      sha256.update(lines)
      records += rows.length
      bytes += lines.length
      after = last.row
    }
    yield* file.sync
    return { records, bytes, sha256: sha256.digest("hex") }
  },
  Effect.scoped
)

const onDisk = <A, E extends PlatformError.PlatformError | SinkError, R>(
  location: string,
  effect: Effect.Effect<A, E, R>
) =>
  Effect.mapError(effect, (error): SinkError => {
    if (error._tag === "SinkError") return error
    const cause = error.reason.cause
    const code = typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : error.reason._tag
    return new SinkError({ location, reason: reasonOfCode(code) })
  })
