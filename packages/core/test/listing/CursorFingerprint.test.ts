import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { makeFingerprints } from "../../src/listing/CursorFingerprint.ts"

describe("the fingerprint of a cursor", () => {
  it.prop(
    "is equal for equal cursors and different for different ones",
    [Schema.String, Schema.String],
    ([one, other]) => {
      const { fingerprintCursor } = makeFingerprints()
      assert.strictEqual(fingerprintCursor(one), fingerprintCursor(`${one}`))
      assert.strictEqual(fingerprintCursor(one) === fingerprintCursor(other), one === other)
      assert.notStrictEqual(fingerprintCursor(one), fingerprintCursor(`${one}\0`))
    }
  )

  it("distinguishes a million numbered cursors", () => {
    const { fingerprintCursor } = makeFingerprints()
    const seen = new Set<string>()
    for (let page = 0; page < 500_000; page++) {
      seen.add(fingerprintCursor(String(page))).add(fingerprintCursor(`${page}:payoutRequests`))
    }
    assert.strictEqual(seen.size, 1_000_000)
  })

  it("differs between listings", () => {
    assert.notStrictEqual(
      makeFingerprints().fingerprintCursor("cursor"),
      makeFingerprints().fingerprintCursor("cursor")
    )
  })
})
