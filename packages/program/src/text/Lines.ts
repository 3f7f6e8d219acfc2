/** Breaks text between its words. The launcher of `payments` uses this file too, so it imports nothing. */

/**
 * Puts the words of a text on lines. `fits` decides whether a longer line number `at` still fits. `split` may break a
 * word that begins a line.
 */
export const brokenInto = (
  text: string,
  fits: (line: string, at: number) => boolean,
  split = (word: string): ReadonlyArray<string> => [word]
): ReadonlyArray<string> => {
  const lines: Array<string> = []
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`
    if (lines.length > 0 && fits(longer, lines.length - 1)) lines[lines.length - 1] = longer
    else lines.push(...split(word))
  }
  return lines
}
