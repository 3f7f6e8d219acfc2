import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { makeApiPage, pageFile } from "../docs.ts"

const page = makeApiPage()

describe("docs/api.md", () => {
  it("says what the docstrings say; `npm run docs` writes it", () => {
    assert.strictEqual(readFileSync(pageFile, "utf8"), page.text)
  })

  it("leaves no export and no member of one without a docstring", () => {
    assert.deepStrictEqual(page.undocumented, [])
  })
})
