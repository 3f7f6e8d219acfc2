/**
 * A sink in a thread of its own (`SinkThread.ts`), so that parsing, comparing, hashing and writing go on while the next pages
 * are fetched and checked. It behaves as it does here: what is asked, waited for no longer or closed is told it in order.
 */
import { Effect, Layer, type Scope } from "effect"
import { existsSync } from "node:fs"
import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import type { Kept } from "../DestinationUrl.ts"
import { collectGarbage } from "../GarbageCollection.ts"
import { type ScanProgress, Sink, type SinkError } from "../Sink.ts"
import {
  type Answer,
  type Answered,
  type Asked,
  fromBatch,
  fromDestination,
  type Question,
  toError,
  transferred
} from "./SinkMessages.ts"

/** What runs in the thread: beside this file, as a source, in the package, and in a program's bundle. */
const threadFile = new URL(`./SinkThread${extname(new URL(import.meta.url).pathname)}`, import.meta.url)

/** Whether there is such a file. A bundler that does not know of it leaves it out. */
export const isAvailable = (): boolean => existsSync(threadFile)

/** Writes into the destination, off the thread that asks. */
export const layer = (destination: Kept): Layer.Layer<Sink, SinkError> => Layer.effect(Sink, make(destination))

const make = Effect.fnUntraced(function*(
  destination: Kept
): Effect.fn.Return<Sink["Service"], SinkError, Scope.Scope> {
  const { ask, opening } = yield* inUse
  const [sink, location] = yield* opening("open", { destination: fromDestination(destination) })
  return Sink.of({
    location,
    hold: ({ name }, onLocked) => Effect.asVoid(opening("hold", { sink, list: name, onLocked })),
    inspect: {
      scan: ({ name }, request) => ask("preview", { sink, list: name, request }),
      owner: ask("owner", { sink }),
      hasAny: ({ name }, ids) => ask("hasAny", { sink, list: name, ids })
    },
    begin: ({ name }, request) =>
      Effect.map(
        opening("begin", { sink, list: name, request }),
        ([session, begun]) => {
          let { progress } = begun
          const known = (answer: Effect.Effect<ScanProgress, SinkError>) =>
            Effect.tap(answer, (now) => Effect.sync(() => void (progress = now)))
          return {
            ...begun,
            progress: Effect.sync(() => progress),
            commit: (batch) => {
              const message = fromBatch(batch)
              return known(ask("commit", { session, batch: message }, transferred(message)))
            },
            restart: Effect.asVoid(known(ask("restart", { session }))),
            giveUp: ask("giveUp", { session })
          }
        }
      ),
    publish: ({ name }) => ask("publish", { sink, list: name })
  })
})

/** The thread of this process, while it lives. */
interface Thread {
  readonly worker: Worker
  /** How many sinks live in it: without any it keeps no process alive. */
  sinks: number
  /** The number of the last question. */
  last: number
  /** Who waits for an answer, by its question. */
  readonly waiting: Map<number, (answer: Effect.Effect<unknown, SinkError>) => void>
  /** Why nothing is answered any more. */
  ended: Effect.Effect<never> | undefined
}

/**
 * One for all sinks, and none is ended before the process: V8 keeps one record of the machine code of all threads, and may
 * lose what one has made while another one ends (nodejs/node#64500).
 */
let current: Thread | undefined

const start = (): Thread => {
  // node:sqlite would announce that it is still young.
  const worker = new Worker(threadFile, { execArgv: ["--disable-warning=ExperimentalWarning"] })
  const thread: Thread = { worker, sinks: 0, last: 0, waiting: new Map(), ended: undefined }
  const end = (problem: unknown) => {
    if (current === thread) current = undefined
    thread.ended ??= Effect.die(problem)
    for (const resume of thread.waiting.values()) resume(thread.ended)
    thread.waiting.clear()
  }
  worker.on("message", (answer: Answer) => {
    const { id } = answer
    const resume = thread.waiting.get(id)
    thread.waiting.delete(id)
    if ("value" in answer) resume?.(Effect.succeed(answer.value))
    else if ("error" in answer) resume?.(Effect.fail(toError(answer.error)))
    else resume?.(Effect.die(new Error(answer.defect)))
  })
  worker.on("error", end)
  worker.on("exit", () => end(new Error("the thread of the destination has ended")))
  return thread
}

/** The thread, until the scope closes. */
const inUse = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const thread = current ??= start()
      if (thread.sinks++ === 0) thread.worker.ref()
      return thread
    }),
    (thread) =>
      Effect.sync(() => {
        if (--thread.sinks === 0) thread.worker.unref()
      })
  ),
  (thread) => {
    const question = <Name extends keyof Asked>(
      id: number,
      ask: Name,
      given: Asked[Name],
      moved: ReadonlyArray<ArrayBuffer> = []
    ) =>
      Effect.callback<unknown, SinkError>((resume) => {
        if (thread.ended !== undefined) return resume(thread.ended)
        thread.waiting.set(id, resume)
        thread.worker.postMessage({ id, ask, given }, moved)
        if (moved.length > 0) collectGarbage()
        return Effect.sync(() => {
          thread.waiting.delete(id)
          thread.worker.postMessage({ id, ask: "cancel" } satisfies Question)
        })
      }) as Effect.Effect<Answered[Name], SinkError> // what the thread answers to this name
    const ask = <Name extends keyof Asked>(name: Name, given: Asked[Name], moved?: ReadonlyArray<ArrayBuffer>) =>
      Effect.suspend(() => question(++thread.last, name, given, moved))
    /** Asks for something that is open until the scope closes; gives its number too. */
    const opening = <Name extends "open" | "hold" | "begin">(name: Name, given: Asked[Name]) =>
      Effect.suspend(() => {
        const opened = ++thread.last
        // There is nothing more to be saved of a thread that has ended.
        return Effect.addFinalizer(() => Effect.ignoreCause(ask("close", { opened }))).pipe(
          Effect.andThen(question(opened, name, given)),
          Effect.map((answer) => [opened, answer] as const)
        )
      })
    return { ask, opening }
  }
)
