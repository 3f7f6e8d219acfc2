/**
 * Paths of fields: `amount`, `customerDetails.name`. A name in double quotes, as in JSON, can contain any character:
 * `"a.b"`. Undocumented fields are allowed, but a path that resembles a documented one is refused, because it is probably a
 * typing error. In quotes it is accepted.
 */
import { closest, distance } from "fastest-levenshtein"

/** The path of a field. */
export interface FieldPath {
  readonly names: ReadonlyArray<string>
  /** The path in the header of a table or of CSV. */
  readonly header: string
  readonly isQuoted: boolean
}

/** A name, with the white space around it. */
const name = /\s*("(?:[^"\\]|\\.)*"|[^\s".,:=!<>~]+)\s*/y

/** Reads the path at `start`. Returns the path and the index after it, or undefined if there is none. */
export const readPath = (
  text: string,
  start = 0
): { readonly path: FieldPath; readonly end: number } | undefined => {
  const names: Array<string> = []
  let isQuoted = false
  for (let at = start;;) {
    name.lastIndex = at
    const found = name.exec(text)?.[1]
    if (found === undefined) return undefined
    const decoded = found.startsWith("\"") ? unquoted(found) : found
    if (decoded === undefined) return undefined
    names.push(decoded)
    isQuoted ||= found.startsWith("\"")
    at = name.lastIndex
    if (text[at] !== ".") return { path: { names, header: names.join("."), isQuoted }, end: at }
    at++
  }
}

/** Returns the text in a JSON string, or undefined if it is not valid. */
export const unquoted = (text: string): string | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "string" ? value : undefined
  } catch {
    return undefined
  }
}

/** Returns the text of a path. A name that needs double quotes has them. */
export const pathText = (names: ReadonlyArray<string>): string =>
  names.map((one) => /^[^\s".,:=!<>~]+$/.test(one) ? one : JSON.stringify(one)).join(".")

/** Reads paths that are separated by commas. Returns undefined if the text is anything else. */
export const readPaths = (text: string): ReadonlyArray<FieldPath> | undefined => {
  const paths = new Map<string, FieldPath>()
  for (let at = 0;; at++) {
    const found = readPath(text, at)
    if (found === undefined) return undefined
    paths.set(JSON.stringify(found.path.names), found.path)
    at = found.end
    if (at === text.length) return [...paths.values()]
    if (text[at] !== ",") return undefined
  }
}

/** Ignores case, `_`, `-` and the separator of paths: `customer_details_name`. */
const normalized = (path: string): string => path.replaceAll(/[._-]/g, "").toLowerCase()

/** Returns the documented path that this one probably means, if it is neither documented nor quoted. */
export const intended = ({ header, isQuoted }: FieldPath, documented: ReadonlyArray<string>): string | undefined => {
  if (isQuoted || documented.includes(header)) return undefined
  const nested = documented.find((path) => path.endsWith(`.${header}`))
  if (nested !== undefined) return nested
  const wanted = normalized(header)
  const nearest = closest(wanted, documented.map(normalized))
  return distance(wanted, nearest) <= (wanted.length < 6 ? 1 : 2)
    ? documented.find((path) => normalized(path) === nearest)
    : undefined
}
