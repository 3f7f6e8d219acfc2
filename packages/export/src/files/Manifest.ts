/** `manifest.json`: which files of a folder hold which list, what they are, and what is certified of them. */
import { Option, Schema } from "effect"
import * as Certificate from "../engine/Certificate.ts"
import * as ScanTotals from "../engine/ScanTotals.ts"
import type { ScanRow } from "../engine/Store.ts"
import { compressions, formats, formulas } from "./render/Format.ts"

/** Grows when CSV is written in another way: files of another dialect are rendered again. 1, unnamed, left line breaks unquoted. */
export const csvDialect = 2

/** One rendered file. */
const RenderedFile = Schema.Struct({
  file: Schema.String,
  records: Schema.Int,
  bytes: Schema.Int,
  /** Lower-case hex. */
  sha256: Schema.String,
  /** Its records are those that the service no longer lists. Where there is no such file, a column of the others tells. */
  missing: Schema.optionalKey(Schema.Literal(true))
})
/** {@inheritDoc RenderedFile} */
export interface RenderedFile extends Schema.Schema.Type<typeof RenderedFile> {}

/** The last complete scan of a part of a list. */
const PartShown = Schema.Struct({
  part: Schema.Struct({ field: Schema.String, value: Schema.String }),
  certificate: Certificate.Certificate
})

/** How one list is shown. */
const ListShown = Schema.Struct({
  format: Schema.Literals(formats),
  compress: Schema.Literals(compressions),
  /** Of CSV: what became of text that a spreadsheet would take for a formula. */
  formulas: Schema.optionalKey(Schema.Literals(formulas)),
  /** Of CSV: {@link csvDialect} of the program that rendered it. */
  dialect: Schema.optionalKey(Schema.Int),
  /** Of CSV and Parquet: the columns that hold the fields of the record. Those of an earlier version are not named. */
  columns: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The newest complete scan in the files. */
  scan: Schema.Int,
  files: Schema.Array(RenderedFile),
  /** Of the last complete scan of the whole list, where no later scan has changed a row. */
  certificate: Schema.optionalKey(Certificate.Certificate),
  /** Of the parts that were scanned since. They may overlap, and need not cover the list. */
  parts: Schema.optionalKey(Schema.Array(PartShown))
})
/** {@inheritDoc ListShown} */
export interface ListShown extends Schema.Schema.Type<typeof ListShown> {}

/** What `manifest.json` says. */
export const Manifest = Schema.Struct({
  version: Schema.Literal(1),
  /** Whose data it is. */
  source: Schema.String,
  /** By the list's name, as on the command line. */
  lists: Schema.Record(Schema.String, ListShown)
})
/** {@inheritDoc Manifest} */
export interface Manifest extends Schema.Schema.Type<typeof Manifest> {}

/** Its name in the folder. */
export const manifestFile = "manifest.json"

/** Decodes a text that {@link toText} wrote. Throws on any other text. */
export const fromText: (text: string) => Manifest = Schema.decodeSync(Schema.fromJsonString(Manifest))

/** Whether the text is a manifest. */
export const isManifest = (text: string): boolean =>
  Option.isSome(Schema.decodeOption(Schema.fromJsonString(Manifest))(text))

/** Encodes a manifest as JSON with line breaks, so that people can read it. */
export const toText = (manifest: Manifest): string => `${JSON.stringify(encode(manifest), null, 2)}\n`
const encode = Schema.encodeSync(Manifest)

/** What the rows of a list are at some moment. */
export type Evidence = Pick<ListShown, "scan" | "certificate" | "parts">

/**
 * What is known of a list's rows from its scans, the newest first, and from whether any that began after the last complete
 * one of the whole list has changed a row; nothing before one is complete. `settled` is false while some scan has changed
 * rows and neither it nor a later one of the same cut is complete.
 */
export const evidenceOf = (
  scans: ReadonlyArray<
    Pick<ScanRow, "scan" | "part" | "state" | "certificate"> & { readonly totals: ScanTotals.ScanTotals }
  >,
  changedSince: boolean
): { readonly evidence: Evidence; readonly settled: boolean } | undefined => {
  const newest = scans.find(({ state }) => state === "complete")
  if (newest === undefined) return undefined
  const whole = scans.find(({ part, state }) => part === "" && state === "complete")
  const later = scans.filter(({ scan }) => whole === undefined || scan > whole.scan)
  const ofAll = changedSince ? undefined : Certificate.ofScan(whole)
  const parts = later.flatMap((scan) => {
    const certificate = scan.state === "complete" && scan.part !== "" ? Certificate.ofScan(scan) : undefined
    if (certificate === undefined) return []
    return Option.match(Schema.decodeOption(PartKey)(scan.part), {
      onNone: () => [],
      onSome: ([field, value]) => [{ part: { field, value }, certificate }]
    })
  })
  return {
    evidence: {
      scan: newest.scan,
      ...(ofAll === undefined ? {} : { certificate: ofAll }),
      ...(parts.length === 0 ? {} : { parts })
    },
    settled: later.every((scan) => scan.state === "complete" || !ScanTotals.hasWritten(scan.totals))
  }
}

/** As `SqlSink` keeps it. */
const PartKey = Schema.fromJsonString(Schema.Tuple([Schema.String, Schema.String]))
