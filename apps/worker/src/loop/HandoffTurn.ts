/** When a worker that has lost a hand-off to another program may take it over again. Pure. */
import type { Handoff } from "@payments/copy/handoff"
import { Duration } from "effect"

/** What is stored of a hand-off, and the position of its consumer. */
export interface Progress {
  readonly handoff: Handoff | undefined
  readonly position: number | undefined
  /** The number of the last change. */
  readonly last: number
}

/** Two values that are different if the other program has done anything between them. */
export const progressKey = ({ handoff, position }: Progress): string => JSON.stringify([handoff, position])

/**
 * Is above 0 if another program has taken the hand-off over after `own`, and below 0 if the destination was restored since
 * then: the epochs of a consumer never decrease, and begin again only if it is created again.
 */
export const compareTurns = (
  { createdAt, epoch }: Pick<Handoff, "createdAt" | "epoch">,
  own: Pick<Handoff, "createdAt" | "epoch">
): number => createdAt === own.createdAt ? epoch - own.epoch : Date.parse(createdAt) - Date.parse(own.createdAt)

/** How long the other program may need besides its requests. */
const margin = Duration.seconds(10)

/**
 * Whether the other program seems to have ended: there is something to send, its next attempt is due, and it has done
 * nothing for longer than a request takes. `now` is in milliseconds since 1970, `sinceMs` since its last progress.
 */
export const mayTakeOver = (
  { handoff, last, position }: Progress,
  { now, sinceMs, timeout }: { readonly now: number; readonly sinceMs: number; readonly timeout: Duration.Duration }
): boolean => {
  // The consumer was removed. The settings still name it.
  if (position === undefined || handoff === undefined) return true
  if (handoff.state !== "running" || position >= last) return false
  const patience = Duration.toMillis(timeout) + Duration.toMillis(margin)
  const dueAt = handoff.nextAttemptAt === undefined ? 0 : Date.parse(handoff.nextAttemptAt)
  return sinceMs >= patience && now >= dueAt + patience
}
