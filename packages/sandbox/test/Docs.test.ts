import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { pageFile, withCatalogue } from "../docs.ts"

it("docs/sandbox.md has the catalogue of faults as the schemas say; `npm run docs` writes it", () => {
  const page = readFileSync(pageFile, "utf8")
  assert.strictEqual(page, withCatalogue(page))
  // Every setting is described.
  assert.notMatch(page, /`: ?(<br>|\|)/)
})
