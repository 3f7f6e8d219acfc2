/** The worker thread of `ThreadedSink.ts`: it opens sinks and responds to calls of their members. */
import { Cause, Context, Effect, Exit, Fiber, Layer, Predicate, Scope } from "effect"
import { parentPort } from "node:worker_threads"
import { fromError } from "../port/ErrorMessage.ts"
import { type ScanProgress, Sink, type SinkError } from "../port/Sink.ts"
import { transferred } from "./BatchMessage.ts"
import { collectGarbage } from "./GarbageCollection.ts"
import {
  describe,
  opener,
  progressMethod,
  resources,
  type SinkRequest,
  type SinkResponse,
  toParameter
} from "./SinkCalls.ts"

type Call = Exclude<SinkRequest, { readonly path: "cancel" }>
type Result = Pick<Extract<SinkResponse, { readonly value: unknown }>, "value" | "progress">

/** Responds to the messages of this thread. `open` makes the sink of a destination's message. */
export const serve = (open: (destination: unknown) => Layer.Layer<Sink, SinkError>): void => {
  /** The running calls and the open resources, by the number of their call. */
  const fibers = new Map<number, Fiber.Fiber<unknown, SinkError>>()
  const scopes = new Map<number, Scope.Closeable>()
  const objects = new Map<number, unknown>()

  const close = Effect.fnUntraced(function*(opened: number) {
    const fiber = fibers.get(opened)
    if (fiber !== undefined) yield* Fiber.interrupt(fiber)
    const scope = scopes.get(opened)
    scopes.delete(opened)
    objects.delete(opened)
    if (scope !== undefined) yield* Scope.close(scope, Exit.void)
  })
  objects.set(opener, {
    open: (destination: unknown) => Effect.map(Layer.build(open(destination)), (built) => Context.get(built, Sink)),
    close
  })

  const perform = (call: Call): Effect.Effect<Result, SinkError> =>
    Effect.suspend(() => {
      const object = objects.get(call.target)
      if (call.path === progressMethod) return Effect.map(resultOf(object, call), (value) => ({ value }))
      if (!resources.has(call.path)) return Effect.flatMap(resultOf(object, call), withProgressOf(object))
      // The close may come while the resource is opened.
      const scope = Scope.makeUnsafe()
      scopes.set(call.id, scope)
      return Effect.flatMap(Scope.provide(resultOf(object, call), scope), (opened) => {
        objects.set(call.id, opened)
        return withProgressOf(opened)(describe(opened))
      })
    })

  parentPort?.on("message", (request: SinkRequest) => {
    const { id } = request
    if (!("target" in request)) {
      const running = fibers.get(id)
      if (running !== undefined) Effect.runFork(Fiber.interrupt(running))
      return
    }
    const respond = (exit: Exit.Exit<Result, SinkError>) =>
      Effect.sync(() => parentPort?.postMessage(responseOf(id, exit)))
    // Calls run concurrently.
    const fiber = Effect.runFork(Effect.onExit(perform(request), respond))
    fibers.set(id, fiber)
    fiber.addObserver(() => fibers.delete(id))
  })
}

const responseOf = (id: number, exit: Exit.Exit<Result, SinkError>): SinkResponse => {
  if (Exit.isSuccess(exit)) return { id, ...exit.value }
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error
  return error === undefined ? { id, defect: Cause.pretty(exit.cause) } : { id, error: fromError(error) }
}

const resultOf = (object: unknown, { parameters, path }: Call): Effect.Effect<unknown, SinkError> => {
  const member = path.split(".").reduce(
    (found, name) => Predicate.hasProperty(found, name) ? found[name] : undefined,
    object
  )
  const result: unknown = typeof member === "function" ? member(...parameters.map(toParameter)) : member
  if (!Effect.isEffect(result)) return Effect.die(new Error(`${path} is not open`))
  const effect = result as Effect.Effect<unknown, SinkError> // as every member of a sink; only `resources` need a scope
  return parameters.some((one) => one.type === "batch" && transferred(one.batch).length > 0)
    ? Effect.ensuring(effect, Effect.sync(collectGarbage))
    : effect
}

const withProgressOf = (object: unknown) => (value: unknown): Effect.Effect<Result> =>
  Predicate.hasProperty(object, "progress")
    ? Effect.map(object.progress as Effect.Effect<ScanProgress>, (progress) => ({ value, progress })) // only sessions have it
    : Effect.succeed({ value })
