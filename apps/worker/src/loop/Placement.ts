/** Decides whether this process runs a source. */
import type { SinkError } from "@payments/copy"
import type { CommandExit } from "@payments/program"
import type { Source } from "@payments/program/sources"
import { Effect } from "effect"

export interface Placement {
  /** Runs the loop here, when and while this process should. Ends when the loop ends by itself. */
  readonly run: <R>(source: Source, loop: Effect.Effect<void, never, R>) => Effect.Effect<void, never, R>
  /** Fails if this process can never run a source. */
  readonly failed: Effect.Effect<never, SinkError | CommandExit>
  /** Hands over all sources. It takes a few seconds at most. */
  readonly close: Effect.Effect<void>
}

export const here: Placement = { run: (_, loop) => loop, failed: Effect.never, close: Effect.void }
