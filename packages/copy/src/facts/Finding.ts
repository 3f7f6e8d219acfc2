/** What a check of a service found. */
import type { Lists } from "@payments/core"

/** Whether a rule holds. */
export type Verdict = "holds" | "does not hold" | "could not be observed"

/** A rule of the document, and its verdict for one list. */
export interface Finding {
  /** The section of the document, such as `§4.4.2`. */
  readonly section: string
  readonly list: Lists.ListName
  /** The rule as a sentence. */
  readonly rule: string
  readonly verdict: Verdict
  /** The observation, or why there is none. */
  readonly seen: string
  /** For a rule about every page or record that was read, if it does not hold: how many break it, and the first example. */
  readonly broken?: Broken | undefined
}

/** How many pages or records break a rule. */
export interface Broken {
  readonly count: number
  /** How many were read. */
  readonly of: number
  /** The field of the first example, such as `customerDetails.email`. */
  readonly path: string
  /** What the document specifies there, and what kind of value was there instead. */
  readonly kind: string
}
