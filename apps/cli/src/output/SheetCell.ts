/**
 * A value in a cell of a spreadsheet. Text stays text, also if it begins with `=` or has only digits. A number is a number only
 * if the spreadsheet shows all of its digits. Nothing is rounded and nothing is cut.
 */
import type { Cell } from "@payments/copy"
import { numberText, tableCell } from "./Rows.ts"

/** The most UTF-16 code units of a cell, and the most rows of a sheet. */
export const limits = { text: 32_767, rows: 1_048_576 } as const

/** The name of the sheets of rows, to which the second one adds its number, and of the control sheet. */
export const sheetNames = { rows: "Rows", control: "Control" } as const

/** Spreadsheets show and save 15 digits of a number. So integers beyond 2^53 are text too. */
const mostDigits = 15

export type SheetValue = string | number | boolean | null

/** Returns the value of a cell. A number of more digits than a spreadsheet shows is text. */
export const sheetValue = (cell: Cell): SheetValue => {
  if (cell === null || typeof cell === "string") return cell
  const digits = numberText(cell)
  if (digits !== undefined) return numberOf(digits) ?? digits
  if (cell.json === "true" || cell.json === "false") return cell.json === "true"
  return cell.csv === undefined ? tableCell({ json: cell.json }) : cell.csv
}

const numberOf = (text: string): number | undefined => {
  if (/^-?\d+$/.test(text)) return text.replace("-", "").length <= mostDigits ? Number(text) : undefined
  const number = Number(text)
  // The shortest decimal of a floating point number identifies it, so these digits are the same value.
  return Number.isFinite(number) && plain(String(number)) === plain(text) ? number : undefined
}

/** Returns the digits without zeros that say nothing, and the power of ten. */
const plain = (text: string): string => {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? []
  const digits = (whole + fraction).replace(/^0+/, "")
  const trimmed = digits.replace(/0+$/, "")
  return trimmed === ""
    ? "0"
    : `${sign}${trimmed}e${Number(exponent) - fraction.length + digits.length - trimmed.length}`
}

/** What XML cannot have, except for the CR of line breaks. */
const control =
  // oxlint-disable-next-line no-control-regex -- this expression must find control characters
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/**
 * Returns the text as a cell shows it: `\u0007` for a character that XML cannot have, and LF for every line break. The writer
 * escapes what has a meaning in XML, and `_x0007_`, which has one in a cell.
 */
export const cellText = (text: string): string =>
  text.replaceAll(/\r\n?/g, "\n")
    .replace(control, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Whether a text has characters that XML cannot have. Line breaks do not count. */
export const hasControls = (text: string): boolean => text.search(control) !== -1

/** The exact sum of the numbers of a column. */
export class ColumnSum {
  /** How many cells have a number. */
  numbers = 0
  /** How many cells are null. */
  nulls = 0
  private units = 0n
  private decimals = 0
  private isExact = true

  add(cell: Cell): void {
    if (cell === null) this.nulls++
    const text = numberText(cell)
    if (text === undefined) return
    this.numbers++
    const [, whole, fraction = ""] = /^(-?\d+)(?:\.(\d+))?$/.exec(text) ?? []
    if (whole === undefined) return void (this.isExact = false)
    if (fraction.length > this.decimals) {
      this.units *= 10n ** BigInt(fraction.length - this.decimals)
      this.decimals = fraction.length
    }
    this.units += BigInt(whole + fraction) * 10n ** BigInt(this.decimals - fraction.length)
  }

  /** Returns the digits of the sum. Undefined if a number has an exponent, so that the sum may not be exact. */
  text(): string | undefined {
    if (!this.isExact) return undefined
    if (this.decimals === 0) return String(this.units)
    const digits = String(this.units < 0n ? -this.units : this.units).padStart(this.decimals + 1, "0")
    return `${this.units < 0n ? "-" : ""}${digits.slice(0, -this.decimals)}.${digits.slice(-this.decimals)}`
  }
}
