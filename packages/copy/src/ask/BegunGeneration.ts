/** The generation that scans of a program began: their destination was restored from a backup, or failed over. */
import { Lists } from "@payments/core"
import { Effect } from "effect"
import type { Generation } from "../port/Generations.ts"
import type { Sink } from "../port/Sink.ts"

/** Returns the generation that a restore or a failover began at `startedAt` (ISO 8601 in UTC) or later. */
export const generationSince = Effect.fnUntraced(function*(
  { inspect }: Pick<Sink["Service"], "inspect">,
  startedAt: string
): Effect.fn.Return<Generation | undefined> {
  if (inspect === undefined) return undefined
  // If the destination has failed since, the scans report that.
  const [found] = yield* Effect.orElseSucceed(inspect.freshness([Lists.invoices]), () => [])
  const generation = found?.generation
  return generation === undefined || generation.reason === "first" || generation.beganAt < startedAt
    ? undefined
    : generation
})
