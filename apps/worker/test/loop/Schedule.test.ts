/** When runs begin: the schedules move with the test clock, so no test waits. */
import { assert, describe, it } from "@effect/vitest"
import { PaymentsError, Reason } from "@payments/core"
import type { Schedule } from "@payments/program/sources"
import { Clock, Cron, DateTime, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import {
  nextRuns,
  retryWait,
  type Start,
  startedAt,
  startNow,
  untilNext,
  waitAsRequested
} from "../../src/loop/Schedule.ts"

const every = (interval: Duration.Input): Schedule => ({
  _tag: "Every",
  every: Duration.fromInputUnsafe(interval)
})
const cron = (expression: string, zone: string): Schedule => ({
  _tag: "Cron",
  cron: Cron.parseUnsafe(expression, zone)
})

const noNext = () => Effect.void

/** How many milliseconds pass until the next run begins. */
const waitOf = (schedule: Schedule, last: Start | undefined, retry?: number) =>
  Effect.gen(function*() {
    const before = yield* Clock.currentTimeMillis
    const waiting = yield* Effect.forkChild(untilNext(schedule, { last, onNext: noNext, retry }))
    yield* TestClock.adjust(0)
    while (waiting.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
    yield* Fiber.join(waiting)
    return (yield* Clock.currentTimeMillis) - before
  })

const minute = 60_000

describe("an interval", () => {
  it.effect("counts from the start of the last run, and jitter makes it at most a tenth shorter", () =>
    Effect.gen(function*() {
      const last = yield* startNow
      yield* TestClock.adjust("2 minutes")
      const wait = yield* waitOf(every("5 minutes"), last)
      assert.isAtMost(wait, 3 * minute)
      assert.isAtLeast(wait, 2.5 * minute - 1000)
    }))

  it.effect("runs a missed run at once, and only once", () =>
    Effect.gen(function*() {
      const last = yield* startNow
      yield* TestClock.adjust("17 minutes")
      assert.strictEqual(yield* waitOf(every("5 minutes"), last), 0)
      assert.isAbove(yield* waitOf(every("5 minutes"), yield* startNow), 4 * minute)
    }))

  it.effect("counts from a start that the destination recorded; one in the future counts as now", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("2 hours")
      const before = yield* startedAt("1970-01-01T01:30:00.000Z")
      const wait = yield* waitOf(every("1 hour"), before)
      assert.isAtMost(wait, 30 * minute)
      assert.isAtLeast(wait, 29 * minute)
      assert.isAtMost(yield* waitOf(every("1 hour"), yield* startedAt("1971-01-01T00:00:00.000Z")), 60 * minute)
    }))

  it.effect("runs at once if there was no run, and earlier after a failure", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* waitOf(every("1 day"), undefined), 0)
      assert.strictEqual(yield* waitOf(every("1 day"), yield* startNow, retryWait(2)), minute)
      assert.strictEqual(retryWait(100), 30 * minute)
    }))
})

describe("a cron expression", () => {
  it.effect("names times in its time zone, also when the clocks of the zone change", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.parse("2026-03-28T00:00:00.000Z"))
      const schedule = cron("30 6 * * *", "Europe/Madrid")
      assert.deepStrictEqual(nextRuns(schedule, yield* Clock.currentTimeMillis, 3), [
        "2026-03-28T05:30:00.000Z",
        "2026-03-29T04:30:00.000Z",
        "2026-03-30T04:30:00.000Z"
      ])
      const wait = yield* waitOf(schedule, yield* startNow)
      assert.isAtLeast(wait, 5.5 * 60 * minute)
      assert.isAtMost(wait, 5.5 * 60 * minute + 31_000)
    }))

  it.effect("runs a time that was missed while the worker did not run, at once", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.parse("2026-05-02T08:00:00.000Z"))
      const schedule = cron("0 6 * * *", "UTC")
      assert.strictEqual(yield* waitOf(schedule, yield* startedAt("2026-05-01T06:00:00.000Z")), 0)
      assert.isAbove(yield* waitOf(schedule, yield* startedAt("2026-05-02T06:00:00.000Z")), 21 * 60 * minute)
    }))

  it.effect("does not wait a day longer if the clock is set back by a day", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.parse("2026-05-02T05:50:00.000Z"))
      const timers = yield* Clock.Clock
      let setBy = 0
      const clock: Clock.Clock = {
        ...timers,
        sleep: (duration) => timers.sleep(duration),
        monotonicTimeNanosUnsafe: () => timers.monotonicTimeNanosUnsafe(),
        currentTimeMillis: Effect.map(timers.currentTimeMillis, (now) => now + setBy)
      }
      const waiting = yield* Effect.forkChild(
        untilNext(cron("0 6 * * *", "UTC"), { last: yield* startNow, onNext: noNext }).pipe(
          Effect.provideService(Clock.Clock, clock)
        )
      )
      yield* TestClock.adjust("1 second")
      setBy = -86_400_000
      yield* TestClock.adjust("11 minutes")
      assert.isDefined(waiting.pollUnsafe())
    }))

  it.effect("waits as long as the service has requested, for 30 minutes at most", () =>
    Effect.gen(function*() {
      const errorOf = (reason: Reason.Reason) =>
        new PaymentsError({
          list: "invoices",
          reason,
          attempts: 1,
          status: undefined,
          requestId: undefined,
          body: undefined,
          position: undefined
        })
      const cases = [
        [new Reason.RateLimited({ retryAfter: Duration.minutes(20) }), 20],
        [new Reason.ServerFailure({ status: 503, retryAfter: Duration.hours(25) }), 30],
        [new Reason.RateLimited({ retryAfter: undefined }), 0],
        [new Reason.Timeout({ phase: "headers" }), 0]
      ] as const
      for (const [reason, expected] of cases) {
        const shown: Array<string> = []
        const before = yield* startNow
        const waiting = yield* Effect.forkChild(
          waitAsRequested(errorOf(reason), (at) => Effect.sync(() => void shown.push(at)))
        )
        yield* TestClock.adjust(0)
        while (waiting.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* startNow).monotonic - before.monotonic, expected * minute)
        assert.deepStrictEqual(shown, expected === 0 ? [] : [new Date(before.wall + expected * minute).toISOString()])
      }
    }))

  it.effect("shows the time of the next run", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.parse("2026-05-02T05:50:00.000Z"))
      const shown: Array<string> = []
      const waiting = yield* Effect.forkChild(
        untilNext(cron("0 6 * * *", "UTC"), {
          last: yield* startNow,
          onNext: (at) => Effect.sync(() => void shown.push(at))
        })
      )
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(waiting)
      const [at = ""] = shown
      assert.isTrue(DateTime.Order(DateTime.makeUnsafe(at), DateTime.makeUnsafe("2026-05-02T06:00:00.000Z")) >= 0)
      assert.include(at, "2026-05-02T06:00:")
    }))
})
