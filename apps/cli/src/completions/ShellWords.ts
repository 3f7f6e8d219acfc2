/** Splits an unfinished command into words, as a shell does, without expanding anything. */

/**
 * Returns the words of a command up to the cursor, without quotes and backslashes. The last one is the word at the cursor; it is
 * empty after a space.
 */
export const shellWords = (line: string): ReadonlyArray<string> => {
  const words = [""]
  let quote: string | undefined
  const append = (text: string) => words.push((words.pop() ?? "") + text)
  for (let at = 0; at < line.length; at++) {
    const character = line.charAt(at)
    if (quote === undefined && /\s/.test(character)) {
      if (words.length > 1 || words[0] !== "") words.push("")
      while (/\s/.test(line.charAt(at + 1))) at++
    } else if (quote === undefined && (character === "'" || character === "\"")) quote = character
    else if (character === quote) quote = undefined
    // Between single quotes a backslash is a character.
    else if (character === "\\" && quote !== "'") append(line.charAt(++at))
    else append(character)
  }
  return words
}
