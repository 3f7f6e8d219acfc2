/** A destination whose every commit is written into a book: the pages as the service gave them, when they are committed. */
import type { PaymentsApi } from "@payments/core"
import { Effect, Layer } from "effect"
import { type Part, Sink } from "../src/Sink.ts"
import type { Book } from "./Book.ts"
import { type ChangingList, layerOver } from "./ChangingList.ts"

/** The list's API, and the sink that is watched. */
export const watched = <E, R>(
  list: ChangingList,
  book: Book,
  sink: Layer.Layer<Sink, E, R>
): Layer.Layer<Sink | PaymentsApi, E, R> => {
  /** By part, the pages of its traversal that are not committed yet. */
  const handedOn = new Map<string, Array<ReadonlyArray<string>>>()
  const api = layerOver(list, {
    onPages: (part) => void handedOn.set(part, []),
    onPage: (texts, part) => void handedOn.get(part)?.push(texts)
  })
  /** Commits that run, each with the texts that were committed meanwhile. */
  const running = new Set<{ readonly beside: Array<string> }>()
  const begin = (inner: Sink["Service"]): Sink["Service"]["begin"] => (of, request) =>
    Effect.map(inner.begin(of, request), (session) => {
      const part = keyOf(request.part)
      const traversal = book.begin(session.scan, part, session.start === "resumed")
      return {
        ...session,
        commit: (batch) =>
          Effect.suspend(() => {
            const own = { beside: new Array<string>() }
            running.add(own)
            return session.commit(batch).pipe(
              Effect.tap(() =>
                Effect.sync(() => {
                  running.delete(own)
                  for (const texts of handedOn.get(part)?.splice(0, batch.pages) ?? []) {
                    book.page(traversal, texts, own.beside)
                    for (const { beside } of running) beside.push(...texts)
                  }
                  if (batch.checkpoint === null) book.end(traversal)
                })
              ),
              Effect.ensuring(Effect.sync(() => running.delete(own)))
            )
          }),
        restart: Effect.tap(session.restart, () => Effect.sync(() => book.again(traversal)))
      }
    })
  return Layer.merge(
    api,
    Layer.effect(Sink, Effect.map(Sink, (inner) => Sink.of({ ...inner, begin: begin(inner) }))).pipe(
      Layer.provide(sink)
    )
  )
}

const keyOf = (part: Part | undefined): string => part?.value ?? ""
