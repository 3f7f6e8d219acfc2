/**
 * Whether a cursor shows the list as it is now, or as it was when its first page was read. Only records that appear behind the
 * first page of 100 show the difference. The probe does not wait for them.
 */
import { timestamp } from "@payments/core"
import { Effect, Option } from "effect"
import {
  type Answer,
  type Ask,
  type By,
  cursorOf,
  fieldOf,
  idsOf,
  isFollowed,
  itemsOf,
  notObserved,
  pageOf,
  pageOrRefusal
} from "./Ask.ts"
import { type Fact, observed, records } from "./Fact.ts"
import { areSame, largest, listChanged } from "./Movement.ts"
import { shareOf } from "./PageFacts.ts"

/** At the end of a round, most records have appeared since its first pages, which other facts have read. */
export const cursorSnapshot: Fact = {
  name: "cursor-snapshot",
  section: "§4.4.2",
  question: "Does a cursor show records that appeared after it was issued?",
  isLast: true,
  observe: Effect.fnUntraced(function*(ask) {
    const first = yield* pageOf(ask, largest)
    if (!isFollowed(first)) return yield* notObserved("the list has one page of 100")
    if (isNewestFirst(first)) return yield* notObserved("new records are on the first page")
    const early = yield* pageBehind(ask, first, "get")
    if (early === undefined) return yield* notObserved("a cursor gives no other records")
    const latest = ask.last(largest) ?? first
    const isQuiet = JSON.stringify(itemsOf(latest)) === JSON.stringify(itemsOf(first))
    if (isFollowed(early.answer) && isQuiet) {
      return yield* notObserved("the pages that were read have not changed")
    }
    // The records of a snapshot are the same for the same cursor. A service may have begun again instead.
    const again = yield* pageBehind(ask, first)
    const shown = again === undefined ? [] : appearedIn(again, early)
    if (again !== undefined && shown.length === 0 && cursorOf(latest) === cursorOf(first)) {
      return yield* notObserved(noneAppeared)
    }
    const start = yield* pageOf(ask, largest, "send")
    if (again !== undefined && shown.length > 0) {
      return isBehind(again.answer, latest, start)
        ? observed("yes", `${records(shown.length)} that appeared meanwhile`)
        : yield* notObserved(listChanged)
    }
    const now = yield* pageBehind(ask, start)
    if (now === undefined || appearedIn(now, early).length === 0) return yield* notObserved(noneAppeared)
    return yield* withOtherCursor(ask, now)
  })
}

/**
 * Observes with a cursor that was not sent yet: no cache has its page, and it may be accepted once only. A new cursor has
 * shown records that appeared. They must be there afterwards, too.
 */
const withOtherCursor = Effect.fnUntraced(function*(ask: Ask, now: Behind) {
  const unused = [...ask.unused.values()].find(({ parameters }) =>
    areSame(Object.entries(parameters), [["limit", "100"]])
  )
  if (unused === undefined) return yield* notObserved("no page has a cursor that was not sent yet")
  const old = yield* pageBehind(ask, unused.page)
  if (old === undefined) return yield* notObserved("a cursor is refused, or gives the first page")
  const start = yield* pageOf(ask, largest, "send")
  const later = yield* pageBehind(ask, start)
  if (later === undefined || !isBehind(old.answer, now.first, start)) return yield* notObserved(listChanged)
  const stayed = new Set(idsOf(later.answer))
  const shown = appearedIn(old, now).filter((id) => stayed.has(id))
  const since = new Set(appearedIn(later, old))
  const missing = appearedIn(now, old).filter((id) => since.has(id))
  if (shown.length > 0) return observed("yes", `${records(shown.length)} that appeared meanwhile`)
  return missing.length > 0
    ? observed("no", `without ${records(missing.length)} that appeared meanwhile`)
    : yield* notObserved(listChanged)
})

const noneAppeared = "no record has appeared behind the first page"

/** The share of records that a page behind the first one may have in common with it, if the list changes. */
const mostRepeated = 0.25

/**
 * Whether an answer has other records than the first page, which was read before and after it. If most of them stayed, the
 * first page had them in between, too.
 */
const isBehind = (answer: Answer, before: Answer, after: Answer): boolean =>
  shareOf(before, after) > 0.5 && [before, after].every((first) => shareOf(answer, first) < mostRepeated)

/** A first page, and what its cursor gave. */
interface Behind {
  readonly first: Answer
  readonly answer: Answer
}

/** Returns what the cursor of a first page gives. Undefined if it is refused, or gives the first page again. */
const pageBehind = Effect.fnUntraced(function*(ask: Ask, first: Answer, by: By = "send") {
  const cursor = cursorOf(first)
  if (typeof cursor !== "string" || cursor === "") return undefined
  const answer = yield* pageOrRefusal(ask[by]({ ...largest, cursor }))
  return answer.page === undefined || shareOf(answer, first) >= mostRepeated ? undefined : { first, answer }
})

/**
 * Returns the records of one page that appeared since another was read. They are between records of the other page, or
 * behind its last one if the list ended there. They were created after all that were read then. So none of them was at
 * another place, or was left out. If any other record is between those, it returns none.
 */
const appearedIn = (now: Behind, then: Behind): ReadonlyArray<unknown> => {
  const [ids, before] = [idsOf(now.answer), idsOf(then.answer)]
  const [shared, known] = [ids.filter((id) => before.includes(id)), new Set(ids)]
  const created = [...itemsOf(then.first), ...itemsOf(then.answer)].map(createdOf)
  if (!areSame(shared, before.filter((id) => known.has(id))) || created.includes(undefined)) return []
  const newest = Math.max(...created.map((ms) => ms ?? 0))
  const hasEnd = !isFollowed(then.answer) && before.length < itemsOf(then.first).length
  const [start, end] = [ids.indexOf(shared[0]), hasEnd ? ids.length : ids.indexOf(shared.at(-1))]
  const others = itemsOf(now.answer).flatMap((item, at) =>
    start >= 0 && at > start && at < end && !before.includes(ids[at]) ? [{ id: ids[at], ms: createdOf(item) }] : []
  )
  const first = new Set(idsOf(then.first))
  return others.every(({ id, ms }) => ms !== undefined && ms >= newest && !first.has(id))
    ? others.map(({ id }) => id)
    : []
}

const isNewestFirst = (page: Answer): boolean => {
  const created = itemsOf(page).flatMap((item) => createdOf(item) ?? [])
  return created.every((ms, at) => ms <= (created[at - 1] ?? ms)) && (created.at(-1) ?? 0) < (created[0] ?? 0)
}

const createdOf = (item: unknown): number | undefined => {
  const text = fieldOf(item, "createdAt")
  return Option.getOrUndefined(
    Option.map(timestamp(typeof text === "string" ? text : null), (at) => at.epochMilliseconds)
  )
}
