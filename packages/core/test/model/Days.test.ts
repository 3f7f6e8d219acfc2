/** Calendar days, and ranges of them. */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import * as Days from "../../src/model/Days.ts"

describe("days", () => {
  it("exist in the calendar and are written YYYY-MM-DD", () => {
    for (const day of ["2024-02-29", "2000-02-29", "1969-12-31", "9999-12-31", "0001-01-01"]) {
      assert.isTrue(Days.isDay(day), day)
    }
    for (const text of ["2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "2024-00-10", "2024-5-1", "2024-05"]) {
      assert.isFalse(Days.isDay(text), text)
    }
    for (const text of ["", "today", "2024-05-01T00:00:00Z", " 2024-05-01", "2024-05-01\n", "+002024-05-01"]) {
      assert.isFalse(Days.isDay(text), JSON.stringify(text))
    }
  })

  it("between two days include both", () => {
    assert.deepStrictEqual(
      Days.between("2024-02-28", "2024-03-01"),
      Result.succeed(["2024-02-28", "2024-02-29", "2024-03-01"])
    )
    assert.deepStrictEqual(Days.between("2024-05-01", "2024-05-01"), Result.succeed(["2024-05-01"]))
  })

  it("are at most ten years", () => {
    assert.strictEqual(Result.getOrThrow(Days.between("2014-01-01", "2024-01-08")).length, Days.mostDays)
    for (
      const [from, to] of [
        ["2014-01-01", "2024-01-09"],
        ["0001-01-01", "9999-12-31"],
        ["2024-05-02", "2024-05-01"],
        ["2024-02-30", "2024-03-01"],
        ["yesterday", "today"]
      ] as const
    ) {
      assert.isTrue(Result.isFailure(Days.between(from, to)), `${from} ${to}`)
    }
  })

  const day = Schema.Int.check(Schema.isBetween({ minimum: -700_000, maximum: 2_900_000 }))
  it.prop("between any two days follow each other", {
    day,
    length: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100 }))
  }, ({ day: first, length }) => {
    const text = (index: number) => new Date((first + index) * 86_400_000).toISOString().slice(0, 10)
    assert.deepStrictEqual(
      Days.between(text(0), text(length)),
      Result.succeed(Array.from({ length: length + 1 }, (_, index) => text(index)))
    )
  })
})
