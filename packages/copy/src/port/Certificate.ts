/** The certificate of a complete scan: figures that can be recomputed from the destination alone. */
import { Option, Schema } from "effect"
import { withOldKey } from "./Counts.ts"

/** The certificate of a complete scan. */
export const Certificate = Schema.Struct({
  scan: Schema.Int,
  /** The start of the scan, and the time when its last page was committed, in UTC. */
  startedAt: Schema.String,
  completedAt: Schema.String,
  /** The service returned a null cursor. No other end makes a scan complete (§4.4). */
  end: Schema.Literal("null cursor"),
  pages: Schema.Int,
  /** All records, including repeats. */
  records: Schema.Int,
  /** Different ids. */
  distinct: Schema.Int,
  repeats: Schema.Int,
  quarantined: Schema.Int,
  /** Records without an id that every database can store. They have no row. */
  withoutId: Schema.Int,
  /** The exact sums of the amount columns over the distinct records, as digits. */
  sums: Schema.Record(Schema.String, Schema.String),
  /**
   * The sum, modulo 2^128, of the first 128 bits of the distinct records' content hashes, in hex. It detects accidents, not
   * forgery.
   */
  digest: Schema.String,
  /**
   * Rows that the scan did not return and did not mark missing, because they are too many at once. Absent if there are
   * none.
   */
  heldBack: Schema.optionalKey(Schema.Int),
  /** Why they are too many, if not by their share of the list: looking for them would take too many requests. */
  heldBackBy: Schema.optionalKey(Schema.Literal("requests")),
  /** Rows that could not be looked for, so they have no missing mark. Absent if there are none. */
  unchecked: Schema.optionalKey(Schema.Int),
  /** Records that the list did not return, but a filter did. They count as records. Absent if there are none. */
  skipped: Schema.optionalKey(Schema.Int),
  /** The name of the rule for personal data. Without one, every field is kept. The digest is that of the texts after the rule. */
  rule: Schema.optionalKey(Schema.String)
}).pipe(withOldKey)
/** {@inheritDoc Certificate} */
export interface Certificate extends Schema.Schema.Type<typeof Certificate> {}

const Json = Schema.fromJsonString(Certificate)

export const toJson: (certificate: Certificate) => string = Schema.encodeSync(Json)
export const fromJson: (text: string) => Option.Option<Certificate> = Schema.decodeOption(Json)

/** Returns undefined if the scan has no certificate or its text is invalid. */
export const ofScan = (scan: { readonly certificate: string | undefined } | undefined): Certificate | undefined =>
  scan?.certificate === undefined ? undefined : Option.getOrUndefined(fromJson(scan.certificate))
