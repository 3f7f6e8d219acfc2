/** Reads the exact text of a record. */
import * as JsonParse from "./JsonParse.ts"
import * as JsonText from "./JsonText.ts"

/**
 * Returns the members of a JSON object by name, each as its exact text without white space between tokens. For
 * `{"amount":1.10}` the text of `amount` is `1.10`, where parsing would give the number 1.1. If a name repeats, the
 * last member counts, as in parsing. The text must be valid JSON, such as the text of a page's record.
 */
export const membersOf = (object: string): ReadonlyMap<string, string> => JsonText.membersOf(object)

/**
 * Parses a record's exact text. The result is that of `JSON.parse`, but names spelled with escapes are always correct;
 * some versions of Node confuse them. Throws on text that is not JSON.
 */
export const parseText = (text: string): unknown => JsonParse.parseText(text)

/**
 * Parses a record's exact text as {@link parseText} does, but `number` returns the value of each number. It gets the exact
 * text of the number. The text must be valid JSON.
 */
export const parseWithNumbers = (text: string, number: (text: string) => unknown): unknown =>
  JsonParse.parseExactly(text, (scalar) => /^[-\d]/.test(scalar) ? number(scalar) : JSON.parse(scalar))

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

/**
 * Replaces or removes the values of an object's members or of an array's elements, in exact text. `rewrite` gets the exact text
 * of each value and its member name, which is undefined for an element. It returns the new text, or undefined to remove the
 * member or element. If a name repeats, it gets every occurrence. All other text stays byte for byte; if nothing changes, the
 * result is the same string. Text of other values than objects and arrays is returned unchanged. The text must be valid JSON.
 */
export const rewriteItems = (
  container: string,
  rewrite: (value: string, name: string | undefined) => string | undefined
): string => JsonText.rewriteItems(container, rewrite)
