/**
 * What JSON text means. `JSON.parse` of Node 24 can take a name that is spelled with an escape for another one that it has
 * met before (nodejs/node#63785): text with such names is read here.
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

/** As `JSON.parse`, but for names that are spelled with an escape. Throws on text that is no JSON. */
export const parseText = (text: string, escapedNames: boolean = hasEscapedName(text)): unknown => {
  if (!escapedNames) return JSON.parse(text)
  JSON.parse(text)
  return parseExactly(text)
}

/** An object that is not closed yet, and the name of the member that is being read. */
interface OpenObject {
  readonly object: object
  name: string
}

/**
 * With names spelled however. Expects text that `JSON.parse` has accepted. One pass, and no recursion: the time is linear in
 * the length of the text, however deep it nests.
 */
export const parseExactly = (text: string): unknown => {
  /** Objects and arrays that are not closed yet; of an array, the index of its first element among {@link elements}. */
  const containers: Array<OpenObject | number> = []
  const elements: Array<unknown> = []
  let at = skipSpace(text, 0)
  for (;;) {
    let value: unknown
    const first = text.charCodeAt(at)
    if (first === openBrace || first === openBracket) {
      at = skipSpace(text, at + 1)
      // Unless it is empty. The code of a closing bracket is that of the opening one and two.
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
      value = JSON.parse(text.slice(at, end))
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
      // An array that grows by itself takes room for 17 elements.
      value = typeof container === "number" ? elements.splice(container) : container.object
    }
  }
}

/** As parsing does: `__proto__` is a name like any other. */
const define = ({ name, object }: OpenObject, value: unknown): void => {
  Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true })
}

/** Reads the name of the member at `start`; gives the index where its value begins. */
const readName = (text: string, start: number, container: OpenObject): number => {
  const end = stringEnd(text, start)
  const mark = skipSpace(text, end)
  if (text.charCodeAt(start) !== quote || text.charCodeAt(mark) !== colon) throw new SyntaxError("no name of a member")
  container.name = nameIn(text, start, end)
  return skipSpace(text, mark + 1)
}
