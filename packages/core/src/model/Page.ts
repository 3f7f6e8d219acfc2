/** A page of a list and its records. */
import type { Duration } from "effect"
import type { Position } from "./Position.ts"

/** Why a record does not decode. */
export interface RecordProblem {
  /**
   * The first field that differs from the document, such as `customerDetails.email`; empty if the record is not an
   * object.
   */
  readonly path: string
  /** What the document specifies there. */
  readonly expected: string
}

/** A record that matches the document. */
export interface DecodedRecord<Record> {
  /** The value of its field `id`. */
  readonly id: string
  /**
   * The exact text: as the API sent it, without the white space between tokens. It keeps the order of fields, the
   * spelling of numbers, and duplicate and undocumented fields.
   */
  readonly text: string
  /** The parsed object, undocumented fields included. */
  readonly value: Record
  /** Always absent. */
  readonly problem?: undefined
}

/** A record that does not match the document. */
export interface BadRecord {
  /** Undefined if the record has no `id` that is a string. */
  readonly id: string | undefined
  /** The exact text, as of a {@link DecodedRecord}. */
  readonly text: string
  /** The parsed value, of any type. */
  readonly value: unknown
  /** The first difference from the document. */
  readonly problem: RecordProblem
}

/** A record of a page. */
export type PageRecord<Record> = DecodedRecord<Record> | BadRecord

/** One page of a list. */
export interface Page<Record> {
  /**
   * All records, in the server's order. With `onBadRecord: "fail"` none of them has a problem: the first one that does
   * not decode fails the page. The first call extracts the exact texts from the body, which `items` does not need.
   */
  readonly records: () => ReadonlyArray<PageRecord<Record>>
  /** The values of the records without a problem, in the same order. */
  readonly items: ReadonlyArray<Record>
  /** The records with a problem, in the same order. */
  readonly bad: ReadonlyArray<BadRecord>
  /** The position of the next page, or null at the end of the list (§4.4). */
  readonly next: Position | null
  /** The answer's `count`, if it is an integer. The document does not say what it counts (§2.5). */
  readonly count: number | undefined
  /** The status of the answer: any 2xx. */
  readonly status: number
  /** The answer's headers, names in lower case. They may contain secrets: check a header before you print it. */
  readonly headers: { readonly [name: string]: string | undefined }
  /** The time from sending the last request to the end of its answer. */
  readonly elapsed: Duration.Duration
  /** The id that the server gave the request. Absent if it does not look like an id or could be a secret. */
  readonly requestId: string | undefined
  /** The number of requests that were sent for this page, the first one included. */
  readonly attempts: number
  /**
   * Returns a fingerprint of the key that this page was read with: 32 bits in hex, derived by PBKDF2 with the salt.
   * Different fingerprints show that the key has changed. Equal ones do not prove that the key is the same, and no key
   * can be derived from a fingerprint. Returns undefined if there is no key, as in `layerTest`.
   */
  readonly keyFingerprint: (salt: string) => Promise<string | undefined>
}
