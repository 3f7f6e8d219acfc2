/** The rule for personal data to which a destination is bound, and the check of it in every commit. */
import { PersonalDataChanged, type PersonalState } from "../Sink.ts"
import { number, optional, type Row } from "./Rows.ts"

/** The stored form of the rule that keeps every field. The databases have NULL for it. */
export const keepRule = "keep"

/** The rule and edition that a scan or pass read before its pages. Its commits fail if the destination has others. */
export interface PersonalBinding {
  /** The stored form of the rule. */
  readonly rule: string
  readonly edition: number
}

/** The stored form of a rule, as the databases have it. */
export const toColumn = (rule: string): string | null => rule === keepRule ? null : rule

/** Converts a row of `personal` with the column `source` of `destination`, and the hashes in `suppressed`, joined. */
export const toPersonalState = (row: Row | undefined): PersonalState => ({
  // The first rows bind a destination to its source and to its rule.
  rule: optional(row, "rule") ?? (optional(row, "source") === undefined ? undefined : keepRule),
  rewriting: optional(row, "rewriting") !== undefined,
  edition: number(row, "edition"),
  keyCheck: optional(row, "key_check"),
  suppressed: optional(row, "suppressed")?.split(" ") ?? []
})

/** The columns of `personal`, for {@link toPersonalState}. */
export const personalColumns = "rule, rewriting, edition, key_check"

/** Returns why a commit with this binding must not be written, or undefined. */
export const changeSince = (
  { edition, rewriting, rule = keepRule }: Pick<PersonalState, "edition" | "rewriting" | "rule">,
  given: PersonalBinding,
  isBound: boolean
): PersonalDataChanged | undefined =>
  edition !== given.edition || rewriting || (isBound && rule !== given.rule) ? new PersonalDataChanged() : undefined
