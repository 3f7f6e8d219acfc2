/**
 * The limits of one page. A body of 32 MiB can contain millions of records or values of two characters each. Parsed,
 * they would take gigabytes. Both limits are far above the pages of the documented service: 100 records (§8) of about
 * 40 values each.
 */
import { comma, openBrace, openBracket, quote, skipSpace, stringEnd } from "./JsonText.ts"

/** The most records of a page. It leaves room for a service that ignores `limit` and sends more than 100. */
export const mostRecords = 1000

/** The most values of a page: objects, arrays, strings, numbers, booleans and nulls, at any depth. */
export const mostValues = 500_000

/**
 * Whether JSON text contains more than `most` values. Reads the text once, or not at all if it is too short for that
 * many.
 */
export const hasMoreValues = (text: string, most: number): boolean => {
  // Each value takes at least two characters: its own, and a comma or a bracket.
  if (text.length < 2 * most) return false
  let values = 1
  for (let at = 0; at < text.length && values <= most;) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = stringEnd(text, at)
      continue
    }
    if (code === comma) values++
    // The object or array is not empty: no closing bracket follows. Its code is that of the opening bracket plus 2.
    // Count the first value.
    else if ((code === openBrace || code === openBracket) && text.charCodeAt(skipSpace(text, at + 1)) !== code + 2) {
      values++
    }
    at++
  }
  return values > most
}
