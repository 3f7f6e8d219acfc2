/** The counts of a scan. */
import { Schema, SchemaGetter } from "effect"

/** Version 0.1.0 has stored `withoutId` under this key. */
const oldKey = "nameless"

/** Also decodes stored objects that have `withoutId` under its old key. Encodes only the current key. */
export const withOldKey = <S extends Schema.Struct<{ readonly withoutId: typeof Schema.Int }>>(schema: S) =>
  Schema.Record(Schema.String, Schema.Unknown).pipe(
    Schema.decodeTo(schema, {
      decode: SchemaGetter.transform(({ [oldKey]: withoutId, ...stored }) =>
        // The schema checks the object.
        (withoutId === undefined ? stored : { ...stored, withoutId }) as S["Encoded"]
      ),
      encode: SchemaGetter.transform((encoded): { readonly [name: string]: unknown } => ({ ...encoded }))
    })
  )

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
}).pipe(withOldKey)
/** {@inheritDoc Counts} */
export interface Counts extends Schema.Schema.Type<typeof Counts> {}
