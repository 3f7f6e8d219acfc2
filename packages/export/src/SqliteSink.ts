/** `sqlite:FILE`, the embedded default. */
import { Clock, DateTime, Effect, Layer } from "effect"
import {
  Failed,
  Full,
  Locked,
  NotADestination,
  OtherSource,
  type ScanSession,
  Sink,
  SinkError,
  type SinkReason
} from "./Sink.ts"
import { errcodeOf, sqliteFull, SqliteStore } from "./SqliteStore.ts"

/** Writes into the file, which is made if it is not there. */
export const layer = (file: string): Layer.Layer<Sink, SinkError> =>
  Layer.effect(Sink, Effect.map(openStore(file, `sqlite:${file}`), (store) => makeSink(store, `sqlite:${file}`)))

/** Opens the store until the scope closes. */
export const openStore = (file: string, location: string) =>
  Effect.acquireRelease(attempt(location, () => new SqliteStore(file)), (store) => Effect.sync(() => store.close()))

/** The port over an open store. */
export const makeSink = (store: SqliteStore, location: string): Sink["Service"] => ({
  location,
  begin: Effect.fnUntraced(function*(list, request) {
    yield* Effect.acquireRelease(
      attempt(location, () => store.lock(list.label)),
      (lock) => Effect.sync(() => lock.close())
    )
    yield* attempt(location, () => store.bind(request.source))
    const started = yield* now
    const { resumeAt, scan } = yield* attempt(location, () => store.begin(list, request, started))
    const session: ScanSession = {
      scan,
      resumeAt,
      progress: attempt(location, () => store.progress(scan)),
      commit: (batch) => Effect.flatMap(now, (at) => attempt(location, () => store.commit(list, scan, batch, at))),
      restart: attempt(location, () => store.restart(scan)),
      publish: Effect.void
    }
    return session
  })
})

/** Runs one step of the store; whatever it throws is a reason, since its files are not ours alone. */
export const attempt = <A>(location: string, step: () => A): Effect.Effect<A, SinkError> =>
  Effect.try({ try: step, catch: (error) => new SinkError({ location, reason: reasonOf(error) }) })

const reasonOf = (error: unknown): SinkReason => {
  if (error instanceof Locked || error instanceof OtherSource || error instanceof NotADestination) return error
  const errcode = errcodeOf(error)
  if (errcode === sqliteFull) return new Full()
  if (errcode === 26) return new NotADestination({ problem: "it is not an SQLite database. Choose another file." })
  if (errcode !== undefined) return new Failed({ code: `SQLite ${errcode}` })
  return typeof error === "object" && error !== null && "code" in error
    ? error.code === "ENOSPC" ? new Full() : new Failed({ code: String(error.code) })
    : new Failed({ code: "unknown" })
}

const now = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.formatIso(DateTime.makeUnsafe(millis)))
