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
} from "../port/Sink.ts"
import { keyCheck } from "./Pseudonym.ts"
import { erasureRule, type PersonalRule, type RedactedText, redactorOf } from "./Rule.ts"
import { bothRuleWords, isSame, reclassifiedFields, reclassifiedInErasures, toStored } from "./StoredRule.ts"
import { hashesIn } from "./Suppression.ts"

/** Applies a rule for personal data to the texts of a list's records. */
export interface Redactor {
  /** Returns the same text if nothing changes. */
  readonly redact: (text: string) => RedactedText & {
    /** Whether the record is one of an erased person. */
    readonly isErased?: boolean
  }
  /**
   * The same, but values that are left out only because they are undocumented stay. Records are checked with these
   * values: an amount of a wrong type has to be reported, although the rule leaves it out.
   */
  readonly redactDocumented: (text: string) => RedactedText
}

const same = (text: string): RedactedText => ({ text, held: undefined })

export const unchanged: Redactor = { redact: same, redactDocumented: same }

/** What a scan, a pass or a comparison knows about personal data. */
export interface OpenPersonal {
  /** What the commits compare. Undefined for a destination that stores nothing. */
  readonly binding: PersonalBinding | undefined
  /**
   * Returns what applies to the list's records: the rule, and the rule of erasures for records on the suppression list.
   * The service returns erased records again.
   */
  readonly redactorOf: (list: Lists.AnyList) => Redactor
}

/**
 * Reads the state of a destination. Fails if its rule or the key of its suppression list is another one, or if a
 * rewrite is not complete.
 */
export const openPersonal = (
  destination: { readonly location: string; readonly personal: Effect.Effect<PersonalState, SinkError> | undefined },
  rule: PersonalRule
): Effect.Effect<OpenPersonal, SinkError> =>
  destination.personal === undefined
    ? Effect.succeed({ binding: undefined, redactorOf: (list) => redactorWith(list, rule, []) })
    : Effect.flatMap(destination.personal, (state) => {
      const reason = refusalOf(state, rule)
      if (reason !== undefined) return Effect.fail(new SinkError({ location: destination.location, reason }))
      const stored = toStored(rule)
      return Effect.succeed({
        binding: {
          rule: stored,
          ...state.rule === undefined || state.rule === stored ? {} : { before: state.rule },
          edition: state.edition
        },
        redactorOf: (list: Lists.AnyList) => redactorWith(list, rule, state.suppressed)
      })
    })

const refusalOf = (state: PersonalState, rule: PersonalRule): SinkReason | undefined => {
  const { rewriting, rule: stored, suppressed } = state
  const isOther = rewriting || (stored !== undefined && !isSame(stored, rule))
  if (!isOther && suppressed.length === 0) return undefined
  const reclassified = isOther ? reclassifiedFields(stored, rule) : reclassifiedInErasures(stored)
  if (isOther || reclassified.length > 0) {
    const [bound, given] = bothRuleWords(stored, rule)
    return new OtherRule({ bound, given, isRewriting: rewriting, reclassified })
  }
  const problem = rule.key === undefined
    ? "it has a suppression list of erased persons, which needs the personal key. Give it in PAYMENTS_PERSONAL_KEY, or as personal_key_file in the sources file."
    : keyCheck(rule.key) !== state.keyCheck
    ? "the personal key (PAYMENTS_PERSONAL_KEY, personal_key_file) is not the one of its suppression list. Give that key."
    : undefined
  return problem === undefined ? undefined : new WrongSetting({ problem })
}

const redactorWith = (list: Lists.AnyList, rule: PersonalRule, suppressed: ReadonlyArray<string>): Redactor => {
  const { key } = rule
  const hashes = new Set(suppressed)
  const isErased = (text: string) =>
    key !== undefined && hashes.size > 0 && hashesIn(key, list, text).some((hash) => hashes.has(hash))
  const withUndocumented = (undocumented: PersonalRule["undocumented"] | undefined): Redactor["redact"] => {
    const by = (applied: PersonalRule) =>
      redactorOf(list, undocumented === undefined ? applied : { ...applied, undocumented })
    const [redact, erase] = [by(rule), by(erasureRule)]
    return (text) => isErased(text) ? { ...erase(redact(text).text), isErased: true } : redact(text)
  }
  return { redact: withUndocumented(undefined), redactDocumented: withUndocumented("keep") }
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
