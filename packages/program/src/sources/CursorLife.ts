/** Warns if the request rate is so low that a cursor expires between two pages. */
import { certainIn, Destination } from "@payments/copy"
import { Lists, type PaymentsApi } from "@payments/core"
import { Effect } from "effect"

/**
 * `say` gets a sentence for each list whose cursors expire too early, if that is certain in the destination. The lists are read
 * at the same time, and share the rate.
 */
export const warnOfCursorLife = <R>(
  { maxRequestsPerSecond: rate, source }: PaymentsApi["Service"],
  destination: Destination.Destination | undefined,
  lists: ReadonlyArray<Lists.ListName>,
  say: (sentence: string) => Effect.Effect<void, never, R>
): Effect.Effect<void, never, R> => {
  if (rate === undefined || destination === undefined || !Destination.isStored(destination)) return Effect.void
  const pauseMs = lists.length / rate * 1000
  if (pauseMs < shortestPauseMs) return Effect.void
  const pause = `${Number((pauseMs / 1000).toPrecision(2))} s`
  return Effect.scoped(Effect.gen(function*() {
    const { lifeBounds } = yield* Effect.promise(() => import("@payments/copy/facts"))
    const reader = yield* Destination.reader(destination)
    for (const name of lists) {
      const list = Lists.byName[name]
      const life = (yield* certainIn(reader, list, source))["cursor-life"]
      if (pauseMs < lifeBounds(life).refusedAfterMs) continue
      yield* say(
        `${list.label}: at ${rate} requests per second, two pages are ${pause} apart, but a cursor is accepted for ${life}: ` +
          "the fact cursor-life is certain. Raise max_requests_per_second."
      )
    }
    // Opening the destination for the export says why it cannot be read.
  })).pipe(Effect.ignore)
}

/** No fact says that a cursor lives less. Most exports have shorter pauses, and read no facts. */
const shortestPauseMs = 5000
