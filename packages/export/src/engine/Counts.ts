/** What a scan counts. */
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
