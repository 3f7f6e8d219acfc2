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
  /** The content hashes of the rows that were seen, added up modulo 2^256: the same whatever their order. */
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

const modulus = 2n ** 256n

/** The digest with a content hash added, or taken out. Hashes are hex. */
export const digestWith = (digest: bigint, added: string, removed?: string): bigint => {
  const taken = removed === undefined ? 0n : BigInt(`0x${removed}`)
  return (digest + BigInt(`0x${added}`) + modulus - taken) % modulus
}
