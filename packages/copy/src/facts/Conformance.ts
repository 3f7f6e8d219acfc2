/**
 * Compares a service with its document, rule by rule: records (§2), pages (§2.5, §4), keys (§5) and limits (§8). It only
 * reads, one request after the other. A rule holds, does not hold, or could not be observed, for example because a list is
 * too short. A finding contains nothing of a record, cursor or key.
 */
import { Lists, makePaces, type PaymentsConfig } from "@payments/core"
import { Duration, Effect } from "effect"
import { HttpClient } from "effect/http"
import { makeAsk } from "./Ask.ts"
import { ContentCheck } from "./ContentCheck.ts"
import type { Finding } from "./Finding.ts"
import { factsOf } from "./Registry.ts"

/** How much to read, and how fast. */
export interface ConformanceOptions {
  /** The most pages of a list to read in search of its end; default 10. */
  readonly pages?: number | undefined
  /** The pause after each request; default 500 ms. */
  readonly pause?: Duration.Duration | undefined
}

/** Checks all lists. */
export const conformance: (
  config: PaymentsConfig["Service"],
  options?: ConformanceOptions
) => Effect.Effect<ReadonlyArray<Finding>, never, HttpClient.HttpClient> = Effect.fnUntraced(function*(
  config,
  { pages = 10, pause = Duration.millis(500) } = {}
) {
  const client = yield* HttpClient.HttpClient
  const paces = yield* makePaces(config)
  const findings: Array<Finding> = []
  for (const list of Lists.all) {
    const content = new ContentCheck(list)
    const ask = makeAsk({
      client,
      config,
      list,
      paces,
      pause,
      take: Effect.void,
      onAnswer: (...answer) => content.add(...answer)
    })
    const observed: Array<Finding> = []
    for (const { observe, rule, section } of factsOf(list, pages)) {
      if (rule === undefined) continue
      const finding = { section, list: list.name, rule: rule.text }
      observed.push(
        yield* observe(ask).pipe(Effect.match({
          onFailure: ({ reason }): Finding => ({ ...finding, verdict: "could not be observed", seen: reason }),
          onSuccess: ({ answer, seen }): Finding => ({
            ...finding,
            verdict: rule.allows(answer) ? "holds" : "does not hold",
            seen
          })
        }))
      )
    }
    // The rules about content judge every answer of the other rules.
    findings.push(...content.findings(), ...observed)
  }
  return findings
})
