/** Facts about the size of pages (§8), about `count` (§2.5), and about what leads from one page to the next (§4.4). */
import type { Lists } from "@payments/core"
import { Effect, Option } from "effect"
import {
  type Answer,
  type Ask,
  type By,
  cursorOf,
  hasFullPages,
  idsOf,
  isFollowed,
  itemsOf,
  notObserved,
  pageOf,
  pageOrRefusal,
  pageWithCursor,
  requirePage
} from "./Ask.ts"
import { type Fact, observed, records, type Rule, rule } from "./Fact.ts"
import { textFields, valueOf } from "./FilterFacts.ts"
import { areFirst, areSame, largest, leadsOn, listChanged, observeTwice } from "./Movement.ts"

/** Facts about the pages of a list. */
export const pageFacts = ({ limits }: Lists.AnyList): ReadonlyArray<Fact> => [
  {
    name: "first-page",
    section: "§4.4.1",
    question: "What does a request without a cursor give?",
    rule: rule("a request without a cursor gives the first page", "a page"),
    observe: (ask) =>
      Effect.map(
        ask.get({}),
        (answer) => observed(answer.page === undefined ? "no page" : "a page", `status ${answer.status}`)
      )
  },
  nextPage,
  {
    name: "limit-1",
    section: "§8",
    question: "How many records does limit 1 give?",
    rule: rule("a page has at most limit records", "obeyed", "fewer"),
    observe: (ask) => atMost(ask, 1)
  },
  {
    name: "limit-100",
    section: "§8",
    question: "How many records does limit 100 give?",
    rule: rule("limit 100 is accepted", "obeyed", "fewer"),
    observe: (ask) => atMost(ask, 100)
  },
  treatmentOf({
    limit: 101,
    valid: 100,
    rule: rule("no page has more than 100 records", "refused", "another limit")
  }),
  treatmentOf({
    limit: 0,
    valid: 1,
    ...(limits.minimum === undefined
      ? {}
      : { rule: rule("limit 0 is refused, or treated as another limit", "refused", "another limit") })
  }),
  treatmentOf({ limit: -1, valid: 1 }),
  treatmentOf({ limit: 1000, valid: 100 }),
  limitOfText,
  meaningOfCount,
  defaultSize(limits.default),
  unknownParameter
]

const atMost = Effect.fnUntraced(function*(ask: Ask, limit: number) {
  yield* requireLimit(ask)
  const answer = yield* pageOf(ask, { limit: String(limit) })
  const { length } = itemsOf(answer)
  if (length === 0) return yield* notObserved("the list is empty")
  if (length > limit) return observed("more", records(length))
  // A list that ends there looks the same without a limit.
  if (!(yield* hasMore(ask, answer, String(limit)))) {
    return yield* notObserved(`the list has no more than ${records(limit)}`)
  }
  // Fewer records, although more follow: another limit applies, or the service leaves records out.
  return observed(length < limit ? "fewer" : "obeyed", records(length))
})

/** Fails if the limit has no effect: then its parameter has another name. */
export const requireLimit = Effect.fnUntraced(function*(ask: Ask) {
  if (ask.list.parameterNames === "documented") return
  const one = yield* pageOf(ask, { limit: "1" })
  if (itemsOf(one).length !== 1 || !isFollowed(one)) return yield* notObserved("a limit has no effect")
})

/** Whether records follow a page that has fewer than its limit. The last page may have a cursor, too. */
const hasMore = Effect.fnUntraced(function*(ask: Ask, answer: Answer, limit: string | undefined) {
  if (!isFollowed(answer)) return false
  // What follows a full page of 100 is shared by other facts.
  if (limit !== undefined && limit !== largest.limit && itemsOf(answer).length >= Number(limit)) return true
  const given = limit === undefined ? {} : { limit }
  const shown = new Set(idsOf(answer))
  // The end of some lists leads back to their beginning.
  return idsOf(yield* pageOf(ask, { ...given, cursor: String(cursorOf(answer)) })).some((id) => !shown.has(id))
})

/** How a service treats a limit that the document does not allow. `valid` is the next one that it allows. */
const treatmentOf = ({ limit, valid, ...stated }: {
  readonly limit: number
  readonly valid: number
  readonly rule?: Rule
}): Fact => ({
  name: limit < 0 ? "limit-negative" : `limit-${limit}`,
  section: "§8",
  question: `Is limit ${limit} refused, obeyed, or treated as another limit?`,
  ...stated,
  observe: Effect.fnUntraced(function*(ask) {
    // If the valid limit is refused as well, a refusal shows nothing about limits.
    const page = yield* pageOf(ask, { limit: String(valid) })
    if (itemsOf(page).length === 0) return yield* notObserved("the list is empty")
    if (limit > valid && !isFollowed(page) && itemsOf(page).length < 2) {
      return yield* notObserved("the list has one record")
    }
    const answer = yield* pageOrRefusal(ask.get({ limit: String(limit) }))
    if (answer.page === undefined) {
      // A service that refuses a limit refuses larger ones too.
      return limit > valid && ask.last({ limit: "1000" })?.page !== undefined
        ? yield* notObserved(`status ${answer.status}, and a larger limit is accepted`)
        : observed("refused", `status ${answer.status}`)
    }
    if (itemsOf(answer).length > 0) yield* requireLimit(ask)
    if (limit > valid && !isFollowed(page)) return yield* notObserved(`the list has one page of ${valid}`)
    const { length } = itemsOf(answer)
    if (length < valid && !(yield* hasFullPages(ask))) return yield* notObserved(shortPages)
    if (limit < valid && length > 0) return observed("another limit", records(length))
    if (limit < valid) {
      // A record that is hidden, or has appeared, could have been the only one of a page of 1.
      const [before, after] = [ask.last({ limit: "1" }, answer) ?? page, yield* ask.getAfter(answer, { limit: "1" })]
      return areSame(idsOf(before), idsOf(after))
        ? observed("obeyed", records(length))
        : yield* notObserved(listChanged)
    }
    if (length === limit) return observed("obeyed", records(length))
    // What follows the page of the valid limit is shared by other facts.
    const isAsLong = length === itemsOf(page).length
    const next = isAsLong ? { limit: String(valid), cursor: String(cursorOf(page)) } : undefined
    const continues = next === undefined
      ? yield* hasMore(ask, answer, String(limit))
      : itemsOf(yield* pageOf(ask, next)).length > 0
    if (!continues) return yield* notObserved(`the list ends before ${limit} records`)
    // The largest limit may be smaller than the valid one, or both pages are short.
    if (itemsOf(page).length < valid) return yield* notObserved(`a page of ${valid} has fewer records`)
    // Fewer than the valid limit gives are a short page, unless the service treats the limit as none.
    return length >= valid || length === itemsOf(yield* pageOf(ask, {})).length
      ? observed("another limit", records(length))
      : yield* notObserved(shortPages)
  })
})

const shortPages = "pages have fewer records than their limit, although more follow"

const limitOfText: Fact = {
  name: "limit-text",
  section: "§8",
  question: "Is a limit that is no number refused, or treated as another limit?",
  observe: Effect.fnUntraced(function*(ask) {
    // If a valid limit is refused as well, a refusal shows nothing about this one.
    if (itemsOf(yield* pageOf(ask, { limit: "1" })).length === 0) return yield* notObserved("the list is empty")
    const answer = yield* pageOrRefusal(ask.get({ limit: "many" }))
    if (answer.page === undefined) return observed("refused", `status ${answer.status}`)
    yield* requireLimit(ask)
    return observed("another limit", records(itemsOf(answer).length))
  })
}

const defaultSize = (documented: number | undefined): Fact => ({
  name: "default-limit",
  section: "§8",
  question: "How many records does a page have without a limit?",
  ...(documented === undefined
    ? {}
    : { rule: rule(`without a limit, a page has ${documented} records`, String(documented)) }),
  observe: Effect.fnUntraced(function*(ask) {
    const answer = yield* pageOf(ask, {})
    const { length } = itemsOf(answer)
    const other = yield* ask.get({ noSuchParameter: "1" })
    const again = other.page === undefined ? yield* requirePage(ask.getAfter(answer, {})) : other
    const isShort = isFollowed(answer) && isFollowed(again) && itemsOf(again).length !== length
    if (isShort || !(yield* hasFullPages(ask))) return yield* notObserved(shortPages)
    const isLonger = isFollowed(answer) && itemsOf(yield* pageOf(ask, largest)).length > length
    if (isLonger || (yield* hasMore(ask, answer, undefined))) {
      yield* requireLimit(ask)
      const whole = yield* pageOf(ask, largest)
      if (length === documented || isFollowed(whole)) return observed(String(length), records(length))
      // No full page is known. With the same limit, a page that is short by chance has another number of records.
      const limited = itemsOf(yield* pageOf(ask, { limit: String(length) })).length
      return limited >= length ? observed(String(length), records(length)) : yield* notObserved(shortPages)
    }
    return documented === undefined || length <= documented
      ? yield* notObserved("the list is shorter")
      : observed(`${length} or more`, records(length))
  })
})

const nextPage: Fact = {
  name: "next-page",
  section: "§4.4.2",
  question: "What does a cursor give, sent with the same limit?",
  rule: rule("a string cursor, sent with the same limit, gives the next page", "other records"),
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const { cursor, page: first } = yield* pageWithCursor(ask, "2", by)
        const second = yield* pageOrRefusal(ask[by]({ limit: "2", cursor }))
        // An older cursor may have expired.
        if (second.page === undefined) {
          return by === "get"
            ? undefined
            : observed("refused", `status ${second.status}`)
        }
        const before = new Set(idsOf(first))
        const repeats = idsOf(second).filter((id) => before.has(id)).length
        const whole = yield* ask.getAfter(second, largest)
        if (whole.page !== undefined && (yield* leadsOn(ask, first, second))) {
          return observed("other records", "other records")
        }
        // Without a large page, or with repeated records, the first page must be unchanged.
        if (itemsOf(second).length === 0 || repeats === 0 && whole.page !== undefined) return undefined
        // Then the cursor may have another name.
        if (repeats > 0 && ask.list.parameterNames !== "documented") return yield* notObserved("a cursor has no effect")
        return areSame(idsOf(yield* requirePage(ask.getAfter(second, { limit: "2" }))), idsOf(first))
          ? observed(
            repeats === 0 ? "other records" : "repeated records",
            `${records(repeats)} of the previous page`
          )
          : undefined
      })
    )
}

/** The answers of other facts to filters are shared, so it is observed after them. */
export const endOfList = (pages: number): Fact => ({
  name: "end-of-list",
  section: "§4.4.3",
  question: "What ends the list?",
  rule: rule("a null cursor ends the list", "a null cursor"),
  observe: Effect.fnUntraced(function*(ask) {
    const seen = new Set<string>()
    let cursor: string | undefined
    for (let page = 1; page <= pages; page++) {
      const answer = yield* pageOf(ask, { limit: "100", ...(cursor === undefined ? {} : { cursor }) })
      const next = cursorOf(answer)
      if (!isFollowed(answer)) return observed(endIn(answer), `after ${page} ${page === 1 ? "page" : "pages"}`)
      if (typeof next !== "string") return yield* notObserved("a cursor is no text")
      if (seen.has(next)) return observed("nothing", "an earlier cursor again")
      seen.add(next)
      cursor = next
    }
    for (const field of Object.keys(ask.list.filters)) {
      const value = yield* Effect.option(valueOf(ask, field))
      const filtered = Option.isNone(value) ? undefined : yield* ask.get({ [field]: value.value, limit: "100" })
      if (filtered?.page !== undefined && !isFollowed(filtered)) {
        return observed(endIn(filtered), `after one page, filtered by ${field}`)
      }
    }
    return yield* notObserved(`the list has more pages than the ${pages} that were read`)
  })
})

const endIn = (answer: Answer): string => {
  const cursor = cursorOf(answer)
  return cursor === null ? "a null cursor" : cursor === "" ? "an empty cursor" : "no cursor"
}

/** The answers of other facts to the same cursor are shared, so it is observed after them. */
export const sameCursor: Fact = {
  name: "same-cursor",
  section: "§4.4.4",
  question: "Is an unchanged cursor accepted a second time?",
  rule: rule("an unchanged cursor is accepted, also a second time", "accepted"),
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const { cursor, page: first } = yield* pageWithCursor(ask, "2", by)
        const once = yield* pageOrRefusal(ask[by]({ limit: "2", cursor }))
        const again = yield* pageOrRefusal(ask.getAfter(once, { limit: "2", cursor }))
        const refused = [once, again].find((answer) => answer.page === undefined)
        // An older cursor may have expired.
        if (refused !== undefined) return by === "get" ? undefined : observed("refused", `status ${refused.status}`)
        const isAccepted = areSame(idsOf(once), idsOf(again)) && (yield* leadsOn(ask, first, again))
        if (!isAccepted && !(yield* isLargestAccepted(ask, by))) return undefined
        const encoded = encodeURIComponent(cursor) !== cursor
        return observed(
          "accepted",
          `the same page twice; the cursor has ${encoded ? "characters" : "no character"} to percent-encode`
        )
      })
    )
}

/** In a list that changes, a large page still shows that a cursor leads to the same place twice. */
const isLargestAccepted = Effect.fnUntraced(function*(ask: Ask, by: By) {
  const first = yield* pageOf(ask, largest)
  if (!isFollowed(first)) return false
  const cursor = String(cursorOf(first))
  const once = yield* ask[by]({ ...largest, cursor })
  const again = yield* ask.getAfter(once, { ...largest, cursor })
  const after = yield* requirePage(ask.getAfter(again, largest))
  // A service may answer with the first page if it does not accept a cursor.
  return shareOf(once, again) > 0.5 && [first, after].every((start) => shareOf(again, start) < 0.25)
})

/** Returns the share of records that another page has as well. */
export const shareOf = (answer: Answer, other: Answer): number => {
  const ids = new Set(idsOf(other))
  return idsOf(answer).filter((id) => ids.has(id)).length / Math.max(itemsOf(answer).length, 1)
}

/** The pages up to the end of the list show what it counts: only one of the answers fits all of them. */
const meaningOfCount: Fact = {
  name: "count",
  section: "§2.5",
  question: "What does `count` count?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const all = yield* requirePage(by === "get" ? ask.get(largest) : ask.getRecent(largest))
        const { cursor, page: two } = yield* pageWithCursor(ask, "2", by)
        const isFar = isFollowed(all)
        const afterTwo = { limit: "2", cursor }
        const next = yield* pageOf(ask, isFar ? { ...largest, cursor: String(cursorOf(all)) } : afterTwo, by)
        if (!isFar && !isFollowed(next)) return yield* notObserved("the list has two pages of 2")
        const counts = [two, all, next].flatMap((answer) => countIn(answer) ?? [])
        if (counts.length < 3) return observed("no integer", "a page without an integer")
        // If the cursor has no effect, the pages are the same one.
        const shown = new Set(idsOf(isFar ? all : two))
        if (idsOf(next).filter((id) => shown.has(id)).length * 2 > itemsOf(next).length) {
          return yield* notObserved("the next page has records of the one before")
        }
        if (areSame(counts, [two, all, next].map((answer) => itemsOf(answer).length))) {
          return (yield* countsShortPage(ask, next, itemsOf(isFar ? all : two).length))
            ? observed("the page", seenCounts([two, all, next]))
            : yield* notObserved("no page has fewer records than its limit")
        }
        const pages = yield* pagesToEnd(ask, isFar ? [all, next] : [all])
        const whole = isFar ? [two, ...pages] : [two, all, next]
        const length = new Set(pages.flatMap(idsOf)).size
        const placed = placesOf(two, isFar ? undefined : next, pages)
        const exact = meaningOf(placed, length, { gained: 0, lost: 0 })
        if (exact !== undefined || by === "get") {
          return exact === undefined ? undefined : observed(exact, seenCounts(whole))
        }
        const meaning = meaningOf(placed, length, yield* changeDuring(ask, pages))
        return meaning === undefined ? undefined : observed(meaning, seenCounts(whole))
      })
    )
}

/** Longer lists are not read to their end to compare it with `count`. An export does. */
const mostPages = 5
/** How many records a list may gain or lose while its pages are read one after the other. */
const mostChanged = 25

const seenCounts = (pages: ReadonlyArray<Answer>): string =>
  pages.map((page) => `${countIn(page)} for ${records(itemsOf(page).length)}`).join(", then ")

/** Returns the pages from the first one up to the end of the list. */
const pagesToEnd = Effect.fnUntraced(function*(ask: Ask, first: ReadonlyArray<Answer>) {
  const pages = [...first]
  for (let last = pages.at(-1); last !== undefined && isFollowed(last); last = pages.at(-1)) {
    if (pages.length === mostPages) return yield* notObserved(`the list has more than ${mostPages} pages`)
    pages.push(yield* pageOf(ask, { ...largest, cursor: String(cursorOf(last)) }))
  }
  return pages
})

/** A page, and how many records are before it. */
interface PlacedPage {
  readonly page: Answer
  readonly before: number
}

const placesOf = (
  two: Answer,
  afterTwo: Answer | undefined,
  pages: ReadonlyArray<Answer>
): ReadonlyArray<PlacedPage> => {
  let before = 0
  return [
    { page: two, before: 0 },
    ...afterTwo === undefined ? [] : [{ page: afterTwo, before: itemsOf(two).length }],
    ...pages.map((page) => {
      const placed = { page, before }
      before += itemsOf(page).length
      return placed
    })
  ]
}

/** How many records a list has gained and lost. */
interface Change {
  readonly gained: number
  readonly lost: number
}

/** Returns the only meaning by which each count is what it should be, but for the change of the list. */
const meaningOf = (
  pages: ReadonlyArray<PlacedPage>,
  length: number,
  { gained, lost }: Change
): string | undefined => {
  const expected: { readonly [meaning: string]: (page: PlacedPage) => number } = {
    "the list": () => length,
    "what follows the page": ({ before, page }) => length - before - itemsOf(page).length,
    "the page and what follows": ({ before }) => length - before
  }
  const [fitting, other] = Object.entries(expected).flatMap(([meaning, countOf]) =>
    pages.every((one) => {
        const excess = (countIn(one.page) ?? Number.NaN) - countOf(one)
        return excess <= Math.min(gained, mostChanged) && -excess <= Math.min(lost, mostChanged)
      }) ?
      [meaning] :
      []
  )
  return other === undefined ? fitting : undefined
}

/** Returns how many records the first and the last page have gained and lost while the pages were read. */
const changeDuring = Effect.fnUntraced(function*(ask: Ask, pages: ReadonlyArray<Answer>) {
  const [first, beforeLast, last] = [pages.at(0), pages.at(-2), pages.at(-1)]
  if (first === undefined || last === undefined) return { gained: 0, lost: 0 }
  const again = yield* requirePage(ask.getAfter(last, largest))
  // New records move others off the end of the page, which are not lost.
  const had = new Set(idsOf(first))
  const shared = new Set(idsOf(again).filter((id) => had.has(id)))
  const upToShared = (ids: ReadonlyArray<unknown>) => ids.slice(0, ids.findLastIndex((id) => shared.has(id)) + 1)
  const start = changeBetween(upToShared(idsOf(first)), upToShared(idsOf(again)))
  if (beforeLast === undefined) return start
  const lastAgain = yield* ask.getAfter(last, { ...largest, cursor: String(cursorOf(beforeLast)) })
  const end = lastAgain.page === undefined ? { gained: 0, lost: 0 } : changeBetween(idsOf(last), idsOf(lastAgain))
  return { gained: start.gained + end.gained, lost: start.lost + end.lost }
})

const changeBetween = (before: ReadonlyArray<unknown>, after: ReadonlyArray<unknown>): Change => {
  const [earlier, later] = [new Set(before), new Set(after)]
  return {
    gained: after.filter((id) => !earlier.has(id)).length,
    lost: before.filter((id) => !later.has(id)).length
  }
}

/** Whether `count` is that of the page, also on one with fewer records than its limit. Shares requests with facts about filters. */
const countsShortPage = Effect.fnUntraced(function*(ask: Ask, next: Answer, full: number) {
  const isShort = (answer: Answer, most: number) =>
    itemsOf(answer).length > 0 && itemsOf(answer).length < most && !isFollowed(answer)
  const isOfPage = (answer: Answer) => countIn(answer) === itemsOf(answer).length
  if (isShort(next, full)) return isOfPage(next)
  // The largest limit may be smaller than 100.
  const largestPage = itemsOf(yield* pageOf(ask, largest)).length
  for (const field of textFields(ask)) {
    const filtered = yield* Effect.option(
      Effect.flatMap(valueOf(ask, field), (value) => pageOf(ask, { [field]: value, limit: "100" }))
    )
    if (Option.isSome(filtered) && isShort(filtered.value, largestPage)) return isOfPage(filtered.value)
  }
  return false
})

const unknownParameter: Fact = {
  name: "unknown-parameter",
  section: "§4",
  question: "Is a parameter that the document does not name refused or ignored?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const whole = yield* pageOf(ask, largest)
        if (itemsOf(whole).length === 0) return yield* notObserved("the list is empty")
        const before = yield* pageOf(ask, {}, by)
        const answer = yield* pageOrRefusal(ask[by]({ noSuchParameter: "1" }))
        if (answer.page === undefined) return observed("refused", `status ${answer.status}`)
        const ids = idsOf(answer)
        const isStart = (other: Answer) => ids.length > 0 && areSame(ids, idsOf(other))
        if (isStart(before)) return observed("ignored", "the same records as without it")
        const after = yield* requirePage(ask.getAfter(answer, {}))
        const isIgnored = isStart(after) || (yield* areFirst(ask, [answer], [{ ids, are: "some" }]))
        if (isIgnored === true) return observed("ignored", "the same records as without it")
        return isIgnored === false && areSame(idsOf(before), idsOf(after))
          ? observed("obeyed", "other records than without it")
          : undefined
      })
    )
}

const countIn = ({ page }: { readonly page: Readonly<Record<string, unknown>> | undefined }): number | undefined =>
  Number.isSafeInteger(page?.["count"]) ? Number(page?.["count"]) : undefined
