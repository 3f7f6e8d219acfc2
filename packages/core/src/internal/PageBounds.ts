/**
 * How much one page may hold. A body of 32 MiB has room for millions of records or values of two characters each, which would
 * take gigabytes once they are parsed. Both bounds are far beyond what the document's service sends: 100 records (§8) of some
 * 40 values each.
 */
import { comma, openBrace, openBracket, quote, skipSpace, stringEnd } from "./JsonText.ts"

/** A service that ignores `limit` may send more than the 100 records that it takes, but not many times more. */
export const mostRecords = 1000

/** Objects, arrays, strings, numbers and the like, at any depth. */
export const mostValues = 500_000

/** Whether JSON text holds more than so many values. Reads it once, or not at all where it is too short for them. */
export const hasMoreValues = (text: string, most: number): boolean => {
  // Each value takes two characters: itself, and a comma or a bracket.
  if (text.length < 2 * most) return false
  let values = 1
  for (let at = 0; at < text.length && values <= most;) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = stringEnd(text, at)
      continue
    }
    if (code === comma) values++
    // Its first value, unless it is empty. The code of a closing bracket is that of the opening one and two.
    else if ((code === openBrace || code === openBracket) && text.charCodeAt(skipSpace(text, at + 1)) !== code + 2) {
      values++
    }
    at++
  }
  return values > most
}
