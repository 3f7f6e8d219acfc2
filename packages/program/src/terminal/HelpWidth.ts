/** Fits the text of a help to a terminal. The launcher of `payments` uses this file too, so it imports only text. */
import { brokenInto } from "../text/Lines.ts"

// oxlint-disable-next-line no-control-regex -- colours are control sequences
const colorSequence = /\u001b\[[\d;]*m/g

const plainOf = (text: string): string => text.replaceAll(colorSequence, "")

const lengthOf = (text: string): number => plainOf(text).length

/** Longer lines are hard to read. */
const longestLine = 100

/**
 * The least room for descriptions beside their names: in characters, and as a part of the width. With less, they stand
 * below.
 */
const leastRoom = 32
const leastShare = 0.5

/** More indentation, for a line that continues a command and for a description below its name. */
const moreIndent = 4

/** A line that ends with this continues on the next one. */
const continued = " \\"

/**
 * Fits lines that are longer than the terminal, or too long to read. Descriptions stay in their column, or all below
 * their names if the column is narrow. A command is broken between its arguments, so that people can copy it. Returns
 * the text unchanged for an infinite width.
 */
export const fitted = (text: string, terminal: number): string => {
  if (terminal === Infinity) return text
  const width = Math.min(terminal, longestLine)
  const lines = text.split("\n")
  const result: Array<string> = []
  let isExample = false
  for (let index = 0; index < lines.length;) {
    const line = lines[index] ?? ""
    const plain = plainOf(line)
    if (/^[A-Z]/.test(plain)) isExample = plain.startsWith("EXAMPLES")
    const column = isExample ? 0 : columnOf(plain)
    if (column > 0) {
      // The lines of a table are laid out alike.
      const end = lines.findIndex((other, at) => at > index && columnOf(plainOf(other)) !== column)
      const rows = lines.slice(index, end === -1 ? lines.length : end)
      result.push(...fittedRows(rows, column, width))
      index += rows.length
      continue
    }
    index++
    const isComment = plain.startsWith("  # ")
    if (plain.length <= (isExample && !isComment ? terminal : width)) result.push(line)
    else if (!isExample) result.push(...wordsIn(line.trimStart(), " ".repeat(indentOf(plain)), width))
    else if (isComment) result.push(...wordsIn(line.trimStart(), "  ", width, "  # "))
    else result.push(...commandLines(line.trimStart(), indentOf(plain), terminal))
  }
  return result.join("\n")
}

const indentOf = (plain: string): number => plain.length - plain.trimStart().length

/** The column at which a line's description begins, or 0 if the line has none. */
const columnOf = (plain: string): number => /^ {2,}\S.*? {3,}(?=\S)/.exec(plain)?.[0].length ?? 0

/** Each line has a name, and a description in this column. */
const fittedRows = (rows: ReadonlyArray<string>, column: number, width: number): ReadonlyArray<string> => {
  if (rows.every((row) => lengthOf(row) <= width)) return rows
  const isBelow = width - column < Math.max(leastRoom, width * leastShare)
  return rows.flatMap((row) => {
    const start = indexAt(row, column)
    const [name, description] = [row.slice(0, start), row.slice(start)]
    if (isBelow) {
      return [name.trimEnd(), ...wordsIn(description, " ".repeat(indentOf(plainOf(row)) + moreIndent), width)]
    }
    const [first = "", ...rest] = wordsIn(description, " ".repeat(column), width)
    return [name + first.trimStart(), ...rest]
  })
}

/** The index of the visible character number `column`. */
const indexAt = (line: string, column: number): number => {
  let index = column
  for (const { 0: sequence, index: at } of line.matchAll(colorSequence)) if (at < index) index += sequence.length
  return index
}

/** Breaks a text between its words. The first line starts with `first`, the others with `rest`. */
export const wordsIn = (text: string, first: string, width: number, rest = first): ReadonlyArray<string> => {
  const startOf = (at: number) => at === 0 ? first : rest
  return brokenInto(text, (line, at) => startOf(at).length + lengthOf(line) <= width)
    .map((line, at) => `${startOf(at)}${line}`)
}

/**
 * Breaks a shell's command between its arguments, with backslashes. An argument in double quotes that is longer than a
 * line is broken at a space. It gets no indent, because an indent would change it. Other long arguments stay on one
 * line.
 */
const commandLines = (command: string, indent: number, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let current = " ".repeat(indent)
  let isEmpty = true
  const breakLine = (next: string) => {
    lines.push(`${current}${continued}`)
    current = next
    isEmpty = true
  }
  const isTooLong = (argument: string) => indent + moreIndent + lengthOf(argument) + continued.length > width
  const words = argumentsIn(command).flatMap((argument) => {
    const [, flag, value] = isTooLong(argument) ? flagAndValue.exec(argument) ?? [] : []
    return flag === undefined || value === undefined ? [argument] : [flag, value]
  })
  for (const argument of words) {
    if (!isEmpty && lengthOf(current) + 1 + lengthOf(argument) + continued.length > width) {
      breakLine(" ".repeat(indent + moreIndent))
    }
    const isBreakable = isTooLong(argument) && plainOf(argument).startsWith("\"")
    for (const [index, word] of (isBreakable ? argument.split(" ") : [argument]).entries()) {
      // In quotes, a shell removes the backslash and the end of the line, so the space before them stays.
      if (index > 0 && lengthOf(current) + 1 + lengthOf(word) + continued.length > width) breakLine("")
      current += `${isEmpty ? "" : " "}${word}`
      isEmpty = false
    }
  }
  return [...lines, current]
}

const flagAndValue = /^(--[a-z-]+|[<>]) (.*)$/s

/** Splits a shell's command at the spaces that are not in quotes. A flag and a redirection stay with the next word. */
const argumentsIn = (command: string): ReadonlyArray<string> =>
  command.match(/(?:(?:--[a-z-]+|[<>]) (?![-"|<>]))?(?:"[^"]*"|'[^']*'|[^ "'])+/g) ?? []
