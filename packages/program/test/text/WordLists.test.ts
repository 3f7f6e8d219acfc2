import { assert, describe, it } from "@effect/vitest"
import { allOf, anyOf } from "../../src/text/WordLists.ts"

describe("words in a sentence", () => {
  it.each([[[]], [["a"]], [["a", "b"]], [["a", "b, c", "and", "d"]]])(
    "%j are joined as in British English",
    (words) => {
      assert.strictEqual(allOf(words), new Intl.ListFormat("en-GB").format(words))
      assert.strictEqual(anyOf(words), new Intl.ListFormat("en-GB", { type: "disjunction" }).format(words))
    }
  )
})
