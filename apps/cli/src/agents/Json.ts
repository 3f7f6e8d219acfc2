/** JSON values for agents: no number is rounded, and every value and every answer has a limit. */
import type { Cell } from "@payments/copy"
import { exactNumber } from "@payments/core"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [name: string]: Json }

/** A text is cut after this many characters. */
const maxTextCharacters = 2000
/** A record is shown as its text, cut, if it is longer, or if it is nested more deeply. */
const maxRecordCharacters = 20_000
const maxDepth = 32

/**
 * Parses a JSON text. A number that a JSON reader could round, such as `9007199254740993` or `1.10`, becomes text with the same
 * digits.
 */
export const exactValue = (text: string): Json => {
  if (text.length > maxRecordCharacters) return cutText(text)
  // Brackets in strings count too, so the depth is never underestimated.
  if ((text.match(/[[{]/g)?.length ?? 0) > maxDepth && isDeep(JSON.parse(text), maxDepth)) return cutText(text)
  const value: Json = JSON.parse(
    text,
    (_name, parsed: Json, context?: { readonly source?: string }) =>
      typeof parsed === "number" ? numberOf(context?.source ?? String(parsed)) : parsed
  )
  return cutTexts(value)
}

const isDeep = (value: unknown, levels: number): boolean =>
  typeof value === "object" && value !== null &&
  (levels === 0 || Object.values(value).some((inner) => isDeep(inner, levels - 1)))

/** Returns the number, or its digits if a reader could spell it otherwise. */
const numberOf = (digits: string): Json => {
  const value = exactNumber(digits)
  return value !== undefined && String(value) === digits ? value : digits
}

export const cellValue = (cell: Cell): Json => {
  if (cell === null) return null
  if (typeof cell === "string") return cutText(cell)
  return cell.json === "true" || cell.json === "false" ? cell.json === "true" : numberOf(cell.json)
}

/** The mark of a text that was cut. */
const cutText = (text: string): Json =>
  text.length <= maxTextCharacters ? text : { cutText: text.slice(0, maxTextCharacters), characters: text.length }

const cutTexts = (value: Json): Json => {
  if (typeof value === "string") return cutText(value)
  if (Array.isArray(value)) return value.map(cutTexts)
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, cutTexts(inner)]))
    : value
}

const contains = (test: (object: object) => boolean) => (value: Json): boolean =>
  typeof value === "object" && value !== null && (test(value) || Object.values(value).some(contains(test)))

export const isCut = contains((object) => "cutText" in object && "characters" in object)

/**
 * Characters that are not seen, or that change the direction of text. An agent reads them, but a person does not see what it
 * reads. Tabs and line ends are white space, and stay.
 */
const invisible = /[^\P{C}\t\n\r]|[\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]/u

/**
 * Returns the value with each text that has an invisible character as `{"escapedText"}`: the inside of a JSON string in
 * which those characters are escaped. So `JSON.parse` of it in quotes is the exact text. If a name of an object has
 * such a character, the object is shown as its JSON text in this form. So is an object of the service that looks like
 * this form.
 */
export const visible = (value: Json): Json => {
  if (typeof value === "string") return invisible.test(value) ? { escapedText: escaped(value) } : value
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return value.map(visible)
  const members = Object.entries(value)
  return members.some(([name]) => name === "escapedText" || invisible.test(name))
    ? { escapedText: escaped(JSON.stringify(value)) }
    : Object.fromEntries(members.map(([name, inner]) => [name, visible(inner)]))
}

const escaped = (text: string): string =>
  JSON.stringify(text).slice(1, -1).replaceAll(
    new RegExp(invisible, "gu"),
    (character) =>
      Array.from({ length: character.length }, (_, index) =>
        `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`).join("")
  )

export const isEscaped = contains((object) => "escapedText" in object)

/** An answer has at most this many characters of data. */
const maxAnswerCharacters = 40_000

/** Returns the first rows that fit into an answer; at least one. */
export const fitting = <Row extends Json>(rows: ReadonlyArray<Row>): ReadonlyArray<Row> => {
  let characters = 0
  const end = rows.findIndex((row, index) => {
    characters += JSON.stringify(visible(row)).length
    return index > 0 && characters > maxAnswerCharacters
  })
  return end === -1 ? rows : rows.slice(0, end)
}
