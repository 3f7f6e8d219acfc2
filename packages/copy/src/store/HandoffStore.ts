/**
 * How far the hand-off of changes to a consumer is. One sender at a time may change it: a sender that takes it over
 * increases the epoch, and every later change by an earlier sender is refused. The position is that of the consumer.
 */
import type { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { ConsumerMove, ConsumerMoved } from "./ConsumerMove.ts"

/** The boundary of a batch. It is stored before the first attempt, so that every attempt sends the same changes. */
export interface HandoffBatch {
  readonly generation: string
  /** The last change before the batch: from there to its first change, nothing is sent. */
  readonly after: number
  /** The numbers of its first and last change. Between them are only changes of its list, or changes that are not sent. */
  readonly first: number
  readonly last: number
  /** The list's name, as on the command line. */
  readonly list: string
  /** The number of its changes. */
  readonly changes: number
  /** Which lists and kinds of changes were sent then. With other ones, it would leave changes out. */
  readonly selection: string
  /** A random text, from which its id is made together with what is sent. */
  readonly nonce: string
  readonly storedAt: string
  /** When the last complete scan of the list had begun; undefined before the first. */
  readonly scannedAt: string | undefined
}

/**
 * Why nothing is sent. `gone`: the receiver wants no more (410). `gaveUp`: it has not accepted the batch for too long.
 * `restored`: the destination was restored, so the consumer has to say where it stands. `removed`: changes after
 * its position were removed. `refused`: the receiver refuses one change, which waits for a decision. `full`: as many
 * changes are set aside as are allowed.
 */
export type HandoffReason = "gone" | "gaveUp" | "restored" | "removed" | "refused" | "full"

/** What is stored for a consumer. */
export interface Handoff {
  readonly consumer: string
  /** When the consumer was created. If it is removed and created again, its epochs begin again too. */
  readonly createdAt: string
  readonly epoch: number
  readonly state: "running" | "stopped" | "waiting"
  /** Undefined while it is running. */
  readonly reason: HandoffReason | undefined
  /** The batch in flight. */
  readonly batch: HandoffBatch | undefined
  /** The attempts of the batch in flight, the running one included. */
  readonly attempts: number
  readonly firstAttemptAt: string | undefined
  /** Undefined: at once. */
  readonly nextAttemptAt: string | undefined
  /** After a refusal: the most changes of a batch, until the refused ones were accepted. */
  readonly mostChanges: number | undefined
  /** The last change of the batch that was refused. */
  readonly suspectThrough: number | undefined
}

/** A change that is sent later than the ones after it. Its text stays in `changes`, which keep it. */
export interface HandoffAside
  extends Pick<HandoffBatch, "generation" | "list" | "selection" | "nonce" | "storedAt" | "scannedAt">
{
  readonly seq: number
  /** The id of its record. Later changes of the record wait for it. */
  readonly id: string
  /**
   * Whether somebody has to decide about it: the receiver refuses it, or has not accepted it for too long. Otherwise it
   * waits for an earlier change of its record, or is sent again.
   */
  readonly isRefused: boolean
  /** Its attempts since it was refused or somebody resumed the hand-off. */
  readonly attempts: number
  readonly firstAttemptAt: string | undefined
  /** Undefined: at once. */
  readonly nextAttemptAt: string | undefined
}

/** A change that was just set aside. */
export const untried = { attempts: 0, firstAttemptAt: undefined, nextAttemptAt: undefined } as const

/** A change that is not handed off, because somebody has decided so. */
export interface HandoffSkip {
  readonly generation: string
  readonly seq: number
  readonly reason: string
  readonly by: string
  readonly at: string
}

/** A change of what is stored. It is one transaction. */
export interface HandoffChange {
  readonly consumer: string
  /** That of a sender. Undefined for a person's decision, which every sender has to respect. */
  readonly epoch: number | undefined
  /** When the consumer was created that the sender knows. Undefined: any. */
  readonly createdAt?: string | undefined
  /**
   * Undefined: nothing is changed. May be called again if the connection is lost. A `batch` without its stored boundary is
   * stored.
   */
  readonly change: (stored: Handoff) => Handoff | undefined
  /** If the consumer cannot be moved, nothing is changed. */
  readonly move?: ConsumerMove | undefined
  /** The position that the sender knows. If somebody has moved the consumer back from it, nothing is changed. */
  readonly from?: number | undefined
  /** Batches that are sent later. A sender stores their boundaries before the first attempt of each. */
  readonly boundaries?: ReadonlyArray<HandoffBatch> | undefined
  readonly skip?: HandoffSkip | undefined
  /** Sets changes aside, or changes whether those with attempts or a refusal are refused, and when they are sent again. */
  readonly asides?: ReadonlyArray<HandoffAside> | undefined
  /**
   * Removes a change from those that are set aside: it was accepted, or somebody has decided not to send it. With a `skip`,
   * nothing is changed unless it still is set aside and refused.
   */
  readonly settledAside?: Pick<HandoffAside, "generation" | "seq"> | undefined
  /** Sends all changes again that are set aside. */
  readonly retriesAsides?: boolean | undefined
  /** Removes the boundaries of the batches after this change: one of theirs may belong to a record that waits now. */
  readonly forgetAfter?: number | undefined
}

export interface HandoffChanged {
  /**
   * What is stored after the call. Undefined if another sender has taken the hand-off over, or there is none: nothing was
   * changed.
   */
  readonly handoff: Handoff | undefined
  /** What became of the {@link HandoffChange.move}. Undefined if nothing was changed. */
  readonly moved: ConsumerMoved | undefined
}

export interface HandoffStore {
  /** The hand-offs, by consumer. None in a destination of an earlier version. */
  readonly handoffs: Effect.Effect<ReadonlyArray<Handoff>, SinkError>
  /** Takes the hand-off of an existing consumer over. Its state stays. */
  readonly takeOverHandoff: (consumer: string) => Effect.Effect<Handoff, SinkError>
  readonly changeHandoff: (change: HandoffChange) => Effect.Effect<HandoffChanged, SinkError>
  /** Returns the first stored boundaries of a selection that begin after a change. They are sent again in a replay. */
  readonly handoffBatches: (
    consumer: string,
    from: Pick<HandoffBatch, "generation" | "after" | "selection"> & { readonly count: number }
  ) => Effect.Effect<ReadonlyArray<HandoffBatch>, SinkError>
  /** The changes that are set aside, in the order of their numbers. */
  readonly handoffAsides: (consumer: string) => Effect.Effect<ReadonlyArray<HandoffAside>, SinkError>
  /** In the order of their numbers. */
  readonly handoffSkips: (consumer: string) => Effect.Effect<ReadonlyArray<HandoffSkip>, SinkError>
}
