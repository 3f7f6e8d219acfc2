/** Facts about the size of pages (§8), about `count` (§2.5), and about what leads from one page to the next (§4.4). */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import {
  type Ask,
  cursorOf,
  fieldsOf,
  idsOf,
  itemsOf,
  notObserved,
  pageOf,
  pageOrRefusal,
  pageWithCursor,
  whileUnchanged
} from "./Ask.ts"
import { type Fact, observed, records, type Rule, rule } from "./Fact.ts"

/** Facts about the pages of a list. `pages` is the most pages to read in search of its end. */
export const pageFacts = ({ limits }: Lists.AnyList, pages: number): ReadonlyArray<Fact> => [
  {
    name: "first-page",
    section: "§4.4.1",
    question: "What does a request without a cursor give?",
    rule: rule("a request without a cursor gives the first page", "a page"),
    observe: (ask) =>
      Effect.map(
        ask.get({}),
        ({ page, status }) => observed(page === undefined ? "no page" : "a page", `status ${status}`)
      )
  },
  nextPage,
  endOfList(pages),
  sameCursor,
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
  defaultSize(limits.default),
  meaningOfCount,
  unknownParameter
]

const atMost = (ask: Ask, limit: number): ReturnType<Fact["observe"]> =>
  Effect.flatMap(pageOf(ask, { limit: String(limit) }), (answer) => {
    const { length } = itemsOf(answer)
    if (length === 0) return Effect.fail(notObserved("the list is empty"))
    if (length > limit) return Effect.succeed(observed("more", records(length)))
    // Fewer records, although more follow: another limit applies, or the service leaves records out.
    return length < limit && cursorOf(answer) !== null
      ? Effect.succeed(observed("fewer", records(length)))
      : Effect.succeed(observed("obeyed", records(length)))
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
    if (limit > valid && cursorOf(page) === null) return yield* notObserved(`the list has one page of ${valid}`)
    const answer = yield* pageOrRefusal(ask.get({ limit: String(limit) }))
    if (answer.page === undefined) return observed("refused", `status ${answer.status}`)
    const { length } = itemsOf(answer)
    if (limit < valid) return observed(length === 0 ? "obeyed" : "another limit", records(length))
    if (itemsOf(page).length < valid) return yield* notObserved(`a page of ${valid} has fewer records`)
    // A list that ends before the limit obeys it too.
    const isObeyed = length === limit || length > valid && cursorOf(answer) === null
    return observed(isObeyed ? "obeyed" : "another limit", records(length))
  })
})

const limitOfText: Fact = {
  name: "limit-text",
  section: "§8",
  question: "Is a limit that is no number refused, or treated as another limit?",
  observe: (ask) =>
    Effect.flatMap(pageOrRefusal(ask.get({ limit: "many" })), (answer) => {
      if (answer.page !== undefined) return Effect.succeed(observed("another limit", records(itemsOf(answer).length)))
      return Effect.map(pageOf(ask, {}), () => observed("refused", `status ${answer.status}`))
    })
}

const defaultSize = (documented: number | undefined): Fact => ({
  name: "default-limit",
  section: "§8",
  question: "How many records does a page have without a limit?",
  ...(documented === undefined
    ? {}
    : { rule: rule(`without a limit, a page has ${documented} records`, String(documented)) }),
  observe: (ask) =>
    Effect.flatMap(pageOf(ask, {}), (answer) => {
      const { length } = itemsOf(answer)
      if (cursorOf(answer) !== null) return Effect.succeed(observed(String(length), records(length)))
      return documented === undefined || length <= documented
        ? Effect.fail(notObserved("the list is shorter"))
        : Effect.succeed(observed(`${length} or more`, records(length)))
    })
})

const nextPage: Fact = {
  name: "next-page",
  section: "§4.4.2",
  question: "What does a cursor give, sent with the same limit?",
  rule: rule("a string cursor, sent with the same limit, gives the next page", "other records"),
  observe: (ask) =>
    whileUnchanged(
      ask,
      { limit: "2", evident: ["other records", "refused"] },
      Effect.fnUntraced(function*(page) {
        const { cursor } = yield* pageWithCursor(ask, "2")
        const shared = yield* pageOrRefusal(ask.get({ limit: "2", cursor }))
        const second = shared.page === undefined ? yield* afterFreshPage(ask) : shared
        if (second.page === undefined) return observed("refused", `status ${second.status}`)
        const before = new Set(idsOf(page))
        const repeats = idsOf(second).filter((id) => before.has(id)).length
        return repeats === 0
          ? observed("other records", "other records")
          : observed("repeated records", `${records(repeats)} of the previous page`)
      })
    )
}

const endOfList = (pages: number): Fact => ({
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
      if (next === null) return observed("a null cursor", `after ${page} ${page === 1 ? "page" : "pages"}`)
      if (typeof next !== "string") return observed("no cursor", "a page without a cursor")
      if (seen.has(next)) return observed("nothing", "an earlier cursor again")
      seen.add(next)
      cursor = next
    }
    const [field] = Object.keys(ask.list.filters)
    const [value] = field === undefined ? [] : fieldsOf(yield* pageOf(ask, { limit: "100" }), field)
    if (field !== undefined && value !== undefined) {
      const filtered = yield* pageOf(ask, { [field]: value, limit: "100" })
      if (cursorOf(filtered) === null) return observed("a null cursor", `after one page, filtered by ${field}`)
    }
    return yield* notObserved(`the list has more pages than the ${pages} that were read`)
  })
})

const sameCursor: Fact = {
  name: "same-cursor",
  section: "§4.4.4",
  question: "Is an unchanged cursor accepted a second time?",
  rule: rule("an unchanged cursor is accepted, also a second time", "accepted"),
  observe: Effect.fnUntraced(function*(ask) {
    const { cursor } = yield* pageWithCursor(ask, "2")
    const once = yield* pageOrRefusal(ask.get({ limit: "2", cursor }))
    const again = yield* pageOrRefusal(ask.get({ limit: "2", cursor }, { isSecond: true }))
    if (once.page === undefined || again.page === undefined) {
      // An older cursor may have expired.
      const fresh = yield* cursorOfFreshPage(ask)
      for (let time = 1; time <= 2; time++) {
        const { page, status } = yield* pageOrRefusal(ask.send({ limit: "2", cursor: fresh }))
        if (page === undefined) return observed("refused", `status ${status}`)
      }
      return yield* notObserved("the cursor was no longer accepted")
    }
    if (JSON.stringify(idsOf(once)) !== JSON.stringify(idsOf(again))) {
      return yield* notObserved("two answers differ; the list may have changed in between")
    }
    const encoded = encodeURIComponent(cursor) !== cursor
    return observed(
      "accepted",
      `the same page twice; the cursor has ${encoded ? "characters" : "no character"} to percent-encode`
    )
  })
}

const cursorOfFreshPage = Effect.fnUntraced(function*(ask: Ask) {
  const cursor = cursorOf(yield* pageOf(ask, { limit: "2" }, "send"))
  return typeof cursor === "string" ? cursor : yield* notObserved("the list has one page of 2")
})

/** An older cursor may have expired. */
const afterFreshPage = (ask: Ask) =>
  Effect.flatMap(cursorOfFreshPage(ask), (cursor) => pageOrRefusal(ask.send({ limit: "2", cursor })))

/** Two pages show what it counts: only one of the answers fits both. */
const meaningOfCount: Fact = {
  name: "count",
  section: "§2.5",
  question: "What does `count` count?",
  observe: (ask) =>
    whileUnchanged(
      ask,
      { limit: "2", evident: ["the page", "no integer"] },
      Effect.fnUntraced(function*(first) {
        const { cursor } = yield* pageWithCursor(ask, "2")
        const second = yield* pageOf(ask, { limit: "2", cursor })
        if (cursorOf(second) === null) return yield* notObserved("the list has two pages of 2")
        const [one, two] = [countIn(first), countIn(second)]
        if (one === undefined || two === undefined) return observed("no integer", "a page without an integer")
        const [before, after] = [itemsOf(first).length, itemsOf(second).length]
        const seven = yield* pageOf(ask, { limit: "7" })
        const ofSeven = countIn(seven)
        const answers = [
          ["the page", one === before && two === after],
          ["the list", one === two && one > before + after],
          // The page of 7 tells the records that follow from those that follow and the page.
          ["what follows the page", one - two === after && ofSeven === one + before - itemsOf(seven).length],
          ["the page and what follows", one - two === before && ofSeven === one]
        ] as const
        const [answer] = answers.find(([, fits]) => fits) ?? []
        if (answer === undefined) return yield* notObserved("it fits no explanation; the list may have changed")
        // In a list that changes, other explanations can fit by chance.
        const again = answer === "the page" ? second : yield* ask.get({ limit: "2", cursor }, { isSecond: true })
        if (countIn(again) !== two) return yield* notObserved("the list changed in between")
        return observed(answer, `${one} for ${records(before)}, then ${two} for ${records(after)}`)
      })
    )
}

const unknownParameter: Fact = {
  name: "unknown-parameter",
  section: "§4",
  question: "Is a parameter that the document does not name refused or ignored?",
  observe: (ask) =>
    whileUnchanged(
      ask,
      { limit: "2", evident: ["ignored", "refused"] },
      (page) =>
        Effect.flatMap(pageOrRefusal(ask.get({ limit: "2", noSuchParameter: "1" })), (answer) => {
          if (answer.page === undefined) return Effect.succeed(observed("refused", `status ${answer.status}`))
          if (itemsOf(page).length === 0) return Effect.fail(notObserved("the list is empty"))
          return Effect.succeed(
            JSON.stringify(idsOf(answer)) === JSON.stringify(idsOf(page))
              ? observed("ignored", "the same records as without it")
              : observed("obeyed", "other records than without it")
          )
        })
    )
}

const countIn = ({ page }: { readonly page: Readonly<Record<string, unknown>> | undefined }): number | undefined =>
  Number.isSafeInteger(page?.["count"]) ? Number(page?.["count"]) : undefined
