/**
 * Limits how many runs are active at the same time, over all sources. A run gives its place up while it waits for its service,
 * while no page arrives, and after its turn if other runs wait. So a source that is slow, stalls or has millions of records does
 * not keep the others from running.
 */
import { Monotonic } from "@payments/core"
import { Effect } from "effect"

/** How long a run without a committed page keeps its place. */
const idleMs = 2000
/** How long a run keeps its place while others wait. */
const turnMs = 5000

/** The place of one run. */
export interface Place {
  /** Call it after each committed page. Waits for a place if the run has given its place up, or if its turn has ended. */
  readonly onCommit: Effect.Effect<void>
  /** Gives the place up until the next commit. */
  readonly onWait: Effect.Effect<void>
  /** Whether the run waits for a place. */
  readonly isQueued: Effect.Effect<boolean>
}

/** The places for active runs. */
export interface Places {
  /** Runs the effect as soon as there is a place. */
  readonly run: <A, E, R>(effect: (place: Place) => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly resize: (count: number) => void
}

/** Makes this number of places. The runs that wait for one get it in their order. */
export const makePlaces = (initialCount: number): Places => {
  let count = initialCount
  /** Below 0 while more runs are active than there are places now. */
  let free = count
  const queue = new Set<() => void>()
  const take = Effect.callback<void>((resume) => {
    if (free > 0) {
      free--
      return resume(Effect.void)
    }
    const next = () => resume(Effect.void)
    queue.add(next)
    return Effect.sync(() => void queue.delete(next))
  })
  const giveBack = () => {
    free++
    fill()
  }
  const fill = () => {
    for (const next of queue) {
      if (free <= 0) return
      free--
      queue.delete(next)
      next()
    }
  }

  return {
    resize: (next) => {
      free += next - count
      count = next
      fill()
    },
    run: (effect) =>
      Effect.suspend(() => {
        let state: "held" | "free" | "queued" = "free"
        let since = 0
        let committed = 0
        const acquire = Effect.suspend(() => {
          state = "queued"
          return take.pipe(
            Effect.andThen(Monotonic.millis),
            Effect.map((now) => {
              state = "held"
              since = now
              committed = now
            }),
            Effect.onInterrupt(() => Effect.sync(() => void (state = "free")))
          )
        })
        const release = Effect.sync(() => {
          if (state !== "held") return
          state = "free"
          giveBack()
        })
        const watch = Effect.forever(
          Effect.andThen(
            Effect.sleep(idleMs / 2),
            Effect.flatMap(Monotonic.millis, (now) => now - committed >= idleMs ? release : Effect.void)
          )
        )
        const place: Place = {
          onCommit: Effect.flatMap(Monotonic.millis, (now) => {
            committed = now
            if (state === "held" && (queue.size === 0 || now - since < turnMs)) return Effect.void
            return Effect.andThen(release, acquire)
          }),
          onWait: release,
          isQueued: Effect.sync(() => state === "queued")
        }
        return acquire.pipe(
          Effect.andThen(Effect.suspend(() => Effect.raceFirst(effect(place), watch))),
          Effect.ensuring(release)
        )
      })
  }
}
