/** One page of a list and its records, those that do not decode included. */
import type { Duration } from "effect"
import type { Position } from "./Position.ts"

/** Why a record does not decode. */
export interface RecordProblem {
  /** The first field that differs from the document, such as `customerDetails.email`; empty if the record is not an object. */
  readonly path: string
  /** What the document has there. */
  readonly expected: string
}

/** A record that is what the document describes. */
export interface DecodedRecord<Record> {
  /** The value of its field `id`. */
  readonly id: string
  /**
   * The exact text: as the API sent it, without the white space between tokens. It keeps the order of fields, the spelling of
   * numbers, and duplicate and undocumented fields.
   */
  readonly text: string
  /** The parsed object, undocumented fields included. */
  readonly value: Record
  /** None: the record decodes. */
  readonly problem?: undefined
}

/** A record that is not what the document describes. */
export interface BadRecord {
  /** Undefined if the record has no `id` that is a string. */
  readonly id: string | undefined
  /** The exact text, as of a {@link DecodedRecord}. */
  readonly text: string
  /** The parsed value, which may be no object. */
  readonly value: unknown
  /** The first thing that is wrong with it. */
  readonly problem: RecordProblem
}

/** A record of a page. */
export type PageRecord<Record> = DecodedRecord<Record> | BadRecord

/** One page of a list. */
export interface Page<Record> {
  /**
   * All records, in the server's order. With `onBadRecord: "fail"` none of them has a problem: the first one that does not decode
   * fails the page. The first call extracts the exact texts from the body, which `items` does not need.
   */
  readonly records: () => ReadonlyArray<PageRecord<Record>>
  /** Derived from `records`: the values of those without a problem, in their order. */
  readonly items: ReadonlyArray<Record>
  /** Derived from `records`: those with a problem, in their order. */
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
