/** The rule for personal data to which a destination is bound, and the check of it in every transaction. */
import type { Certificate } from "../port/Certificate.ts"
import {
  Damaged,
  type PersonalBinding,
  PersonalDataChanged,
  type PersonalState,
  type ScanRequest
} from "../port/Sink.ts"
import { keepAll } from "../rule/Rule.ts"
import { keepText, keyCheckIn, nameOf, toStored } from "../rule/StoredRule.ts"
import { readNumber, readOptional, type Row } from "./StoredRows.ts"

/** The binding of a scan that keeps every field, in a destination where nothing was ever erased. */
export const keepBinding: PersonalBinding = { rule: toStored(keepAll), edition: 0 }

export const bindingOf = ({ personal = keepBinding }: Pick<ScanRequest, "personal">): PersonalBinding => personal

/** Returns what the first commit writes into the columns `rule` and `key_check`, or undefined if nothing. */
export const toColumns = (rule: string): readonly [rule: string, keyCheck: string | null] | undefined =>
  rule === keepText ? undefined : [rule, keyCheckIn(rule) ?? null]

/** Returns the certificate with the name of a stored rule. */
export const certificateWith = (certificate: Certificate, stored: string | undefined = keepText): Certificate => {
  const { rule: _, ...figures } = certificate
  const name = nameOf(stored)
  return name === nameOf(keepText) ? figures : { ...figures, rule: name }
}

/** The columns of `personal`, for {@link toPersonalState}. */
export const personalColumns = "rule, rewriting, edition, key_check"

/**
 * Converts the row of `personal`, joined with `source` of `destination` and the hashes in `suppressed`. Throws if there
 * is no row, because a migration has inserted it.
 */
export const toPersonalState = (row: Row | undefined): PersonalState => {
  if (row === undefined) throw new Damaged({ problem: "the table personal has no row" })
  return {
    // The first rows bind a destination to its source and to its rule.
    rule: readOptional(row, "rule") ?? (readOptional(row, "source") === undefined ? undefined : keepText),
    rewriting: readOptional(row, "rewriting") !== undefined,
    edition: readNumber(row, "edition"),
    keyCheck: readOptional(row, "key_check"),
    suppressed: readOptional(row, "suppressed")?.split(" ") ?? []
  }
}

/** Returns why nothing may be written for a scan or pass with this binding, or undefined. */
export const changeSince = (
  { edition, rewriting, rule }: Pick<PersonalState, "edition" | "rewriting" | "rule">,
  known: PersonalBinding
): PersonalDataChanged | undefined =>
  edition !== known.edition || rewriting || (rule !== undefined && rule !== known.rule && rule !== known.before)
    ? new PersonalDataChanged()
    : undefined
