import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { makePlaces, type Place } from "../../src/loop/Places.ts"

/** Starts a run. `end` ends it. */
const start = Effect.fnUntraced(function*(places: ReturnType<typeof makePlaces>) {
  const end = yield* Deferred.make<void>()
  let place: Place | undefined
  const fiber = yield* Effect.forkChild(places.run((given) => {
    place = given
    return Deferred.await(end)
  }))
  yield* TestClock.adjust(0)
  return {
    isRunning: () => place !== undefined,
    place: () => place ?? assert.fail("it has a place"),
    end: Effect.andThen(Deferred.succeed(end, undefined), Fiber.await(fiber)),
    interrupt: Fiber.interrupt(fiber)
  }
})

describe("places", () => {
  it.effect("limit how many runs are active, in their order", () =>
    Effect.gen(function*() {
      const places = makePlaces(2)
      const runs = [yield* start(places), yield* start(places), yield* start(places), yield* start(places)]
      const active = () => runs.map((run) => run.isRunning())
      assert.deepStrictEqual(active(), [true, true, false, false])
      yield* runs[1]?.end ?? Effect.void
      assert.deepStrictEqual(active(), [true, true, true, false])
      yield* runs[3]?.interrupt ?? Effect.void
      yield* runs[0]?.end ?? Effect.void
      const later = yield* start(places)
      assert.isTrue(later.isRunning(), "an interrupted run in the queue gets no place")
    }))

  it.effect("go to other runs while a run waits for its service or gets no page", () =>
    Effect.gen(function*() {
      const places = makePlaces(1)
      const waiting = yield* start(places)
      const second = yield* start(places)
      yield* waiting.place().onWait
      assert.isTrue(second.isRunning())
      const third = yield* start(places)
      assert.isFalse(third.isRunning())
      yield* TestClock.adjust("3 seconds")
      assert.isTrue(third.isRunning(), "the second run committed no page for 2 s")
    }))

  it.effect("are shared in turns, so that long runs do not keep short ones waiting", () =>
    Effect.gen(function*() {
      const places = makePlaces(1)
      const long = yield* start(places)
      const short = yield* start(places)
      for (let second = 0; second < 4; second++) {
        yield* TestClock.adjust("1 second")
        yield* long.place().onCommit
      }
      assert.isFalse(short.isRunning())
      yield* TestClock.adjust("1 second")
      const resumed = yield* Effect.forkChild(long.place().onCommit)
      yield* TestClock.adjust(0)
      assert.isTrue(short.isRunning())
      assert.isTrue(yield* long.place().isQueued)
      yield* short.end
      yield* Fiber.join(resumed)
    }))

  it.effect("can become more or fewer while runs are active", () =>
    Effect.gen(function*() {
      const places = makePlaces(1)
      const runs = [yield* start(places), yield* start(places), yield* start(places)]
      const active = () => runs.filter((run) => run.isRunning()).length
      places.resize(2)
      assert.strictEqual(active(), 2)
      places.resize(1)
      yield* runs[0]?.end ?? Effect.void
      assert.strictEqual(active(), 2, "two were active, and one place is left")
      yield* runs[1]?.end ?? Effect.void
      assert.strictEqual(active(), 3)
    }))
})
