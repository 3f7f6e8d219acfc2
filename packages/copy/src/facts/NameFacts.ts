/** Facts about the names of the invoice parameters, which the document does not show (§4.3). */
import { Lists } from "@payments/core"
import { Effect } from "effect"
import {
  type Answer,
  type Ask,
  cursorOf,
  fieldOf,
  idsOf,
  isFollowed,
  itemsOf,
  notObserved,
  pageOf,
  requirePage
} from "./Ask.ts"
import { type Fact, observed } from "./Fact.ts"
import { valueOf, withAbsentValue } from "./FilterFacts.ts"
import { areSame, largest } from "./Movement.ts"

/** The names to try after the configured one, in this order. */
const candidates: { readonly [Field in keyof Lists.InvoiceParameters]: ReadonlyArray<string> } = {
  // The other names are tried with a limit.
  limit: ["limit", "pageSize", "page_size", "perPage", "per_page", "size"],
  reference: ["reference", "invoiceReference", "invoice_reference"],
  customerDocumentNumber: ["customerDocumentNumber", "documentNumber", "customer_document_number", "document_number"],
  contract: ["contract", "contractId", "contract_id", "contractNumber"],
  paymentDate: ["paymentDate", "payment_date", "paidAt", "paid_at"],
  settlementDate: ["settlementDate", "settlement_date", "settledAt", "settled_at"],
  settlementTime: ["settlementTime", "settlement_time", "settlementCycle", "settlement_cycle", "cycle"],
  cursor: ["cursor", "after", "startingAfter", "starting_after", "pageToken", "page_token"]
}

export const nameFacts = (list: Lists.AnyList): ReadonlyArray<Fact> =>
  list.parameterNames === "documented" ? [] : Object.entries(candidates).map(([field, names]): Fact => ({
    name: `name-${field}`,
    section: list.section,
    question: `Which parameter means ${field}?`,
    observe: Effect.fnUntraced(function*(ask) {
      const test = yield* testOf(ask, field)
      const configured = ask.nameOf(field)
      for (const name of [configured, ...names.filter((other) => other !== configured)]) {
        if (!(yield* test(name))) continue
        ask.useName(field, name)
        return observed(name, name === configured ? "the name that is sent" : "another name")
      }
      return yield* notObserved("no known name has an effect")
    })
  }))

/** Returns a test of whether a name means the field. The configured name shares its requests with other facts. */
const testOf = Effect.fnUntraced(function*(ask: Ask, field: string) {
  const filter = Object.entries<Lists.Filter>(ask.list.filters).find(([name]) => name === field)?.[1]
  const request = (name: string, value: string, limit: string) =>
    name === ask.nameOf(field)
      ? ask.get(field === "limit" ? { limit: value } : { [field]: value, limit })
      : ask.get(field === "limit" ? {} : { limit }, { named: { [name]: value } })
  if (filter === undefined) return field === "limit" ? yield* testOfLimit(request) : yield* testOfCursor(ask, request)
  const value = yield* valueOf(ask, field)
  return Effect.fnUntraced(function*(name: string) {
    const found = yield* request(name, value, "100")
    const isSubset = itemsOf(found).length > 0 &&
      itemsOf(found).every((item) => Lists.matches(filter, fieldOf(item, field), value))
    if (!isSubset) return false
    const none = yield* withAbsentValue(ask, field, (text) => request(name, text, "100"))
    if (none.page === undefined ? none.status >= 400 : itemsOf(none).length === 0 && !isFollowed(none)) return true
    return yield* notObserved("the service does not select by a value that no record has")
  })
})

type Request = (name: string, value: string, limit: string) => ReturnType<Ask["get"]>

const testOfLimit = (request: Request) =>
  Effect.succeed(Effect.fnUntraced(function*(name: string) {
    const [one, two] = [yield* request(name, "1", ""), yield* request(name, "2", "")]
    return itemsOf(one).length === 1 && itemsOf(two).length === 2
  }))

const testOfCursor = Effect.fnUntraced(function*(ask: Ask, request: Request) {
  const first = yield* pageOf(ask, { limit: "2" })
  const cursor = cursorOf(first)
  if (typeof cursor !== "string" || cursor === "") return yield* notObserved("the list has one page of 2")
  const [start, shown] = [idsOf(first), new Set(idsOf(first))]
  const isOther = (answer: Answer) => itemsOf(answer).length > 0 && idsOf(answer).every((id) => !shown.has(id))
  return Effect.fnUntraced(function*(name: string) {
    const answer = yield* request(name, cursor, "2")
    if (!isOther(answer)) return false
    // In a list that changes, other records come without a cursor too.
    if (areSame(idsOf(yield* requirePage(ask.getAfter(answer, { limit: "2" }))), start)) return true
    const whole = idsOf(yield* requirePage(ask.getAfter(answer, largest)))
    const at = whole.indexOf(start[0])
    if (at >= 0 && areSame(whole.slice(at, at + 4), [...start, ...idsOf(answer)])) return true
    return yield* notObserved("the list changed in between")
  })
})
