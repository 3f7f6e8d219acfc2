/** Fits the text of a help to a terminal. The launcher of `payments` uses this file too, so it imports nothing. */

// oxlint-disable-next-line no-control-regex -- colours are control sequences
const colorSequence = /\u001b\[[\d;]*m/g

const lengthOf = (text: string): number => text.replaceAll(colorSequence, "").length

/** Longer lines are hard to read. */
const longestLine = 100

/** The smallest part of the width that a description gets beside its flag. A narrower one is moved below it. */
const leastShare = 0.4
const belowIndent = 6

/**
 * Wraps the lines that are longer than the terminal, or too long to read. Descriptions stay in their column. Commands are not
 * wrapped, so that people can copy them. Returns the text unchanged for an infinite width.
 */
export const fitted = (text: string, terminal: number): string => {
  if (terminal === Infinity) return text
  const width = Math.min(terminal, longestLine)
  const lines: Array<string> = []
  let isCopied = false
  for (const line of text.split("\n")) {
    const plain = line.replaceAll(colorSequence, "")
    if (/^[A-Z]/.test(plain)) isCopied = /^(EXAMPLES|USAGE)/.test(plain)
    if (plain.length <= width || (isCopied && !plain.startsWith("  #"))) lines.push(line)
    else lines.push(...wrapped(line, plain, width))
  }
  return lines.join("\n")
}

const wrapped = (line: string, plain: string, width: number): ReadonlyArray<string> => {
  const column = /^ {2,}\S.*? {3,}(?=\S)/.exec(plain)?.[0].length ?? 0
  if (column > 0 && column > width * (1 - leastShare)) {
    const start = indexAt(line, column)
    return [line.slice(0, start).trimEnd(), ...wordsIn(line.slice(start), belowIndent, width)]
  }
  if (column > 0) {
    const start = indexAt(line, column)
    const [first = "", ...rest] = wordsIn(line.slice(start), column, width)
    return [line.slice(0, start) + first.trimStart(), ...rest]
  }
  return wordsIn(line.trimStart(), plain.length - plain.trimStart().length, width)
}

/** Returns the index of the visible character number `column`. */
const indexAt = (line: string, column: number): number => {
  let index = column
  for (const { 0: sequence, index: at } of line.matchAll(colorSequence)) if (at < index) index += sequence.length
  return index
}

/** Breaks a text between its words, with an indent. */
const wordsIn = (text: string, indent: number, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let current = ""
  for (const word of text.split(" ")) {
    const longer = current === "" ? word : `${current} ${word}`
    if (current !== "" && indent + lengthOf(longer) > width) {
      lines.push(current)
      current = word
    } else current = longer
  }
  return [...lines, current].map((one) => `${" ".repeat(indent)}${one}`)
}
