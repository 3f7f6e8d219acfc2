import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { cursorMarks } from "../src/internal/CursorMark.ts"

describe("the mark of a cursor", () => {
  it.prop(
    "is the same for the same cursor, and another for another",
    [Schema.String, Schema.String],
    ([one, other]) => {
      const mark = cursorMarks().markCursor
      assert.strictEqual(mark(one), mark(`${one}`))
      assert.strictEqual(mark(one) === mark(other), one === other)
      assert.notStrictEqual(mark(one), mark(`${one}\0`))
    }
  )

  it("tells a million numbered cursors apart", () => {
    const mark = cursorMarks().markCursor
    const seen = new Set<string>()
    for (let page = 0; page < 500_000; page++) seen.add(mark(String(page))).add(mark(`${page}:payoutRequests`))
    assert.strictEqual(seen.size, 1_000_000)
  })

  it("is another in another listing", () => {
    assert.notStrictEqual(cursorMarks().markCursor("cursor"), cursorMarks().markCursor("cursor"))
  })
})
