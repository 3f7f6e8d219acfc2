/** Parts of a record's exact text. */
import * as JsonParse from "./internal/JsonParse.ts"
import * as JsonText from "./internal/JsonText.ts"

/**
 * The members of a JSON object by name, each as its exact text, white space between tokens aside: `{"amount":"1.10"}` where
 * parsing would give the number 1.1. As in parsing, the last of two members of one name stands. The text must be one that
 * `JSON.parse` takes, such as those of `Page.texts`.
 */
export const membersOf = (object: string): ReadonlyMap<string, string> => JsonText.membersOf(object)

/**
 * What a record's exact text means: as `JSON.parse`, but for names spelled with escapes, which some versions of Node mistake.
 * Throws on text that is no JSON.
 */
export const parseText = (text: string): unknown => JsonParse.parseText(text)
