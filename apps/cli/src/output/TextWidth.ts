/** Measures the width of text in columns of a terminal, and shortens or wraps text to a width. */
import { brokenInto } from "@payments/program"
import stringWidth from "string-width"

const ascii = /^[\x20-\x7e]*$/

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** Measures without a search for escape sequences: the text contains none. */
const measure = (text: string): number => stringWidth(text, { countAnsiEscapeCodes: true })

/**
 * Returns the width of a grapheme on the terminal that shows it widest. Some terminals do not combine code points: they show a
 * flag or a family emoji as several characters. So a line may be narrower than counted, but never wider.
 */
const graphemeWidth = (grapheme: string): number => {
  const combined = measure(grapheme)
  let separate = 0
  for (const character of grapheme) separate += measure(character)
  return Math.max(combined, separate)
}

/** Returns the width of a text without control characters, as {@link graphemeWidth} counts. Stops counting above `limit`. */
export const widthOf = (text: string, limit = Infinity): number => {
  if (ascii.test(text)) return text.length
  let width = 0
  for (const { segment } of segmenter.segment(text)) {
    width += graphemeWidth(segment)
    if (width > limit) break
  }
  return width
}

/** Splits a text into graphemes, and a grapheme that is wider than the column into code points. */
function* graphemesOf(text: string, room: number): Generator<readonly [part: string, width: number]> {
  for (const { segment } of segmenter.segment(text)) {
    const width = graphemeWidth(segment)
    if (width <= room) yield [segment, width]
    else for (const character of segment) yield [character, measure(character)]
  }
}

/** Returns the text, or as much of its beginning as fits before an ellipsis. */
export const truncateTo = (text: string, room: number): string => {
  if (widthOf(text, room) <= room) return text
  if (room < 1) return ""
  if (ascii.test(text)) return `${text.slice(0, room - 1)}…`
  let kept = ""
  let left = room - 1
  for (const [part, width] of graphemesOf(text, room)) {
    if (width > left) break
    kept += part
    left -= width
  }
  return `${kept}…`
}

/** Wraps the text between words. Breaks a word only if it is wider than the room. */
export const wrapWords = (text: string, room: number): ReadonlyArray<string> =>
  brokenInto(text, (line) => widthOf(line) <= room, (word) => wrapTo(word, room))

/** Wraps the text between characters. Replaces a character that is wider than the room by an ellipsis. */
export const wrapTo = (text: string, room: number): ReadonlyArray<string> => {
  if (widthOf(text, room) <= room) return [text]
  const lines: Array<string> = []
  let line = ""
  let left = room
  for (const [part, width] of graphemesOf(text, room)) {
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
