/** What the records of a list have that no earlier record had. */

/** `new-value`: of a field with kinds or states. `new-step`: of the status. `new-gap`: a field without a value. `new-change`: of a field. */
export const driftNames = ["new-value", "new-step", "new-gap", "new-change"] as const
export type DriftName = typeof driftNames[number]

export interface Drift {
  readonly fact: DriftName
  /** The field; of a value, the field and the value; of a step, both states. It has no part of a record that identifies somebody. */
  readonly what: string
  readonly records: number
}
