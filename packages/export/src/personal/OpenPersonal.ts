/** What a scan or pass has to know about personal data before it reads a page. */
import { Effect, Schedule } from "effect"
import { keepRule } from "../engine/Personal.ts"
import { OtherRule, type PersonalBinding, type Sink, SinkError } from "../Sink.ts"

/** Reads the binding for a scan or pass. Fails if the destination has another rule, or if a rewrite is not complete. */
export const openPersonal = (
  { inspect, location }: Sink["Service"]
): Effect.Effect<PersonalBinding | undefined, SinkError> =>
  Effect.gen(function*() {
    if (inspect === undefined) return undefined
    const { edition, rewriting, rule = keepRule } = yield* inspect.personal
    if (rewriting || rule !== keepRule) {
      const reason = new OtherRule({ bound: rule, given: keepRule, isRewriting: rewriting })
      return yield* new SinkError({ location, reason })
    }
    return { rule, edition }
  })

/** The waits between attempts. A large erasure consists of many transactions, and each of them changes personal data. */
const waits = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("30 seconds")])

/** Begins again if an erasure or a rewrite has changed the destination meanwhile. */
export const whilePersonalDataChanges = <A, E extends { readonly _tag: string }, R>(
  effect: Effect.Effect<A, E | SinkError, R>
): Effect.Effect<A, E | SinkError, R> =>
  Effect.retry(effect, {
    while: (error) => error instanceof SinkError && error.reason._tag === "PersonalDataChanged",
    schedule: waits
  })
