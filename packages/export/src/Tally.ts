/**
 * What a scan has come to so far: its counts, and what its certificate is made of. Committed with every checkpoint, so
 * that a scan that was cut goes on counting where it stopped.
 */
import { Schema } from "effect"

/** The counts of a scan, over all its runs. */
export const Counts = Schema.Struct({
  pages: Schema.Int,
  /** Records that were read, repeats and undecodable ones included. */
  records: Schema.Int,
  /** Of {@link records}, those whose id the scan had met before. The last one read stands. */
  repeats: Schema.Int,
  inserted: Schema.Int,
  updated: Schema.Int,
  unchanged: Schema.Int,
  /** Rows that had been missing. They are counted as updated or unchanged too. */
  returned: Schema.Int,
  /** Records that did not decode. */
  quarantined: Schema.Int,
  /** Of {@link quarantined}, those without a readable id: in no row. */
  nameless: Schema.Int
})
/** {@inheritDoc Counts} */
export interface Counts extends Schema.Schema.Type<typeof Counts> {}

/** What a scan has come to, as it is kept. */
export const Tally = Schema.Struct({
  counts: Counts,
  /** Exact sums of the amount fields over the rows that were seen, by column. */
  sums: Schema.Record(Schema.String, Schema.BigIntFromString),
  /** The content hashes of the rows that were seen, their first 128 bits added up modulo 2^128: the same whatever their order. */
  digest: Schema.BigIntFromString,
  /** Fields that the document does not show, by path where that looks like a name, and how many records had them. */
  undocumented: Schema.Record(Schema.String, Schema.Int),
  /** Text that a typed column could not hold and that only `raw` has whole. */
  replaced: Schema.Int,
  /** Begun by a version that did not keep which rows it saw: nothing is concluded from it. */
  blind: Schema.Boolean
})
/** {@inheritDoc Tally} */
export interface Tally extends Schema.Schema.Type<typeof Tally> {}

/** Of a scan that has read nothing. */
export const none: Tally = {
  counts: {
    pages: 0,
    records: 0,
    repeats: 0,
    inserted: 0,
    updated: 0,
    unchanged: 0,
    returned: 0,
    quarantined: 0,
    nameless: 0
  },
  sums: {},
  digest: 0n,
  undocumented: {},
  replaced: 0,
  blind: false
}

const Json = Schema.fromJsonString(Tally)

export const toJson: (tally: Tally) => string = Schema.encodeSync(Json)
/** Fails, as a bug of ours or an edited destination, on anything that {@link toJson} did not write. */
export const fromJson: (text: string) => Tally = Schema.decodeSync(Json)

const modulus = 2n ** 128n

/** A content hash as a number to be added up: the first half of its hex. */
const numberOf = (hash: string): bigint => BigInt(`0x${hash.slice(0, 32)}`)

/** The digest with a content hash added, and perhaps another one taken out. Hashes are hex. */
export const digestWith = (digest: bigint, added: string, removed?: string): bigint => {
  const sum = digest + numberOf(added) - (removed === undefined ? 0n : numberOf(removed))
  return sum < 0n ? sum + modulus : sum < modulus ? sum : sum - modulus
}

/** The digest as text. */
export const digestText = (digest: bigint): string => digest.toString(16).padStart(32, "0")
