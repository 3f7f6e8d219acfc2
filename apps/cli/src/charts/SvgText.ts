/**
 * The room that text in a chart needs. Which font the reader's machine has is unknown, so the widths are those of Verdana and
 * DejaVu Sans, the widest of the usual fonts.
 */
import { brokenInto } from "@payments/program"

const narrow = new Set(" !'()*,-./:;I[]`fijlrt{|}·")
const wide = new Set("%@MWmw…")

/** The width of a character, as a share of the size of the font. */
const shareOf = (character: string): number => {
  if (narrow.has(character)) return 0.46
  if (wide.has(character) || character > "\u1100") return 1
  return /\p{Lu}/u.test(character) ? 0.79 : 0.64
}

/** Returns the most width that a text may need, in the unit of the font's size. */
export const textWidth = (text: string, fontSize: number): number => {
  let width = 0
  for (const character of text) width += shareOf(character)
  return width * fontSize
}

/** Shortens a text to the room, with an ellipsis. */
export const shortenTo = (text: string, room: number, fontSize: number): string => {
  if (textWidth(text, fontSize) <= room) return text
  let shown = ""
  for (const character of text) {
    if (textWidth(`${shown}${character}…`, fontSize) > room) break
    shown += character
  }
  return `${shown}…`
}

/** Wraps a text at its white space. A word that is wider than the room is shortened. */
export const linesOf = (text: string, room: number, fontSize: number): ReadonlyArray<string> => {
  const words = text.split(/\s+/).filter((word) => word !== "")
  return words.length === 0 ? [] : brokenInto(
    words.join(" "),
    (line) => textWidth(line, fontSize) <= room,
    (word) => [shortenTo(word, room, fontSize)]
  )
}
