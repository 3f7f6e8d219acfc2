/** Which runner has which source. This is only an observation, which people read. The cluster decides nothing by it. */
import type { ClusterSettings } from "@payments/export/sources"
import { Context, Effect, Layer } from "effect"

/** The runner that ran a source last. */
export interface Owner {
  readonly source: string
  readonly runner: string
  /** When it began, ISO 8601 UTC. */
  readonly since: string
  /** How many times another runner has taken the source over. */
  readonly takeovers: number
}

/** The runners that have the sources. */
export class Owners extends Context.Service<Owners, {
  /** Notes that this runner has the source now. Returns the runner that had it before, if one is known. */
  readonly noteOwner: (source: string) => Effect.Effect<string | undefined>
  readonly owners: Effect.Effect<ReadonlyArray<Owner>>
}>()("@payments/worker/Owners") {
  static readonly layer = (_settings: ClusterSettings) =>
    Layer.succeed(Owners, { noteOwner: () => Effect.undefined, owners: Effect.succeed([]) })
}
