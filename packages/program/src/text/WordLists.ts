/** Lists of words in a sentence. `Intl.ListFormat` writes the same, but its first use takes 9 ms. */

/** Returns `a`, `a and b` or `a, b and c`. */
export const allOf = (words: ReadonlyArray<string>): string => joined(words, "and")

/** Returns `a`, `a or b` or `a, b or c`. */
export const anyOf = (words: ReadonlyArray<string>): string => joined(words, "or")

const joined = (words: ReadonlyArray<string>, conjunction: string): string =>
  words.length < 2
    ? words.join("")
    : `${words.slice(0, -1).join(", ")} ${conjunction} ${words.at(-1) ?? ""}`
