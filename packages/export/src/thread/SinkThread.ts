/** What runs in the thread of a `ThreadedSink.ts`: the sink, and what is asked of it. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Cause, Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { parentPort } from "node:worker_threads"
import * as Destination from "../Destination.ts"
import { collectGarbage } from "../GarbageCollection.ts"
import { type ScanSession, Sink, type SinkError } from "../Sink.ts"
import {
  type Answer,
  type Answered,
  type Asked,
  fromError,
  isLarge,
  listOf,
  type Question,
  toBatch,
  toDestination
} from "./SinkMessages.ts"

/** What is being done, and what is open, by the number of its question. */
const fibers = new Map<number, Fiber.Fiber<unknown, SinkError>>()
const scopes = new Map<number, Scope.Closeable>()
const sinks = new Map<number, Sink["Service"]>()
const sessions = new Map<number, ScanSession>()

const answerOf = (id: number, exit: Exit.Exit<unknown, SinkError>): Answer => {
  if (Exit.isSuccess(exit)) return { id, value: exit.value }
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error
  return error === undefined ? { id, defect: Cause.pretty(exit.cause) } : { id, error: fromError(error) }
}

/** Does something beside all else, and answers. */
const answer = (id: number, effect: Effect.Effect<unknown, SinkError>): void => {
  const fiber = Effect.runFork(
    Effect.onExit(effect, (exit) => Effect.sync(() => parentPort?.postMessage(answerOf(id, exit))))
  )
  fibers.set(id, fiber)
  fiber.addObserver(() => fibers.delete(id))
}

/** Does something whose end is asked for by its number. */
const opening = <A>(id: number, effect: Effect.Effect<A, SinkError, Scope.Scope>): Effect.Effect<A, SinkError> =>
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

const open = Effect.fnUntraced(function*(id: number, { destination }: Asked["open"]) {
  const layer = Destination.layerHere(toDestination(destination)).pipe(Layer.provide(files))
  const sink = Context.get(yield* Layer.build(layer), Sink)
  sinks.set(id, sink)
  return sink.location satisfies Answered["open"]
})

const begin = Effect.fnUntraced(function*(id: number, { list, request, sink }: Asked["begin"]) {
  const session = yield* (yield* among(sinks, sink)).begin(listOf(list), request)
  sessions.set(id, session)
  const { resumeAt, scan, start } = session
  return { scan, start, resumeAt, progress: yield* session.progress } satisfies Answered["begin"]
})

/** What is open under that number. */
const among = <A>(opened: ReadonlyMap<number, A>, number: number): Effect.Effect<A> =>
  Effect.suspend(() => {
    const found = opened.get(number)
    return found === undefined ? Effect.die(new Error("it is not open")) : Effect.succeed(found)
  })

/** What a sink here always has: stdout, which keeps nothing, has no thread of its own. */
const inspecting = (sink: number) =>
  Effect.flatMap(
    among(sinks, sink),
    ({ inspect }) => inspect === undefined ? Effect.die("nothing is kept") : Effect.succeed(inspect)
  )

const perform = (question: Exclude<Question, { readonly ask: "cancel" }>): Effect.Effect<unknown, SinkError> => {
  const { id } = question
  switch (question.ask) {
    case "open":
      return opening(id, open(id, question.given))
    case "hold": {
      const { list, onLocked, sink } = question.given
      return opening(id, Effect.flatMap(among(sinks, sink), ({ hold }) => hold(listOf(list), onLocked)))
    }
    case "preview": {
      const { list, request, sink } = question.given
      return Effect.flatMap(inspecting(sink), ({ scan }) => scan(listOf(list), request))
    }
    case "owner":
      return Effect.flatMap(inspecting(question.given.sink), ({ owner }) => owner)
    case "hasAny": {
      const { ids, list, sink } = question.given
      return Effect.flatMap(inspecting(sink), ({ hasAny }) => hasAny(listOf(list), ids))
    }
    case "begin":
      return opening(id, begin(id, question.given))
    case "publish": {
      const { list, sink } = question.given
      return Effect.flatMap(among(sinks, sink), ({ publish }) => publish(listOf(list)))
    }
    case "commit": {
      const { batch, session } = question.given
      return Effect.flatMap(among(sessions, session), ({ commit }) => {
        const committed = commit(toBatch(batch))
        return isLarge(batch) ? Effect.ensuring(committed, Effect.sync(collectGarbage)) : committed
      })
    }
    case "restart":
      return Effect.flatMap(
        among(sessions, question.given.session),
        ({ progress, restart }) => Effect.andThen(restart, progress)
      )
    case "giveUp":
      return Effect.flatMap(among(sessions, question.given.session), ({ giveUp }) => giveUp)
    case "close":
      return close(question.given.opened)
  }
}

parentPort?.on("message", (question: Question) => {
  const { id } = question
  if (question.ask !== "cancel") return answer(id, perform(question))
  const fiber = fibers.get(id)
  if (fiber !== undefined) Effect.runFork(Fiber.interrupt(fiber))
})
