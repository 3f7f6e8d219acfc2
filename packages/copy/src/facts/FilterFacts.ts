/** Facts about filters (§4.1 to §4.3): whether a filter selects, and what it does with a value that no record has. */
import { Lists } from "@payments/core"
import { Effect, Option } from "effect"
import {
  type Answer,
  type Ask,
  type By,
  fieldOf,
  fieldsOf,
  idsOf,
  isFollowed,
  itemsOf,
  notObserved,
  pageOf,
  pageOrRefusal,
  requirePage
} from "./Ask.ts"
import { type Fact, observed, records, rule } from "./Fact.ts"
import { areFirst, largest, leastStayed, observeTwice, sizeOf } from "./Movement.ts"

export const filterFacts = ({ filters, section }: Lists.AnyList): ReadonlyArray<Fact> => [
  ...Object.entries<Lists.Filter>(filters).flatMap(([field, filter]) => [
    filtering(section, field, filter),
    absentValue(section, field),
    ...(filter.type === "text" ? [prefix(section, field)] : [])
  ]),
  twoFilters(section)
]

/**
 * Returns a value of the field, from records that do not all have the same one. If possible, one that the first records do
 * not have. Takes it from the first page of 100, or from the last one that was read.
 */
export const valueOf = Effect.fnUntraced(function*(ask: Ask, field: string, by: By = "get") {
  const first = yield* pageOf(ask, largest)
  const values = itemsOf(by === "get" ? first : ask.last(largest) ?? first).map((item) => fieldOf(item, field))
  const filled = values.filter((text) => typeof text === "string" && text !== "")
  const middle = filterOf(ask, field)?.type === "text" ? [] : inTheMiddle(filled)
  const texts = middle.length === 0 ? filled : middle
  // A filter may know new records later than the list, which often begins with them. So the value is from the end of the page.
  const value = texts.findLast((text) => !values.slice(0, 4).includes(text)) ?? texts[0]
  if (typeof value !== "string") return yield* notObserved(`no record of the first page has a ${field}`)
  if (values.every((text) => text === value)) {
    return yield* notObserved(`all records of the first page have the same ${field}`)
  }
  return value
})

/** Returns the dates without the first and the last: a filter for those may also select all dates up to it, or from it on. */
const inTheMiddle = (dates: ReadonlyArray<unknown>): ReadonlyArray<unknown> => {
  const sorted = dates.toSorted()
  return dates.filter((date) => date !== sorted.at(0) && date !== sorted.at(-1))
}

/**
 * Returns the last date of the first page if the given one is the first, and the other way round: to one of them, a filter that
 * selects all dates up to one, or from one on, gives both. Undefined if the given date is in the middle, or is no date.
 */
const otherEnd = (ask: Ask, field: string, value: string, page: Answer): string | undefined => {
  const dates = filterOf(ask, field)?.type === "text" ? [] : fieldsOf(page, field).toSorted()
  const [first, last] = [dates.at(0), dates.at(-1)]
  return value === first ? last : value === last ? first : undefined
}

/** Whether the filter of a field selects records. Shares the request of the fact about it. */
const selects = (ask: Ask, field: string): Effect.Effect<boolean> =>
  Effect.gen(function*() {
    const value = yield* valueOf(ask, field)
    return hasOnly(yield* pageOf(ask, { [field]: value, limit: "100" }), field, value)
  }).pipe(Effect.orElseSucceed(() => false))

/** Whether all records of a filtered page have the value, or begin with it. */
export const hasOnly = (answer: Answer, field: string, value: string): boolean =>
  itemsOf(answer).length > 0 && itemsOf(answer).every((item) => String(fieldOf(item, field)).startsWith(value))

/** Returns records of the first 100 that the list had before and after an answer, so that it also had them in between. */
const stayedDuring = Effect.fnUntraced(function*(ask: Ask, answer: Answer) {
  const before = new Set(idsOf(ask.last(largest, answer) ?? answer))
  const after = yield* requirePage(ask.getAfter(answer, largest))
  const ids = idsOf(after)
  return itemsOf(after).filter((_, index) => before.has(ids[index]))
})

/** Whether the list had such a record when it gave an answer. Not all of many records vanish between two requests. */
const stayed = (ask: Ask, answer: Answer, isSuch: (item: unknown) => boolean) => {
  const before = ask.last(largest, answer)
  return before !== undefined && itemsOf(before).filter(isSuch).length >= leastStayed
    ? Effect.succeed(true)
    : Effect.map(stayedDuring(ask, answer), (items) => items.some(isSuch))
}

/** Whether the list had a record with the value when it gave an answer. */
const isStill = (ask: Ask, answer: Answer, field: string, value: string) =>
  Effect.map(stayedDuring(ask, answer), (items) => items.some((item) => fieldOf(item, field) === value))

const filtering = (section: string, field: string, filter: Lists.Filter): Fact => ({
  name: `filter-${field}`,
  section,
  question: `Does ${field} filter?`,
  rule: rule(`${field} filters`, "only matching records"),
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const value = yield* valueOf(ask, field, by)
        const answer = yield* pageOf(ask, { [field]: value, limit: "100" }, by)
        const filtered = itemsOf(answer)
        const matching = filtered.filter((item) => Lists.matches(filter, fieldOf(item, field), value)).length
        if (matching > 0 && matching === filtered.length) {
          // In a list of few records, the others may have vanished in between.
          const hasOthers = yield* stayed(ask, answer, (item) => !Lists.matches(filter, fieldOf(item, field), value))
          if (!hasOthers) return undefined
          const other = otherEnd(ask, field, value, ask.last(largest, answer) ?? answer)
          if (other === undefined || other === value) return observed("only matching records", records(matching))
          const atOtherEnd = itemsOf(yield* pageOf(ask, { [field]: other, limit: "100" }, by))
          if (atOtherEnd.length === 0) return undefined
          return atOtherEnd.every((item) => Lists.matches(filter, fieldOf(item, field), other))
            ? observed("only matching records", records(matching))
            : observed("other records too", "records of other dates")
        }
        // A service that ignores unknown values answers with everything once the last record with the value is gone.
        if (!(yield* isStill(ask, answer, field, value))) return undefined
        if (filtered.length === 0 && isFollowed(answer)) return yield* notObserved(emptyPage)
        if (filtered.length === 0) return observed("no record", "no record, although one has the value")
        const beginning = filtered.filter((item) => String(fieldOf(item, field)).startsWith(value)).length
        return observed(
          beginning === filtered.length ? "records that begin with it" : "other records too",
          `${matching} of ${filtered.length} with the value`
        )
      })
    )
})

const emptyPage = "a page without records has a cursor"

/** Fails if the service refuses a value that records have: then it does not know the parameter. Shares that request. */
const requireAccepted = (ask: Ask, field: string) =>
  Effect.flatMap(valueOf(ask, field), (value) => pageOf(ask, { [field]: value, limit: "100" }))

/** The worst trap: a service that ignores a value it does not know answers with everything. */
const absentValue = (section: string, field: string): Fact => ({
  name: `absent-${field}`,
  section,
  question: `What does a ${field} give that no record has?`,
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        if (itemsOf(yield* pageOf(ask, largest)).length === 0) return yield* notObserved("the list is empty")
        const answer = yield* pageOrRefusal(
          withAbsentValue(ask, field, (value) => ask[by]({ [field]: value, limit: "100" }))
        )
        if (answer.page === undefined) {
          yield* requireAccepted(ask, field)
          return observed("a refusal", `status ${answer.status}`)
        }
        if (itemsOf(answer).length === 0 && isFollowed(answer)) return yield* notObserved(emptyPage)
        if (itemsOf(answer).length === 0) {
          return (yield* stayed(ask, answer, () => true)) ? observed("no record", "no record") : undefined
        }
        const isEverything = yield* areFirst(ask, [answer], [{ ids: idsOf(answer), are: sizeOf(ask, answer) }])
        if (isEverything === undefined) return undefined
        return isEverything
          ? observed("everything", "the same records as without the filter")
          : observed("other records", "other records than without the filter")
      })
    )
})

/**
 * Sends a value that no record has: the beginning of one, which also shows whether a filter selects by prefix. If that gives
 * records, sends another value.
 */
export const withAbsentValue = Effect.fnUntraced(function*(
  ask: Ask,
  field: string,
  send: (value: string) => ReturnType<Ask["get"]>
) {
  const beginning = yield* Effect.option(beginningOf(ask, field))
  if (Option.isSome(beginning)) {
    const { value: { beginning: text } } = beginning
    const answer = yield* send(text)
    // With records in the answer, the beginning may be the value of a record on a later page.
    if (itemsOf(answer).length === 0) return answer
  }
  return yield* send(absentValueOf(filterOf(ask, field)))
})

const filterOf = ({ list }: Ask, field: string): Lists.Filter | undefined =>
  Object.entries<Lists.Filter>(list.filters).find(([name]) => name === field)?.[1]

/** A service may refuse what is no date, and ignore a day that no record has. */
const absentValueOf = (filter: Lists.Filter | undefined): string =>
  filter?.type === "day" || filter?.type === "dateTime" ? absentDay : absent

/**
 * Returns a value of the field without its last two characters. No record of the first page has that as its value, and the first
 * two do not begin with it: so the answer of a service that ignores it looks otherwise.
 */
const beginningOf = Effect.fnUntraced(function*(ask: Ask, field: string) {
  const values = itemsOf(yield* pageOf(ask, { limit: "100" })).map((item) => String(fieldOf(item, field) ?? ""))
  const value = filterOf(ask, field)?.type === "text"
    ? values.find((text) => {
      const beginning = text.slice(0, -2)
      return text.length >= shortestText && !values.includes(beginning) &&
        !values.slice(0, 2).some((first) => first.startsWith(beginning))
    })
    : undefined
  return value === undefined
    ? yield* notObserved(`no ${field} has a beginning of its own`)
    : { beginning: value.slice(0, -2), value }
})

/** A value that the documented fields cannot have by chance. */
const absent = "no-such-value-7f3a9c51d04e"
const absentDay = "1900-01-01"

/** A shorter text could be a value of its own. */
const shortestText = 6

const prefix = (section: string, field: string): Fact => ({
  name: `prefix-${field}`,
  section,
  question: `What does ${field} give with the beginning of a value?`,
  observe: Effect.fnUntraced(function*(ask) {
    const { beginning, value } = yield* beginningOf(ask, field)
    const answer = yield* pageOrRefusal(ask.get({ [field]: beginning, limit: "100" }))
    if (answer.page === undefined) {
      yield* requireAccepted(ask, field)
      return (yield* isStill(ask, answer, field, value))
        ? observed("a refusal", `status ${answer.status}`)
        : yield* notObserved("the list changed in between")
    }
    const values = itemsOf(answer).map((item) => fieldOf(item, field))
    if (values.includes(beginning)) return yield* notObserved("the beginning is a value of its own")
    if (values.length === 0 && isFollowed(answer)) return yield* notObserved(emptyPage)
    if (values.length > 0 && values.every((text) => typeof text === "string" && text.startsWith(beginning))) {
      return observed("records that begin with it", records(values.length))
    }
    if (!(yield* isStill(ask, answer, field, value))) return yield* notObserved("the list changed in between")
    return values.length === 0
      ? observed("no record", "no record, although one begins with it")
      : observed("other records", "records that do not begin with it")
  })
})

const twoFilters = (section: string): Fact => ({
  name: "two-filters",
  section,
  question: "What do two filters together give?",
  observe: (ask) =>
    observeTwice(
      ask,
      Effect.fnUntraced(function*(by) {
        const whole = yield* pageOf(ask, largest)
        const fields = yield* Effect.filter(textFields(ask), (field) => selects(ask, field))
        if (fields.length < 2) return yield* notObserved("fewer than two filters select records")
        const pair = twoValues(fields, itemsOf(by === "get" ? whole : ask.last(largest) ?? whole))
        if (pair === undefined) return yield* notObserved("no two fields select different records")
        const [one, other] = pair
        const answer = yield* pageOrRefusal(
          ask[by]({ [one.field]: one.value, [other.field]: other.value, limit: "100" })
        )
        // A service may refuse or ignore a value once the last record with it is gone.
        if (!areDifferent(yield* stayedDuring(ask, answer), one, other)) return undefined
        if (answer.page === undefined) return observed("a refusal", `status ${answer.status}`)
        const found = itemsOf(answer)
        if (found.length === 0 && isFollowed(answer)) return yield* notObserved(emptyPage)
        if (found.length === 0) return observed("no record", "no record, although one matches both")
        // A filter may also select values that begin with its text.
        const matching = ({ field, value }: FieldValue) =>
          found.filter((item) => String(fieldOf(item, field)).startsWith(value)).length
        const [first, second] = [matching(one) === found.length, matching(other) === found.length]
        if (first && second) return observed("records that match both", records(found.length))
        if (first || second) return observed("records that match one", `of ${one.field} and ${other.field}`)
        return observed("other records", records(found.length))
      })
    )
})

export const textFields = ({ list }: Ask): ReadonlyArray<string> =>
  Object.entries<Lists.Filter>(list.filters).flatMap(([field, { type }]) => type === "text" ? [field] : [])

interface FieldValue {
  readonly field: string
  readonly value: string
}

/** Returns values of two fields that one record has, and that other records have only one of. */
const twoValues = (
  fields: ReadonlyArray<string>,
  items: ReadonlyArray<unknown>
): readonly [FieldValue, FieldValue] | undefined => {
  for (const field of fields) {
    for (const second of fields) {
      for (const item of field === second ? [] : items) {
        const [value, other] = [fieldOf(item, field), fieldOf(item, second)]
        if (typeof value !== "string" || typeof other !== "string" || value === "" || other === "") continue
        const pair = [{ field, value }, { field: second, value: other }] as const
        if (areDifferent(items, ...pair)) return pair
      }
    }
  }
  return undefined
}

/** Whether one of these records has both values, and others have only one of them. */
const areDifferent = (items: ReadonlyArray<unknown>, one: FieldValue, other: FieldValue): boolean => {
  const found = items.map((
    item
  ) => [fieldOf(item, one.field) === one.value, fieldOf(item, other.field) === other.value])
  return [[true, true], [true, false], [false, true]].every(([first, second]) =>
    found.some((has) => has[0] === first && has[1] === second)
  )
}
