/** What runs in the thread of a `ThreadedSink.ts`: the sink, and what is asked of it. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Position } from "@payments/core"
import { Cause, Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { parentPort, workerData } from "node:worker_threads"
import * as Destination from "../Destination.ts"
import { type ScanSession, Sink, type SinkError } from "../Sink.ts"
import {
  type Answer,
  type Answered,
  type Asked,
  type DestinationMessage,
  fromError,
  listOf,
  type Question,
  toBatch,
  toDestination
} from "./SinkMessages.ts"

/** What is being done, and what is open, by the number of its question. The sink itself has number 0. */
const fibers = new Map<number, Fiber.Fiber<unknown, SinkError>>()
const scopes = new Map<number, Scope.Closeable>()
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
  scopes.delete(opened)
  sessions.delete(opened)
  if (scope !== undefined) yield* Scope.close(scope, Exit.void)
})

const begin = Effect.fnUntraced(function*(sink: Sink["Service"], id: number, { list, request }: Asked["begin"]) {
  const session = yield* sink.begin(listOf(list), request)
  sessions.set(id, session)
  const { resumeAt, scan, start } = session
  return {
    scan,
    start,
    resumeAt: resumeAt === undefined ? undefined : Position.toJson(resumeAt),
    progress: yield* session.progress
  } satisfies Answered["begin"]
})

const sessionOf = (session: number): Effect.Effect<ScanSession> =>
  Effect.suspend(() => {
    const found = sessions.get(session)
    return found === undefined ? Effect.die(new Error("this scan is not open")) : Effect.succeed(found)
  })

const perform = (sink: Sink["Service"], question: Exclude<Question, { readonly ask: "cancel" }>) => {
  const { id } = question
  switch (question.ask) {
    case "hold":
      return opening(id, sink.hold(listOf(question.given.list), question.given.onLocked))
    case "begin":
      return opening(id, begin(sink, id, question.given))
    case "publish":
      return sink.publish(listOf(question.given.list))
    case "commit": {
      const { batch } = question.given
      return Effect.flatMap(sessionOf(question.given.session), ({ commit }) => commit(toBatch(batch)))
    }
    case "restart":
      return Effect.flatMap(
        sessionOf(question.given.session),
        ({ progress, restart }) => Effect.andThen(restart, progress)
      )
    case "giveUp":
      return Effect.flatMap(sessionOf(question.given.session), ({ giveUp }) => giveUp)
    case "close":
      return close(question.given.opened)
  }
}

const sink = Effect.runSync(Effect.cached(opening(
  0,
  Effect.gen(function*() {
    const files = Layer.mergeAll(NodeFileSystem.layer, NodePath.layer)
    const destination = toDestination(workerData as DestinationMessage) // what a ThreadedSink gives
    const built = yield* Layer.build(Destination.layerHere(destination).pipe(Layer.provide(files)))
    return Context.get(built, Sink)
  })
)))

parentPort?.on("message", (question: Question) => {
  const { id } = question
  if (question.ask === "cancel") {
    const fiber = fibers.get(id)
    if (fiber !== undefined) Effect.runFork(Fiber.interrupt(fiber))
  } else {answer(
      id,
      question.ask === "close" ? close(question.given.opened) : Effect.flatMap(sink, (open) => perform(open, question))
    )}
})

answer(0, Effect.map(sink, ({ location }) => location))
