/**
 * Reads parts of JSON text without parsing their values. Parsing changes some values: integers beyond 2^53, `1e400`,
 * `1.10`, the order of names such as `"10"`. Unless a function says otherwise, it expects text that `JSON.parse` has
 * accepted, and does not check it. Each function reads a character a constant number of times at most, so time and
 * memory are linear in the length of the text.
 */
import { exactNumber, isNumber } from "./ExactNumber.ts"

const backslash = 0x5c, closeBrace = 0x7d, closeBracket = 0x5d, minus = 0x2d, plus = 0x2b, point = 0x2e
export const quote = 0x22, colon = 0x3a, comma = 0x2c, openBracket = 0x5b, openBrace = 0x7b

/** Returns the index after the string that starts at `start`. */
export const stringEnd = (text: string, start: number): number => {
  for (let end = text.indexOf("\"", start + 1); end !== -1; end = text.indexOf("\"", end + 1)) {
    let before = end - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((end - before) % 2 === 1) return end + 1
  }
  return text.length
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

/** Returns the index of the first character at or after `start` that is not white space. */
export const skipSpace = (text: string, start: number): number => {
  let at = start
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

/** A result that {@link valueEnd} sets while it reads an object or array. */
interface Findings {
  /** Whether there is white space between tokens. */
  hasSpace: boolean
}

/** Returns the index after the object or array at `start`, or undefined if it is not closed. */
const containerEnd = (text: string, start: number, findings?: Findings): number | undefined => {
  let depth = 0
  for (let at = start; at < text.length;) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = stringEnd(text, at)
      continue
    }
    if (code === openBrace || code === openBracket) depth++
    else if ((code === closeBrace || code === closeBracket) && --depth === 0) return at + 1
    else if (findings !== undefined && isSpace(code)) findings.hasSpace = true
    at++
  }
  return undefined
}

/**
 * Returns the index after the number, boolean or null at `start`. A regular expression would be shorter, but it would
 * keep the whole text in memory as `RegExp.input`.
 */
const scalarEnd = (text: string, start: number): number => {
  let at = start
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === comma || code === closeBracket || code === closeBrace || isSpace(code)) break
  }
  return at
}

/** Returns the index after the value that starts at `start`. */
export const valueEnd = (text: string, start: number, findings?: Findings): number => {
  switch (text.charCodeAt(start)) {
    case quote:
      return stringEnd(text, start)
    case openBrace:
    case openBracket:
      return containerEnd(text, start, findings) ?? text.length
    default:
      return scalarEnd(text, start)
  }
}

/** Returns where the next member or element starts, after one that ended at `end`. */
const nextItem = (text: string, end: number): number => {
  const at = skipSpace(text, end)
  return text.charCodeAt(at) === comma ? skipSpace(text, at + 1) : at
}

/** Returns the member name whose text starts with the quote at `start` and ends before `end`. Decodes escapes. */
export const nameIn = (text: string, start: number, end: number): string => {
  const name = text.slice(start + 1, end - 1)
  return name.includes("\\") ? String(JSON.parse(`"${name}"`)) : name
}

/**
 * Calls `visit` for each member of an object, with its name and the index of its value. `visit` returns where the value
 * ends.
 */
const eachMember = (object: string, visit: (key: string, from: number) => number): void => {
  for (let at = skipSpace(object, skipSpace(object, 0) + 1); object.charCodeAt(at) === quote;) {
    const end = stringEnd(object, at)
    const from = skipSpace(object, skipSpace(object, end) + 1)
    at = nextItem(object, visit(nameIn(object, at, end), from))
  }
}

/** The number of slices that are joined at a time: millions of slices take a hundred times the memory of the result. */
const mostSlices = 4096

/** Removes the white space between tokens and changes nothing else. */
export const compact = (text: string): string => {
  if (!/[ \n\r\t]/.test(text)) return text
  const joined: Array<string> = []
  let slices: Array<string> = []
  let from = 0
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at)
    if (code === quote) at = stringEnd(text, at)
    else if (isSpace(code)) {
      slices.push(text.slice(from, at))
      from = at = skipSpace(text, at)
      if (slices.length === mostSlices) {
        joined.push(slices.join(""))
        slices = []
      }
    } else at++
  }
  slices.push(text.slice(from))
  joined.push(slices.join(""))
  return joined.join("")
}

/**
 * Returns the members of a JSON object by name, each as its exact text without white space between tokens. For
 * `{"amount":1.10}` the text of `amount` is `1.10`, where parsing would give the number 1.1. If a name repeats, the
 * last member counts, as in parsing. The text must be valid JSON, such as the text of a page's record.
 */
export const membersOf = (object: string): ReadonlyMap<string, string> => {
  const found = new Map<string, string>()
  eachMember(object, (key, from) => {
    const to = valueEnd(object, from)
    found.set(key, compact(object.slice(from, to)))
    return to
  })
  return found
}

/**
 * Replaces or removes the values of an object's members or of an array's elements, in exact text. `rewrite` gets the
 * exact text of each value and its member name, which is undefined for an element. It returns the new text, or undefined
 * to remove the member or element. If a name repeats, it gets every occurrence. All other text stays byte for byte; if
 * nothing changes, the result is the same string. Text of other values than objects and arrays is returned unchanged.
 * The text must be valid JSON.
 */
export const rewriteItems = (
  container: string,
  rewrite: (value: string, name: string | undefined) => string | undefined
): string => {
  const start = skipSpace(container, 0)
  const isObject = container.charCodeAt(start) === openBrace
  if (!isObject && container.charCodeAt(start) !== openBracket) return container
  let result = ""
  /** The end of the text that is in `result`. */
  let copied = 0
  let at = skipSpace(container, start + 1)
  /** The end of the last item, and of the last one that stays. */
  let end = at
  let keptEnd = at
  let hasKept = false
  while (at < container.length && !isClosing(container.charCodeAt(at))) {
    const nameEnd = isObject ? stringEnd(container, at) : at
    const from = isObject ? skipSpace(container, skipSpace(container, nameEnd) + 1) : at
    const to = valueEnd(container, from)
    const value = container.slice(from, to)
    const replaced = rewrite(value, isObject ? nameIn(container, at, nameEnd) : undefined)
    if (replaced === undefined) {
      if (copied < keptEnd) result += container.slice(copied, keptEnd)
      copied = Math.max(copied, keptEnd)
    } else {
      // Items between `keptEnd` and `end` were removed. The comma after the last of them separates the items that stay.
      if (keptEnd !== end) {
        if (hasKept) result += container.slice(end, at)
        copied = at
      }
      if (replaced !== value) {
        result += container.slice(copied, from) + replaced
        copied = to
      }
      keptEnd = to
      hasKept = true
    }
    end = to
    at = nextItem(container, to)
  }
  if (keptEnd !== end) copied = end
  return copied === 0 ? container : result + container.slice(copied)
}

const isClosing = (code: number): boolean => code === closeBrace || code === closeBracket

/**
 * Returns the elements of the array in the member `name` of an object, each as compact text. It is several times faster
 * if the number of elements is given, and all of them are objects.
 */
export const elementsOf = (object: string, name: string, objects = 0): ReadonlyArray<string> => {
  let elements: Array<string> = []
  eachMember(object, (key, from) => {
    if (key !== name) return valueEnd(object, from)
    elements = []
    if (object.charCodeAt(from) !== openBracket) return valueEnd(object, from)
    return cutObjects(object, { name, from, objects, elements }) ?? readElements(object, from, elements)
  })
  return elements
}

/** Adds the elements of the array at `start` to `elements`. Returns the index after the array. */
const readElements = (text: string, start: number, elements: Array<string>): number => {
  const findings: Findings = { hasSpace: false }
  let at = skipSpace(text, start + 1)
  while (at < text.length && text.charCodeAt(at) !== closeBracket) {
    findings.hasSpace = false
    const end = valueEnd(text, at, findings)
    const element = text.slice(at, end)
    elements.push(findings.hasSpace ? compact(element) : element)
    at = nextItem(text, end)
  }
  return at + 1
}

/**
 * Does what {@link readElements} does, for an array of objects, by cutting the text at `},{`. Returns undefined if it is
 * not certain that these are the boundaries of the elements. It is certain on three conditions. The text has one `},{`
 * fewer than there are objects. No boundary has white space, so each is one of these. And no piece contains the end of
 * this array and another array of the same name: of such members, the last one counts, so its objects were counted.
 */
const cutObjects = (
  text: string,
  { elements, from, name, objects }: {
    readonly name: string
    readonly from: number
    readonly objects: number
    readonly elements: Array<string>
  }
): number | undefined => {
  if (objects === 0 || text.charCodeAt(from + 1) !== openBrace) return undefined
  const starts = [from + 1]
  for (let at = text.indexOf("},{", from); at !== -1; at = text.indexOf("},{", at + 3)) {
    if (starts.push(at + 2) > objects) return undefined
  }
  const spaced = starts.length === objects ? elementsWithSpace(text, starts) : undefined
  const end = containerEnd(text, starts.at(-1) ?? from)
  if (spaced === undefined || end === undefined || text.charCodeAt(end) !== closeBracket) return undefined
  const has = (part: string) => isBefore(text.indexOf(part, from), end)
  if ((has("],") || has("] ")) && (has(`"${name}"`) || hasEscapedName(text))) return undefined
  for (const [index, start] of starts.entries()) {
    const element = text.slice(start, index === objects - 1 ? end : (starts[index + 1] ?? 0) - 1)
    elements.push(spaced.has(index) ? compact(element) : element)
  }
  return end + 1
}

/**
 * Returns the indexes of the elements that may have spaces between tokens: a space that touches a bracket, a comma or
 * a colon. It may be in a string. Returns undefined if there may be white space between two elements.
 */
const elementsWithSpace = (text: string, starts: ReadonlyArray<number>): ReadonlySet<number> | undefined => {
  const [first = 0] = starts
  // The array ends here at the latest.
  const end = text.lastIndexOf("]")
  if (["\n", "\r", "\t"].some((character) => isBefore(text.indexOf(character, first), end))) return undefined
  const spaced = new Set<number>()
  let index = 0
  for (let at = text.indexOf(" ", first); isBefore(at, end); at = text.indexOf(" ", at + 1)) {
    const [before, after] = [text.charCodeAt(at - 1), text.charCodeAt(at + 1)]
    if (before === closeBrace || after === openBrace) return undefined
    if (!mayTouchSpace(before) && !mayTouchSpace(after)) continue
    while ((starts[index + 1] ?? end) <= at) index++
    spaced.add(index)
  }
  return spaced
}

/** Whether a result of `indexOf` is an index before `end`. */
const isBefore = (found: number, end: number): boolean => found !== -1 && found < end

/** Brackets, commas and colons. White space between tokens is next to one of them. */
const mayTouchSpace = (code: number): boolean =>
  code === comma || code === colon || code === openBrace || code === closeBrace || code === openBracket ||
  code === closeBracket

/**
 * Whether text that is not valid JSON ends early: it opens an object or array, or a string in one, and does not close
 * it. An answer looks like this if its connection ended before its last byte.
 */
export const endsEarly = (text: string): boolean =>
  opensContainer(text) && containerEnd(text, skipSpace(text, 0)) === undefined

/** Whether the text starts like an object or array. The text need not be JSON. */
export const opensContainer = (text: string): boolean => {
  const first = text.charCodeAt(skipSpace(text, 0))
  return first === openBrace || first === openBracket
}

/**
 * A safe integer has at most 16 digits. A number with more than 100 characters is treated as inexact without reading
 * it.
 */
const longestNumber = 100

/**
 * Whether the text may contain a member whose number is not an integer, but becomes one by parsing, such as
 * `1.00000000000000000001` or `1e-400`. Such a number contains a point or a negative exponent. Can return true without
 * such a member, but never false with one.
 */
export const mayLoseDigits = (text: string): boolean =>
  hasRounded(text, ".", (at) => isDigit(text.charCodeAt(at - 1))) ||
  hasRounded(text, "-", (at) => isExponentMark(text.charCodeAt(at - 1)) && isDigit(text.charCodeAt(at - 2)))

/**
 * Whether a member's number that contains `character` is an integer only by rounding. `isInNumber` returns whether the
 * character at an index can belong to a number. Reads each number once.
 */
const hasRounded = (text: string, character: string, isInNumber: (at: number) => boolean): boolean => {
  let numberEnd = 0
  for (let at = text.indexOf(character); at !== -1; at = text.indexOf(character, Math.max(at + 1, numberEnd))) {
    if (!isInNumber(at)) continue
    let start = at
    while (start > numberEnd && isNumberCharacter(text.charCodeAt(start - 1))) start--
    numberEnd = at
    while (isNumberCharacter(text.charCodeAt(numberEnd))) numberEnd++
    const before = text.charCodeAt(start - 1)
    // A member's number comes after a colon or white space. Other matches are inside strings or arrays.
    if (before !== colon && !isSpace(before)) continue
    if (numberEnd - start > longestNumber) return true
    const source = text.slice(start, numberEnd)
    if (Number.isInteger(Number(source)) && isNumber(source) && !isExactInteger(source)) return true
  }
  return false
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39

const isExponentMark = (code: number): boolean => code === 0x45 || code === 0x65

const isNumberCharacter = (code: number): boolean =>
  isDigit(code) || code === point || code === minus || code === plus || isExponentMark(code)

/** Whether the name of any member is spelled with an escape, such as `"\u0061mount"` (RFC 8259 §7). */
export const hasEscapedName = (text: string): boolean => {
  for (let at = text.indexOf("\\"); at !== -1;) {
    // Valid JSON has backslashes in strings only, so this one is in a string, and it is the first of that string.
    const end = stringEnd(text, at - 1)
    if (text.charCodeAt(skipSpace(text, end)) === colon) return true
    at = text.indexOf("\\", end)
  }
  return false
}

/** Whether a number's text is exactly equal to a safe integer: `1e2` and `1.0` are, `1e16` is not. */
export const isExactInteger = (source: string): boolean =>
  source.length <= longestNumber && Number.isInteger(exactNumber(source))
