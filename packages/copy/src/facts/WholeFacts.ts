/** Facts about a list that is read as a whole: what only a filter shows (§4.1 to §4.3), and whether its parts make it up. */
import { Days, type Lists } from "@payments/core"
import { Effect } from "effect"
import {
  type Answer,
  type Ask,
  type By,
  cursorOf,
  fieldOf,
  idsOf,
  isFollowed,
  itemsOf,
  type NotObserved,
  notObserved,
  type Observed,
  pageOf,
  pageOrRefusal,
  type Parameters
} from "./Ask.ts"
import { type Fact, observed, records } from "./Fact.ts"
import { areSame, leastStayed, observeTwice } from "./Movement.ts"

export const wholeFacts = ({ section, windowFilter }: Lists.AnyList): ReadonlyArray<Fact> => [
  hiddenRecords(section),
  ...(windowFilter === undefined ? [] : [partsBy(section, windowFilter)])
]

/** The pages of a list, or of a part of it, up to its end. */
interface Read {
  readonly pages: readonly [Answer, ...ReadonlyArray<Answer>]
  readonly items: ReadonlyArray<unknown>
  readonly ids: ReadonlyArray<unknown>
}

/** Longer lists are not read as a whole. */
const mostPages = 2

/** Reads up to the end. Undefined if a cursor is refused: an older one may have expired. */
const readAll: (
  first: Answer,
  filters: Parameters,
  next: (parameters: Parameters) => Effect.Effect<Answer, NotObserved>
) => Effect.Effect<Read | undefined, NotObserved> = Effect.fnUntraced(function*(first, filters, next) {
  const pages: [Answer, ...Array<Answer>] = [first]
  for (let last = first; isFollowed(last); pages.push(last)) {
    if (pages.length === mostPages) {
      return yield* notObserved(`the list has more pages than the ${mostPages} that were read`)
    }
    last = yield* pageOrRefusal(next({ ...filters, limit: "100", cursor: String(cursorOf(last)) }))
    if (last.page === undefined) return undefined
  }
  // Without a cursor, a full page may end the answer only.
  if (itemsOf(pages.at(-1) ?? first).length >= 100) return yield* notObserved("the last page is full")
  return { pages, items: pages.flatMap(itemsOf), ids: pages.flatMap(idsOf) }
})

const wholeList = (ask: Ask, by: By) =>
  Effect.flatMap(pageOf(ask, { limit: "100" }, by), (first) => readAll(first, {}, ask[by]))

/** A default filter: the service leaves records out of the list, and returns them if a filter is given. */
const hiddenRecords = (section: string): Fact => ({
  name: "hidden-records",
  section,
  question: "Are there records that only a filter shows?",
  observe: Effect.fnUntraced(function*(ask) {
    const first = itemsOf(yield* pageOf(ask, { limit: "100" }))
    const whole = yield* wholeList(ask, "get")
    if (whole === undefined) return yield* notObserved("a cursor of the list is refused")
    const shown = new Set(whole.ids)
    for (const field of Object.keys(ask.list.filters)) {
      const values = Map.groupBy(first.map((item) => fieldOf(item, field)), (value) => value)
      const [value] = [...values].filter(([text, all]) => typeof text === "string" && text !== "" && all.length > 1)
        .toSorted(([, one], [, other]) => other.length - one.length)[0] ?? []
      if (typeof value !== "string") continue
      const answer = yield* pageOf(ask, { [field]: value, limit: "100" })
      const hidden = idsOf(answer).filter((id) => !shown.has(id))
      if (hidden.length === 0) continue
      // A record can have appeared since the list was read, or a page can have skipped it while the list changed.
      const again = yield* wholeList(ask, "send")
      if (again === undefined || !areSame(again.ids, whole.ids)) {
        return yield* notObserved("the list changed in between")
      }
      return observed("yes", `${records(hidden.length)} with a ${field} that others have`)
    }
    return yield* notObserved("none was found. A sample cannot show that there is none")
  })
})

/** Window passes rest on it, and each division of a list by days. */
const partsBy = (section: string, field: string): Fact => ({
  name: `parts-${field}`,
  section,
  question: `Are parts by ${field} complete and disjoint?`,
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const before = yield* wholeList(ask, by)
        if (before === undefined) return undefined
        const byDay = yield* idsByDay(before, field)
        if (byDay.size < 2) return yield* notObserved(`the list has fewer than two values of ${field}`)
        const parts: Array<Part> = []
        for (const day of daysToRead(byDay)) {
          const part = yield* partOf(ask, before, { [field]: day })
          if (part === undefined) return undefined
          parts.push({ ...part, day })
        }
        const expected = parts.map(({ day }) => byDay.get(day) ?? [])
        const without = before.items.filter((item) => isEmpty(fieldOf(item, field))).length
        const seen = `${parts.length} dates with ${records(expected.flat().length)}; ` +
          `${records(without)} without a ${field}, in no part`
        // No change of the list explains these.
        if (parts.every(({ ids }, index) => isSameSet(ids, expected[index] ?? []))) {
          return observed("complete and disjoint", seen)
        }
        const after = yield* wholeList(ask, "send")
        return after === undefined ? undefined : judgeParts({ after, before, field, parts, seen })
      })
    )
})

/** The answers to one day. */
interface Part extends Read {
  readonly day: string
}

const isEmpty = (value: unknown): boolean => value === undefined || value === null || value === ""

const isSameSet = (one: ReadonlyArray<unknown>, other: ReadonlyArray<unknown>): boolean =>
  new Set(one).size === new Set(other).size && new Set([...one, ...other]).size === new Set(one).size

const idsByDay = Effect.fnUntraced(function*({ ids, items }: Read, field: string) {
  const byDay = new Map<string, Array<unknown>>()
  for (const [index, item] of items.entries()) {
    const value = fieldOf(item, field)
    if (isEmpty(value)) continue
    if (typeof value !== "string" || !Days.isDay(value)) return yield* notObserved(`a ${field} is no day`)
    byDay.set(value, [...byDay.get(value) ?? [], ids[index]])
  }
  return byDay
})

/** Returns the day with the most records, the first and the last one. */
const daysToRead = (byDay: ReadonlyMap<string, ReadonlyArray<unknown>>): ReadonlyArray<string> => {
  const days = [...byDay.keys()].toSorted()
  const [most] = days.toSorted((one, other) => (byDay.get(other)?.length ?? 0) - (byDay.get(one)?.length ?? 0))
  return [...new Set([most, days.at(0), days.at(-1)].flatMap((day) => day ?? []))]
}

/** Reads a part after the list. */
const partOf = Effect.fnUntraced(function*(ask: Ask, list: Read, filters: Parameters) {
  const last = list.pages.at(-1) ?? list.pages[0]
  const first = yield* pageOrRefusal(ask.getAfter(last, { ...filters, limit: "100" }))
  if (first.page === undefined) return yield* notObserved(`the service answered ${first.status}`)
  return yield* readAll(first, filters, (parameters) => ask.getAfter(first, parameters))
})

/**
 * Judges by the records that the list had with the same date before and after the parts. While a list changes, a second page
 * can skip records. Undefined if a change of the list could explain what was found.
 */
const judgeParts = ({ after, before, field, parts, seen }: {
  readonly before: Read
  readonly after: Read
  readonly field: string
  readonly parts: ReadonlyArray<Part>
  readonly seen: string
}): Observed | undefined => {
  const dated = ({ ids, items }: Read) => items.map((item, index) => JSON.stringify([ids[index], fieldOf(item, field)]))
  const later = new Set(dated(after))
  const stayed = before.items.flatMap((item, index) =>
    later.has(dated(before)[index] ?? "") ? [{ id: before.ids[index], day: fieldOf(item, field) }] : []
  )
  const isUnchanged = areSame(dated(before), dated(after))
  const found = parts.map(({ day, ids, items, pages }) => {
    const own = stayed.filter((record) => record.day === day)
    return {
      own: own.length,
      missing: own.filter(({ id }) => !ids.includes(id)).length,
      foreign: items.filter((item) => fieldOf(item, field) !== day).length,
      // A service may answer with everything once the last record of a day is gone.
      counts: own.length > 0 && (isUnchanged || pages.length === 1)
    }
  })
  const sum = (of: "own" | "missing" | "foreign", some = found) => some.reduce((total, part) => total + part[of], 0)
  const counted = found.filter(({ counts }) => counts)
  const problems = [
    ...(sum("missing", counted) > 0 ? ["records are missing"] : []),
    ...(sum("foreign", counted) > 0 ? ["records of other dates"] : [])
  ]
  if (problems.length > 0) {
    return observed(problems.join(", and "), `${sum("missing")} missing and ${sum("foreign")} of other dates; ${seen}`)
  }
  const isComplete = sum("missing") === 0 && sum("foreign") === 0 && counted.length === found.length
  return isComplete && (isUnchanged || sum("own") >= leastStayed) ? observed("complete and disjoint", seen) : undefined
}
