/**
 * CSV as this program writes it: RFC 4180 with CRLF. A field is quoted where any reader could take a part of it for the end
 * of a field or a row, or could trim it: readers end rows at a single LF or CR too.
 */
import { stringify } from "csv-stringify/sync"

/** A field. Null and undefined are empty; empty text is `""`. */
export type Field = string | number | bigint | null | undefined

/** Control characters include CR and LF. Empty text is quoted because it is not null. */
// oxlint-disable-next-line no-control-regex -- they are what must be found
const needsQuotes = /^$|[",\u0000-\u001f\u007f-\u009f\u2028\u2029]|^\s|\s$/

/**
 * Where a spreadsheet begins a formula: before `=`, `+`, `-`, `@` (also their wide forms) or a tab at the start of the text or
 * of one of its lines, and before CR or LF at the start of the text. JSON text has no line breaks and starts with a bracket.
 * https://owasp.org/www-community/attacks/CSV_Injection
 */
const formulaStart = /(?<![^])(?=[\r\n])|(?<=(?<![^])|[\r\n])(?=[=+\-@\t＝＋－＠])/g

/** Text without these has no such place. Found ten times as fast. */
const mayBeginFormula = /^[=+\-@\t＝＋－＠]|[\r\n]/

/** Rows as CSV, each with its CRLF. `escape` puts a `'` before every formula in text; numbers are no text. */
export const csvText = (rows: ReadonlyArray<ReadonlyArray<Field>>, formulas: "escape" | "keep"): string =>
  stringify(
    rows.map((row) => row.map((field) => typeof field === "string" ? fieldText(field, formulas) : field)),
    { record_delimiter: "\r\n", quoted_match: needsQuotes }
  )

/** What a reader finds in the field, without its quotes. */
export const fieldText = (field: Field, formulas: "escape" | "keep"): string => {
  if (typeof field !== "string") return field === null || field === undefined ? "" : String(field)
  return formulas === "escape" && mayBeginFormula.test(field) ? field.replaceAll(formulaStart, "'") : field
}
