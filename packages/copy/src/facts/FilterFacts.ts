/** Facts about filters (§4.1 to §4.3): whether a filter selects, and what it does with a value that no record has. */
import { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Ask, cursorOf, fieldOf, idsOf, itemsOf, notObserved, pageOf, whileUnchanged } from "./Ask.ts"
import { type Fact, observed, rule } from "./Fact.ts"

export const filterFacts = ({ filters, section }: Lists.AnyList): ReadonlyArray<Fact> =>
  Object.entries<Lists.Filter>(filters).flatMap(([field, filter]) => [
    filtering(section, field, filter),
    absentValue(section, field)
  ])

/** Returns a value of the field, from records that do not all have the same one. */
const valueOf = Effect.fnUntraced(function*(ask: Ask, field: string) {
  const values = itemsOf(yield* pageOf(ask, { limit: "100" })).map((item) => fieldOf(item, field))
  const value = values.find((text) => typeof text === "string" && text !== "")
  if (typeof value !== "string") return yield* notObserved(`no record of the first page has a ${field}`)
  if (values.every((text) => text === value)) {
    return yield* notObserved(`all records of the first page have the same ${field}`)
  }
  return value
})

const filtering = (section: string, field: string, filter: Lists.Filter): Fact => ({
  name: `filter-${field}`,
  section,
  question: `Does ${field} filter?`,
  rule: rule(`${field} filters`, "only matching records"),
  observe: Effect.fnUntraced(function*(ask) {
    const value = yield* valueOf(ask, field)
    const filtered = itemsOf(yield* pageOf(ask, { [field]: value, limit: "100" }))
    if (filtered.length === 0) return observed("no record", "no record, although one has the value")
    const matching = filtered.filter((item) => Lists.matches(filter, fieldOf(item, field), value)).length
    return observed(
      matching === filtered.length ? "only matching records" : "other records too",
      `${matching} of ${filtered.length} with the value`
    )
  })
})

/** The worst trap: a service that ignores a value it does not know answers with everything. */
const absentValue = (section: string, field: string): Fact => ({
  name: `absent-${field}`,
  section,
  question: `What does a ${field} give that no record has?`,
  observe: Effect.fnUntraced(function*(ask) {
    if (itemsOf(yield* pageOf(ask, { limit: "2" })).length === 0) return yield* notObserved("the list is empty")
    const answer = yield* ask.get({ [field]: absent, limit: "2" })
    if (answer.page === undefined) return observed("a refusal", `status ${answer.status}`)
    if (itemsOf(answer).length === 0 && cursorOf(answer) === null) return observed("no record", "no record")
    return yield* whileUnchanged(ask, { limit: "2", evident: ["everything"] }, (unfiltered) =>
      Effect.succeed(
        JSON.stringify(idsOf(answer)) === JSON.stringify(idsOf(unfiltered))
          ? observed("everything", "the same records as without the filter")
          : observed("other records", "other records than without the filter")
      ))
  })
})

/** A value that the documented fields cannot have by chance. */
const absent = "no-such-value-7f3a9c51d04e"
