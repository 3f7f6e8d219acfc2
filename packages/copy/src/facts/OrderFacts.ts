/** Facts about the order of a list and the effect of the page size on it. §4.4 leaves both open. */
import { Days, Lists, timestamp } from "@payments/core"
import { Duration, Effect, Option } from "effect"
import {
  type Answer,
  type Ask,
  type By,
  fieldOf,
  fieldsOf,
  hasFullPages,
  idsOf,
  isFollowed,
  itemsOf,
  type NotObserved,
  notObserved,
  type Observed,
  pageOf,
  pageOrRefusal,
  pageWithCursor,
  requirePage
} from "./Ask.ts"
import { type Fact, observed } from "./Fact.ts"
import { hasOnly, textFields, valueOf } from "./FilterFacts.ts"
import { areFirst, areSame, largest, leadsOn, observeTwice, sizeOf } from "./Movement.ts"
import { endOfList, sameCursor } from "./PageFacts.ts"

/** `pages` is the most pages to read in search of the end of the list. */
export const orderFacts = (list: Lists.AnyList, pages: number): ReadonlyArray<Fact> => [
  {
    name: "order",
    section: "§4.4",
    question: "In which order are the first 100 records?",
    observe: (ask) =>
      Effect.flatMap(pageOf(ask, { limit: "100" }), (page) => {
        const { length } = itemsOf(page)
        if (length < leastRecords) return Effect.fail(notObserved(`fewer than ${leastRecords} records`))
        const judgedBy = (type: "dateTime" | "day") =>
          Object.entries(Lists.dateFields(list)).flatMap(([field, kind]) => kind === type ? [orderBy(field, page)] : [])
        const ordersIn = (judged: ReadonlyArray<string | undefined>) =>
          judged.flatMap((order) => order === undefined || order === "none" ? [] : [order])
        const [byTime, byDay] = [judgedBy("dateTime"), judgedBy("day")]
        // In the order of a time, days may be in order too.
        const orders = ordersIn(byTime).length > 0 ? ordersIn(byTime) : ordersIn(byDay)
        const judged = [...byTime, ...byDay]
        if (orders.length > 1) return Effect.fail(notObserved(`several orders fit: ${orders.join("; ")}`))
        return orders.length === 0 && judged.includes(undefined)
          ? Effect.fail(notObserved("a date has too few different values, or another format"))
          : Effect.succeed(
            observed(orders[0] ?? "no date", `${length} records${orders.length > 0 ? "" : inversionIn(page)}`)
          )
      })
  },
  pageSize,
  cursorLimit,
  cursorFilters,
  cursorList,
  cursorKey,
  cursorPlace,
  sameCursor,
  endOfList(pages)
]

const pageSize: Fact = {
  name: "page-size",
  section: "§4.4",
  question: "Do pages of other sizes give the same records?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        if (itemsOf(yield* pageOf(ask, largest)).length < leastRecords) {
          return yield* notObserved(`fewer than ${leastRecords} records`)
        }
        const usual = yield* pageOf(ask, {}, by)
        const one = yield* pageOf(ask, { limit: "1" }, by)
        const { cursor, page: two } = yield* pageWithCursor(ask, "2", by)
        const next = yield* pageOrRefusal(ask[by]({ limit: "2", cursor }))
        if (next.page === undefined) return undefined
        const reads = [idsOf(usual), idsOf(one), [...idsOf(two), ...idsOf(next)]]
        // The cursor may have led back, or the list has changed.
        if (reads.some((ids) => new Set(ids).size < ids.length)) return undefined
        if (reads.some(({ length }) => length === 0)) return yield* notObserved("smaller pages have too few records")
        const isSame = yield* areFirst(ask, [usual, one, two, next], reads.map((ids) => ({ ids, are: "some" })))
        if (isSame === undefined) return undefined
        if (!isSame) return observed("other records", "smaller pages give other records than limit 100")
        const differing = yield* differingTexts(ask, [usual, one, two, next])
        if (differing === undefined) return undefined
        return differing === 0
          ? observed("the same records", "limits 1, 2 and 100, and no limit")
          : observed("the same records with other content", `${differing} records, which pages of 100 have otherwise`)
      })
    )
}

/**
 * Returns how many records of these pages have another content in pages of 100. Undefined if they may have changed in between.
 */
const differingTexts = Effect.fnUntraced(function*(ask: Ask, pages: readonly [Answer, ...ReadonlyArray<Answer>]) {
  const textsOf = (answer: Answer) =>
    new Map(itemsOf(answer).map((item, index) => [idsOf(answer)[index], JSON.stringify(item)]))
  const last = pages.reduce((one, other) => one.nth > other.nth ? one : other)
  const first = ask.last(largest, pages.reduce((one, other) => one.nth < other.nth ? one : other))
  const texts = pages.flatMap((page) => [...textsOf(page)])
  const before = first === undefined ? new Map<unknown, string>() : textsOf(first)
  if (texts.every(([id, text]) => before.get(id) === text)) return 0
  const after = textsOf(yield* requirePage(ask.getAfter(last, largest)))
  const differing = texts.filter(([id, text]) => after.has(id) && after.get(id) !== text)
  if (differing.length === 0) return 0
  const steady = new Set(differing.flatMap(([id]) => before.get(id) === after.get(id) ? [id] : []))
  return steady.size === 0 ? undefined : steady.size
})

const cursorLimit: Fact = {
  name: "cursor-limit",
  section: "§4.4.2",
  question: "What does a cursor give with another limit?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        if (itemsOf(yield* pageOf(ask, largest)).length < 5) {
          return yield* notObserved("the list has fewer than 5 records")
        }
        const { cursor, page: two } = yield* pageWithCursor(ask, "2", by)
        const answer = yield* pageOrRefusal(ask[by]({ limit: "3", cursor }))
        const issued = { ask, answer, cursor, first: two, limit: "2" }
        if (answer.page === undefined) return yield* refusalOf(issued)
        const isFull = itemsOf(answer).length === 3 || (yield* hasFullPages(ask))
        return yield* placeOf(issued, (ids, next) => {
          // Before the end of the page, both limits can give the same records.
          if (next.length < 3) return undefined
          if (areSame(ids, next.slice(0, 3))) return observed("the next records", "as many as the new limit")
          return isFull && areSame(ids, next.slice(0, 2))
            ? observed("the next 2 records", "as many as the first limit")
            : undefined
        })
      })
    )
}

const cursorFilters: Fact = {
  name: "cursor-filters",
  section: "§4.4.2",
  question: "What does a cursor give with another filter?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const [field, value] = yield* otherFilter(ask, by)
        const { cursor, page: two } = yield* pageWithCursor(ask, "2", by)
        const answer = yield* pageOrRefusal(ask[by]({ limit: "2", cursor, [field]: value }))
        // A service may refuse or ignore the value once the last record with it is gone.
        const filtered = yield* requirePage(ask.getAfter(answer, { [field]: value, limit: "100" }))
        if (!hasOnly(filtered, field, value)) return yield* notObserved("the filter does not select")
        const before = idsOf(ask.last(largest, answer) ?? answer)
        const hadValue = itemsOf(filtered).filter((item) => fieldOf(item, field) === value)
        if (!hadValue.some((item) => before.includes(fieldOf(item, "id")))) return undefined
        const issued = { ask, answer, cursor, first: two, limit: "2" }
        if (answer.page === undefined) return yield* refusalOf(issued)
        const found = itemsOf(answer)
        if (found.length > 0 && found.every((item) => String(fieldOf(item, field)).startsWith(value))) {
          // The next records can have the value as well, once the list has changed.
          return (yield* isAccepted(issued)) && (yield* startsUnchanged(issued))
            ? observed("filtered records", "only records that match the filter")
            : undefined
        }
        // A service that ignores the cursor can answer with what follows, once the list has changed.
        if (!(yield* isAccepted(issued))) return undefined
        return yield* placeOf(issued, (ids, next) =>
          areSame(ids, next.slice(0, 2))
            ? observed("the next page, without the filter", "the records that the cursor gives alone")
            : undefined)
      })
    )
}

const cursorList: Fact = {
  name: "cursor-list",
  section: "§4.4.4",
  question: "What does a cursor of another list give?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const { other } = ask
        if (other === undefined) return yield* notObserved("no other list is read")
        if (itemsOf(yield* pageOf(ask, largest)).length === 0) return yield* notObserved("the list is empty")
        const limit = isFollowed(yield* pageOf(other, largest)) ? largest.limit : "2"
        const { cursor, page: first } = yield* pageWithCursor(other, limit, by)
        yield* requireCursor(ask)
        const answer = yield* pageOrRefusal(ask[by]({ limit, cursor }))
        const issued = { ask: other, answer, cursor, first, limit }
        if (answer.page === undefined) return yield* refusalOf(issued)
        if (!(yield* isAccepted(issued))) return undefined
        if (itemsOf(answer).length === 0) return observed("no record", "a page without records")
        const isFirst = yield* areFirst(ask, [answer], [
          { ids: idsOf(answer), are: limit === largest.limit ? sizeOf(ask, answer) : "some" }
        ])
        if (isFirst === undefined) return undefined
        return isFirst
          ? observed("the first page", "the records of the first page")
          : observed("other records", "other records than those of the first page")
      })
    )
}

/** Fails if the list's own cursor has no effect: then its parameter has another name. */
const requireCursor = Effect.fnUntraced(function*(ask: Ask) {
  if (ask.list.parameterNames === "documented") return
  const { cursor, page } = yield* pageWithCursor(ask, "2")
  const next = yield* pageOrRefusal(ask.get({ limit: "2", cursor }))
  if (next.page === undefined || areSame(idsOf(next), idsOf(page))) return yield* notObserved("a cursor has no effect")
})

const cursorKey: Fact = {
  name: "cursor-key",
  section: "§4.4.4",
  question: "What does a cursor give with another key?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        if (ask.noOtherKey !== undefined) return yield* notObserved(ask.noOtherKey)
        const { cursor, page: first } = yield* pageWithCursor(ask, "2", by)
        const before = yield* withOtherKey(ask[by]({ limit: "2" }, otherKey))
        const answer = yield* ask[by]({ limit: "2", cursor }, otherKey)
        const after = yield* withOtherKey(ask.getAfter(answer, { limit: "2" }, otherKey))
        const issued = { ask, answer, cursor, first, limit: "2" }
        // The other key is accepted before and after, so these statuses are about the cursor.
        const isRefused = answer.status === 401 || answer.status === 403
        if (isRefused || (yield* pageOrRefusal(Effect.succeed(answer))).page === undefined) {
          return yield* refusalOf(issued)
        }
        const place = yield* placeOf(issued, (ids, next) =>
          next.length >= 2 && areSame(ids, next.slice(0, 2))
            ? observed("the next page", "the records that its own key gets")
            : undefined)
        if (place?.answer === "the next page") return place
        if (!(yield* isAccepted(issued))) return undefined
        const [ids, start, later] = [idsOf(answer), idsOf(before), idsOf(after)]
        if (ids.length > 0 && areSame(ids, start) && areSame(ids, later)) {
          return observed("the first page", "the first records that the other key gets")
        }
        const isElsewhere = place?.answer === "other records" || place?.answer === "no record"
        return isElsewhere && areSame(start, later) ? place : undefined
      })
    )
}

/** Only a list with new records before a page shows it. A scan that is repeated records, or skips some, may have this cause. */
const cursorPlace: Fact = {
  name: "cursor-place",
  section: "§4.4.2",
  question: "What does a cursor give after records have appeared before it?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const { cursor, page } = yield* pageWithCursor(ask, "2", by)
        const first = idsOf(page)
        /** Returns how many records the list has up to the end of the first page, if both of its records are still in a row. */
        const endIn = (whole: ReadonlyArray<unknown>) => {
          const at = whole.indexOf(first[0])
          return at >= 0 && areSame(whole.slice(at, at + 2), first) ? at + 2 : undefined
        }
        const before = idsOf(yield* requirePage(ask.getAfter(page, largest)))
        const end = endIn(before)
        if (end === undefined) return undefined
        if (end === 2) return yield* notObserved("no record has appeared before a page")
        const answer = yield* pageOrRefusal(ask.send({ limit: "2", cursor }))
        if (answer.page === undefined) return yield* notObserved("a cursor is refused")
        const ids = idsOf(answer)
        const after = idsOf(yield* requirePage(ask.getAfter(answer, largest)))
        const endAfter = endIn(after)
        if (ids.length < 2 || endAfter === undefined) return undefined
        const isAt = (start: number, whole: ReadonlyArray<unknown>) => areSame(ids, whole.slice(start, start + 2))
        if (isAt(endAfter, after)) return observed("the records that follow", `${end - 2} had appeared before it`)
        return isAt(2, before) || isAt(2, after)
          ? observed("records of the page again", `${end - 2} had appeared before it`)
          : undefined
      })
    )
}

const otherKey = { key: "other" } as const

const withOtherKey = (answer: Effect.Effect<Answer, NotObserved>) =>
  Effect.flatMap(
    answer,
    (found) =>
      found.status === 401 || found.status === 403
        ? Effect.fail(notObserved(`the other key is refused with status ${found.status}`))
        : requirePage(Effect.succeed(found))
  )

/** Fewer records can be in an order by chance. */
const leastRecords = 20

/** An answer to a cursor, and the first page that had the cursor. */
interface Issued {
  readonly ask: Ask
  readonly answer: Answer
  readonly cursor: string
  readonly first: Answer
  readonly limit: string
}

/** Whether the service still accepts a cursor with its own limit and filters. Otherwise it has expired, or may be used once. */
const isAccepted = Effect.fnUntraced(function*({ answer, ask, cursor, first, limit }: Issued) {
  const own = yield* ask.getAfter(answer, { limit, cursor })
  if (limit !== largest.limit) return own.page !== undefined && (yield* leadsOn(ask, first, own))
  // The records after a large page are not on it.
  const start = new Set(idsOf(first))
  return itemsOf(own).length > 0 && !idsOf(own).some((id) => start.has(id))
})

/** Whether the list began with the first page and the same next records before and after an answer. */
const startsUnchanged = Effect.fnUntraced(function*({ answer, ask, first }: Issued) {
  const before = idsOf(ask.last(largest, answer) ?? answer).slice(0, 4)
  const after = idsOf(yield* requirePage(ask.getAfter(answer, largest))).slice(0, 4)
  return areSame(before, after) && areSame(before.slice(0, 2), idsOf(first))
})

const refusalOf = (issued: Issued) =>
  Effect.map(
    isAccepted(issued),
    (accepted) => accepted ? observed("a refusal", `status ${issued.answer.status}`) : undefined
  )

/**
 * Judges the answer to a cursor that was issued after the two records of a page, by the records that follow those two.
 * Undefined if a change of the list could explain the answer.
 */
const placeOf = Effect.fnUntraced(function*(
  issued: Issued,
  judge: (ids: ReadonlyArray<unknown>, next: ReadonlyArray<unknown>) => Observed | undefined
) {
  const { answer, ask, first } = issued
  const [ids, start] = [idsOf(answer), idsOf(first)]
  const nextIn = (whole: ReadonlyArray<unknown>) => {
    const at = whole.indexOf(start[0])
    return at >= 0 && areSame(whole.slice(at, at + 2), start) ? whole.slice(at + 2) : undefined
  }
  const before = idsOf(ask.last(largest, answer) ?? answer)
  const after = idsOf(yield* requirePage(ask.getAfter(answer, largest)))
  const later = judge(ids, nextIn(after) ?? [])
  // If records appear before the two, a cursor can lead back to them.
  if (later !== undefined || !areSame(after.slice(0, 2), start)) return later
  if (!(yield* isAccepted(issued))) return undefined
  if (ids.length > 0 && areSame(ids, after.slice(0, ids.length))) {
    return observed("the first page", "the records of the first page")
  }
  if (!areSame(before, after) || !(yield* hasFullPages(ask))) return undefined
  return ids.length === 0
    ? observed("no record", "a page without records")
    : observed("other records", "not the next records")
})

/** Returns a filter that none of the first records matches, with a value of another record. */
const otherFilter = Effect.fnUntraced(function*(ask: Ask, by: By) {
  const first = yield* pageOf(ask, largest)
  const start = itemsOf(by === "get" ? first : ask.last(largest) ?? first).slice(0, 4)
  for (const field of textFields(ask)) {
    const value = yield* Effect.option(valueOf(ask, field, by))
    if (Option.isNone(value)) continue
    const known = ask.last({ [field]: value.value, limit: "100" })
    const isIgnored = known !== undefined && !hasOnly(known, field, value.value)
    if (!isIgnored && !start.some((item) => fieldOf(item, field) === value.value)) return [field, value.value] as const
  }
  return yield* notObserved("no filter that selects has a value that is missing on the first two pages")
})

/** Says how far `createdAt` goes back at most: behind how many records, and by how much time. */
const inversionIn = (page: Answer): string => {
  const times = timesOf(page, "createdAt")
  const isNewestFirst = (times[0] ?? 0) > (times.at(-1) ?? 0)
  let [rows, ms] = [0, 0]
  for (const [index, time] of times.entries()) {
    for (const [earlier, other] of times.slice(0, index).entries()) {
      const back = isNewestFirst ? time - other : other - time
      if (back > 0) [rows, ms] = [Math.max(rows, index - earlier), Math.max(ms, back)]
    }
  }
  const time = Duration.format(Duration.seconds(Math.ceil(ms / 1000)))
  return rows === 0 ? "" : `; createdAt goes back by up to ${rows} records and ${time}`
}

const timesOf = (page: Answer, field: string): ReadonlyArray<number> =>
  fieldsOf(page, field).flatMap((text) =>
    Days.isDay(text)
      ? [Date.parse(text)]
      : Option.toArray(Option.map(timestamp(text), ({ epochMilliseconds }) => epochMilliseconds))
  )

/** Returns the order of the page by a date, `none` if it has another order, or undefined if the dates do not show it. */
const orderBy = (field: string, page: Answer): string | undefined => {
  const texts = fieldsOf(page, field)
  const times = timesOf(page, field)
  const steps = new Set(times.slice(1).map((time, index) => Math.sign(time - (times[index] ?? time))))
  if (steps.has(1) && steps.has(-1)) return "none"
  if (times.length < Math.max(leastRecords, texts.length) || new Set(times).size < leastRecords / 2) return undefined
  return steps.has(1) ? `${field}, oldest first` : `${field}, newest first`
}
