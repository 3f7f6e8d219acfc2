/** Facts about keys (§5). */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { notObserved, pageOf } from "./Ask.ts"
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
      const { status } = yield* ask.get({ limit: "1" })
      if (status < 300) return observed("accepted", `status ${status}`)
      // Such a status is about a parameter.
      return status === 400 || status === 422
        ? yield* notObserved(`status ${status}`)
        : observed("refused", `status ${status}`)
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
  observe: Effect.fnUntraced(function*(ask) {
    // If the service refuses the configured key as well, a refusal shows nothing about keys.
    yield* pageOf(ask, { limit: "1" })
    const { status } = yield* ask.get({ limit: "1" }, { key })
    if (status < 300) return observed("accepted", `status ${status}`)
    return status === 401 || status === 403
      ? observed(String(status), `status ${status}`)
      : yield* notObserved(`status ${status}, not 401 or 403`)
  })
})
