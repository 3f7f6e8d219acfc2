/** Facts about keys (§5). */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { itemsOf, notObserved, pageOf } from "./Ask.ts"
import { type Fact, observed, rule } from "./Fact.ts"

export const keyFacts = ({ label, merchantIdIn }: Lists.AnyList): ReadonlyArray<Fact> => [
  refusal("none", "a request without a key"),
  refusal("wrong", "a request with a wrong key"),
  {
    name: "configured-key",
    section: "§5",
    question: "Is the configured key accepted?",
    rule: rule("the configured key is accepted", "accepted"),
    observe: Effect.fnUntraced(function*(ask) {
      const { page, status } = yield* ask.get({ limit: "1" })
      if (page !== undefined) return observed("accepted", `status ${status}`)
      // Another status is about a parameter, a quota, or a list that the service does not have.
      return status === 401 || status === 403
        ? observed("refused", `status ${status}`)
        : yield* notObserved(`status ${status}, and no page`)
    })
  },
  ...(merchantIdIn === undefined ? [] : [{
    name: "merchant",
    section: "§5",
    question: "Whose records does a key read?",
    rule: rule(`${label} are those of the key's merchant`),
    observe: () => Effect.fail(notObserved("one key shows the records of one merchant only"))
  }])
]

const refusal = (key: "none" | "wrong", request: string): Fact => ({
  name: `${key}-key`,
  section: "§5",
  question: `How is ${request} answered?`,
  rule: {
    text: `${request} is refused`,
    allows: (answer) => answer !== "accepted"
  },
  phase: "keys",
  observe: Effect.fnUntraced(function*(ask) {
    // If the service refuses the configured key as well, a refusal shows nothing about keys.
    const own = yield* pageOf(ask, { limit: "1" })
    const answer = yield* ask.get({ limit: "1" }, { key })
    const { page, status } = answer
    if (status < 300 && page === undefined) return observed("no page", `status ${status}`)
    if (status < 300 && itemsOf(own).length === 0) return yield* notObserved("the list is empty")
    if (status < 300) return observed(itemsOf(answer).length === 0 ? "no record" : "accepted", `status ${status}`)
    if (status !== 401 && status !== 403) return yield* notObserved(`status ${status}, not 401 or 403`)
    return ask.isUsualRefusal(key, status)
      ? observed(String(status), `status ${status}`)
      : yield* notObserved(`status ${status}, and another one before: the service may lock a key out`)
  })
})
