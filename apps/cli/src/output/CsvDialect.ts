/**
 * How CSV is written for a spreadsheet of another country: `--delimiter`, `--decimal-comma` and `--bom`. Without them it is
 * that of RFC 4180, in UTF-8 without a byte order mark.
 */
import type { Delimiter } from "@payments/copy/csv"
import { switchFlag, textFlag, usage } from "@payments/program"
import { Effect } from "effect"

export interface CsvDialect {
  readonly delimiter: Delimiter
  /** Whether the output starts with a byte order mark, by which Excel recognizes UTF-8. */
  readonly hasMark: boolean
  /** Writes a number, which is given as JSON writes it. */
  readonly numberOf: (json: string) => string
}

export const usualDialect: CsvDialect = { delimiter: ",", hasMark: false, numberOf: (json) => json }

export const csvFlags = {
  delimiter: textFlag("delimiter", "CHARACTER", "of CSV: what stands between two fields: , ; | or tab; default ,"),
  decimalComma: switchFlag("decimal-comma", "of CSV: write numbers with decimals as 12,5; integers stay as they are"),
  bom: switchFlag("bom", "of CSV: begin with a byte order mark, by which Excel recognizes UTF-8")
}

export interface GivenDialect {
  readonly delimiter: string | undefined
  readonly decimalComma: boolean
  readonly bom: boolean
}

const delimiters: ReadonlyMap<string, Delimiter> = new Map([
  [",", ","],
  [";", ";"],
  ["|", "|"],
  ["\t", "\t"],
  ["tab", "\t"]
])

/** Returns the dialect, or undefined if no flag asks for one. The flags need `--format csv`. */
export const csvDialectIn = Effect.fnUntraced(function*(
  { bom, decimalComma, delimiter: given, format }: GivenDialect & { readonly format: string | undefined }
) {
  const flags = [
    ...given === undefined ? [] : ["--delimiter"],
    ...decimalComma ? ["--decimal-comma"] : [],
    ...bom ? ["--bom"] : []
  ]
  if (flags.length === 0) return undefined
  if (format !== "csv") {
    return yield* usage(`${flags.join(", ")} ${flags.length === 1 ? "needs" : "need"} --format csv.`)
  }
  const delimiter = given === undefined ? usualDialect.delimiter : delimiters.get(given)
  if (delimiter === undefined) return yield* usage("Invalid value for --delimiter. Expected: one of , ; | or tab")
  const dialect: CsvDialect = {
    delimiter,
    hasMark: bom,
    numberOf: decimalComma ? (json) => json.replace(".", ",") : usualDialect.numberOf
  }
  return dialect
})
