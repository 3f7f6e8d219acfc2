/** What runs a source. */
import type { ListFreshness, Sink, SinkError } from "@payments/copy"
import type { PaymentsApi, PaymentsConfigError } from "@payments/core"
import type { Metrics } from "@payments/program"
import type { Source } from "@payments/program/sources"
import type { Duration, Effect, Layer } from "effect"
import type { Places } from "./Places.ts"

export interface SourceOptions<R> {
  readonly source: Source
  readonly api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>
  readonly open: Layer.Layer<Sink, SinkError, R>
  /** All sources share them. */
  readonly places: Places
  /**
   * Whether the source ends if its settings are wrong, or if its destination cannot be opened and waiting would not
   * help.
   */
  readonly isStrict: boolean
  /** How long a full scan may commit no page. Default: 10 minutes. */
  readonly stallAfter?: Duration.Duration | undefined
  /** Called when the destination is open for the first time, and with each error before that. */
  readonly onStart: (found: Found) => Effect.Effect<void>
  readonly metrics: Metrics["Service"]
}

/** What a source found in its destination, or why it could not be opened. */
export type Found =
  | { readonly destination: string; readonly lists: ReadonlyArray<ListFreshness> }
  | { readonly error: string }
