/** `sqlite:FILE`, the embedded default. */
import { Clock, DateTime, Duration, Effect, Layer, Schedule } from "effect"
import { resolve } from "node:path"
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
import { errcodeOf, sqliteCode, SqliteStore } from "./SqliteStore.ts"

/** Writes into the file, which is made if it is not there. */
export const layer = (file: string): Layer.Layer<Sink, SinkError> =>
  Layer.effect(Sink, Effect.map(openStore(file, `sqlite:${file}`), (store) => makeSink(store, `sqlite:${file}`)))

/** Opens the store until the scope closes. */
export const openStore = (file: string, location: string) =>
  Effect.acquireRelease(
    // A whole path is never taken for one of SQLite's own names, such as :memory:.
    once(location, () => new SqliteStore(resolve(file))),
    (store) => Effect.sync(() => store.close())
  ).pipe(whileBusy(busyFor))

/** The port over an open store. */
export const makeSink = (store: SqliteStore, location: string): Sink["Service"] => ({
  location,
  begin: Effect.fnUntraced(function*(list, request) {
    // Whoever only mends a lost file holds it for a moment; whoever exports, for long: that is said within a second.
    yield* Effect.acquireRelease(
      once(location, () => store.lock(list.label)),
      (lock) => Effect.sync(() => lock.close())
    ).pipe(whileBusy("700 millis"))
    const started = yield* now
    const { resumeAt, scan } = yield* attempt(location, () => store.begin(list, request, started))
    const session: ScanSession = {
      scan,
      resumeAt,
      progress: attempt(location, () => store.progress(scan)),
      commit: (batch) =>
        Effect.flatMap(
          now,
          (at) => attempt(location, () => store.commit(list, { scan, source: request.source }, batch, at))
        ),
      restart: attempt(location, () => store.restart(scan)),
      publish: Effect.void
    }
    return session
  })
})

/** Tries again while another program is at it, and lets other things go on meanwhile. */
export const whileBusy = (duration: Duration.Input) => <A, R>(self: Effect.Effect<A, SinkError, R>) =>
  Effect.retry(self, {
    while: ({ reason }) => reason._tag === "Locked",
    schedule: Schedule.spaced("50 millis").pipe(Schedule.jittered, Schedule.upTo({ duration }))
  })

/** How long another writer of the same database is waited for. Lists are written side by side, a page at a time. */
const busyFor = Duration.seconds(30)

/** Runs one step of the store, again while another writer is at it. */
export const attempt = <A>(location: string, step: () => A): Effect.Effect<A, SinkError> =>
  once(location, step).pipe(whileBusy(busyFor))

/** Runs one step of the store. What its files do to it is a reason; anything else that it throws is a bug of ours. */
export const once = <A>(location: string, step: () => A): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(step())
    } catch (error) {
      const reason = reasonOf(error)
      return reason === undefined ? Effect.die(error) : Effect.fail(new SinkError({ location, reason }))
    }
  })

const reasonOf = (error: unknown): SinkReason | undefined => {
  if (error instanceof Locked || error instanceof OtherSource || error instanceof NotADestination) return error
  const errcode = errcodeOf(error)
  switch (errcode) {
    case undefined:
      return error instanceof Error && "code" in error && "syscall" in error
        ? reasonOfCode(String(error.code))
        : undefined
    case sqliteCode.busy:
      return new Locked({ label: "the database" })
    case sqliteCode.full:
      return new Full()
    case sqliteCode.notADatabase:
      return new NotADestination({ problem: "it is not an SQLite database. Choose another file." })
    default:
      return new Failed({ code: `SQLite ${errcode}` })
  }
}

/** The reason of a system code, such as `ENOSPC`. */
export const reasonOfCode = (code: string): SinkReason => code === "ENOSPC" ? new Full() : new Failed({ code })

const now = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.formatIso(DateTime.makeUnsafe(millis)))
