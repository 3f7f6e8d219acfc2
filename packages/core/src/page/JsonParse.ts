/**
 * Parses JSON text. `JSON.parse` of Node 24 can replace a name that is spelled with an escape by another name that it
 * parsed before (nodejs/node#63785). Text with escaped names is therefore parsed here.
 */
import {
  colon,
  comma,
  hasEscapedName,
  nameIn,
  openBrace,
  openBracket,
  quote,
  skipSpace,
  stringEnd,
  valueEnd
} from "./JsonText.ts"

/**
 * Parses a record's exact text. The result is that of `JSON.parse`, but names spelled with escapes are always correct;
 * some versions of Node confuse them. Throws on text that is not JSON.
 */
export const parseText = (text: string): unknown => parseKnowing(text, hasEscapedName(text))

/** Parses text as {@link parseText} does, if it is known whether any name is spelled with an escape. */
export const parseKnowing = (text: string, hasEscapes: boolean): unknown => {
  if (!hasEscapes) return JSON.parse(text)
  // Throw here if the text is not JSON: `parseExactly` does not check all of it.
  JSON.parse(text)
  return parseExactly(text)
}

/**
 * Parses a record's exact text as {@link parseText} does, but `number` returns the value of each number. It gets the exact
 * text of the number. The text must be valid JSON.
 */
export const parseWithNumbers = (text: string, number: (text: string) => unknown): unknown =>
  parseExactly(text, (scalar) => /^[-\d]/.test(scalar) ? number(scalar) : JSON.parse(scalar))

/** Whether the text is JSON. */
export const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Whether a parsed JSON value is an object, and neither an array nor null. */
export const isJsonObject = (value: unknown): value is { readonly [name: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** An object that is not closed yet, and the name of its current member. */
interface OpenObject {
  readonly object: object
  name: string
}

/**
 * Parses text that `JSON.parse` has accepted, with correct member names. Takes one pass and no recursion, so the time
 * is linear in the length of the text at any depth. `scalar` returns the value of the text of a string, number, boolean or
 * null.
 */
export const parseExactly = (text: string, scalar: (text: string) => unknown = JSON.parse): unknown => {
  /**
   * Objects and arrays that are not closed yet. A number stands for an array: the index of its first element in
   * `elements`.
   */
  const containers: Array<OpenObject | number> = []
  /** The elements of all arrays that are not closed yet. */
  const elements: Array<unknown> = []
  let at = skipSpace(text, 0)
  for (;;) {
    let value: unknown
    const first = text.charCodeAt(at)
    if (first === openBrace || first === openBracket) {
      at = skipSpace(text, at + 1)
      // The container is not empty: no closing bracket follows. Its code is that of the opening bracket plus 2.
      if (text.charCodeAt(at) !== first + 2) {
        const container = first === openBrace ? { object: {}, name: "" } : elements.length
        containers.push(container)
        if (typeof container !== "number") at = readName(text, at, container)
        continue
      }
      at++
      value = first === openBrace ? {} : []
    } else {
      const end = valueEnd(text, at)
      value = scalar(text.slice(at, end))
      at = end
    }
    for (;;) {
      const container = containers.at(-1)
      if (container === undefined) return value
      if (typeof container === "number") elements.push(value)
      else define(container, value)
      at = skipSpace(text, at)
      const hasMore = text.charCodeAt(at) === comma
      at++
      if (hasMore) {
        at = skipSpace(text, at)
        if (typeof container !== "number") at = readName(text, at, container)
        break
      }
      containers.pop()
      // Create each array at its final size: an array that grows by `push` reserves memory for 17 elements.
      value = typeof container === "number" ? elements.splice(container) : container.object
    }
  }
}

/** Adds a member as `JSON.parse` does: `__proto__` is an ordinary name. */
const define = ({ name, object }: OpenObject, value: unknown): void => {
  Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true })
}

/** Stores the name of the member at `start` in `container`. Returns the index where its value starts. */
const readName = (text: string, start: number, container: OpenObject): number => {
  const end = stringEnd(text, start)
  const colonAt = skipSpace(text, end)
  if (text.charCodeAt(start) !== quote || text.charCodeAt(colonAt) !== colon) {
    throw new SyntaxError("expected the name of a member")
  }
  container.name = nameIn(text, start, end)
  return skipSpace(text, colonAt + 1)
}
