/**
 * Lets passes interrupt the full scan of a list at a page boundary. While a pass waits or runs, the full scan requests no
 * further page. A pass starts when all pages that the full scan has requested are committed or discarded. So a full
 * scan reads every page wholly before or wholly after a pass. An older page never overwrites what a pass has read since.
 */
import { Effect, Latch } from "effect"

export interface PageGate {
  /** Whether a pass waits or runs. */
  readonly hasPass: () => boolean
  /** Waits while a pass waits or runs, then counts a page as requested. */
  readonly request: Effect.Effect<void>
  /** Counts pages as committed. The last page of a list stays requested until {@link PageGate.clear}. */
  readonly commit: (pages: number) => void
  /** Lets the full scan request the pages that its merchant guard needs to decide, even if a pass waits. */
  readonly requireMore: () => void
  /** Discards the remaining requested pages, because the reading of pages or the whole full scan has ended. */
  readonly clear: () => void
  /** Runs a pass as soon as the full scan has committed its pages. */
  readonly withPass: <A, E, R>(pass: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

export const makePageGate = (): PageGate => {
  /** Open while the full scan may request pages. */
  const mayRequest = Latch.makeUnsafe(true)
  /** Open while no page is requested and not committed. */
  const isIdle = Latch.makeUnsafe(true)
  let requested = 0
  let passes = 0
  let mustContinue = false
  const update = () => {
    if (passes === 0 || mustContinue) mayRequest.openUnsafe()
    else mayRequest.closeUnsafe()
    if (requested === 0) isIdle.openUnsafe()
    else isIdle.closeUnsafe()
  }
  const addPasses = (count: number) =>
    Effect.sync(() => {
      passes += count
      update()
    })
  const request: Effect.Effect<void> = Effect.suspend(() => {
    if (passes > 0 && !mustContinue) return Effect.flatMap(mayRequest.await, () => request)
    requested++
    update()
    return Effect.void
  })
  return {
    hasPass: () => passes > 0,
    request,
    commit: (pages) => {
      requested = Math.max(0, requested - pages)
      mustContinue = false
      update()
    },
    requireMore: () => {
      mustContinue = true
      update()
    },
    clear: () => {
      requested = 0
      mustContinue = false
      update()
    },
    withPass: (pass) =>
      Effect.acquireUseRelease(
        addPasses(1),
        () => Effect.andThen(isIdle.await, pass),
        () => addPasses(-1)
      )
  }
}
