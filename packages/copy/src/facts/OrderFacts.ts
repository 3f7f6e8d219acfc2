/** Facts about the order of a list and the effect of the page size on it. §4.4 leaves both open. */
import { Lists, timestamp } from "@payments/core"
import { Effect, Option } from "effect"
import {
  type Answer,
  cursorOf,
  fieldsOf,
  idsOf,
  itemsOf,
  notObserved,
  pageOf,
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
        const orders = Object.entries(Lists.dateFields(list)).flatMap(([field, kind]) =>
          kind === "dateTime" ? orderBy(field, page) : []
        )
        return orders.length > 1
          ? Effect.fail(notObserved(`several orders fit: ${orders.join("; ")}`))
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
          for (const limit of [7, 1]) {
            const read: Array<unknown> = []
            let cursor: string | undefined
            for (let number = 0; number < pagesOfEach; number++) {
              const next = yield* pageOf(ask, { limit: String(limit), ...(cursor === undefined ? {} : { cursor }) })
              read.push(...idsOf(next))
              const following = cursorOf(next)
              if (typeof following !== "string") break
              cursor = following
            }
            if (read.length === 0 || JSON.stringify(read) !== JSON.stringify(ids.slice(0, read.length))) {
              return observed("other records", `limit ${limit} gives other records than limit 100`)
            }
          }
          return observed("the same records", "limits 1, 7 and 100")
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
        { limit: "5", evident: ["the next records", "a refusal"] },
        Effect.fnUntraced(function*(page) {
          const { cursor } = yield* pageWithCursor(ask, "2")
          const answer = yield* ask.get({ limit: "3", cursor })
          if (answer.page === undefined) return observed("a refusal", `status ${answer.status}`)
          return JSON.stringify(idsOf(answer)) === JSON.stringify(idsOf(page).slice(2))
            ? observed("the next records", "the next records, as many as the new limit")
            : observed("other records", "not the next records")
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
          const answer = yield* ask.get({ limit: "2", cursor })
          if (answer.page === undefined) return observed("a refusal", `status ${answer.status}`)
          return JSON.stringify(idsOf(answer)) === JSON.stringify(idsOf(first))
            ? observed("the first page", "the records of the first page")
            : observed("other records", "other records than those of the first page")
        })
      )
  }
]

/** Fewer records can be in an order by chance. */
const leastRecords = 20
const pagesOfEach = 2

const orderBy = (field: string, page: Answer): ReadonlyArray<string> => {
  const times = fieldsOf(page, field).flatMap((text) =>
    Option.toArray(Option.map(timestamp(text), ({ epochMilliseconds }) => epochMilliseconds))
  )
  if (new Set(times).size < leastRecords / 2 || times.length < leastRecords) return []
  const steps = new Set(times.slice(1).map((time, index) => Math.sign(time - (times[index] ?? time))))
  if (!steps.has(1)) return [`${field}, newest first`]
  return steps.has(-1) ? [] : [`${field}, oldest first`]
}
