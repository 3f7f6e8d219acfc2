/** How long a cursor is accepted, from a cursor that an earlier page of the round has given. Nothing waits for it. */
import { DateTime, Duration, Effect } from "effect"
import { add, type Evidence, judge, type Observation } from "../port/Judgement.ts"
import { cursorOf, idsOf, notObserved, pageOf, pageOrRefusal } from "./Ask.ts"
import { type Fact, observed } from "./Fact.ts"

/** A bound of the answers. They are few, so that an answer is the same from run to run. */
export interface LifeStep {
  readonly text: string
  readonly ms: number
}

const lifeSteps: ReadonlyArray<LifeStep> = [
  { text: "5 s", ms: 5000 },
  { text: "10 s", ms: 10_000 },
  { text: "1 min", ms: 60_000 },
  { text: "10 min", ms: 600_000 },
  { text: "1 h", ms: 3_600_000 }
]

/** Returns the milliseconds after which a cursor is refused for certain, from the answer of the fact. */
export const refusedAfterMs = (answer: string | undefined): number | undefined =>
  lifeSteps.find(({ text }) => answer === `less than ${text}`)?.ms

/** Tests give shorter steps. */
export const cursorLife = (steps: ReadonlyArray<LifeStep> = lifeSteps): Fact => ({
  name: "cursor-life",
  section: "§4.4.4",
  question: "How long is a cursor accepted?",
  isLast: true,
  add: addBound(steps),
  observe: Effect.fnUntraced(function*(ask) {
    const [oldest] = [...ask.unused.values()].toSorted((one, other) => one.lastAt - other.lastAt)
    if (oldest === undefined) return yield* notObserved("no page has a cursor that was not sent yet")
    const age = DateTime.toEpochMillis(yield* DateTime.now) - oldest.lastAt
    const [first] = steps
    if (first === undefined || age < first.ms) {
      return yield* notObserved(`this run has no cursor that is older than ${first?.text ?? "any"}`)
    }
    const { cursor, page, parameters } = oldest
    const late = yield* pageOrRefusal(ask.send({ ...parameters, cursor }))
    // A service may answer with the first page instead of a refusal.
    const fresh = yield* pageOf(ask, parameters, "send")
    const [ids, firstIds] = [idsOf(late), idsOf(fresh)]
    if (late.page !== undefined && !areSame(ids, firstIds)) {
      if (overlap(ids, idsOf(page)) || overlap(ids, firstIds)) {
        return yield* notObserved("the list changed in between")
      }
      const atLeast = steps.findLast(({ ms }) => ms <= late.between[0] - oldest.lastAt) ?? first
      return observed(`at least ${atLeast.text}`, `accepted after ${seconds(late.between[0] - oldest.lastAt)}`)
    }
    // If a new cursor is not accepted either, the age is not the reason.
    const next = cursorOf(fresh)
    if (typeof next !== "string") return yield* notObserved("the list has one page now")
    const after = yield* pageOf(ask, { ...parameters, cursor: next }, "send")
    if (overlap(idsOf(after), firstIds)) return yield* notObserved("a new cursor gives no other records")
    const oldestAge = late.between[1] - page.between[0]
    const lessThan = steps.find(({ ms }) => ms >= oldestAge)
    return lessThan === undefined
      ? yield* notObserved("the cursor is older than the longest step")
      : observed(`less than ${lessThan.text}`, `no longer accepted after ${seconds(oldestAge)}`)
  })
})

const areSame = (one: ReadonlyArray<unknown>, other: ReadonlyArray<unknown>): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

const overlap = (one: ReadonlyArray<unknown>, other: ReadonlyArray<unknown>): boolean => {
  const ids = new Set(other)
  return one.some((id) => ids.has(id))
}

const seconds = (ms: number): string => Duration.format(Duration.seconds(Math.floor(ms / 1000)))

/**
 * Two bounds on the same side do not contradict each other. Until the answer is certain, it is the wider bound, which both
 * observations show. From then on a wider bound shows nothing new, and a narrower one begins again.
 */
const addBound = (steps: ReadonlyArray<LifeStep>) => (evidence: Evidence, next: Observation): Evidence => {
  const known = evidence.observations.at(-1)?.answer ?? next.answer
  const [one, other] = [boundOf(steps, known), boundOf(steps, next.answer)]
  if (known === next.answer || one.side !== other.side) return add(evidence, next)
  const isWider = one.side === "at least" ? other.step < one.step : other.step > one.step
  if (judge(evidence).degree === "certain") {
    const { problem: _observed, ...unchanged } = evidence
    return isWider ? unchanged : add({ observations: [] }, next)
  }
  const answer = isWider ? next.answer : known
  const observations = evidence.observations.map((seen) => seen.answer === known ? { ...seen, answer } : seen)
  return add({ ...evidence, observations }, { ...next, answer })
}

const boundOf = (steps: ReadonlyArray<LifeStep>, answer: string) => ({
  side: answer.startsWith("at least ") ? "at least" : "less than",
  step: steps.findIndex(({ text }) => answer.endsWith(` ${text}`))
})
