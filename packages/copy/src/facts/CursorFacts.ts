/**
 * How long a cursor is accepted. Nothing waits for it: a cursor that an earlier page of the round has given is sent at the end
 * of the round, and one that an earlier run has kept is sent in a later run.
 */
import { DateTime, Duration, Effect } from "effect"
import { add, type Evidence, maxObservations, type Observation } from "../port/Judgement.ts"
import { type Ask, cursorOf, idsOf, notObserved, pageOf, pageOrRefusal, type Parameters } from "./Ask.ts"
import { type Fact, observed } from "./Fact.ts"
import { keptWith } from "./KeptCursor.ts"

/** A bound of the answers. They are few, so that an answer is the same from run to run. */
export interface LifeStep {
  readonly text: string
  readonly ms: number
}

const hour = 3_600_000

const lifeSteps: ReadonlyArray<LifeStep> = [
  { text: "5 s", ms: 5000 },
  { text: "10 s", ms: 10_000 },
  { text: "1 min", ms: 60_000 },
  { text: "10 min", ms: 600_000 },
  { text: "1 h", ms: hour },
  { text: "6 h", ms: 6 * hour },
  { text: "1 day", ms: 24 * hour },
  { text: "3 days", ms: 3 * 24 * hour },
  { text: "7 days", ms: 7 * 24 * hour },
  { text: "30 days", ms: 30 * 24 * hour }
]

/** The bounds that an answer gives, in milliseconds. */
export interface LifeBounds {
  /** A cursor of this age is accepted; 0 if that is not known. */
  readonly acceptedAfterMs: number
  /** A cursor of this age is refused; infinite if that is not known. */
  readonly refusedAfterMs: number
}

/** Returns a life that gives the answer, in milliseconds. Undefined if a cursor need not end. */
export const lifeWith = (answer: string): number | undefined => {
  const { acceptedAfterMs, refusedAfterMs } = lifeBounds(answer)
  if (!Number.isFinite(refusedAfterMs)) return undefined
  return acceptedAfterMs || (lifeSteps.findLast(({ ms }) => ms < refusedAfterMs)?.ms ?? refusedAfterMs / 2)
}

export const lifeBounds = (answer: string | undefined, steps = lifeSteps): LifeBounds => {
  const [, atLeast, between, and, lessThan] = /^(?:at least (.+)|between (.+) and (.+)|less than (.+))$/.exec(
    answer ?? ""
  ) ?? []
  const msOf = (name: string | undefined) => steps.find(({ text }) => text === name)?.ms
  return {
    acceptedAfterMs: msOf(atLeast ?? between) ?? 0,
    refusedAfterMs: msOf(lessThan ?? and) ?? Number.POSITIVE_INFINITY
  }
}

/** Tests give shorter steps. */
export const cursorLife = (steps: ReadonlyArray<LifeStep> = lifeSteps): Fact => ({
  name: keptWith,
  section: "§4.4.4",
  question: "How long is a cursor accepted?",
  isLast: true,
  add: addBound(steps),
  isDue: ({ earlier }, { accepted }, now) => {
    const kept = earlier()
    if (kept === undefined) return false
    const age = now - kept.between[1]
    const { acceptedAfterMs, refusedAfterMs } = lifeBounds(accepted, steps)
    return age < refusedAfterMs && steps.some(({ ms }) => ms <= age && ms > acceptedAfterMs)
  },
  observe: (ask) => observeLife(steps, ask)
})

/** No other request has this limit, so no page but the one that is kept has its cursor, and no other request sends it. */
const keptLimit = { limit: "7" }

/** Keeps a cursor of the list for later runs, unless there is one. */
export const keepCursor = Effect.fnUntraced(function*(ask: Ask) {
  const { keeper } = ask
  if (keeper === undefined || keeper.hasOne()) return
  const page = yield* pageOf(ask, keptLimit, "send")
  const cursor = cursorOf(page)
  if (typeof cursor === "string" && cursor !== "") yield* keeper.keep({ cursor, between: page.between, use: "none" })
})

const observeLife = Effect.fnUntraced(function*(steps: ReadonlyArray<LifeStep>, ask: Ask) {
  const { keeper } = ask
  const kept = keeper?.earlier()
  if (keeper === undefined || kept === undefined) return yield* fromUnused(steps, ask)
  const { between, cursor } = kept
  if (kept.use === "none") yield* keeper.keep({ ...kept, use: "sent" })
  const old: OldCursor = { cursor, between, own: [], parameters: keptLimit, others: { limit: "2" } }
  const found = yield* tryCursor(steps, ask, old)
  // A service may accept a cursor once only. Then a later refusal would show nothing about its age.
  const isRepeatable = kept.use === "repeatable" || !found.isAccepted ||
    (yield* pageOrRefusal(ask.send({ ...keptLimit, cursor }))).page !== undefined
  yield* keeper.keep(found.isAccepted && isRepeatable ? { ...kept, use: "repeatable" } : undefined)
  return found
})

const fromUnused = Effect.fnUntraced(function*(steps: ReadonlyArray<LifeStep>, ask: Ask) {
  const [oldest] = [...ask.unused.values()].toSorted((one, other) => one.lastAt - other.lastAt)
  if (oldest === undefined) return yield* notObserved("no page has a cursor that was not sent yet")
  const { cursor, lastAt, page, parameters } = oldest
  const between = [page.between[0], lastAt] as const
  return yield* tryCursor(steps, ask, { cursor, between, own: idsOf(page), parameters, others: parameters })
})

interface OldCursor {
  readonly cursor: string
  /** When the first page that had it was requested, and when the last one was complete. */
  readonly between: readonly [number, number]
  /** The records of its page, if they are known. */
  readonly own: ReadonlyArray<unknown>
  readonly parameters: Parameters
  /** The parameters of a page with a new cursor. */
  readonly others: Parameters
}

const tryCursor = Effect.fnUntraced(function*(steps: ReadonlyArray<LifeStep>, ask: Ask, old: OldCursor) {
  const { between, cursor, others, own, parameters } = old
  const age = DateTime.toEpochMillis(yield* DateTime.now) - between[1]
  const [first] = steps
  if (first === undefined || age < first.ms) {
    return yield* notObserved(`this run has no cursor that is older than ${first?.text ?? "any"}`)
  }
  const late = yield* pageOrRefusal(ask.send({ ...parameters, cursor }))
  const fresh = yield* pageOf(ask, others, "send")
  const [ids, firstIds] = [idsOf(late), idsOf(fresh)]
  // A service may answer with the first page instead of a refusal.
  if (late.page !== undefined && (ids.length === 0 || ids[0] !== firstIds[0])) {
    if (ids.length === 0 || overlap(ids, own) || overlap(ids, firstIds)) {
      return yield* notObserved("the list changed in between")
    }
    const atLeast = steps.findLast(({ ms }) => ms <= late.between[0] - between[1]) ?? first
    const seen = `accepted after ${seconds(late.between[0] - between[1])}`
    return { ...observed(`at least ${atLeast.text}`, seen), isAccepted: true }
  }
  // If a new cursor is not accepted either, the age is not the reason.
  const next = cursorOf(fresh)
  if (typeof next !== "string") return yield* notObserved("the list has one page now")
  const after = yield* pageOf(ask, { ...others, cursor: next }, "send")
  if (overlap(idsOf(after), firstIds)) return yield* notObserved("a new cursor gives no other records")
  const oldestAge = late.between[1] - between[0]
  const lessThan = steps.find(({ ms }) => ms >= oldestAge)
  return lessThan === undefined
    ? yield* notObserved("the cursor is older than the longest step")
    : { ...observed(`less than ${lessThan.text}`, `no longer accepted after ${seconds(oldestAge)}`), isAccepted: false }
})

const overlap = (one: ReadonlyArray<unknown>, other: ReadonlyArray<unknown>): boolean => {
  const ids = new Set(other)
  return one.some((id) => ids.has(id))
}

const seconds = (ms: number): string => Duration.format(Duration.seconds(Math.floor(ms / 1000)))

/**
 * Observations that allow a common life do not contradict each other. Their answer has each bound that two of them show:
 * `at least 10 min`, `less than 1 h`, or `between 10 min and 1 h`.
 */
const addBound = (steps: ReadonlyArray<LifeStep>) => (evidence: Evidence, next: Observation): Evidence => {
  const boundsOf = (one: Observation) => lifeBounds(one.bound ?? one.answer, steps)
  const all = [...withRoom(evidence.observations, boundsOf), { ...next, bound: next.answer }]
  let start = all.length
  while (start > 0 && areConsistent(all.slice(start - 1).map(boundsOf))) start--
  const answer = commonAnswer(steps, all.slice(start).map(boundsOf))
  const shown = all.slice(start).map((one) => ({ ...one, answer: answer ?? one.bound ?? one.answer }))
  const last = shown.at(-1) ?? next
  const isNarrower = start === 0 && evidence.accepted !== undefined && answer !== undefined
  return add({
    ...evidence,
    ...isNarrower ? { accepted: answer } : {},
    observations: [...all.slice(0, start), ...shown.slice(0, -1)]
  }, last)
}

/** Leaves the oldest out of the bounds of which there are more, if there are too many. */
const withRoom = (observations: ReadonlyArray<Observation>, boundsOf: (one: Observation) => LifeBounds) => {
  if (observations.length < maxObservations) return observations
  const isLower = (one: Observation) => boundsOf(one).acceptedAfterMs > 0
  const hasMoreLower = observations.filter(isLower).length * 2 > observations.length
  return observations.toSpliced(observations.findIndex((one) => isLower(one) === hasMoreLower), 1)
}

const areConsistent = (bounds: ReadonlyArray<LifeBounds>): boolean =>
  Math.max(...bounds.map((one) => one.acceptedAfterMs)) < Math.min(...bounds.map((one) => one.refusedAfterMs))

/** Returns the answer with the bounds that two observations show, if there are such. */
const commonAnswer = (steps: ReadonlyArray<LifeStep>, bounds: ReadonlyArray<LifeBounds>): string | undefined => {
  const textOf = (ms: number | undefined) => steps.find((step) => step.ms === ms)?.text
  const atLeast = textOf(bounds.map((one) => one.acceptedAfterMs).toSorted((one, other) => other - one)[1])
  const lessThan = textOf(bounds.map((one) => one.refusedAfterMs).toSorted((one, other) => one - other)[1])
  if (atLeast !== undefined && lessThan !== undefined) return `between ${atLeast} and ${lessThan}`
  return atLeast !== undefined ? `at least ${atLeast}` : lessThan !== undefined ? `less than ${lessThan}` : undefined
}
