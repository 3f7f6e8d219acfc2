/** How many columns of a terminal a text takes, and what of it fits into a number of columns. */
import stringWidth from "string-width"

const ascii = /^[\x20-\x7e]*$/

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** Without the search for escape sequences: the text has none left. */
const measure = (text: string): number => stringWidth(text, { countAnsiEscapeCodes: true })

/**
 * The columns that one grapheme takes at most. Terminals that do not combine code points show a flag or a family as
 * several characters, so the larger of both counts is used: a line may then be narrower than counted, never wider.
 */
const graphemeWidth = (grapheme: string): number => {
  const combined = measure(grapheme)
  let separate = 0
  for (const character of grapheme) separate += measure(character)
  return Math.max(combined, separate)
}

/** The columns that a text without control characters takes at most; counted until they are more than `limit`. */
export const widthOf = (text: string, limit = Infinity): number => {
  if (ascii.test(text)) return text.length
  let width = 0
  for (const { segment } of segmenter.segment(text)) {
    width += graphemeWidth(segment)
    if (width > limit) break
  }
  return width
}

/** The parts of a text that stay together in a column: graphemes, or code points where a grapheme is wider than the column. */
function* partsOf(text: string, room: number): Generator<readonly [part: string, width: number]> {
  for (const { segment } of segmenter.segment(text)) {
    const width = graphemeWidth(segment)
    if (width <= room) yield [segment, width]
    else for (const character of segment) yield [character, measure(character)]
  }
}

/** The text, or as much of its beginning as fits before an ellipsis. */
export const cutTo = (text: string, room: number): string => {
  if (widthOf(text, room) <= room) return text
  if (room < 1) return ""
  if (ascii.test(text)) return `${text.slice(0, room - 1)}…`
  let kept = ""
  let left = room - 1
  for (const [part, width] of partsOf(text, room)) {
    if (width > left) break
    kept += part
    left -= width
  }
  return `${kept}…`
}

/** The text on as many lines as it needs, broken between words; a word that is wider than the room is broken too. */
export const wrapWords = (text: string, room: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  for (const word of text.split(" ")) {
    const line = lines.at(-1)
    if (line !== undefined && widthOf(line) + 1 + widthOf(word) <= room) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(...wrapTo(word, room))
  }
  return lines
}

/** The text on as many lines as it needs. A character that is wider than the room becomes an ellipsis. */
export const wrapTo = (text: string, room: number): ReadonlyArray<string> => {
  if (widthOf(text, room) <= room) return [text]
  const lines: Array<string> = []
  let line = ""
  let left = room
  for (const [part, width] of partsOf(text, room)) {
    const fitting = width > room ? "…" : part
    const needed = width > room ? 1 : width
    if (needed > left) {
      lines.push(line)
      line = ""
      left = room
    }
    line += fitting
    left -= needed
  }
  return [...lines, line]
}
