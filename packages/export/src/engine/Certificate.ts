/** The evidence of a complete scan: what was read, in figures that can be recomputed from the destination alone. */
import { Option, Schema } from "effect"
import { digestText, type Tally } from "./Tally.ts"

/** What is certified of a complete scan. */
export const Certificate = Schema.Struct({
  scan: Schema.Int,
  /** When the scan was begun and when its last page was committed, UTC. */
  startedAt: Schema.String,
  completedAt: Schema.String,
  /** The service named no further page: the only end that counts (§4.4). */
  end: Schema.Literal("null cursor"),
  pages: Schema.Int,
  /** Records read, repeats included. */
  records: Schema.Int,
  /** Different ids among them. */
  distinct: Schema.Int,
  repeats: Schema.Int,
  quarantined: Schema.Int,
  /** Records without a readable id, which are in no row. */
  nameless: Schema.Int,
  /** Exact sums of the amount columns over the distinct records, as digits. */
  sums: Schema.Record(Schema.String, Schema.String),
  /** The content hashes of the distinct records, their first 128 bits added up modulo 2^128, hex: tells accidents, not forgery. */
  digest: Schema.String
})
/** {@inheritDoc Certificate} */
export interface Certificate extends Schema.Schema.Type<typeof Certificate> {}

const Json = Schema.fromJsonString(Certificate)

export const toJson: (certificate: Certificate) => string = Schema.encodeSync(Json)
/** None of any text that {@link toJson} did not write. */
export const fromJson: (text: string) => Option.Option<Certificate> = Schema.decodeOption(Json)

/** A kept scan's; undefined where it has none, or none that {@link toJson} wrote. */
export const ofScan = (scan: { readonly certificate: string | undefined } | undefined): Certificate | undefined =>
  scan?.certificate === undefined ? undefined : Option.getOrUndefined(fromJson(scan.certificate))

/** The certificate of a scan that reached the null cursor. */
export const certify = (
  scan: { readonly scan: number; readonly startedAt: string },
  tally: Tally,
  distinct: number,
  completedAt: string
): Certificate => ({
  scan: scan.scan,
  startedAt: scan.startedAt,
  completedAt,
  end: "null cursor",
  pages: tally.counts.pages,
  records: tally.counts.records,
  distinct,
  repeats: tally.counts.repeats,
  quarantined: tally.counts.quarantined,
  nameless: tally.counts.nameless,
  sums: Object.fromEntries(Object.entries(tally.sums).map(([column, sum]) => [column, String(sum)])),
  digest: digestText(tally.digest)
})
