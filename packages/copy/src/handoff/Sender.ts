/**
 * Hands the changes of a destination to one consumer: a batch at a time, in the order of their numbers. The boundary of a
 * batch is stored before its first attempt. The position is stored after several batches were accepted, at the latest after
 * a second, so a kill at any moment repeats these batches at most. Of two senders, the later one goes on: the earlier one
 * ends within a second, and stores nothing more.
 *
 * While a request is in flight, the next batches are read and their boundaries stored, so that neither takes time of its
 * own. What was read a second ago is read again before it is sent, because it may have been erased.
 *
 * Waits are monotonic. Only a sender that starts reads when the next attempt is due from the wall clock.
 */
import { Monotonic } from "@payments/core"
import { DateTime, Duration, Effect } from "effect"
import { type ChangeRange, isShared, type StoredPosition } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff, HandoffAside, HandoffBatch } from "../store/HandoffStore.ts"
import { asidesOf } from "./Asides.ts"
import { batchLimits, isSent, selectionOf } from "./Body.ts"
import {
  begun,
  type HandoffPolicy,
  handoffPolicy,
  millisLeft,
  nextStep,
  repeated,
  settled,
  stopped,
  type Verdict,
  waitBefore,
  waitingFull,
  withRoom
} from "./Decision.ts"
import { deliver } from "./Delivery.ts"
import { makeLossAt } from "./Loss.ts"
import { makeScannedAt, prepare, read } from "./Preparation.ts"
import {
  attempt,
  beginAfterLoss,
  change,
  changeAndMove,
  HandoffTakenOver,
  type Sender,
  type SenderOptions
} from "./Sending.ts"
import { makeSigner } from "./Signature.ts"

export { type Attempted, HandoffTakenOver, type SenderOptions } from "./Sending.ts"

/** How often a sender looks for new changes, and for a decision about a hand-off that stands still. */
const [pollChanges, pollDecision] = [Duration.millis(200), Duration.seconds(1)] as const

/** Returns the state in which nothing more is to be sent. With `isFollowing`, it never returns. */
export const handOff = Effect.fn("Handoff.send")(function*(
  options: SenderOptions
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  const { consumer, limits = batchLimits, lists, maintenance, policy = handoffPolicy, shape } = options
  let handoff = yield* maintenance.takeOverHandoff(consumer)
  const [selection, scannedAt] = [selectionOf(shape, lists), makeScannedAt(options)]
  const { createdAt, epoch } = handoff
  const lossAt = options.lossAt ?? makeLossAt()
  const taken = { ...options, limits, policy, createdAt, epoch, selection, scannedAt, lossAt, signer: makeSigner() }
  const { dueIn, forgetAsides, sendAsides } = yield* makeSteps(options, policy, handoff)
  for (;;) {
    // A sender that waits must keep no text in memory that may be erased.
    taken.signer.forget()
    const setAside = yield* maintenance.handoffAsides(consumer)
    const sender: Sender = { ...taken, asides: asidesOf(setAside) }
    // In this order, the position is in the range unless changes were lost.
    const position = yield* positionOf(sender)
    const range = yield* maintenance.changeRange
    const lost = lossAt(position, range)
    if (lost !== undefined) {
      // In the generation that this begins, the stored position counts no more.
      yield* beginAfterLoss(sender, lost)
      continue
    }
    const step = nextStep(handoff, position, { ...range, selection })
    // What is set aside is sent again also if no more can be set aside.
    const isSending = step._tag === "Halt" ? step.reason === "full" : step._tag !== "Stop"
    const forgotten = isSending ? yield* forgetAsides(sender, setAside) : undefined
    if (forgotten !== undefined) {
      handoff = forgotten
      continue
    }
    const { due } = isSending ? sender.asides : asidesOf([])
    const resent = yield* sendAsides(sender, due)
    if (resent !== undefined) {
      handoff = resent
      continue
    }
    switch (step._tag) {
      case "Halt":
        if (!options.isFollowing) return handoff
        yield* (due.length === 0 ? options.untilWoken : undefined) ?? Effect.sleep(pollDecision)
        handoff = yield* change(sender, () => undefined)
        break
      case "Stop":
        handoff = yield* change(sender, (stored) => stopped(stored, step.reason))
        break
      case "Settle":
        handoff = yield* change(sender, (stored) => settled(stored, step.batch.last))
        break
      case "Attempt": {
        const wait = yield* dueIn(handoff)
        yield* Effect.sleep(Duration.min(wait, pollDecision))
        // Meanwhile somebody may have resumed it, or moved the consumer.
        handoff = Duration.isGreaterThan(wait, pollDecision)
          ? yield* change(sender, () => undefined)
          : yield* repeat(sender, step.batch, position.position)
        break
      }
      case "Choose": {
        const next = yield* begin(sender, handoff, position.position, range)
        if (next === undefined && !options.isFollowing && due.length === 0) return handoff
        // No signal says when a change that is set aside is due again.
        if (next === undefined) {
          yield* (due.length === 0 ? options.untilWoken : undefined) ?? changesAfter(sender, range)
        } else handoff = next
      }
    }
  }
})

/** What a sender remembers about its waits and about changes that are set aside. */
const makeSteps = Effect.fnUntraced(function*(
  { consumer, maintenance }: SenderOptions,
  policy: HandoffPolicy,
  handoff: Handoff
) {
  const earlier = new Set(
    [handoff, ...yield* maintenance.handoffAsides(consumer)].flatMap(({ nextAttemptAt = [] }) => nextAttemptAt)
  )
  return {
    dueIn: makeDueIn(policy, earlier),
    forgetAsides: makeForgetAsides(),
    sendAsides: makeSendAsides(makeDueIn(policy, earlier))
  }
})

const positionOf = ({ consumer, maintenance }: Sender): Effect.Effect<StoredPosition, SinkError | HandoffTakenOver> =>
  Effect.flatMap(maintenance.consumerStates, (states) => {
    const found = states.find(({ name }) => name === consumer)
    return found === undefined ? Effect.fail(new HandoffTakenOver({ consumer })) : Effect.succeed(found)
  })

/** Waits for later changes, but not for longer than a second: somebody may move the consumer. */
const changesAfter = Effect.fnUntraced(function*(
  { maintenance }: Sender,
  { generation, last }: ChangeRange
): Effect.fn.Return<void, SinkError> {
  const start = yield* Monotonic.millis
  for (;;) {
    yield* Effect.sleep(pollChanges)
    const now = yield* maintenance.changeRange
    if (now.last !== last || now.generation !== generation) return
    if ((yield* Monotonic.millis) - start >= Duration.toMillis(pollDecision)) return
  }
})

/** Prepares, stores and sends the next batch, and those after it while they are accepted. Returns undefined without one. */
const begin = Effect.fnUntraced(function*(
  sender: Sender,
  { mostChanges }: Handoff,
  position: number,
  { generation, last }: ChangeRange
): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
  // A destination without generations has no hand-offs.
  if (generation === undefined) return undefined
  const none = { previous: undefined, repeatsFrom: 0, kept: undefined }
  const wanted = { ...none, after: position, generation, last, mostChanges, count: 1 }
  const { held, isFull, ready: [first], through } = yield* prepare(sender, wanted)
  if (first === undefined) {
    // A batch in flight is of another selection: it counts no more.
    const full = (stored: Handoff) => ({ ...waitingFull(stored), batch: undefined })
    if (through === position) return isFull ? yield* change(sender, full) : undefined
    const move = { position: through, generation, from: position, asides: held }
    return (yield* changeAndMove(sender, { ...move, change: (stored) => settled(stored, through) })).handoff
  }
  const now = DateTime.formatIso(yield* DateTime.now)
  const begunNow = yield* change(
    sender,
    // Somebody may have stopped it meanwhile.
    (stored) => stored.state === "running" ? begun(stored, first.batch, now) : undefined,
    { asides: held }
  )
  return yield* deliver(sender, begunNow, first, position)
})

/** Sends the batch in flight again. */
const repeat = Effect.fnUntraced(function*(
  sender: Sender,
  batch: HandoffBatch,
  position: number
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  const at = DateTime.formatIso(yield* DateTime.now)
  const stored = yield* change(sender, (before) => before.state === "running" ? repeated(before, at) : undefined)
  return yield* deliver(sender, stored, yield* read(sender, batch), position)
})

/**
 * Returns a function that forgets changes which were set aside and are not to be sent any more: the destination has lost
 * them, or the settings no longer name their list or kind. It returns what is stored then, or undefined if there were none.
 */
const makeForgetAsides = () => {
  // The settings of a sender do not change, so it reads the kind of each change once.
  const kept = new Set<string>()
  return Effect.fnUntraced(function*(
    sender: Sender,
    setAside: ReadonlyArray<HandoffAside>
  ): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
    if (setAside.length === 0) return undefined
    const lineage = yield* sender.maintenance.lineage
    let handoff: Handoff | undefined
    for (const aside of setAside) {
      const { list, nonce, selection } = aside
      const isKnown = isShared(lineage, aside) && sender.lists.some(({ label }) => label === list)
      if (isKnown && (selection === sender.selection || kept.has(nonce) || (yield* hasSentKind(sender, aside)))) {
        if (selection !== sender.selection) kept.add(nonce)
      } else handoff = yield* change(sender, withRoom, { settledAside: aside })
    }
    return handoff
  })
}

/** Whether changes of this kind are sent. A change whose text was removed is not forgotten: somebody has to decide. */
const hasSentKind = Effect.fnUntraced(function*(
  { lists, maintenance, shape }: Sender,
  { list, seq }: HandoffAside
): Effect.fn.Return<boolean, SinkError> {
  const [row] = yield* maintenance.changes(seq - 1, 1, lists.filter(({ label }) => label === list))
  return row?.seq !== seq || isSent(shape, row)
})

/**
 * Returns a function that sends changes which were set aside, each in a request of its own. It returns what is stored
 * then, or undefined if it sent nothing. While one of them waits for its next attempt, so do the others: the receiver does
 * not answer. All other changes go on.
 */
const makeSendAsides = (dueIn: ReturnType<typeof makeDueIn>) =>
  Effect.fnUntraced(function*(
    given: Sender,
    due: ReadonlyArray<HandoffAside>
  ): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
    const waiting = due.find(({ nextAttemptAt }) => nextAttemptAt !== undefined)
    if (waiting !== undefined && !Duration.isZero(yield* dueIn(waiting))) return undefined
    const sender: Sender = { ...given, asides: asidesOf([]) }
    let handoff: Handoff | undefined
    for (const aside of due) {
      const firstAttemptAt = aside.firstAttemptAt ?? DateTime.formatIso(yield* DateTime.now)
      const tried = { ...aside, attempts: aside.attempts + 1, firstAttemptAt, nextAttemptAt: undefined }
      const ready = yield* read(sender, batchOf(aside))
      // Without its text, somebody has to decide.
      const verdict: Verdict = ready.firstId === aside.id
        ? yield* attempt(sender, tried, ready)
        : { _tag: "Halt", state: "waiting", reason: "refused" }
      if (verdict._tag === "Retry") {
        const nextMs = DateTime.toEpochMillis(yield* DateTime.now) + Math.ceil(Duration.toMillis(verdict.wait))
        const asides = [{ ...tried, nextAttemptAt: new Date(nextMs).toISOString() }]
        return yield* change(sender, (stored) => stored, { asides })
      }
      const isGone = verdict._tag === "Halt" && verdict.reason === "gone"
      handoff = yield* change(
        sender,
        (stored) => isGone ? stopped(stored, "gone") : verdict._tag === "Accept" ? withRoom(stored) : stored,
        verdict._tag === "Accept" ? { settledAside: aside } : { asides: [{ ...tried, isRefused: !isGone }] }
      )
      if (handoff.state !== "running") return handoff
    }
    return handoff
  })

const batchOf = (
  { generation, list, nonce, scannedAt, selection, seq, storedAt }: HandoffAside
): HandoffBatch => ({
  generation,
  list,
  nonce,
  scannedAt,
  selection,
  storedAt,
  after: seq - 1,
  first: seq,
  last: seq,
  changes: 1
})

/**
 * Returns how long it is until the next attempt. The wall clock counts only when the time of an attempt is first seen.
 * `earlier`: the times that another sender has chosen. It may have had longer to go on before it gave up.
 */
const makeDueIn = (
  policy: HandoffPolicy,
  earlier: ReadonlySet<string>
): (handoff: Pick<Handoff, "firstAttemptAt" | "nextAttemptAt">) => Effect.Effect<Duration.Duration> => {
  let seen: { readonly nextAttemptAt: string | undefined; readonly dueMs: number } | undefined
  return Effect.fnUntraced(function*(handoff) {
    const { nextAttemptAt } = handoff
    const nowMs = yield* Monotonic.millis
    if (seen === undefined || seen.nextAttemptAt !== nextAttemptAt) {
      const now = DateTime.toEpochMillis(yield* DateTime.now)
      const isEarlier = nextAttemptAt !== undefined && earlier.has(nextAttemptAt)
      const most = isEarlier ? millisLeft(policy, handoff, now) : Infinity
      seen = { nextAttemptAt, dueMs: nowMs + Math.min(Duration.toMillis(waitBefore(policy, handoff, now)), most) }
    }
    return Duration.millis(Math.max(0, seen.dueMs - nowMs))
  })
}
