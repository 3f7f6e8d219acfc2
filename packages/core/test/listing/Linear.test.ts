/** Hostile text: when its length doubles, the number of characters that are read doubles too. */
import { assert, describe, it } from "@effect/vitest"
import { processorMs } from "@payments/testkit/ProcessorTime"
import { parseExactly, parseText } from "../../src/page/JsonParse.ts"
import {
  compact,
  elementsOf,
  endsEarly,
  hasEscapedName,
  isExactInteger,
  mayLoseDigits,
  membersOf,
  rewriteItems
} from "../../src/page/JsonText.ts"
import { hasMoreValues } from "../../src/page/PageBounds.ts"
import { charactersRead } from "./CharactersRead.ts"

/** Hostile values of a member, of about `size` characters. */
const hostile: { readonly [name: string]: (size: number) => string } = {
  "deep arrays": (size) => `${"[".repeat(size / 2)}1${"]".repeat(size / 2)}`,
  "deep arrays around many numbers": (size) =>
    `${"[".repeat(size / 8)}1${",1".repeat(size / 4)}${"]".repeat(size / 8)}`,
  "deep objects with escaped names": (size) => `${`{"\\u0061":`.repeat(size / 10)}1${"}".repeat(size / 10)}`,
  "many objects with escaped names": (size) => `[{"\\u0061":1}${`,{"\\u0061":1}`.repeat(size / 13)}]`,
  "white space between all tokens": (size) => `[ 1 ${", 1 ".repeat(size / 4)}]`,
  "white space alone": (size) => `[1${" ".repeat(size)}]`,
  "a run of backslashes": (size) => `"${"\\\\".repeat(size / 2)}"`,
  "runs of backslashes": (size) => `["a"${`,"${"\\\\".repeat(10)}\\""`.repeat(size / 25)}]`,
  "escaped quotes": (size) => `"${"\\\"".repeat(size / 2)}"`,
  "brackets in a string": (size) => `"${"[{".repeat(size / 2)}"`,
  "points between digits": (size) => `"${"1.".repeat(size / 2)}"`,
  "points between digits, after white space": (size) => `"${" 1.1.1.1.1.1.1.1.1".repeat(size / 18)}"`,
  "a number of many digits": (size) => "1".repeat(size),
  "a fraction of many digits": (size) => `1.${"0".repeat(size)}1`,
  "small exponents": (size) => `[1${",1e-400".repeat(size / 7)}]`
}

const readers: { readonly [name: string]: (body: string) => unknown } = {
  parseExactly,
  compact,
  membersOf,
  hasEscapedName,
  mayLoseDigits,
  parseText: (body) => parseText(body),
  elementsOf: (body) => elementsOf(body, "items"),
  endsEarly: (body) => endsEarly(body.slice(0, -1)),
  rewriteItems: (body) => rewriteItems(body, (items) => rewriteItems(items, () => undefined)),
  hasMoreValues: (body) => hasMoreValues(body, 10),
  isExactInteger
}

describe("the number of characters read is linear in the length of the text", () => {
  it.each(Object.keys(hostile))("with %s", (shape) => {
    const body = (size: number) => `{"items":[{"id":"a","\\u0078":${hostile[shape]?.(size)}}],"cursor":null}`
    const [short, long] = [body(20_000), body(40_000)]
    for (const [name, read] of Object.entries(readers)) {
      const [once, twice] = [charactersRead(() => read(short)), charactersRead(() => read(long))]
      assert.isAtMost(twice, 2.1 * once + 1000, `${name}: ${once} for ${short.length}, ${twice} for ${long.length}`)
      // Each character is read at most 20 times.
      assert.isAtMost(twice, 20 * long.length, name)
    }
  })

  it("a deep and wide page takes seconds", () => {
    const page = `{"items":[{"id":"a","\\u0078":${"[".repeat(100_000)}1${",1".repeat(2_000_000)}${
      "]".repeat(100_000)
    }}]}`
    const startedAt = processorMs()
    parseText(page)
    elementsOf(page, "items")
    // Quadratic work would take hours.
    assert.isBelow(processorMs() - startedAt, 20_000)
  })
})
