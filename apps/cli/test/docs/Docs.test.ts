import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { basename } from "node:path"
import { pageFiles, withOutput, withoutTimes } from "./ConsoleExamples.ts"

// Each page has its own folder and port.
describe.concurrent("the examples", () => {
  for (const file of pageFiles) {
    it.live(
      `in ${basename(file)} print the output on the page; \`npm run docs\` updates the page`,
      () =>
        Effect.gen(function*() {
          const page = readFileSync(file, "utf8")
          const text = yield* withOutput(page)
          assert.strictEqual(withoutTimes(page), withoutTimes(text))
        }),
      600_000
    )
  }
})
