/** One page of a list, and the records of it that do not decode. */
import type { Duration } from "effect"
import type { Position } from "./Position.ts"

/** A record that is not what the document describes, kept whole. */
export interface BadRecord {
  /** Its place on the page, from 0. */
  readonly index: number
  /** Its `id`, if it has a readable one. */
  readonly id: string | undefined
  /** Where it first differs, such as `customerDetails.email`; empty where it is no object at all. */
  readonly path: string
  /** What should be there. */
  readonly expected: string
  /** What was parsed. */
  readonly value: unknown
  /** Its exact text. */
  readonly text: string
}

/** One page of a list. */
export interface Page<Record> {
  /** The records, in the server's order; each is the object that was parsed, undocumented fields included. */
  readonly items: ReadonlyArray<Record>
  /**
   * The exact text of each item, in the same order: as the API sent it, white space between tokens aside. Field order,
   * number spelling, duplicate and undocumented fields are all in it. Cut from the body on first use.
   */
  readonly texts: () => ReadonlyArray<string>
  /** With `onBadRecord: "quarantine"`, the records that did not decode. Otherwise empty: the first one fails the page. */
  readonly bad: ReadonlyArray<BadRecord>
  /** Where the next page begins, or null at the end of the list (§4.4). */
  readonly next: Position | null
  /** The status of the answer: any 2xx. */
  readonly status: number
  /** The answer's headers, names in lower case. What a service puts there is not shown: think before printing them. */
  readonly headers: { readonly [name: string]: string | undefined }
  /** From sending the last request to the end of its answer. */
  readonly elapsed: Duration.Duration
  /** The id the server gave the request, if it gave one that looks like an id and like no secret. */
  readonly requestId: string | undefined
  /** Requests it took, the first one included. */
  readonly attempts: number
  /**
   * A fingerprint of the key that this page was read with, for those who must notice another key: 32 bits in hex, derived by
   * PBKDF2 with the salt. It is no proof of a key, and no key can be found by it. Undefined where there is no key, as in
   * `layerTest`.
   */
  readonly keyFingerprint: (salt: string) => Promise<string | undefined>
}
