/**
 * Amounts as statements write them. An amount becomes an exact integer of the copy's unit: nothing is rounded, and no
 * floating point number takes part. A value that has two meanings is not read until the column has shown which one.
 */

/** The character before the decimals. */
export type DecimalMark = "." | ","

/** An amount without its unit. */
export interface Decimal {
  readonly isNegative: boolean
  readonly whole: string
  /** The digits after the decimal mark. */
  readonly fraction: string
  /** The decimal mark that this notation proves for the whole column; undefined if it proves none. */
  readonly proves: DecimalMark | undefined
}

/** What a text is: an amount, one that is ambiguous without the column's decimal mark, or none, and why. */
export type Reading = Decimal | "ambiguous" | { readonly problem: string }

export interface AmountRules {
  /** The decimal mark, if it is known. */
  readonly decimal: DecimalMark | undefined
  /** Whether parentheses mean a negative amount. */
  readonly hasParentheses: boolean
}

/** No amount has more digits: 64-bit integers and their sums have fewer. */
const mostDigits = 60

/** The marks between thousands. Spaces: U+0020, U+00A0, U+202F. Apostrophes are those of Swiss statements. */
const grouped = /^\d{1,3}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*(?:([.,])(\d+))?$/
const simple = /^(\d*)([.,])(\d+)$/

/** A currency sign such as € or US$, or three letters, before or after the digits. */
const withCurrency = /^[^\p{L}\p{Sc}]*(\p{Lu}{0,3}\p{Sc}|\p{Lu}{3})[^\p{L}\p{Sc}]*$/u
const currencies: ReadonlySet<string> = new Set(Intl.supportedValuesOf("currency"))

const hasCurrency = (text: string): boolean => {
  const [, found = ""] = withCurrency.exec(text) ?? []
  return /\d/.test(text) && (/\p{Sc}/u.test(found) || currencies.has(found))
}

/** Reads a text. No problem repeats it, because a wrong column may have personal data. */
export const readAmount = (given: string, { decimal, hasParentheses }: AmountRules): Reading => {
  let text = given.trim()
  if (text === "") return { problem: "is empty" }
  if (hasCurrency(text)) {
    return {
      problem:
        "has a currency sign or code. Only numbers are read, so that no currencies are added up: remove it from the column, and keep the lines of one currency"
    }
  }
  let isNegative = false
  if (text.startsWith("(") && text.endsWith(")")) {
    if (!hasParentheses) {
      return { problem: "is in parentheses, which may mean a negative amount: add --parentheses negative" }
    }
    isNegative = true
    text = text.slice(1, -1).trim()
  }
  // SAP and others write the sign behind the digits.
  const sign = /^[+\-−]|[-−]$/.exec(text)
  if (sign !== null) {
    if (isNegative) return { problem: "has parentheses and a sign" }
    isNegative = sign[0] !== "+"
    text = (sign.index === 0 ? text.slice(1) : text.slice(0, -1)).trim()
  }
  if (text.length > mostDigits) return { problem: `has more than ${mostDigits} characters` }
  if (/^[\d.,]+e[+-]?\d+$/i.test(text)) return { problem: "has an exponent, so digits of it may be lost" }
  const body = readBody(text, decimal)
  return typeof body === "string" || "problem" in body ? body : { ...body, isNegative }
}

const readBody = (
  text: string,
  decimal: DecimalMark | undefined
): Omit<Decimal, "isNegative"> | Exclude<Reading, Decimal> => {
  if (/^\d+$/.test(text)) return { whole: text, fraction: "", proves: undefined }
  const [, before, mark, after = ""] = simple.exec(text) ?? []
  const groups = grouped.exec(text)
  if (before !== undefined && (mark === "." || mark === ",")) {
    // 1.234 is 1234 or a number with three decimals. 0.123 and 1234.567 cannot be groups of thousands.
    if (groups === null || before.startsWith("0")) {
      return proved({ whole: before, fraction: after, proves: mark }, decimal)
    }
    if (decimal === undefined) return "ambiguous"
    return decimal === mark
      ? { whole: before, fraction: after, proves: undefined }
      : { whole: before + after, fraction: "", proves: undefined }
  }
  if (groups === null) return { problem: "is no amount" }
  const [, group = "", decimalMark, fraction = ""] = groups
  if (group === decimalMark) return { problem: "has the same mark between thousands and before the decimals" }
  const whole = text.slice(0, decimalMark === undefined ? undefined : text.lastIndexOf(decimalMark)).replaceAll(
    group,
    ""
  )
  const proves = decimalMark === "." || decimalMark === ","
    ? decimalMark
    : group === "."
    ? ","
    : group === ","
    ? "."
    : undefined
  return proved({ whole, fraction, proves }, decimal)
}

const proved = (
  found: Omit<Decimal, "isNegative">,
  decimal: DecimalMark | undefined
): Omit<Decimal, "isNegative"> | { readonly problem: string } =>
  decimal !== undefined && found.proves !== undefined && found.proves !== decimal
    ? { problem: `has a decimal ${nameOf(found.proves)}, but the column has a decimal ${nameOf(decimal)}` }
    : found

export const nameOf = (mark: DecimalMark): string => mark === "," ? "comma" : "point"

/**
 * Returns the amount as an integer of a unit with this number of decimals, or why there is none. Without a unit, only
 * whole numbers are read, as they are.
 */
export const scaled = (
  { fraction, isNegative, whole }: Decimal,
  decimals: number | undefined
): bigint | { readonly problem: string } => {
  if (decimals === undefined && fraction !== "") {
    return {
      problem: "has decimals. The unit of the copy's amounts is not documented: add --unit cents if they are hundredths"
    }
  }
  const places = decimals ?? 0
  const exact = fraction.replace(/0+$/, "")
  if (exact.length > places) return { problem: `has more than ${places} decimals, and nothing is rounded` }
  const size = BigInt(`${whole}${exact.padEnd(places, "0")}`)
  return isNegative ? -size : size
}
