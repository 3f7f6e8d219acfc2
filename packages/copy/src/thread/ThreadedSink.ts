/**
 * A sink in a worker thread (`ServedSink.ts`), so that parsing, comparing, hashing and writing overlap with fetching
 * and checking the next pages. Calls, cancellations and closes are delivered in order, so the sink behaves as one in
 * the calling thread.
 */
import { Effect, Layer, type Scope } from "effect"
import { Worker } from "node:worker_threads"
import { systemProblem } from "../filesystem/SystemProblem.ts"
import { toError } from "../port/ErrorMessage.ts"
import { AccessDenied, type ScanProgress, Sink, SinkError } from "../port/Sink.ts"
import { transferred } from "./BatchMessage.ts"
import { collectGarbage } from "./GarbageCollection.ts"
import {
  type Description,
  fromDescription,
  fromParameter,
  opener,
  progressMethod,
  resources,
  type SinkRequest,
  type SinkResponse
} from "./SinkCalls.ts"

/** A destination that the thread opens. */
export interface Served {
  /** The file of the thread, which calls `serve`. */
  readonly file: URL
  /** What `serve` opens. It is copied, so it cannot contain `Redacted`. */
  readonly message: unknown
  /** The destination's location, for the error of a thread that cannot start. */
  readonly location: string
}

export const layer = ({ file, location, message }: Served): Layer.Layer<Sink, SinkError> =>
  Layer.effect(
    Sink,
    Effect.gen(function*() {
      const thread = yield* acquireThread(file)
      const sink = yield* callOf(thread, opener, () => {})("open", [message])
      return sink as Sink["Service"] // the thread describes its own sink
    }).pipe(
      Effect.catchDefect((defect) => {
        const problem = systemProblem(defect)
        return problem === undefined
          ? Effect.die(defect)
          : new SinkError({ location, reason: new AccessDenied({ problem }) })
      })
    )
  )

type Result = Extract<SinkResponse, { readonly value: unknown }>

interface Thread {
  readonly worker: Worker
  /** The number of open sinks. Without any, the thread does not keep the process alive. */
  sinks: number
  lastId: number
  /** The calls without a response, by their number. */
  readonly pending: Map<number, (response: Effect.Effect<Result, SinkError>) => void>
  /** The defect of all further calls, after the thread has ended. */
  ended: Effect.Effect<never> | undefined
}

/**
 * One thread for all sinks. It runs until the process ends. V8 keeps the machine code of all threads in one record, and
 * may lose the code of one thread when another thread ends (nodejs/node#64500).
 */
let current: Thread | undefined

const start = (file: URL): Thread => {
  // node:sqlite would print a warning that it is experimental.
  const worker = new Worker(file, { execArgv: ["--disable-warning=ExperimentalWarning"] })
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
    if ("value" in response) resume?.(Effect.succeed(response))
    else if ("error" in response) resume?.(Effect.fail(toError(response.error)))
    else resume?.(Effect.die(new Error(response.defect)))
  })
  worker.on("error", end)
  worker.on("exit", () => end(new Error("the thread of the destination has ended")))
  return thread
}

/** Starts the thread if necessary. Uses it until the scope closes. */
const acquireThread = (file: URL) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const thread = current ??= start(file)
      if (thread.sinks++ === 0) thread.worker.ref()
      return thread
    }),
    (thread) =>
      Effect.sync(() => {
        if (--thread.sinks === 0) thread.worker.unref()
      })
  )

/** Sends a call, and cancels it if it is interrupted. */
const send = (thread: Thread, request: Exclude<SinkRequest, { readonly path: "cancel" }>) =>
  Effect.callback<Result, SinkError>((resume) => {
    if (thread.ended !== undefined) return resume(thread.ended)
    const { id, parameters } = request
    const transfer = parameters.flatMap((one) => one.type === "batch" ? transferred(one.batch) : [])
    thread.pending.set(id, resume)
    thread.worker.postMessage(request, transfer)
    if (transfer.length > 0) collectGarbage()
    return Effect.sync(() => {
      thread.pending.delete(id)
      thread.worker.postMessage({ id, path: "cancel" } satisfies SinkRequest)
    })
  })

/** `note` gets the progress after a call. */
const callOf =
  (thread: Thread, target: number, note: (progress: ScanProgress | undefined) => void) =>
  (path: string, parameters: ReadonlyArray<unknown>): Effect.Effect<unknown, SinkError, Scope.Scope> =>
    Effect.suspend(() => {
      const id = ++thread.lastId
      const sent = send(thread, { id, target, path, parameters: parameters.map(fromParameter) })
      return resources.has(path)
        // If the thread has ended, it has no resource to close, so the error of the close is ignored.
        ? Effect.addFinalizer(() => Effect.ignoreCause(Effect.scoped(callOf(thread, opener, () => {})("close", [id]))))
          .pipe(
            Effect.andThen(sent),
            Effect.map((response) => openedIn(thread, response))
          )
        : Effect.map(sent, ({ progress, value }) => {
          note(path === progressMethod ? value as ScanProgress : progress) // the result of `commit`
          return value
        })
    })

/** Makes the object that a call has opened. The progress of a session is that after its last call. */
const openedIn = (thread: Thread, { id, progress: before, value }: Result): unknown => {
  let progress = before
  const call = callOf(thread, id, (now) => progress = now)
  return fromDescription(
    value as Description, // the response to the call of a resource
    (path, parameters) => path === "progress" ? Effect.sync(() => progress) : call(path, parameters)
  )
}
