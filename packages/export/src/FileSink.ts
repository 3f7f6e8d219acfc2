/**
 * `file:FOLDER?format=ndjson`. The folder holds its own SQLite copy (`copy.db`), which is what a scan writes; when a scan
 * is complete, the list's file is rendered from it beside the old one and takes its place when `manifest.json` names it.
 * Who reads the manifest first always has a whole snapshot: a file that it named stays until the list's next but one.
 */
import type { Lists } from "@payments/core"
import { Effect, FileSystem, Layer, Option, Path, type PlatformError, Schema, Semaphore } from "effect"
import { createHash } from "node:crypto"
import { replaceFile } from "./AtomicFile.ts"
import { Failed, Full, Sink, SinkError } from "./Sink.ts"
import { attempt, makeSink, openStore } from "./SqliteSink.ts"
import type { CompleteScan, SqliteStore } from "./SqliteStore.ts"

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
      certificate: Schema.Struct({
        scan: Schema.Int,
        completedAt: Schema.String,
        pages: Schema.Int,
        records: Schema.Int,
        quarantined: Schema.Int
      })
    })
  )
})
/** {@inheritDoc Manifest} */
export interface Manifest extends Schema.Schema.Type<typeof Manifest> {}

const ManifestJson = Schema.fromJsonString(Manifest)
const manifestFile = "manifest.json"
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
      const store = yield* openStore(path.join(folder, "copy.db"), location)
      const rows = makeSink(store, location)
      const oneAtATime = yield* Semaphore.make(1)
      const renderer: Renderer = { fs, path, store, folder, location }
      const publish = (list: Lists.AnyList, source: string) =>
        Effect.scoped(Effect.gen(function*() {
          yield* Effect.acquireRelease(
            attempt(location, () => store.lock("manifest", 10_000)),
            (lock) => Effect.sync(() => lock.close())
          )
          const complete = yield* attempt(location, () => store.lastComplete(list))
          if (complete !== undefined) yield* render(renderer, list, complete, source)
        })).pipe(oneAtATime.withPermits(1), Effect.provideContext(platform))
      return Sink.of({
        location,
        begin: Effect.fnUntraced(function*(list, request) {
          const session = yield* rows.begin(list, request)
          // An earlier run may have ended between its last commit and its rendering.
          const untouched = session.resumeAt === undefined
          if (untouched) yield* publish(list, request.source)
          return { ...session, publish: publish(list, request.source) }
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

/** Renders the list as of its last complete scan, unless the manifest already shows that one. */
const render = Effect.fnUntraced(
  function*(renderer: Renderer, list: Lists.AnyList, complete: CompleteScan, source: string) {
    const { folder, fs, location, path } = renderer
    const before = yield* readManifest(renderer)
    if (before?.lists[list.label]?.certificate.scan === complete.scan) return
    const file = `${list.label}-${complete.scan}.ndjson`
    const written = yield* onDisk(location, writeNdjson(renderer, list, path.join(folder, file)))
    const manifest: Manifest = {
      version: 1,
      source,
      lists: { ...before?.lists, [list.label]: { files: [{ file, ...written }], certificate: complete } }
    }
    yield* onDisk(location, replaceFile(path.join(folder, manifestFile), `${JSON.stringify(manifest, null, 2)}\n`))
    const kept = new Set([...filesOf(manifest, list), ...filesOf(before, list)])
    const stale = (yield* onDisk(location, fs.readDirectory(folder))).filter((name) =>
      name.startsWith(`${list.label}-`) && name.endsWith(".ndjson") && !kept.has(name)
    )
    for (const name of stale) yield* onDisk(location, fs.remove(path.join(folder, name)))
  }
)

/** The manifest, if there is a readable one: a broken one is made anew from the copy. */
const readManifest = ({ folder, fs, location, path }: Renderer) =>
  onDisk(location, fs.readFileString(path.join(folder, manifestFile))).pipe(
    Effect.map((text) => Schema.decodeOption(ManifestJson)(text)),
    Effect.catchIf(
      (error) => error.reason._tag === "Failed" && error.reason.code === "NotFound",
      () => Effect.succeedNone
    ),
    Effect.map(Option.getOrUndefined)
  )

const filesOf = (manifest: Manifest | undefined, list: Lists.AnyList): ReadonlyArray<string> =>
  (manifest?.lists[list.label]?.files ?? []).map(({ file }) => file)

/** Writes each record's exact text on a line of its own, in bounded memory, and has it on disk when it returns. */
const writeNdjson = Effect.fnUntraced(
  function*({ fs, store, location }: Renderer, list: Lists.AnyList, target: string) {
    const file = yield* fs.open(target, { flag: "w", mode: ownerOnly.file })
    const sha256 = createHash("sha256")
    let records = 0
    let bytes = 0
    for (let after = 0;;) {
      const chunk = yield* attempt(location, () => store.texts(list, after, rowsAtOnce))
      if (chunk.texts.length === 0) break
      const lines = new TextEncoder().encode(`${chunk.texts.join("\n")}\n`)
      yield* file.writeAll(lines)
      sha256.update(lines)
      records += chunk.texts.length
      bytes += lines.length
      after = chunk.last
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
    const full = typeof cause === "object" && cause !== null && "code" in cause && cause.code === "ENOSPC"
    return new SinkError({ location, reason: full ? new Full() : new Failed({ code: error.reason._tag }) })
  })
