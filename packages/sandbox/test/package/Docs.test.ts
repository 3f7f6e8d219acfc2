import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { pageFile, withCatalogue } from "../../docs.ts"

it("docs/sandbox.md has the current catalogue of faults and scenarios; `npm run docs` writes it", () => {
  const page = readFileSync(pageFile, "utf8")
  assert.strictEqual(page, withCatalogue(page))
  // Every setting has a description.
  assert.notMatch(page, /`: ?(<br>|\|)/)
})
