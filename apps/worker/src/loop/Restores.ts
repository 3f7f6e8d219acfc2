/**
 * Notices that a destination was restored from a backup, or failed over to an older base, while the worker runs. It
 * then shows a lower number of changes than before. The worker remembers the number also while the destination is
 * closed.
 */
import {
  Destination,
  type Generation,
  isLost,
  type KnownChange,
  type ListFreshness,
  type SinkError
} from "@payments/copy"
import type { Source } from "@payments/program/sources"
import { DateTime, Effect } from "effect"

export const logRestored = ({ beganAfter, generation, reason }: Generation, lastKnownChange?: number) =>
  Effect.annotateLogs(
    Effect.logWarning("the destination was restored: consumers of its changes have to say where they stand"),
    { generation, beganAfter, reason, ...(lastKnownChange === undefined ? {} : { lastKnownChange }) }
  )

/**
 * The function is called with what was read from an opened destination, before anything is written. It begins a
 * generation if changes were lost, and returns whether it did.
 */
export const makeRestoreWatch = ({ to }: Pick<Source, "to">) => {
  let known: KnownChange | undefined
  return Effect.fnUntraced(function*(
    lists: ReadonlyArray<Pick<ListFreshness, "generation" | "lastChange">>
  ): Effect.fn.Return<boolean, SinkError> {
    const [found] = lists
    if (to === undefined || found?.generation === undefined) return false
    const { generation, lastChange } = found
    const before = known
    if (before === undefined || (before.generation === generation.generation && lastChange >= before.seq)) {
      known = { generation: generation.generation, seq: lastChange }
      return false
    }
    return yield* Effect.scoped(Effect.gen(function*() {
      const maintenance = yield* Destination.maintenance(to)
      // Two readings may have overtaken each other, so only a new one proves a loss.
      const range = yield* maintenance.changeRange
      const lineage = yield* maintenance.lineage
      const hasLost = isLost(before, lineage, range.last)
      const current = hasLost
        ? (yield* maintenance.beginGeneration({
          reason: "writer",
          instead: range.generation,
          now: DateTime.formatIso(yield* DateTime.now)
        })).at(-1)
        : lineage.at(-1)
      if (current === undefined) return false
      // The lists notice the same loss, each by itself.
      const isLogged = known?.generation === current.generation
      known = { generation: current.generation, seq: range.last }
      if (!isLogged) yield* logRestored(current, before.seq)
      return hasLost
    }))
  })
}
