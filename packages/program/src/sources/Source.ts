/** A source: one account of the payments service with its own key, request rate, destination and schedules. */
import type { Destination, PersonalRule, PostgresUrl, ScanOptions } from "@payments/copy"
import type { BatchLimits, HandoffPolicy, Shape, SigningKey, Target } from "@payments/copy/handoff"
import type { Lists, PaymentsConfig, PaymentsConfigError } from "@payments/core"
import type { Array, Cron, Duration, Effect, Redacted } from "effect"
import type { SourceMembers } from "./SourceValues.ts"

/** When a scan or a pass of a list starts. */
export type Schedule =
  | { readonly _tag: "Every"; readonly every: Duration.Duration }
  /** A cron expression with its time zone. */
  | { readonly _tag: "Cron"; readonly cron: Cron.Cron }

/** The hand-off of a source's changes to one consumer. */
export interface SourceHandoff {
  readonly consumer: string
  /** The address without its path and query, which may contain a secret. */
  readonly origin: string
  readonly target: Redacted.Redacted<Target>
  /** Reads the keys that sign, the newest first. They are read again after some seconds. */
  readonly keys: Effect.Effect<Array.NonEmptyReadonlyArray<SigningKey>, PaymentsConfigError>
  /** The absolute path of the file with the keys. Undefined if a variable or a command has them. */
  readonly keyFile: string | undefined
  /** At least one. */
  readonly lists: ReadonlyArray<Lists.AnyList>
  readonly shape: Shape
  readonly limits: BatchLimits
  readonly policy: HandoffPolicy
  readonly order: "strict" | "per-record"
  /** Where a consumer that does not exist yet begins. */
  readonly start: "first" | "now"
}

/** One account of the service, and how its lists are copied. It also has its other settings, such as `maxAge`. */
export interface Source extends SourceMembers {
  /** `[a-z0-9_-]{1,40}`. Without a file, the source of the environment is `default`. */
  readonly name: string
  /** It reads the key file or runs the key command. */
  readonly service: Effect.Effect<PaymentsConfig["Service"], PaymentsConfigError>
  /** {@link PaymentsConfig.sourceOf} of the settings. It reads no key. */
  readonly boundTo: Effect.Effect<string | undefined, PaymentsConfigError>
  readonly to: Destination.StoredDestination | undefined
  /** The database through which all processes that use the key share its request rate. */
  readonly rateLimitStore: PostgresUrl.PostgresUrl | undefined
  /** At least one. */
  readonly lists: ReadonlyArray<Lists.ListName>
  /** Default: every 5 minutes. */
  readonly full: Schedule
  /** Passes over the invoices settled on the last days. */
  readonly window: { readonly days: number; readonly schedule: Schedule } | undefined
  /** Passes from the first page until `pages` pages in a row contain nothing new or changed. */
  readonly head: { readonly pages: number; readonly schedule: Schedule } | undefined
  /** The rule with its key. It reads the key file or runs the key command. */
  readonly personal: Effect.Effect<PersonalRule, PaymentsConfigError>
  /** The consumers to which its changes are sent. */
  readonly handoffs?: ReadonlyArray<SourceHandoff> | undefined
  readonly scan: Pick<ScanOptions, "patience" | "onLocked" | "ignoredFields" | "missingLimit">
}

/** The sources of one file, or the one source of the environment. */
export interface SourceSet {
  /** The absolute path of the file; undefined: the environment. */
  readonly file: string | undefined
  /** The number of full scans and passes that may run at the same time, over all sources. */
  readonly concurrency: number
  /** At least one source, in the order of the file. */
  readonly sources: ReadonlyArray<Source>
}
