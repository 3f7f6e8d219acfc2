/** The state of a listing after pages, without a service. */
import { assert, describe, it } from "@effect/vitest"
import { type ListingState, type PageRules, startState, takePage } from "../../src/listing/ListingState.ts"
import { parseCondition } from "../../src/listing/Where.ts"

const start = startState({ cursor: null, printedOfPage: [], unseen: new Set() })
const all: PageRules = { conditions: [], max: undefined, documented: undefined }

const recordOf = (id: string, problem?: string) => {
  const text = `{"id":"${id}","status":"${id < "c" ? "paid" : "pending"}"}`
  return { key: id, value: JSON.parse(text) as unknown, text, problem } // a value of any type
}
const pageOf = (ids: string, next: string | null) => ({ records: [...ids].map((id) => recordOf(id)), next })

describe("a listing", () => {
  it.each<readonly [name: string, state: Partial<ListingState>, max: number | undefined, after: Partial<ListingState>]>(
    [
      ["goes on at the next page", {}, undefined, { cursor: "2", printedOfPage: [], read: 3, done: false }],
      ["stays at a page that --max has cut", {}, 2, { cursor: null, printedOfPage: ["a", "b"], read: 2, done: false }],
      ["skips what an earlier run printed", { printedOfPage: ["a"] }, undefined, { cursor: "2", read: 2, selected: 2 }],
      ["adds to what was printed of a page", { printedOfPage: ["a"] }, 1, { printedOfPage: ["a", "b"], read: 1 }]
    ]
  )("%s", (_, state, max, after) => {
    assert.deepInclude(takePage({ ...start, ...state }, pageOf("abc", "2"), { ...all, max }).state, after)
  })

  it("ends with the page that has no next one", () => {
    assert.deepInclude(takePage(start, pageOf("abc", null), all).state, { cursor: null, done: true, pages: 1 })
  })

  it("counts the bad records that it selects, and remembers the number of the first", () => {
    const condition = parseCondition("status=pending")
    const rules = { ...all, conditions: condition === undefined ? [] : [condition] }
    const records = [recordOf("a", "one"), recordOf("c", "two"), recordOf("d", "three")]
    const { selected, state } = takePage({ ...start, read: 10 }, { records, next: null }, rules)
    assert.deepStrictEqual(selected.map(({ key }) => key), ["c", "d"])
    assert.deepInclude(state, { bad: 2, firstBad: [12, "two"], read: 13, selected: 2 })
  })

  it("counts the fields of its records that have no column", () => {
    const rules = { ...all, documented: new Map([["id", false], ["status", true]]) }
    assert.deepStrictEqual([...takePage(start, pageOf("ab", null), rules).state.hidden], [["status", 2]])
  })
})
