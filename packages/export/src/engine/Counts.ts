/** The counts of a scan. */
import { Schema } from "effect"

/** The counts of a scan, over all its runs. */
export const Counts = Schema.Struct({
  pages: Schema.Int,
  /** All records, including repeats and records that do not decode. */
  records: Schema.Int,
  /** Those of {@link records} whose id occurred before in the scan. The last occurrence is stored. */
  repeats: Schema.Int,
  inserted: Schema.Int,
  updated: Schema.Int,
  unchanged: Schema.Int,
  /** Rows that were missing before. They count as updated or unchanged too. */
  returned: Schema.Int,
  /** Records that did not decode. */
  quarantined: Schema.Int,
  /** Those of {@link quarantined} without an id that every database can store. They have no row. */
  withoutId: Schema.Int
  // Databases have stored `withoutId` under the key `nameless` since the first version.
}).pipe(Schema.encodeKeys({ withoutId: "nameless" }))
/** {@inheritDoc Counts} */
export interface Counts extends Schema.Schema.Type<typeof Counts> {}
