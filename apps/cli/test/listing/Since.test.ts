import { assert, describe, it } from "@effect/vitest"
import { sinceMs } from "../../src/listing/Since.ts"

const hour = 3_600_000
const now = Date.UTC(2024, 4, 10, 12, 30)

describe("--since", () => {
  it("accepts durations, days, times, today and yesterday", () => {
    assert.deepStrictEqual(["24h", "90m", "7d", "2 weeks"].map((text) => sinceMs(text, now)), [
      now - 24 * hour,
      now - 1.5 * hour,
      now - 7 * 24 * hour,
      now - 14 * 24 * hour
    ])
    for (
      const [text, moment] of [
        ["2024-05-01T10:00Z", Date.UTC(2024, 4, 1, 10)],
        ["2024-05-01 10:00:05.250Z", Date.UTC(2024, 4, 1, 10, 0, 5, 250)],
        ["2024-05-01T10:00-05:00", Date.UTC(2024, 4, 1, 15)],
        ["2024-05-01", new Date(2024, 4, 1).getTime()],
        ["2024-05-01T10:00", new Date(2024, 4, 1, 10).getTime()]
      ] as const
    ) assert.strictEqual(sinceMs(text, now), moment, text)
  })

  it("starts a day at midnight of the machine's time zone, also when daylight saving time begins", () => {
    const before = process.env["TZ"]
    try {
      process.env["TZ"] = "America/Bogota"
      assert.strictEqual(sinceMs("2024-05-01", now), Date.UTC(2024, 4, 1, 5))
      assert.strictEqual(sinceMs("today", now), Date.UTC(2024, 4, 10, 5))
      assert.strictEqual(sinceMs("yesterday", Date.UTC(2024, 4, 10, 3)), Date.UTC(2024, 4, 8, 5))
      process.env["TZ"] = "Europe/Berlin"
      assert.strictEqual(sinceMs("yesterday", Date.UTC(2024, 3, 1, 12)), Date.UTC(2024, 2, 30, 23))
    } finally {
      if (before === undefined) delete process.env["TZ"]
      else process.env["TZ"] = before
    }
  })

  it("refuses everything else", () => {
    for (
      const text of [
        "",
        "24",
        "soon",
        "2024-02-30",
        "2024-13-01",
        "24-05-01",
        "2024-05-01T25:00",
        "2024-05-01T10",
        "-3h",
        "tomorrow"
      ]
    ) assert.isUndefined(sinceMs(text, now), text)
  })
})
