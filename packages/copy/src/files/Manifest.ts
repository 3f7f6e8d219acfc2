/** `manifest.json`: the rendered files of each list in a folder, their format and their certificates. */
import { Option, Schema } from "effect"
import * as ScanTotals from "../plan/ScanTotals.ts"
import * as Certificate from "../port/Certificate.ts"
import type { ScanRow } from "../store/Store.ts"
import { compressions, type Format, formats, formulas } from "./render/Format.ts"

/**
 * The version of the CSV format. Files of an older version are rendered again. Version 1, which manifests do not name,
 * did not quote all line breaks.
 */
export const csvDialect = 2

/** A rendered file. */
const RenderedFile = Schema.Struct({
  file: Schema.String,
  records: Schema.Int,
  bytes: Schema.Int,
  /** Lower-case hex. */
  sha256: Schema.String,
  /** The file has the missing rows. Only NDJSON has a separate file; other formats have a column `missing_since`. */
  missing: Schema.optionalKey(Schema.Literal(true))
})
/** {@inheritDoc RenderedFile} */
export interface RenderedFile extends Schema.Schema.Type<typeof RenderedFile> {}

/** A part of a list, and the certificate of its last complete scan. */
const CertifiedPart = Schema.Struct({
  part: Schema.Struct({ field: Schema.String, value: Schema.String }),
  certificate: Certificate.Certificate
})

/** The rendered files of one list. */
const RenderedList = Schema.Struct({
  format: Schema.Literals(formats),
  compress: Schema.Literals(compressions),
  /** For CSV: what was done with formulas in text. */
  formulas: Schema.optionalKey(Schema.Literals(formulas)),
  /** For CSV: the {@link csvDialect} of the program that rendered it. */
  dialect: Schema.optionalKey(Schema.Int),
  /** For CSV and Parquet: the columns of the record's fields. Manifests of earlier versions do not have this member. */
  columns: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The newest complete scan whose rows are in the files. */
  scan: Schema.Int,
  files: Schema.Array(RenderedFile),
  /** The certificate of the last complete scan of the whole list, if no later scan has changed a row. */
  certificate: Schema.optionalKey(Certificate.Certificate),
  /** The parts scanned after the last complete scan of the whole list. They may overlap, and need not cover it. */
  parts: Schema.optionalKey(Schema.Array(CertifiedPart))
})
/** {@inheritDoc RenderedList} */
export interface RenderedList extends Schema.Schema.Type<typeof RenderedList> {}

/** The content of `manifest.json`. */
export const Manifest = Schema.Struct({
  version: Schema.Literal(1),
  source: Schema.String,
  /** The rule for personal data. Without one, every field is kept. */
  personal: Schema.optionalKey(Schema.Struct({
    name: Schema.String,
    preset: Schema.String,
    undocumented: Schema.String,
    fields: Schema.Record(Schema.String, Schema.String)
  })),
  /** The lists by their names on the command line. */
  lists: Schema.Record(Schema.String, RenderedList)
})
/** {@inheritDoc Manifest} */
export interface Manifest extends Schema.Schema.Type<typeof Manifest> {}

export const formatIn = (rendered: RenderedList): Format => ({
  format: rendered.format,
  compress: rendered.compress,
  formulas: rendered.formulas ?? "escape"
})

export const manifestFile = "manifest.json"

/** Decodes a text that {@link toText} wrote. Throws on any other text. */
export const fromText: (text: string) => Manifest = Schema.decodeSync(Schema.fromJsonString(Manifest))

export const isManifest = (text: string): boolean =>
  Option.isSome(Schema.decodeOption(Schema.fromJsonString(Manifest))(text))

/** Encodes a manifest as JSON with line breaks, so that people can read it. */
export const toText = (manifest: Manifest): string => `${JSON.stringify(encode(manifest), null, 2)}\n`
const encode = Schema.encodeSync(Manifest)

/** The evidence for the rows of a list: the newest complete scan and the certificates. */
export type Evidence = Pick<RenderedList, "scan" | "certificate" | "parts">

/**
 * Returns the evidence for a list's rows, or undefined if no scan is complete. `scans` are the scans, newest first.
 * `changedSince`: whether scans or passes have changed rows after the last complete scan of the whole list. The rows
 * are consistent unless a pass has changed some, or an incomplete scan has and no later scan of the same part is
 * complete.
 */
export const evidenceOf = (
  scans: ReadonlyArray<
    Pick<ScanRow, "scan" | "part" | "state" | "certificate"> & { readonly totals: ScanTotals.ScanTotals }
  >,
  changedSince: { readonly byScan: boolean; readonly byPass: boolean }
): { readonly evidence: Evidence; readonly isConsistent: boolean } | undefined => {
  const newest = scans.find(({ state }) => state === "complete")
  if (newest === undefined) return undefined
  const whole = scans.find(({ part, state }) => part === "" && state === "complete")
  const later = scans.filter(({ scan }) => whole === undefined || scan > whole.scan)
  const wholeCertificate = changedSince.byScan || changedSince.byPass ? undefined : Certificate.ofScan(whole)
  const parts = later.flatMap((scan) => {
    const certificate = scan.state === "complete" && scan.part !== "" ? Certificate.ofScan(scan) : undefined
    if (certificate === undefined) return []
    return Option.toArray(Schema.decodeOption(PartKey)(scan.part))
      .map(([field, value]) => ({ part: { field, value }, certificate }))
  })
  return {
    evidence: {
      scan: newest.scan,
      ...(wholeCertificate === undefined ? {} : { certificate: wholeCertificate }),
      ...(parts.length === 0 ? {} : { parts })
    },
    isConsistent: !changedSince.byPass &&
      later.every((scan) => scan.state === "complete" || !ScanTotals.hasWritten(scan.totals))
  }
}

/** The part of a stored scan, as `NextScan.ts` encodes it. */
const PartKey = Schema.fromJsonString(Schema.Tuple([Schema.String, Schema.String]))
