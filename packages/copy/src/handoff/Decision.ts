/**
 * Decides what a sender does next, and what an answer means. Pure: the sender waits, sends and stores.
 *
 * The position of a consumer moves only after a 2xx. Until then the batch in flight stays the same, and nothing behind it
 * is sent. After a refusal (most 4xx), the batch is halved until one change is left, which waits for a decision.
 */
import { Duration } from "effect"
import type { ChangeRange, StoredPosition } from "../port/Generations.ts"
import type { Handoff, HandoffBatch, HandoffReason } from "../store/HandoffStore.ts"

/** What a sender does next. */
export type Step =
  /** Nothing is sent until somebody resumes the hand-off or decides about the refused change. */
  | { readonly _tag: "Halt"; readonly reason: HandoffReason | undefined }
  /** The changes after the position cannot be sent: the destination was restored, or they were removed. */
  | { readonly _tag: "Stop"; readonly reason: "restored" | "removed" }
  /** The batch was accepted before its end was stored. */
  | { readonly _tag: "Settle"; readonly batch: HandoffBatch }
  | { readonly _tag: "Attempt"; readonly batch: HandoffBatch }
  /** There is no batch in flight, somebody has moved the consumer, or other changes are to be sent. */
  | { readonly _tag: "Choose" }

/** Decides the next step of a hand-off, with the consumer's position, and the range and selection of the changes. */
export const nextStep = (
  { batch, reason, state }: Handoff,
  position: StoredPosition,
  { generation, last, pruned, selection }: ChangeRange & Pick<HandoffBatch, "selection">
): Step => {
  if (state !== "running") return { _tag: "Halt", reason }
  if (position.generation !== generation || position.position > last) return { _tag: "Stop", reason: "restored" }
  if (position.position < pruned) return { _tag: "Stop", reason: "removed" }
  if (batch === undefined || batch.generation !== generation) return { _tag: "Choose" }
  if (position.position >= batch.last) return { _tag: "Settle", batch }
  return position.position === batch.after && batch.selection === selection
    ? { _tag: "Attempt", batch }
    : { _tag: "Choose" }
}

/** What came back. The body of an answer is never read. */
export type Answer =
  | { readonly _tag: "Status"; readonly status: number; readonly retryAfter: Duration.Duration | undefined }
  /** The connection failed, or no answer came in time. */
  | { readonly _tag: "NoAnswer"; readonly problem: "timeout" | "connection" | "tls" | "address" }

export interface HandoffPolicy {
  /** A batch is given up if it was not accepted this long after its first attempt. */
  readonly giveUpAfter: Duration.Duration
  /** The upper bound of the first wait. It grows eightfold with each attempt. */
  readonly firstWait: Duration.Duration
  /** The upper bound of every wait, also of one that `Retry-After` asks for. */
  readonly longestWait: Duration.Duration
}

/** Ten attempts in three days on average, because a wait is half of its bound on average. */
export const handoffPolicy: HandoffPolicy = {
  giveUpAfter: Duration.days(3),
  firstWait: Duration.seconds(10),
  longestWait: Duration.hours(36)
}

const growth = 8

/** What an answer means for the batch in flight. */
export type Verdict =
  | { readonly _tag: "Accept" }
  /** The same batch is sent again after the wait, at the latest after {@link HandoffPolicy.longestWait}. */
  | { readonly _tag: "Retry"; readonly wait: Duration.Duration }
  /** The batch is sent in parts. */
  | { readonly _tag: "Halve"; readonly mostChanges: number }
  | { readonly _tag: "Halt"; readonly state: "stopped" | "waiting"; readonly reason: "gone" | "gaveUp" | "refused" }

/**
 * The statuses that no change of the batch has caused, so that a smaller batch would be refused too. A timeout, a request
 * too early and too many requests (408, 425, 429) may pass. The others concern the receiver as a whole: a wrong key or
 * address, or a proxy (401, 403, 404, 405, 407). Halved, they would leave one change that waits, and nobody would see why.
 */
const wholeStatuses = new Set([401, 403, 404, 405, 407, 408, 425, 429])

/** Decides about a batch after an answer. `now`: milliseconds since 1970. `fraction`: a random number from 0 to below 1. */
export const afterAnswer = (
  policy: HandoffPolicy,
  { attempts, batch, firstAttemptAt }: Pick<Handoff, "attempts" | "firstAttemptAt"> & { readonly batch: HandoffBatch },
  answer: Answer,
  { fraction, now }: { readonly fraction: number; readonly now: number }
): Verdict => {
  if (answer._tag === "Status") {
    const { status } = answer
    if (status >= 200 && status < 300) return { _tag: "Accept" }
    // The receiver wants nothing more from this sender.
    if (status === 410) return { _tag: "Halt", state: "stopped", reason: "gone" }
    if (status >= 400 && status < 500 && !wholeStatuses.has(status)) {
      return batch.changes > 1
        ? { _tag: "Halve", mostChanges: Math.ceil(batch.changes / 2) }
        : { _tag: "Halt", state: "waiting", reason: "refused" }
    }
    // Everything else may pass. A redirect is a failure too: following it would send the data to another address.
  }
  const left = millisLeft(policy, { firstAttemptAt }, now)
  if (!(left > 0)) return { _tag: "Halt", state: "stopped", reason: "gaveUp" }
  const longest = Duration.toMillis(policy.longestWait)
  const bound = Math.min(Duration.toMillis(policy.firstWait) * growth ** (attempts - 1), longest)
  const asked = answer._tag === "Status" && answer.retryAfter !== undefined ? Duration.toMillis(answer.retryAfter) : 0
  // The last attempt is at the end of the time, unless the receiver asks for a longer wait.
  const wait = Math.max(Math.min(asked, longest), Math.min(fraction * bound, left))
  return { _tag: "Retry", wait: Duration.millis(wait) }
}

/** How long until a batch is given up. Below 0: its time has passed. */
export const millisLeft = (
  { giveUpAfter }: HandoffPolicy,
  { firstAttemptAt }: Pick<Handoff, "firstAttemptAt">,
  now: number
): number => Date.parse(firstAttemptAt ?? "") + Duration.toMillis(giveUpAfter) - now

const idle = { batch: undefined, attempts: 0, firstAttemptAt: undefined, nextAttemptAt: undefined } as const

/** The state in which a batch is sent for the first time. */
export const begun = (handoff: Handoff, batch: HandoffBatch, now: string): Handoff => ({
  ...handoff,
  batch,
  attempts: 1,
  firstAttemptAt: now,
  nextAttemptAt: undefined
})

/** The state in which the batch in flight is sent again. */
export const repeated = (handoff: Handoff, now: string): Handoff => ({
  ...handoff,
  attempts: handoff.attempts + 1,
  firstAttemptAt: handoff.firstAttemptAt ?? now,
  nextAttemptAt: undefined
})

/** The state after the changes up to a number were accepted, or are not sent. */
export const settled = (handoff: Handoff, through: number): Handoff => {
  const isSuspect = handoff.suspectThrough !== undefined && through < handoff.suspectThrough
  return {
    ...handoff,
    ...idle,
    mostChanges: isSuspect ? handoff.mostChanges : undefined,
    suspectThrough: isSuspect ? handoff.suspectThrough : undefined
  }
}

/** The state after a verdict other than `Accept`. `now`: milliseconds since 1970. */
export const judged = (
  handoff: Handoff,
  verdict: Exclude<Verdict, { readonly _tag: "Accept" }>,
  now: number
): Handoff => {
  switch (verdict._tag) {
    case "Retry":
      return { ...handoff, nextAttemptAt: new Date(now + Math.ceil(Duration.toMillis(verdict.wait))).toISOString() }
    case "Halve":
      return {
        ...handoff,
        ...idle,
        mostChanges: verdict.mostChanges,
        suspectThrough: Math.max(handoff.batch?.last ?? 0, handoff.suspectThrough ?? 0)
      }
    case "Halt":
      return { ...handoff, state: verdict.state, reason: verdict.reason, nextAttemptAt: undefined }
  }
}

/** The state of a hand-off that cannot go on. */
export const stopped = (handoff: Handoff, reason: HandoffReason): Handoff => ({
  ...handoff,
  state: "stopped",
  reason,
  nextAttemptAt: undefined
})

/** The state in which no more changes can be set aside, and the next one would have to be. */
export const waitingFull = (handoff: Handoff): Handoff => ({
  ...handoff,
  state: "waiting",
  reason: "full",
  nextAttemptAt: undefined
})

/** The state after somebody has resumed a hand-off: the same batch is sent again at once, with its whole time. */
export const resumed = (handoff: Handoff): Handoff => ({
  ...handoff,
  state: "running",
  reason: undefined,
  attempts: 0,
  firstAttemptAt: undefined,
  nextAttemptAt: undefined
})

/** The state after there is room for one more change that is set aside. */
export const withRoom = (handoff: Handoff): Handoff => handoff.reason === "full" ? resumed(handoff) : handoff

/** How long a sender waits before the next attempt. A wall clock that was set back does not make it wait for longer. */
export const waitBefore = (
  { longestWait }: HandoffPolicy,
  { nextAttemptAt }: Pick<Handoff, "nextAttemptAt">,
  now: number
): Duration.Duration =>
  Duration.millis(
    nextAttemptAt === undefined
      ? 0
      : Math.min(Math.max(0, Date.parse(nextAttemptAt) - now), Duration.toMillis(longestWait))
  )
