/** Numbers as people read them. */

/** Groups the digits of an integer: `1234567` becomes `1,234,567`. Other text is unchanged. */
export const grouped = (integer: number | bigint | string): string => {
  const text = String(integer)
  return /^[+-]?[1-9]\d{3,99}$/.test(text) ? text.replaceAll(/\B(?=(?:\d{3})+$)/g, ",") : text
}

/** Returns `1 list` or `3 lists`. */
export const counted = (count: number, noun: string, nouns = `${noun}s`): string =>
  `${grouped(count)} ${count === 1 ? noun : nouns}`
