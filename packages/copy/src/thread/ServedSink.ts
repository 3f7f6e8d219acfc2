/** The code of the worker thread of `ThreadedSink.ts`: it runs the sinks and responds to requests. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Cause, Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { parentPort } from "node:worker_threads"
import * as Destination from "../destination/Destination.ts"
import { fromError } from "../port/ErrorMessage.ts"
import { type Session, Sink, type SinkError } from "../port/Sink.ts"
import { collectGarbage } from "./GarbageCollection.ts"
import {
  isLarge,
  listOf,
  type SinkRequest,
  type SinkRequests,
  type SinkResponse,
  type SinkResponses,
  toBatch,
  toDestination
} from "./SinkMessages.ts"

/** The running requests and the open resources, by the number of their request. */
const fibers = new Map<number, Fiber.Fiber<unknown, SinkError>>()
const scopes = new Map<number, Scope.Closeable>()
const sinks = new Map<number, Sink["Service"]>()
const sessions = new Map<number, Session>()

const responseOf = (id: number, exit: Exit.Exit<unknown, SinkError>): SinkResponse => {
  if (Exit.isSuccess(exit)) return { id, value: exit.value }
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error
  return error === undefined ? { id, defect: Cause.pretty(exit.cause) } : { id, error: fromError(error) }
}

/** Runs an effect concurrently with other requests, and sends its result. */
const respond = (id: number, effect: Effect.Effect<unknown, SinkError>): void => {
  const fiber = Effect.runFork(
    Effect.onExit(effect, (exit) => Effect.sync(() => parentPort?.postMessage(responseOf(id, exit))))
  )
  fibers.set(id, fiber)
  fiber.addObserver(() => fibers.delete(id))
}

/** Opens a resource that a later `close` request with its number closes. */
const openResource = <A>(id: number, effect: Effect.Effect<A, SinkError, Scope.Scope>): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    const scope = Scope.makeUnsafe()
    scopes.set(id, scope)
    return Scope.provide(effect, scope)
  })

const close = Effect.fnUntraced(function*(opened: number) {
  const fiber = fibers.get(opened)
  if (fiber !== undefined) yield* Fiber.interrupt(fiber)
  const scope = scopes.get(opened)
  for (const open of [scopes, sinks, sessions]) open.delete(opened)
  if (scope !== undefined) yield* Scope.close(scope, Exit.void)
})

const files = Layer.mergeAll(NodeFileSystem.layer, NodePath.layer)

const open = Effect.fnUntraced(function*(id: number, { destination }: SinkRequests["open"]) {
  const layer = Destination.layerInThisThread(toDestination(destination)).pipe(Layer.provide(files))
  const sink = Context.get(yield* Layer.build(layer), Sink)
  sinks.set(id, sink)
  return sink.location satisfies SinkResponses["open"]
})

const begin = Effect.fnUntraced(function*(id: number, { list, request, sink }: SinkRequests["begin"]) {
  const session = yield* (yield* findOpen(sinks, sink)).begin(listOf(list), request)
  sessions.set(id, session)
  const { resumeAt, scan, start } = session
  return { scan, start, resumeAt, progress: yield* session.progress } satisfies SinkResponses["begin"]
})

const beginPass = Effect.fnUntraced(function*(
  id: number,
  { kind, list, request, sink }: SinkRequests["beginPass"]
) {
  const session = yield* (yield* passesOf(sink)).begin(listOf(list), kind, request)
  sessions.set(id, session)
  const { isLoaded = false } = session.pass ?? {}
  return { isLoaded, progress: yield* session.progress } satisfies SinkResponses["beginPass"]
})

/** Returns the open resource with that number. */
const findOpen = <A>(opened: ReadonlyMap<number, A>, number: number): Effect.Effect<A> =>
  Effect.suspend(() => {
    const found = opened.get(number)
    return found === undefined ? Effect.die(new Error("it is not open")) : Effect.succeed(found)
  })

const findPass = (number: number) =>
  Effect.flatMap(
    findOpen(sessions, number),
    ({ pass }) => pass === undefined ? Effect.die("the session is no pass") : Effect.succeed(pass)
  )

/** Returns the inspection of a sink. Every sink in this thread has it; only stdout, which never runs here, has none. */
const inspectionOf = (sink: number) =>
  Effect.flatMap(
    findOpen(sinks, sink),
    ({ inspect }) => inspect === undefined ? Effect.die("the sink stores nothing") : Effect.succeed(inspect)
  )

/** Returns the passes of a sink. Every sink in this thread has them. */
const passesOf = (sink: number) =>
  Effect.flatMap(
    findOpen(sinks, sink),
    ({ passes }) => passes === undefined ? Effect.die("the sink has no passes") : Effect.succeed(passes)
  )

const perform = (request: Exclude<SinkRequest, { readonly type: "cancel" }>): Effect.Effect<unknown, SinkError> => {
  const { id } = request
  switch (request.type) {
    case "open":
      return openResource(id, open(id, request.parameters))
    case "lock": {
      const { list, onLocked, sink } = request.parameters
      return openResource(id, Effect.flatMap(findOpen(sinks, sink), ({ lock }) => lock(listOf(list), onLocked)))
    }
    case "preview": {
      const { list, request: scanRequest, sink } = request.parameters
      return Effect.flatMap(inspectionOf(sink), ({ scan }) => scan(listOf(list), scanRequest))
    }
    case "owner":
      return Effect.flatMap(inspectionOf(request.parameters.sink), ({ owner }) => owner)
    case "personal":
      return Effect.flatMap(inspectionOf(request.parameters.sink), ({ personal }) => personal)
    case "hasAny": {
      const { ids, list, sink } = request.parameters
      return Effect.flatMap(inspectionOf(sink), ({ hasAny }) => hasAny(listOf(list), ids))
    }
    case "freshness": {
      const { lists, sink, source } = request.parameters
      return Effect.flatMap(inspectionOf(sink), ({ freshness }) => freshness(lists.map(listOf), source))
    }
    case "overview": {
      const { list, sink } = request.parameters
      return Effect.flatMap(inspectionOf(sink), ({ overview }) => overview(listOf(list)))
    }
    case "begin":
      return openResource(id, begin(id, request.parameters))
    case "beginPass":
      return openResource(id, beginPass(id, request.parameters))
    case "isQuiet":
      return Effect.flatMap(findPass(request.parameters.session), ({ isQuiet }) => isQuiet)
    case "endPass":
      return Effect.flatMap(findPass(request.parameters.session), ({ end }) => end)
    case "headProblem": {
      const { list, sink } = request.parameters
      return Effect.flatMap(passesOf(sink), ({ head }) => head.problem(listOf(list)))
    }
    case "stopHead": {
      const { list, problem, sink } = request.parameters
      return Effect.flatMap(passesOf(sink), ({ head }) => head.stop(listOf(list), problem))
    }
    case "resumeHead": {
      const { list, sink } = request.parameters
      return Effect.flatMap(passesOf(sink), ({ head }) => head.resume(listOf(list)))
    }
    case "publish": {
      const { list, sink } = request.parameters
      return Effect.flatMap(findOpen(sinks, sink), ({ publish }) => publish(listOf(list)))
    }
    case "commit": {
      const { batch, session } = request.parameters
      return Effect.flatMap(findOpen(sessions, session), ({ commit }) => {
        const committed = commit(toBatch(batch))
        return isLarge(batch) ? Effect.ensuring(committed, Effect.sync(collectGarbage)) : committed
      })
    }
    case "restart":
      return Effect.flatMap(
        findOpen(sessions, request.parameters.session),
        ({ progress, restart }) => Effect.andThen(restart, progress)
      )
    case "giveUp":
      return Effect.flatMap(findOpen(sessions, request.parameters.session), ({ giveUp }) => giveUp)
    case "close":
      return close(request.parameters.opened)
  }
}

parentPort?.on("message", (request: SinkRequest) => {
  const { id } = request
  if (request.type !== "cancel") return respond(id, perform(request))
  const fiber = fibers.get(id)
  if (fiber !== undefined) Effect.runFork(Fiber.interrupt(fiber))
})
