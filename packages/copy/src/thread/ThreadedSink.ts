/**
 * A sink in a worker thread (`SinkThread.ts`), so that parsing, comparing, hashing and writing overlap with fetching and
 * checking the next pages. Calls, cancellations and closes are delivered in order, so the sink behaves as one in the calling
 * thread.
 */
import { Effect, Layer, type Scope } from "effect"
import { existsSync } from "node:fs"
import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import { shown, type StoredDestination } from "../destination/DestinationUrl.ts"
import { systemProblem } from "../filesystem/SystemProblem.ts"
import { toError } from "../port/ErrorMessage.ts"
import { type Batch, Denied, type ScanProgress, Sink, SinkError } from "../port/Sink.ts"
import { collectGarbage } from "./GarbageCollection.ts"
import {
  fromBatch,
  fromDestination,
  type SinkRequest,
  type SinkRequests,
  type SinkResponse,
  type SinkResponses,
  transferred
} from "./SinkMessages.ts"

/** The code of the thread. It is next to this file: as a source, in the package, and in a program's bundle. */
const threadFile = new URL(`./SinkThread${extname(new URL(import.meta.url).pathname)}`, import.meta.url)

/** Whether the thread's code exists. A bundler leaves it out unless it is configured as an entry. */
export const isAvailable = (): boolean => existsSync(threadFile)

/** A sink that writes into the destination in the worker thread. */
export const layer = (destination: StoredDestination): Layer.Layer<Sink, SinkError> =>
  Layer.effect(Sink, make(destination))

const make = Effect.fnUntraced(function*(
  destination: StoredDestination
): Effect.fn.Return<Sink["Service"], SinkError, Scope.Scope> {
  const { request, requestResource } = yield* acquireThread
  const [sink, location] = yield* requestResource("open", { destination: fromDestination(destination) }).pipe(
    Effect.catchDefect((defect) => {
      const problem = systemProblem(defect)
      return problem === undefined
        ? Effect.die(defect)
        : new SinkError({ location: shown(destination), reason: new Denied({ problem }) })
    })
  )
  /** Makes the functions that scans and passes have in common. */
  const sessionOver = (session: number, before: ScanProgress) => {
    let progress = before
    const trackProgress = (response: Effect.Effect<ScanProgress, SinkError>) =>
      Effect.tap(response, (now) => Effect.sync(() => void (progress = now)))
    return {
      progress: Effect.sync(() => progress),
      commit: (batch: Batch) => {
        const message = fromBatch(batch)
        return trackProgress(request("commit", { session, batch: message }, transferred(message)))
      },
      restart: Effect.asVoid(trackProgress(request("restart", { session }))),
      giveUp: request("giveUp", { session })
    }
  }
  return Sink.of({
    location,
    lock: ({ name }, onLocked) => Effect.asVoid(requestResource("lock", { sink, list: name, onLocked })),
    inspect: {
      scan: ({ name }, scanRequest) => request("preview", { sink, list: name, request: scanRequest }),
      owner: request("owner", { sink }),
      personal: request("personal", { sink }),
      hasAny: ({ name }, ids) => request("hasAny", { sink, list: name, ids }),
      freshness: (lists, source) => request("freshness", { sink, lists: lists.map(({ name }) => name), source }),
      overview: ({ name }) => request("overview", { sink, list: name })
    },
    begin: ({ name }, scanRequest) =>
      Effect.map(
        requestResource("begin", { sink, list: name, request: scanRequest }),
        ([session, begun]) => ({ ...begun, ...sessionOver(session, begun.progress) })
      ),
    passes: {
      begin: ({ name }, kind, scanRequest) =>
        Effect.map(
          requestResource("beginPass", { sink, list: name, kind, request: scanRequest }),
          ([session, { isLoaded, progress }]) => ({
            scan: 0,
            start: "afterComplete",
            resumeAt: undefined,
            ...sessionOver(session, progress),
            // A pass stays usable after its end, so only a stopped thread can fail here.
            pass: {
              isLoaded,
              isQuiet: Effect.orDie(request("isQuiet", { session })),
              end: Effect.orDie(request("endPass", { session }))
            }
          })
        ),
      head: {
        problem: ({ name }) => request("headProblem", { sink, list: name }),
        stop: ({ name }, problem) => request("stopHead", { sink, list: name, problem }),
        resume: ({ name }) => request("resumeHead", { sink, list: name })
      }
    },
    publish: ({ name }) => request("publish", { sink, list: name })
  })
})

/** A worker thread. */
interface Thread {
  readonly worker: Worker
  /** The number of open sinks. Without any, the thread does not keep the process alive. */
  sinks: number
  /** The number of the last request. */
  lastId: number
  /** The requests without a response, by their number. */
  readonly pending: Map<number, (response: Effect.Effect<unknown, SinkError>) => void>
  /** The defect of all further requests, after the thread has ended. */
  ended: Effect.Effect<never> | undefined
}

/**
 * One thread for all sinks. It runs until the process ends, because V8 keeps the machine code of all threads in one record, and
 * may lose the code of one thread when another thread ends (nodejs/node#64500).
 */
let current: Thread | undefined

const start = (): Thread => {
  // node:sqlite would print a warning that it is experimental.
  const worker = new Worker(threadFile, { execArgv: ["--disable-warning=ExperimentalWarning"] })
  const thread: Thread = { worker, sinks: 0, lastId: 0, pending: new Map(), ended: undefined }
  const end = (problem: unknown) => {
    if (current === thread) current = undefined
    thread.ended ??= Effect.die(problem)
    for (const resume of thread.pending.values()) resume(thread.ended)
    thread.pending.clear()
  }
  worker.on("message", (response: SinkResponse) => {
    const { id } = response
    const resume = thread.pending.get(id)
    thread.pending.delete(id)
    if ("value" in response) resume?.(Effect.succeed(response.value))
    else if ("error" in response) resume?.(Effect.fail(toError(response.error)))
    else resume?.(Effect.die(new Error(response.defect)))
  })
  worker.on("error", end)
  worker.on("exit", () => end(new Error("the thread of the destination has ended")))
  return thread
}

/** Starts the thread if necessary and returns functions that send requests to it. Uses the thread until the scope closes. */
const acquireThread = Effect.map(
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
    const send = <Type extends keyof SinkRequests>(
      id: number,
      type: Type,
      parameters: SinkRequests[Type],
      transfer: ReadonlyArray<ArrayBuffer> = []
    ) =>
      Effect.callback<unknown, SinkError>((resume) => {
        if (thread.ended !== undefined) return resume(thread.ended)
        thread.pending.set(id, resume)
        thread.worker.postMessage({ id, type, parameters }, transfer)
        if (transfer.length > 0) collectGarbage()
        return Effect.sync(() => {
          thread.pending.delete(id)
          thread.worker.postMessage({ id, type: "cancel" } satisfies SinkRequest)
        })
      }) as Effect.Effect<SinkResponses[Type], SinkError> // the thread sends this response to this type of request
    const request = <Type extends keyof SinkRequests>(
      type: Type,
      parameters: SinkRequests[Type],
      transfer?: ReadonlyArray<ArrayBuffer>
    ) => Effect.suspend(() => send(++thread.lastId, type, parameters, transfer))
    /** Requests a resource that stays open until the scope closes. Returns its number and the response. */
    const requestResource = <Type extends "open" | "lock" | "begin" | "beginPass">(
      type: Type,
      parameters: SinkRequests[Type]
    ) =>
      Effect.suspend(() => {
        const opened = ++thread.lastId
        // If the thread has ended, it has no resource to close, so the error of the close is ignored.
        return Effect.addFinalizer(() => Effect.ignoreCause(request("close", { opened }))).pipe(
          Effect.andThen(send(opened, type, parameters)),
          Effect.map((response) => [opened, response] as const)
        )
      })
    return { request, requestResource }
  }
)
