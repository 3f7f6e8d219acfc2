import { assert, it } from "@effect/vitest"
import { fingerprint } from "../src/internal/Fingerprint.ts"

it("tells a million cursors apart that differ by little, and knows each again", () => {
  const seen = new Set<string>()
  for (let index = 0; index < 500_000; index++) seen.add(fingerprint(`offset:${index}`))
  for (let index = 0; index < 500_000; index++) seen.add(fingerprint(btoa(JSON.stringify({ after: index, page: 7 }))))
  assert.strictEqual(seen.size, 1_000_000)
  assert.isTrue(seen.has(fingerprint("offset:4711")))
  assert.strictEqual(fingerprint("").length, 4)
})
