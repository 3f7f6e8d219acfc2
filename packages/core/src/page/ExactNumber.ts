/** Numbers by their texts, because parsing rounds integers beyond 2^53 and long fractions. */

const syntax = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** Whether the text is a number as JSON writes it. */
export const isNumber = (text: string): boolean => syntax.test(text)

/** An exponent beyond this is as large as this. No number that stands for something has one. */
const largestExponent = 1e15

/** A decimal number: 0.DIGITS × 10^magnitude, with its sign. */
interface Decimal {
  readonly sign: number
  /** The digits without zeros at both ends; empty for zero. */
  readonly digits: string
  readonly magnitude: number
}

const decimalOf = (text: string): Decimal => {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = syntax.exec(text) ?? []
  const digits = whole + fraction
  let start = 0
  while (digits[start] === "0") start++
  let end = digits.length
  while (end > start && digits[end - 1] === "0") end--
  const power = Math.max(-largestExponent, Math.min(largestExponent, Number(exponent)))
  return {
    sign: start === end ? 0 : sign === "-" ? -1 : 1,
    digits: digits.slice(start, end),
    magnitude: whole.length - start + power
  }
}

/** Whether parsing keeps the order and equality of numbers with this text: a double is exact to 15 decimal digits. */
const isShort = (text: string): boolean => text.length <= 15 && !text.includes("e") && !text.includes("E")

const order = <A extends string | number>(left: A, right: A): number => left < right ? -1 : left > right ? 1 : 0

/** Returns a negative number, zero or a positive number if the first number is less than, equal to or greater than the second. */
export const compareNumbers = (left: string, right: string): number => {
  if (isShort(left) && isShort(right)) return order(Number(left), Number(right))
  const [one, other] = [decimalOf(left), decimalOf(right)]
  if (one.sign !== other.sign || one.sign === 0) return one.sign - other.sign
  return one.sign * (order(one.magnitude, other.magnitude) || order(one.digits, other.digits))
}

/** Returns the number with this text. Returns undefined for an integer beyond 2^53, and if a JavaScript number would round it. */
export const exactNumber = (text: string): number | undefined => {
  const number = Number(text)
  const isHeld = Number.isInteger(number) ? Number.isSafeInteger(number) : Number.isFinite(number)
  return isHeld && isNumber(text) && compareNumbers(text, String(number)) === 0 ? number : undefined
}
