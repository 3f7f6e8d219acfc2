/** What a scan, a pass or a comparison has to know about personal data before it reads a page. */
import type { Lists } from "@payments/core"
import { Effect, Schedule } from "effect"
import {
  OtherRule,
  type PersonalBinding,
  type PersonalState,
  SinkError,
  type SinkReason,
  WrongSetting
} from "../Sink.ts"
import {
  erasureRule,
  isSame,
  keyCheck,
  nameOf,
  type PersonalRule,
  type RedactedText,
  redactorOf,
  toStored
} from "./Rule.ts"
import { hashesIn } from "./Suppression.ts"

/** What applies to the texts of records. */
export interface OpenPersonal {
  /** What the commits compare. Undefined for a destination that stores nothing. */
  readonly binding: PersonalBinding | undefined
  /**
   * Returns the function that applies the rule to the text of a record, and the rule of erasures too if the record is on the
   * suppression list: the service returns erased records again. It returns the same text if nothing changes.
   */
  readonly redactorOf: (list: Lists.AnyList) => (text: string) => RedactedText
}

/**
 * Reads the state of a destination. Fails if it has another rule, if a rewrite is not complete, or if the key of its suppression
 * list is not the given one.
 */
export const openPersonal = (
  destination: { readonly location: string; readonly personal: Effect.Effect<PersonalState, SinkError> | undefined },
  rule: PersonalRule
): Effect.Effect<OpenPersonal, SinkError> =>
  destination.personal === undefined
    ? Effect.succeed({ binding: undefined, redactorOf: (list) => redactorOf(list, rule) })
    : Effect.flatMap(destination.personal, (state) => {
      const reason = refusalOf(state, rule)
      if (reason !== undefined) return Effect.fail(new SinkError({ location: destination.location, reason }))
      return Effect.succeed({
        binding: { rule: state.rule ?? toStored(rule), edition: state.edition },
        redactorOf: (list: Lists.AnyList) => redactorWith(list, rule, new Set(state.suppressed))
      })
    })

const refusalOf = (state: PersonalState, rule: PersonalRule): SinkReason | undefined => {
  const { rewriting, rule: stored, suppressed } = state
  if (rewriting || (stored !== undefined && !isSame(stored, rule))) {
    return new OtherRule({ bound: nameOf(stored), given: nameOf(rule), isRewriting: rewriting })
  }
  if (suppressed.length === 0) return undefined
  const problem = rule.key === undefined
    ? "it has a suppression list of erased persons, which needs the personal key. Give it in PAYMENTS_PERSONAL_KEY, or as personal_key_file in the sources file."
    : keyCheck(rule.key) !== state.keyCheck
    ? "the personal key (PAYMENTS_PERSONAL_KEY, personal_key_file) is not the one of its suppression list. Give that key."
    : undefined
  return problem === undefined ? undefined : new WrongSetting({ problem })
}

const redactorWith = (
  list: Lists.AnyList,
  rule: PersonalRule,
  suppressed: ReadonlySet<string>
): (text: string) => RedactedText => {
  const redact = redactorOf(list, rule)
  const { key } = rule
  if (key === undefined || suppressed.size === 0) return redact
  const erase = redactorOf(list, erasureRule)
  return (text) =>
    hashesIn(key, list, text).some((hash) => suppressed.has(hash)) ? erase(redact(text).text) : redact(text)
}

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
