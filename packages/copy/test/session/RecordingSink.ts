/** A sink that records every commit in a reference model: the pages as the service returned them, when they are committed. */
import type { PaymentsApi } from "@payments/core"
import { Effect, Layer } from "effect"
import { type Part, Sink } from "../../src/port/Sink.ts"
import { type ChangingList, layerOver } from "./ChangingList.ts"
import type { ReferenceModel } from "./ReferenceModel.ts"

/** Returns the list's API and the recording sink. */
export const recordingSink = <E, R>(
  list: ChangingList,
  model: ReferenceModel,
  sink: Layer.Layer<Sink, E, R>
): Layer.Layer<Sink | PaymentsApi, E, R> => {
  /** The pages of each part's traversal that are not committed yet. */
  const uncommitted = new Map<string, Array<ReadonlyArray<string>>>()
  const api = layerOver(list, {
    onPages: (part) => void uncommitted.set(part, []),
    onPage: (texts, part) => void uncommitted.get(part)?.push(texts)
  })
  /** The running commits, each with the texts that other commits have committed meanwhile. */
  const running = new Set<{ readonly concurrent: Array<string> }>()
  const begin = (inner: Sink["Service"]): Sink["Service"]["begin"] => (of, request) =>
    Effect.map(inner.begin(of, request), (session) => {
      const part = keyOf(request.part)
      const traversal = model.begin(session.scan, part, session.start === "resumed")
      return {
        ...session,
        commit: (batch) =>
          Effect.suspend(() => {
            const own = { concurrent: new Array<string>() }
            running.add(own)
            return session.commit(batch).pipe(
              Effect.tap(({ unseen }) =>
                Effect.sync(() => {
                  running.delete(own)
                  // The batch waits for look-ups, and is committed again with what they find.
                  if (unseen > 0) return
                  for (const texts of uncommitted.get(part)?.splice(0, batch.pages) ?? []) {
                    model.commitPage(traversal, texts, own.concurrent)
                    for (const { concurrent } of running) concurrent.push(...texts)
                  }
                  if (batch.checkpoint === null) model.end(traversal)
                })
              ),
              Effect.ensuring(Effect.sync(() => running.delete(own)))
            )
          }),
        restart: Effect.tap(session.restart, () => Effect.sync(() => model.restart(traversal)))
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
