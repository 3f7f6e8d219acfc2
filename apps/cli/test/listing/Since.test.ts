import { assert, describe, it } from "@effect/vitest"
import { localProblem, sinceMs } from "../../src/listing/Since.ts"

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

  it("needs an offset if the clock is changed at this time, or if the time zone is unknown", () => {
    const before = process.env["TZ"]
    const problems = (zone: string, texts: ReadonlyArray<string>) => {
      process.env["TZ"] = zone
      return texts.map((text) => /does not exist|occurs twice|TZ does not name/.exec(localProblem(text) ?? "")?.[0])
    }
    const none = undefined
    try {
      const night = ["2024-03-31T01:59", "2024-03-31T02:00", "2024-03-31T02:59", "2024-03-31T03:00"]
      assert.deepStrictEqual(problems("Europe/Berlin", night), [none, "does not exist", "does not exist", none])
      const autumn = ["2024-10-27 01:59:59", "2024-10-27 02:00", "2024-10-27T02:59:59", "2024-10-27T03:00"]
      assert.deepStrictEqual(problems("Europe/Berlin", autumn), [none, "occurs twice", "occurs twice", none])
      const others = [
        "2024-03-31T02:30+02:00",
        "2024-10-27T02:30Z",
        "2024-10-27",
        "2024-05-01T24:00",
        "7d",
        "today",
        "x"
      ]
      assert.deepStrictEqual(problems("Europe/Berlin", others), others.map(() => none))
      assert.deepStrictEqual(problems("America/Sao_Paulo", ["2018-11-04", "2018-11-04T00:30", "2018-02-17T23:30"]), [
        none,
        "does not exist",
        "occurs twice"
      ])
      const local = ["2024-05-01", "2024-05-01T10:00", "today", "yesterday"]
      for (const zone of ["Nowhere/None", "CET-1CEST", ":Europe/Berlinn", "europe/berlin"]) {
        assert.deepStrictEqual(problems(zone, local), local.map(() => "TZ does not name"), zone)
        assert.deepStrictEqual(problems(zone, ["2024-05-01T10:00Z", "24h"]), [none, none])
      }
      for (
        const zone of [
          "",
          "UTC",
          "UTC0",
          "Etc/GMT-5",
          "UTC+3",
          ":Europe/Berlin",
          "posix/Europe/London",
          "Africa/Abidjan",
          "/etc/localtime"
        ]
      ) {
        assert.deepStrictEqual(problems(zone, local), local.map(() => none), zone)
      }
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
