/**
 * Reads what a destination knows about its hand-offs, for all senders of a source together: wakes them when there is
 * something new, notes their states for the status page and the metrics, and logs when one stops or goes on.
 */
import type { ConsumerState, Maintenance, SinkError } from "@payments/copy"
import type { Handoff, HandoffAside } from "@payments/copy/handoff"
import { Lists, Monotonic } from "@payments/core"
import { haltAdvice } from "@payments/program"
import type { Source } from "@payments/program/sources"
import { DateTime, Duration, Effect, Latch } from "effect"
import { problemAnnotations } from "../state/Log.ts"
import { inactive, type Status } from "../state/Status.ts"
import { haltedOf, type HandoffState, placeOf } from "../state/StatusSnapshot.ts"

/** Wakes one waiting fiber. A signal that nobody awaits is kept. */
export interface Signal {
  readonly send: () => void
  readonly wait: Effect.Effect<void>
}

export const makeSignal = (): Signal => {
  const latch = Latch.makeUnsafe(false)
  return {
    send: () => void latch.openUnsafe(),
    wait: Effect.andThen(latch.await, Effect.sync(() => void latch.closeUnsafe()))
  }
}

export interface WatchOptions {
  readonly source: Source
  readonly status: Status["Service"]
  /** This process has committed a page. */
  readonly commits: Signal
  /** The signals to the senders, by consumer. */
  readonly wakes: ReadonlyMap<string, Signal>
}

/** The time between two reads of what others may have changed, and the shortest time between two reads. */
const [readInterval, shortestInterval] = [Duration.seconds(1), Duration.millis(50)] as const

/** Never fails: the senders say what is wrong with the destination. */
export const watchHandoffs = (options: WatchOptions, maintenance: Maintenance): Effect.Effect<never> => {
  const { commits, wakes } = options
  const read = makeRead(options, maintenance)
  let [seenRange, readAt] = ["", -Infinity]
  const step = Effect.gen(function*() {
    const range = JSON.stringify(yield* maintenance.changeRange)
    if (range !== seenRange) { for (const { send } of wakes.values()) send() }
    seenRange = range
    const now = yield* Monotonic.millis
    if (now - readAt < Duration.toMillis(readInterval)) return
    readAt = now
    yield* read
  })
  return Effect.forever(
    step.pipe(
      Effect.catch((error) =>
        Effect.annotateLogs(Effect.logDebug("hand-offs cannot be read"), problemAnnotations(error))
      ),
      Effect.andThen(Effect.sleep(shortestInterval)),
      Effect.andThen(Effect.timeoutOption(commits.wait, readInterval))
    )
  )
}

/** Returns an effect that notes the state of each hand-off, and wakes those that somebody else has changed. */
const makeRead = ({ source, status, wakes }: WatchOptions, maintenance: Maintenance) => {
  const keys = new Map<string, string>()
  const withoutAsides = new Set<string>()
  const oldestAt = makeOldestAt(source, maintenance)
  return Effect.gen(function*() {
    const [positions, stored] = [yield* maintenance.consumerStates, yield* maintenance.handoffs]
    const positionOf = (consumer: string) => positions.find(({ name }) => name === consumer)
    const asides = new Map<string, ReadonlyArray<HandoffAside>>()
    for (const { consumer, order } of source.handoffs ?? []) {
      // In a strict order, only what an earlier setting has set aside is left, and nothing follows once there is none.
      if (order !== "per-record" && withoutAsides.has(consumer)) continue
      const found = yield* maintenance.handoffAsides(consumer)
      if (order === "per-record" || found.length > 0) asides.set(consumer, found)
      else withoutAsides.add(consumer)
    }
    for (const [consumer, { send }] of wakes) {
      const handoff = stored.find((one) => one.consumer === consumer)
      const key = JSON.stringify([positionOf(consumer), handoff, asides.get(consumer)])
      if (keys.get(consumer) !== key) send()
      keys.set(consumer, key)
    }
    const found = new Map<string, (before: HandoffState) => HandoffState>()
    const names = new Set([...wakes.keys(), ...stored.map(({ consumer }) => consumer)])
    for (const consumer of names) {
      const position = positionOf(consumer)
      const handoff = stored.find((one) => one.consumer === consumer)
      const at = position === undefined ? undefined : yield* oldestAt(position)
      const now = DateTime.toEpochMillis(yield* DateTime.now)
      const lagSeconds = at === undefined ? 0 : Math.max(0, (now - Date.parse(at)) / 1000)
      const own = asides.get(consumer)
      found.set(consumer, (before) => stateAfter(before, { handoff, position, lagSeconds, asides: own }))
    }
    const changes: Array<readonly [before: HandoffState, after: HandoffState]> = []
    yield* status.update(source.name, (state) => ({
      ...state,
      handoffs: [...found].map(([consumer, change]) => {
        const configured = source.handoffs?.find((one) => one.consumer === consumer)
        const before = state.handoffs.find((one) => one.consumer === consumer) ??
          inactive(consumer, configured?.origin ?? null)
        const after = change(before)
        changes.push([before, after])
        return after
      })
    }))
    yield* Effect.forEach(changes, ([before, after]) => logTransition(source, before, after))
  })
}

/** The state of a hand-off after its destination was read. */
const stateAfter = (
  before: HandoffState,
  { asides, handoff, lagSeconds, position }: {
    readonly handoff: Handoff | undefined
    readonly position: ConsumerState | undefined
    readonly lagSeconds: number
    /** The changes that are set aside. Undefined in a strict order. */
    readonly asides: ReadonlyArray<HandoffAside> | undefined
  }
): HandoffState => ({
  ...before,
  state: before.origin === null ? "removed" : handoff?.state ?? "inactive",
  reason: handoff?.reason ?? null,
  seq: handoff?.state === "waiting" ? handoff.batch?.last ?? null : null,
  position: position?.position ?? null,
  lagChanges: position?.lag ?? null,
  lagSeconds: position === undefined ? null : lagSeconds,
  setAside: asides?.length ?? null,
  undecided: asides === undefined ? null : undecidedOf(asides),
  resentAt: asides?.find(({ nextAttemptAt }) => nextAttemptAt !== undefined)?.nextAttemptAt ?? null,
  attempts: handoff?.batch === undefined ? 0 : handoff.attempts,
  nextAttemptAt: handoff?.nextAttemptAt ?? null
})

/** How many changes wait for a decision, with the later ones of the same records. */
const undecidedOf = (asides: ReadonlyArray<HandoffAside>): number => {
  const recordOf = ({ id, list }: HandoffAside) => `${list} ${id}`
  const refused = new Set(asides.filter(({ isRefused }) => isRefused).map(recordOf))
  return asides.filter((aside) => refused.has(recordOf(aside))).length
}

/** Returns the time of the first change after a position. Reads it once for each position. */
const makeOldestAt = ({ lists }: Source, maintenance: Maintenance) => {
  const known = new Map<string, { readonly position: number; readonly at: string | undefined }>()
  const definitions = lists.map((name) => Lists.byName[name])
  return Effect.fnUntraced(function*(
    { lag, name, position }: ConsumerState
  ): Effect.fn.Return<string | undefined, SinkError> {
    if (lag === 0) return undefined
    const before = known.get(name)
    if (before?.position === position && before.at !== undefined) return before.at
    const [first] = yield* maintenance.changes(position, 1, definitions)
    known.set(name, { position, at: first?.at })
    return first?.at
  })
}

const logTransition = (source: Source, before: HandoffState, after: HandoffState): Effect.Effect<void> => {
  return Effect.andThen(logAsides(source, before, after), logState(source, before, after))
}

const logAsides = (source: Source, before: HandoffState, after: HandoffState): Effect.Effect<void> => {
  const { consumer, resentAt, setAside, state, undecided } = after
  if ((undecided ?? 0) > 0 && (before.undecided ?? 0) === 0) {
    return Effect.annotateLogs(Effect.logError("hand-off sets changes aside, which wait for a decision"), {
      consumer,
      setAside,
      undecided,
      next: `payments handoff list ${placeOf(source)}`
    })
  }
  return state === "running" && (setAside ?? 0) > 0 && undecided === 0 && (before.setAside ?? 0) === 0
    ? Effect.annotateLogs(Effect.logWarning("hand-off sends changes again that are set aside"), {
      consumer,
      setAside,
      resentAt
    })
    : Effect.void
}

const logState = (source: Source, before: HandoffState, after: HandoffState): Effect.Effect<void> => {
  const { answer, consumer, reason, seq, state } = after
  if (before.state === state && before.seq === seq && before.reason === reason) return Effect.void
  const halted = haltedOf(after)
  if (halted !== undefined) {
    const message = state === "waiting" ? "hand-off waits for a decision" : "hand-off stopped"
    const next = haltAdvice(halted, placeOf(source))
    return Effect.annotateLogs(Effect.logError(message), { consumer, reason, seq, answer, next })
  }
  return haltedOf(before) !== undefined && state === "running"
    ? Effect.annotateLogs(Effect.logInfo("hand-off resumed"), { consumer })
    : state === "removed"
    ? Effect.annotateLogs(
      Effect.logWarning("the settings no longer name a consumer, which still keeps changes from being removed"),
      { consumer, next: `payments changes consumers --remove ${consumer} ${placeOf(source)}` }
    )
    : Effect.void
}
