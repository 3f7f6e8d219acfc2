/**
 * The exact text of JSON, where parsing would lose something: integers beyond 2^53, `1e400`, `1.10`, the place of a key
 * like `"10"`. All functions expect text that `JSON.parse` has accepted; none copies or judges it. Each reads a character a
 * fixed number of times at most, whatever the text holds: time and memory are linear in its length.
 */

const backslash = 0x5c, closeBrace = 0x7d, closeBracket = 0x5d, minus = 0x2d, plus = 0x2b, point = 0x2e
export const quote = 0x22, colon = 0x3a, comma = 0x2c, openBracket = 0x5b, openBrace = 0x7b

/** The index behind the string that begins at `start`. */
export const stringEnd = (text: string, start: number): number => {
  for (let end = text.indexOf("\"", start + 1); end !== -1; end = text.indexOf("\"", end + 1)) {
    let before = end - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((end - before) % 2 === 1) return end + 1
  }
  return text.length
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

/** The index of the first character from `start` on that is no white space. */
export const skipSpace = (text: string, start: number): number => {
  let at = start
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

/** What a scan met on its way. */
interface Met {
  /** White space between tokens. */
  space: boolean
}

/** The index behind the bracket that closes the object or array at `start`, or undefined if it never closes. */
const containerEnd = (text: string, start: number, met?: Met): number | undefined => {
  let depth = 0
  for (let at = start; at < text.length;) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = stringEnd(text, at)
      continue
    }
    if (code === openBrace || code === openBracket) depth++
    else if ((code === closeBrace || code === closeBracket) && --depth === 0) return at + 1
    else if (met !== undefined && isSpace(code)) met.space = true
    at++
  }
  return undefined
}

/** Where a number or a name ends. A regular expression would keep the whole text alive as its last input. */
const scalarEnd = (text: string, start: number): number => {
  let at = start
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === comma || code === closeBracket || code === closeBrace || isSpace(code)) break
  }
  return at
}

/** The index behind the value that begins at `start`. */
export const valueEnd = (text: string, start: number, met?: Met): number => {
  switch (text.charCodeAt(start)) {
    case quote:
      return stringEnd(text, start)
    case openBrace:
    case openBracket:
      return containerEnd(text, start, met) ?? text.length
    default:
      return scalarEnd(text, start)
  }
}

/** Where the next member or element begins, behind the end of one. */
const behindComma = (text: string, end: number): number => {
  const at = skipSpace(text, end)
  return text.charCodeAt(at) === comma ? skipSpace(text, at + 1) : at
}

/** The name that is spelled between two indexes, quotes included. */
export const nameIn = (text: string, start: number, end: number): string => {
  const name = text.slice(start + 1, end - 1)
  return name.includes("\\") ? String(JSON.parse(`"${name}"`)) : name
}

/** Visits the members of an object: `visit` is told the name and where the value begins, and tells where it ends. */
const eachMember = (object: string, visit: (key: string, from: number) => number): void => {
  for (let at = skipSpace(object, skipSpace(object, 0) + 1); object.charCodeAt(at) === quote;) {
    const end = stringEnd(object, at)
    const from = skipSpace(object, skipSpace(object, end) + 1)
    at = behindComma(object, visit(nameIn(object, at, end), from))
  }
}

/** How many pieces to join at a time: appending millions one by one takes a hundred times the memory of the result. */
const mostPieces = 4096

/** Removes the white space between tokens, and nothing else. */
export const compact = (text: string): string => {
  if (!/[ \n\r\t]/.test(text)) return text
  const joined: Array<string> = []
  let pieces: Array<string> = []
  let from = 0
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at)
    if (code === quote) at = stringEnd(text, at)
    else if (isSpace(code)) {
      pieces.push(text.slice(from, at))
      from = at = skipSpace(text, at)
      if (pieces.length === mostPieces) {
        joined.push(pieces.join(""))
        pieces = []
      }
    } else at++
  }
  pieces.push(text.slice(from))
  joined.push(pieces.join(""))
  return joined.join("")
}

/** The members of an object as compact text, by name. As in parsing, the last of two members of one name stands. */
export const membersOf = (object: string): Map<string, string> => {
  const found = new Map<string, string>()
  eachMember(object, (key, from) => {
    const to = valueEnd(object, from)
    found.set(key, compact(object.slice(from, to)))
    return to
  })
  return found
}

/** The elements of the array under `name` in the object, each as compact text. */
export const elementsOf = (object: string, name: string): ReadonlyArray<string> => {
  let elements: Array<string> = []
  eachMember(object, (key, from) => {
    if (key !== name) return valueEnd(object, from)
    elements = []
    return object.charCodeAt(from) === openBracket ? cutArray(object, from, elements) : valueEnd(object, from)
  })
  return elements
}

/** Cuts the array at `start` into its elements; gives the index behind it. Reads the text once, whatever is in it. */
const cutArray = (text: string, start: number, elements: Array<string>): number => {
  const met: Met = { space: false }
  let at = skipSpace(text, start + 1)
  while (at < text.length && text.charCodeAt(at) !== closeBracket) {
    met.space = false
    const end = valueEnd(text, at, met)
    const element = text.slice(at, end)
    elements.push(met.space ? compact(element) : element)
    at = behindComma(text, end)
  }
  return at + 1
}

/**
 * Whether text that is not JSON stops before its end: it opens an object or array, or a string in one, that it never
 * closes. That is what an answer looks like whose rest did not come.
 */
export const endsEarly = (text: string): boolean =>
  opensContainer(text) && containerEnd(text, skipSpace(text, 0)) === undefined

/** Whether the text begins as an object or array does. */
export const opensContainer = (text: string): boolean => {
  const first = text.charCodeAt(skipSpace(text, 0))
  return first === openBrace || first === openBracket
}

/** A safe integer has 16 digits. Whoever spells one with hundreds is not trusted with money, nor with our time. */
const longestNumber = 100

/**
 * Whether the text may hold a member whose number parsing made an integer, and a safe one, though it is another number:
 * `1.00000000000000000001`, `1e-400`. That takes a point or an exponent below 0. It may tell too much, never too little.
 */
export const mayLoseDigits = (text: string): boolean =>
  hasRounded(text, ".", (at) => isDigit(text.charCodeAt(at - 1))) ||
  hasRounded(text, "-", (at) => isExponentMark(text.charCodeAt(at - 1)) && isDigit(text.charCodeAt(at - 2)))

/** Whether the value of a member is an integer only by rounding, among the numbers with such a mark. Each is read once. */
const hasRounded = (text: string, mark: string, isMark: (at: number) => boolean): boolean => {
  let behind = 0
  for (let at = text.indexOf(mark); at !== -1; at = text.indexOf(mark, Math.max(at + 1, behind))) {
    if (!isMark(at)) continue
    let start = at
    while (start > behind && isOfNumber(text.charCodeAt(start - 1))) start--
    behind = at
    while (isOfNumber(text.charCodeAt(behind))) behind++
    const before = text.charCodeAt(start - 1)
    if (before !== colon && !isSpace(before)) continue
    if (behind - start > longestNumber) return true
    const source = text.slice(start, behind)
    if (Number.isInteger(Number(source)) && !isExactInteger(source)) return true
  }
  return false
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39

const isExponentMark = (code: number): boolean => code === 0x45 || code === 0x65

const isOfNumber = (code: number): boolean =>
  isDigit(code) || code === point || code === minus || code === plus || isExponentMark(code)

/** Whether the name of a member is spelled with an escape, as `"\\u0061mount"` (RFC 8259 §7). */
export const hasEscapedName = (text: string): boolean => {
  for (let at = text.indexOf("\\"); at !== -1;) {
    const end = stringEnd(text, at - 1)
    if (text.charCodeAt(skipSpace(text, end)) === colon) return true
    at = text.indexOf("\\", end)
  }
  return false
}

/** Whether a number's text names an integer that a safe integer carries to the digit: `1e2` and `1.0` do, `1e16` does not. */
export const isExactInteger = (source: string): boolean => {
  if (source.length > longestNumber) return false
  const [, whole = "", fraction = "", exponent = "0"] = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? []
  const digits = (whole + fraction).replace(/^0+/, "")
  const significant = digits.replace(/0+$/, "")
  const power = Number(exponent) - fraction.length + (digits.length - significant.length)
  if (significant === "") return true
  if (power < 0 || significant.length + power > 16) return false
  return Number(significant + "0".repeat(power)) <= Number.MAX_SAFE_INTEGER
}
