import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { basename } from "node:path"
import { generatedFiles } from "../../../../packages/program/docs.ts"

for (const { file, text } of generatedFiles()) {
  it(`${basename(file)} has the settings of the programs; \`npm run docs\` updates it`, () => {
    assert.strictEqual(readFileSync(file, "utf8"), text)
  })
}
