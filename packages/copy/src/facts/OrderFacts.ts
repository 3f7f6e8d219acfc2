/** Facts about the order of a list and the effect of the page size on it. §4.4 leaves both open. */
import { Lists, timestamp } from "@payments/core"
import { Effect, Option } from "effect"
import {
  type Answer,
  type Ask,
  fieldOf,
  fieldsOf,
  idsOf,
  itemsOf,
  notObserved,
  pageOf,
  pageOrRefusal,
  pageWithCursor,
  whileUnchanged
} from "./Ask.ts"
import { type Fact, observed } from "./Fact.ts"

export const orderFacts = (list: Lists.AnyList): ReadonlyArray<Fact> => [
  {
    name: "order",
    section: "§4.4",
    question: "In which order are the first 100 records?",
    observe: (ask) =>
      Effect.flatMap(pageOf(ask, { limit: "100" }), (page) => {
        const { length } = itemsOf(page)
        if (length < leastRecords) return Effect.fail(notObserved(`fewer than ${leastRecords} records`))
        const judged = Object.entries(Lists.dateFields(list)).flatMap(([field, kind]) =>
          kind === "dateTime" ? [orderBy(field, page)] : []
        )
        const orders = judged.flatMap((order) => order === undefined || order === "none" ? [] : [order])
        if (orders.length > 1) return Effect.fail(notObserved(`several orders fit: ${orders.join("; ")}`))
        return orders.length === 0 && judged.includes(undefined)
          ? Effect.fail(notObserved("a date has too few different values, or another format"))
          : Effect.succeed(observed(orders[0] ?? "no date", `${length} records`))
      })
  },
  {
    name: "page-size",
    section: "§4.4",
    question: "Do pages of other sizes give the same records?",
    observe: (ask) =>
      whileUnchanged(
        ask,
        { limit: "100", evident: ["the same records"] },
        Effect.fnUntraced(function*(page) {
          const ids = idsOf(page)
          if (ids.length < leastRecords) return yield* notObserved(`fewer than ${leastRecords} records`)
          const [seven, one] = [yield* pageOf(ask, { limit: "7" }), yield* pageOf(ask, { limit: "1" })]
          const { cursor, page: first } = yield* pageWithCursor(ask, "2")
          const twos = [...idsOf(first), ...idsOf(yield* pageOf(ask, { limit: "2", cursor }))]
          for (const read of [idsOf(one), twos, idsOf(seven)]) {
            if (read.length === 0) return yield* notObserved("smaller pages have too few records")
            if (!areSame(read, ids.slice(0, read.length))) {
              return observed("other records", "smaller pages give other records than limit 100")
            }
          }
          return observed("the same records", "limits 1, 2, 7 and 100")
        })
      )
  },
  ...cursorFacts
]

const cursorFacts: ReadonlyArray<Fact> = [
  {
    name: "cursor-limit",
    section: "§4.4.2",
    question: "What does a cursor give with another limit?",
    observe: (ask) =>
      whileUnchanged(
        ask,
        { limit: "7", evident: ["the next records", "the next 2 records", "the first page", "a refusal"] },
        Effect.fnUntraced(function*(page) {
          const cursor = yield* cursorAfterTwo(ask, page)
          const answer = yield* pageOrRefusal(ask.get({ limit: "3", cursor }))
          if (answer.page === undefined) {
            yield* requireAccepted(ask, cursor)
            return observed("a refusal", `status ${answer.status}`)
          }
          const [all, ids] = [idsOf(page), idsOf(answer)]
          if (all.length < 5) return yield* notObserved("the list has fewer than 5 records")
          if (areSame(ids, all.slice(2, 5))) return observed("the next records", "as many as the new limit")
          if (areSame(ids, all.slice(2, 4))) return observed("the next 2 records", "as many as the first limit")
          return areSame(ids, all.slice(0, 3))
            ? observed("the first page", "the records of the first page")
            : observed("other records", "not the next records")
        })
      )
  },
  {
    name: "cursor-filters",
    section: "§4.4.2",
    question: "What does a cursor give with another filter?",
    observe: (ask) =>
      whileUnchanged(
        ask,
        { limit: "7", evident: ["a refusal", "the next page, without the filter", "the first page"] },
        Effect.fnUntraced(function*(page) {
          const [field, value] = yield* otherFilter(ask, page)
          const cursor = yield* cursorAfterTwo(ask, page)
          const answer = yield* pageOrRefusal(ask.get({ limit: "2", cursor, [field]: value }))
          if (answer.page === undefined) {
            // The service may refuse the value, if the last record with it is gone.
            yield* pageOf(ask, { limit: "2", [field]: value }, "send")
            yield* requireAccepted(ask, cursor)
            return observed("a refusal", `status ${answer.status}`)
          }
          const [all, ids] = [idsOf(page), idsOf(answer)]
          if (areSame(ids, all.slice(2, 4))) {
            return observed("the next page, without the filter", "the records that the cursor gives alone")
          }
          if (areSame(ids, all.slice(0, 2))) return observed("the first page", "the records of the first page")
          const matching = itemsOf(answer).filter((item) => String(fieldOf(item, field)).startsWith(value)).length
          return matching > 0 && matching === ids.length
            ? observed("filtered records", "only records that match the filter")
            : observed("other records", "other records")
        })
      )
  },
  {
    name: "cursor-list",
    section: "§4.4.4",
    question: "What does a cursor of another list give?",
    observe: (ask) =>
      whileUnchanged(
        ask,
        { limit: "2", evident: ["the first page", "a refusal"] },
        Effect.fnUntraced(function*(first) {
          if (ask.other === undefined) return yield* notObserved("no other list is read")
          const { cursor } = yield* pageWithCursor(ask.other, "2")
          const answer = yield* pageOrRefusal(ask.get({ limit: "2", cursor }))
          if (answer.page === undefined) {
            yield* requireAccepted(ask.other, cursor)
            return observed("a refusal", `status ${answer.status}`)
          }
          return areSame(idsOf(answer), idsOf(first))
            ? observed("the first page", "the records of the first page")
            : observed("other records", "other records than those of the first page")
        })
      )
  }
]

/** Fewer records can be in an order by chance. */
const leastRecords = 20

/** Returns a cursor that was issued after the first two records of this page. */
const cursorAfterTwo = Effect.fnUntraced(function*(ask: Ask, page: Answer) {
  const { cursor, page: first } = yield* pageWithCursor(ask, "2")
  if (!areSame(idsOf(first), idsOf(page).slice(0, 2))) return yield* notObserved("the list changed in between")
  return cursor
})

/** Fails if the cursor is refused in its own list too: it has expired, or may be used once only. */
const requireAccepted = (ask: Ask, cursor: string) => pageOf(ask, { limit: "2", cursor }, "send")

const areSame = (one: ReadonlyArray<unknown>, other: ReadonlyArray<unknown>): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

/** Returns a filter that none of these records matches, with a value of another record. */
const otherFilter = Effect.fnUntraced(function*(ask: Ask, page: Answer) {
  const records = itemsOf(yield* pageOf(ask, { limit: "100" }))
  for (const [field, { type }] of Object.entries<Lists.Filter>(ask.list.filters)) {
    const shown = new Set(itemsOf(page).map((item) => fieldOf(item, field)))
    const value = records.map((item) => fieldOf(item, field)).find((text) =>
      typeof text === "string" && text !== "" && !shown.has(text)
    )
    if (type === "text" && typeof value === "string") return [field, value] as const
  }
  return yield* notObserved("no filter has a value that is missing on the first two pages")
})

/** Returns the order of the page by a date, `none` if it has another order, or undefined if the dates do not show it. */
const orderBy = (field: string, page: Answer): string | undefined => {
  const texts = fieldsOf(page, field)
  const times = texts.flatMap((text) =>
    Option.toArray(Option.map(timestamp(text), ({ epochMilliseconds }) => epochMilliseconds))
  )
  const steps = new Set(times.slice(1).map((time, index) => Math.sign(time - (times[index] ?? time))))
  if (steps.has(1) && steps.has(-1)) return "none"
  if (times.length < Math.max(leastRecords, texts.length) || new Set(times).size < leastRecords / 2) return undefined
  return steps.has(1) ? `${field}, oldest first` : `${field}, newest first`
}
