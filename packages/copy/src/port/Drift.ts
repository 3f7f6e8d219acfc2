/** What the records of a list have that no earlier record had. */
import type { IsSecret } from "../text/FieldNames.ts"

/** The facts of the registry that complete scans observe. A scan that contradicts a certain answer names it. */
const contradicted = ["list-order", "places", "page-records", "count", "references"] as const

/** A scan never contradicts the others: that something was not seen does not show that it never happens. */
export type ObservedFact = typeof contradicted[number] | "short-pages" | "skipped-records"

export const mayContradict = (fact: ObservedFact): fact is typeof contradicted[number] =>
  contradicted.some((name) => name === fact)

/**
 * `new-value`: of a field with kinds or states. `new-step`: of the status. `new-gap`: a field without a value. `new-change`: of a
 * field. `new-delay`: records that the scan before should have returned. `day-records`: a day with fewer or more records.
 */
export const driftNames = [
  "new-value",
  "new-step",
  "new-gap",
  "new-change",
  "new-delay",
  "day-records",
  ...contradicted
] as const
export type DriftName = typeof driftNames[number]

export interface Drift {
  readonly fact: DriftName
  /**
   * The field; of a value, the field and the value; of a step, both states; of a fact, both answers. It has no part of a record
   * that identifies somebody.
   */
  readonly what: string
  readonly records: number
  /** Whether the copy may lack records. */
  readonly mayLackRecords?: true
}

const sentences: { readonly [fact in DriftName]: (what: string) => string } = {
  "new-value": (what) => `${what} is a value that no earlier record had`,
  "new-step": (what) => `the status went from ${what}, as none before`,
  "new-gap": (what) => `${what} has no value, as in no earlier record`,
  "new-change": (what) => `${what} changed, as in no earlier change`,
  "new-delay": (what) => `records appear ${what} late, as none before`,
  "day-records": (what) => `number of records created on ${what}`,
  "list-order": (what) => `order of the list: ${what}`,
  places: (what) => `place of new records: ${what}`,
  "page-records": (what) => `records of a page before the last: ${what}`,
  count: (what) => `what count gives: ${what}`,
  references: (what) => `whether each new record has another reference than those before: ${what}`
}

/** Returns the drift as a line: `new` if no earlier record had it, otherwise `changed`. */
export const driftLine = (drift: Drift): string =>
  `${drift.fact.startsWith("new-") ? "new" : "changed"}: ${driftText(drift)}`

/** Returns the drift as a sentence without a full stop. */
export const driftText = ({ fact, records, what }: Drift): string =>
  `${sentences[fact](what)} (${records} ${records === 1 ? "record" : "records"})`

/** Hides what contains a key, a cursor or a filter value: a hostile service may return them. */
export const driftWithoutSecrets = (drift: ReadonlyArray<Drift>, isSecret: IsSecret): ReadonlyArray<Drift> =>
  drift.map((one) => one.what.split(" ").some(isSecret) ? { ...one, what: "(other)" } : one)
