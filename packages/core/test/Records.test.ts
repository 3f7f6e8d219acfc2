import { assert, describe, it } from "@effect/vitest"
import { DateTime, Option } from "effect"
import { timestamp } from "../src/index.ts"

describe("a timestamp", () => {
  it("is the instant of its text, to the millisecond", () => {
    for (
      const [text, iso] of [["2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000Z"], [
        "2024-02-29T23:59:59.123Z",
        "2024-02-29T23:59:59.123Z"
      ]]
    ) {
      assert.strictEqual(Option.getOrThrow(Option.map(timestamp(text), DateTime.formatIso)), iso)
    }
  })

  it.each([
    null,
    undefined,
    "",
    "2024-05-01",
    "2024-05-01T10:00:00",
    "2024-05-01T10:00:00+02:00",
    "2024-02-30T00:00:00Z",
    "2024-13-01T00:00:00Z",
    "soon",
    "TZ"
  ])(
    "is none for %s",
    (text) => assert.isTrue(Option.isNone(timestamp(text)))
  )
})
