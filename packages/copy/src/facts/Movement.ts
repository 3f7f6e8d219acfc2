/**
 * Compares answers of a list that may change between two requests. What a change could explain shows nothing. What a
 * comparison rests on is read before and after it: records that the list had both times, it also had in between.
 */
import { Effect } from "effect"
import {
  type Answer,
  type Ask,
  type By,
  idsOf,
  isFollowed,
  mustWait,
  type NotObserved,
  notObserved,
  type Observed,
  requirePage
} from "./Ask.ts"

/** The page that comparisons rest on. */
export const largest = { limit: "100" }

/**
 * Observes with answers that facts share. If a change of the list could explain those, or a cursor has expired since, it
 * observes with new answers, which lie closer together.
 */
export const observeTwice = (
  ask: Ask,
  observe: (by: By) => Effect.Effect<Observed | undefined, NotObserved>
): Effect.Effect<Observed, NotObserved> =>
  Effect.gen(function*() {
    const shared = yield* observe("get")
    if (shared !== undefined) return shared
    if (ask.ifUnclear === "wait") return yield* notObserved(mustWait)
    const found = ask.ifUnclear === "send" ? yield* observe("send") : undefined
    return found ?? (yield* notObserved(listChanged))
  })

/** The reason of a fact that may be observed later. */
export const listChanged = "the list changed in between, or no answer fits"

/** Returns the answer that was received last. */
export const lastOf = (answers: readonly [Answer, ...ReadonlyArray<Answer>]): Answer =>
  answers.reduce((one, other) => one.nth > other.nth ? one : other)

type Ids = ReadonlyArray<unknown>

export const areSame = (one: Ids, other: Ids): boolean => JSON.stringify(one) === JSON.stringify(other)

/** Whether these are the first records of the list. `all` are as many as a page of 100 has. */
export interface First {
  readonly ids: Ids
  readonly are: "all" | "some"
}

/** How many of the first 100 records an answer should have. If pages are short before the end, it may have fewer. */
export const sizeOf = (ask: Ask, answer: Answer): First["are"] =>
  ask.hasShortPages() && isFollowed(answer) ? "some" : "all"

/**
 * Whether answers have the first records of the list. A page of 100 was read before them. Undefined if the list has changed too much to tell.
 */
export const areFirst = Effect.fnUntraced(function*(
  ask: Ask,
  answers: readonly [Answer, ...ReadonlyArray<Answer>],
  reads: ReadonlyArray<First>
) {
  const before = ask.last(largest, answers.reduce((one, other) => one.nth < other.nth ? one : other))
  const earlier = before === undefined ? [] : idsOf(before)
  if (reads.every((read) => isStart(read, earlier))) return true
  const later = idsOf(yield* requirePage(ask.getAfter(lastOf(answers), largest)))
  if (reads.every((read) => isStart(read, earlier) || isStart(read, later) || isBetween(read, earlier, later))) {
    return true
  }
  return before !== undefined && areSame(earlier, later) ? false : undefined
})

/**
 * Whether an answer has only records that follow those of an earlier first page. A service that does not accept a cursor can
 * answer with the first page, which has other records once the list has changed.
 */
export const leadsOn = Effect.fnUntraced(function*(ask: Ask, first: Answer, answer: Answer) {
  const after = idsOf(yield* requirePage(ask.getAfter(answer, largest)))
  const [ids, at] = [idsOf(answer), after.indexOf(idsOf(first).at(-1))]
  return ids.length > 0 && at >= 0 && ids.every((id) => after.indexOf(id) > at)
})

const isStart = ({ are, ids }: First, all: Ids): boolean =>
  ids.length > 0 && all.length > 0 && (are === "some" || ids.length === all.length) &&
  areSame(ids.slice(0, all.length), all.slice(0, ids.length))

/**
 * Whether the list can have begun with these records at a time between two readings. At least half of its first 100 records
 * must have stayed. Of those, it must have the first, in their order; `all` of them if it should have as many.
 */
const isBetween = ({ are, ids }: First, earlier: Ids, later: Ids): boolean => {
  const [before, after] = [new Set(earlier), new Set(later)]
  const stayed = earlier.filter((id) => after.has(id))
  if (ids.length === 0 || stayed.length < leastStayed || stayed.length * 2 < Math.max(earlier.length, later.length)) {
    return false
  }
  const shown = ids.filter((id) => before.has(id) && after.has(id))
  const strangers = ids.filter((id) => !before.has(id) && !after.has(id))
  return areSame(shown, stayed.slice(0, shown.length)) && areSame(shown, later.filter((id) => shown.includes(id))) &&
    (are === "all" ? shown.length === stayed.length : strangers.length * 4 <= ids.length)
}

/** Fewer records can be the same by chance. */
export const leastStayed = 20
