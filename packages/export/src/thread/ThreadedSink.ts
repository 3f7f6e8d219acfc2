/**
 * A sink in a thread of its own (`SinkThread.ts`), so that parsing, comparing, hashing and writing go on while the next pages
 * are fetched and checked. It behaves as it does here: what is asked, waited for no longer or closed is told it in order.
 */
import { Effect, Layer, type Scope } from "effect"
import { existsSync } from "node:fs"
import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import type { Kept } from "../Destination.ts"
import { type ScanProgress, Sink, type SinkError } from "../Sink.ts"
import {
  type Answer,
  type Answered,
  type Asked,
  fromBatch,
  fromDestination,
  type Question,
  toError,
  toPosition
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
  const { ask, location, opening } = yield* start(destination)
  return Sink.of({
    location,
    hold: ({ name }, onLocked) => Effect.asVoid(opening("hold", { list: name, onLocked })),
    begin: ({ name }, request) =>
      Effect.map(opening("begin", { list: name, request }), ([session, { resumeAt, scan, start, ...begun }]) => {
        let { progress } = begun
        const known = (answer: Effect.Effect<ScanProgress, SinkError>) =>
          Effect.tap(answer, (now) => Effect.sync(() => void (progress = now)))
        return {
          scan,
          start,
          resumeAt: resumeAt === undefined ? undefined : toPosition(resumeAt),
          progress: Effect.sync(() => progress),
          commit: (batch) => known(ask("commit", { session, batch: fromBatch(batch) })),
          restart: Effect.asVoid(known(ask("restart", { session }))),
          giveUp: ask("giveUp", { session })
        }
      }),
    publish: ({ name }) => ask("publish", { list: name })
  })
})

/** Starts the thread, which ends with the scope, and has it open the destination. */
const start = Effect.fnUntraced(function*(destination: Kept) {
  /** Who waits for an answer, by its question. */
  const waiting = new Map<number, (answer: Effect.Effect<unknown, SinkError>) => void>()
  const thread = yield* Effect.acquireRelease(
    Effect.sync(() =>
      new Worker(threadFile, {
        workerData: fromDestination(destination),
        // node:sqlite would announce that it is still young.
        execArgv: ["--disable-warning=ExperimentalWarning"]
      })
    ),
    (started) => Effect.promise(() => started.terminate())
  )
  /** Why nothing is answered any more. */
  let ended: Effect.Effect<never> | undefined
  const endAll = (problem: unknown) => {
    ended ??= Effect.die(problem)
    for (const resume of waiting.values()) resume(ended)
    waiting.clear()
  }
  thread.on("message", (answer: Answer) => {
    const { id } = answer
    const resume = waiting.get(id)
    waiting.delete(id)
    if ("value" in answer) resume?.(Effect.succeed(answer.value))
    else if ("error" in answer) resume?.(Effect.fail(toError(answer.error)))
    else resume?.(Effect.die(new Error(answer.defect)))
  })
  thread.on("error", endAll)
  thread.on("exit", () => endAll(new Error("the thread of the destination has ended")))

  const answerTo = (id: number) =>
    Effect.callback<unknown, SinkError>((resume) => {
      if (ended !== undefined) return resume(ended)
      waiting.set(id, resume)
      return Effect.sync(() => {
        waiting.delete(id)
        thread.postMessage({ id, ask: "cancel" } satisfies Question)
      })
    })
  const question = <Name extends keyof Asked>(id: number, ask: Name, given: Asked[Name]) =>
    Effect.suspend(() => {
      thread.postMessage({ id, ask, given })
      return answerTo(id)
    }) as Effect.Effect<Answered[Name], SinkError> // what the thread answers to this name

  let last = 0
  const ask = <Name extends keyof Asked>(name: Name, given: Asked[Name]) =>
    Effect.suspend(() => question(++last, name, given))
  // There is nothing more to be saved of a thread that has ended.
  const closing = (opened: number) => Effect.ignoreCause(ask("close", { opened }))
  /** Asks for something that is open until the scope closes; gives its number too. */
  const opening = <Name extends "hold" | "begin">(name: Name, given: Asked[Name]) =>
    Effect.suspend(() => {
      const opened = ++last
      return Effect.addFinalizer(() => closing(opened)).pipe(
        Effect.andThen(question(opened, name, given)),
        Effect.map((answer) => [opened, answer] as const)
      )
    })
  // The destination itself is number 0.
  yield* Effect.addFinalizer(() => closing(0))
  return { ask, opening, location: String(yield* answerTo(0)) }
})
