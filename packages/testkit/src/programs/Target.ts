/** The port of the destinations of the kill tests. */
import type { Effect, Scope } from "effect"

/** A new, empty destination. */
export interface Target {
  /** The value of `--to`. */
  readonly to: string
  /** Additional environment variables of the program. */
  readonly env: Readonly<Record<string, string>>
  /**
   * The scan and the page at which a scan of payout requests was interrupted; undefined if none was. Read after each
   * kill.
   */
  readonly interruptedAt: Effect.Effect<string | undefined>
  /** The texts of the payout requests in the destination. */
  readonly texts: Effect.Effect<ReadonlyArray<string>>
  /** Deletes a record or truncates a rendered file, without using the program. */
  readonly damage: Effect.Effect<void>
  /** Another process checks the destination while the effect runs. Fails if that sees an inconsistency. */
  readonly whileReading: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

export interface DestinationKind {
  readonly name: string
  /** Whether the short test run includes it. */
  readonly isInShortRun: boolean
  readonly open: Effect.Effect<Target, never, Scope.Scope>
}
