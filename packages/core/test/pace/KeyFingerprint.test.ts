import { assert, describe, it, vi } from "@effect/vitest"
import { Effect, Redacted, Stream } from "effect"
import { inspect } from "node:util"
import { PaymentsApi } from "../../src/index.ts"
import { keyFingerprintOf } from "../../src/pace/KeyFingerprint.ts"
import { layerTest, type TestLists } from "../../src/testing.ts"

const fingerprintOf = (key: string, salt: string) => keyFingerprintOf(Redacted.make(key))(salt)
const key = "canary-5ecret"

describe("the fingerprint of a key", () => {
  it("is equal for the same key and salt, and differs for others", async () => {
    const fingerprint = await fingerprintOf(key, "salt")
    assert.match(fingerprint ?? "", /^[0-9a-f]{8}$/)
    assert.strictEqual(await fingerprintOf(key, "salt"), fingerprint)
    assert.notStrictEqual(await fingerprintOf(key, "another salt"), fingerprint)
    assert.notStrictEqual(await fingerprintOf(`${key}!`, "salt"), fingerprint)
    const { pbkdf2Sync } = await import("node:crypto")
    assert.strictEqual(fingerprint, pbkdf2Sync(key, "salt", 100_000, 4, "sha256").toString("hex"))
  })

  it("is derived once for each salt", async () => {
    const derive = vi.spyOn(globalThis.crypto.subtle, "deriveBits")
    const fingerprint = keyFingerprintOf(Redacted.make(key))
    await fingerprint("salt")
    await Promise.all(
      ["salt", "another salt"].flatMap((salt) => Array.from({ length: 1000 }, () => fingerprint(salt)))
    )
    assert.strictEqual(derive.mock.calls.length, 2)
    derive.mockRestore()
  })

  it("is derived by the same function for all pages of a key", () => {
    const redacted = Redacted.make(key)
    assert.strictEqual(keyFingerprintOf(redacted), keyFingerprintOf(redacted))
    assert.notStrictEqual(keyFingerprintOf(redacted), keyFingerprintOf(Redacted.make(key)))
  })

  const pagesOf = (lists: TestLists) =>
    PaymentsApi.use((api) => Stream.runCollect(api.invoices.pages({ limit: 1 }))).pipe(
      Effect.provide(layerTest({ invoices: [{ id: "a" }, { id: "b" }, { id: "c" }, { id: "d" }], ...lists }))
    )

  it.effect("belongs to the key that the page was read with, even if the key changes during the listing", () =>
    Effect.gen(function*() {
      const [before, after] = [Redacted.make("before"), Redacted.make("after")]
      const pages = yield* pagesOf({
        faults: [{ fault: "status", status: 401, nth: 3 }],
        config: {
          apiKey: before,
          invoicesApiKey: before,
          freshKey: { invoices: Effect.succeed({ value: after }) }
        }
      })
      const fingerprints = yield* Effect.promise(() => Promise.all(pages.map((page) => page.keyFingerprint("salt"))))
      const [old, fresh] = yield* Effect.promise(() =>
        Promise.all([fingerprintOf("before", "salt"), fingerprintOf("after", "salt")])
      )
      assert.deepStrictEqual(fingerprints, [old, old, fresh, fresh])
    }))

  it.effect("is undefined if there is no key, and no page shows the key", () =>
    Effect.gen(function*() {
      const [withoutKey] = yield* pagesOf({})
      assert.isUndefined(yield* Effect.promise(async () => withoutKey?.keyFingerprint("salt")))
      const [page] = yield* pagesOf({ config: { apiKey: Redacted.make(key), invoicesApiKey: Redacted.make(key) } })
      assert.notInclude(inspect(page, { depth: 10, showHidden: true }) + JSON.stringify(page), key)
    }))
})
