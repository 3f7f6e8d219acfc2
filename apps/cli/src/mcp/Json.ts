/** JSON values for agents: no number is rounded, and every value and every answer has a limit. */
import type { Cell } from "@payments/export"

/** A JSON value. */
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
      typeof parsed === "number" ? exactNumber(context?.source ?? String(parsed)) : parsed
  )
  return cutTexts(value)
}

const isDeep = (value: unknown, levels: number): boolean =>
  typeof value === "object" && value !== null &&
  (levels === 0 || Object.values(value).some((inner) => isDeep(inner, levels - 1)))

const exactNumber = (digits: string): Json => {
  const value = Number(digits)
  return String(value) === digits && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? value : digits
}

/** Returns the value of a cell. */
export const cellValue = (cell: Cell): Json =>
  cell === null
    ? null
    : typeof cell === "string"
    ? cutText(cell)
    : cell.json === "true" || cell.json === "false"
    ? cell.json === "true"
    : exactNumber(cell.json)

/** The mark of a text that was cut. */
const cutText = (text: string): Json =>
  text.length <= maxTextCharacters ? text : { cutText: text.slice(0, maxTextCharacters), characters: text.length }

const cutTexts = (value: Json): Json =>
  typeof value === "string"
    ? cutText(value)
    : Array.isArray(value)
    ? value.map(cutTexts)
    : typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, cutTexts(inner)]))
    : value

/** Whether a value contains a text that was cut. */
export const isCut = (value: Json): boolean =>
  typeof value === "object" && value !== null &&
  (("cutText" in value && "characters" in value) || Object.values(value).some(isCut))

/** An answer has at most this many characters of data. */
const maxAnswerCharacters = 40_000

/** Returns the first rows that fit into an answer; at least one. */
export const fitting = <Row extends Json>(rows: ReadonlyArray<Row>): ReadonlyArray<Row> => {
  let characters = 0
  const end = rows.findIndex((row, index) => {
    characters += JSON.stringify(row).length
    return index > 0 && characters > maxAnswerCharacters
  })
  return end === -1 ? rows : rows.slice(0, end)
}
