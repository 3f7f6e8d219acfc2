import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { PaymentsError, Reason, RetryPolicy } from "../../src/index.ts"
import * as Retry from "../../src/pace/Retry.ts"

const policy = RetryPolicy.defaultRetryPolicy
const seconds = (count: number | undefined) => count === undefined ? undefined : Duration.seconds(count)
const limited = (count?: number) => new Reason.RateLimited({ retryAfter: seconds(count) })
const failing = (status: number, count?: number) => new Reason.ServerFailure({ status, retryAfter: seconds(count) })

describe("the retry decision", () => {
  const again = (floorMs: number, spreadMs: number) => ({ retry: true, floorMs, spreadMs })
  const stop = { retry: false }

  it.each([
    ["500", failing(500), 1, again(0, 50)],
    ["502, second attempt", failing(502), 2, again(0, 100)],
    ["503, third attempt: the last one", failing(503), 3, stop],
    ["504", failing(504), 1, again(0, 50)],
    ["501 is permanent", failing(501), 1, stop],
    ["503 with Retry-After", failing(503, 7), 1, again(7000, 50)],
    ["429", limited(), 1, again(0, 1000)],
    ["429, second attempt", limited(), 2, again(0, 2000)],
    ["429 with Retry-After", limited(30), 1, again(30_000, 1000)],
    ["429 with a Retry-After longer than 30 s", limited(31), 1, stop],
    ["408", new Reason.Timeout({ phase: "server" }), 1, again(0, 50)],
    ["a stalled body", new Reason.Timeout({ phase: "body" }), 1, again(0, 50)],
    ["refused", new Reason.Transport({ kind: "refused" }), 1, again(0, 50)],
    ["reset", new Reason.Transport({ kind: "reset" }), 1, again(0, 50)],
    ["truncated", new Reason.Transport({ kind: "truncated" }), 1, again(0, 50)],
    ["TLS", new Reason.Transport({ kind: "tls" }), 1, stop],
    ["401", new Reason.Unauthorized(), 1, stop],
    ["403", new Reason.Forbidden(), 1, stop],
    ["404", new Reason.NotFound(), 1, stop],
    ["400", new Reason.InvalidRequest({ status: 400 }), 1, stop],
    ["a redirect", new Reason.RedirectRefused({ status: 302 }), 1, stop],
    [
      "a complete answer that is malformed",
      new Reason.MalformedResponse({ kind: "notJson", path: "", detail: "" }),
      1,
      stop
    ],
    ["a repeated cursor", new Reason.PaginationFault({ kind: "repeatedCursor" }), 1, stop],
    ["a filter not applied", new Reason.FilterNotApplied({ field: "contract" }), 1, stop],
    ["an unexpected status", new Reason.UnexpectedStatus({ status: 600 }), 1, stop]
  ])("%s", (_, reason, attempt, expected) => {
    const decision = RetryPolicy.decide(policy, reason, attempt)
    assert.deepStrictEqual(
      decision.retry
        ? again(Duration.toMillis(decision.floor), Duration.toMillis(decision.spread))
        : { retry: false },
      expected
    )
  })

  it.each([
    ["a transient retry costs 14", failing(503), 14, 14],
    ["a transient retry is not made with 13 tokens left", failing(503), 13, undefined],
    ["a throttled retry costs 5", limited(), 5, 5],
    ["a throttled retry is not made with 4 tokens left", limited(), 4, undefined]
  ])("%s", (_, reason, tokens, cost) => {
    const decision = RetryPolicy.decide(policy, reason, 1, tokens)
    assert.strictEqual(decision.retry ? decision.cost : undefined, cost)
  })

  it("refunds the cost of retries that succeed, and adds 1 for a first attempt, up to 500", () => {
    const tokens = { left: 100 }
    Retry.refund(policy, tokens, { spent: 28 })
    Retry.refund(policy, tokens, { spent: 0 })
    assert.strictEqual(tokens.left, 129)
    tokens.left = 500
    Retry.refund(policy, tokens, { spent: 0 })
    assert.strictEqual(tokens.left, 500)
  })

  it.prop("never exceeds the attempts, nor the cap of a wait", [
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 60 })),
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 60 }))
  ], ([attempts, attempt]) => {
    const decision = RetryPolicy.decide({ ...policy, attempts }, limited(), attempt)
    assert.strictEqual(decision.retry, attempt < attempts)
    if (decision.retry) assert.isAtMost(Duration.toMillis(decision.spread), Duration.toMillis(policy.cap))
  })
})

describe("the schedule", () => {
  const run = Effect.fnUntraced(function*(reason: Reason.Reason) {
    const at: Array<number> = []
    const call = Effect.gen(function*() {
      at.push(yield* Clock.currentTimeMillis)
      return yield* new PaymentsError({
        list: "invoices",
        reason,
        attempts: at.length,
        status: undefined,
        requestId: undefined,
        body: undefined,
        position: undefined
      })
    })
    const tokens = { left: policy.budget.capacity }
    const fiber = yield* Effect.forkChild(Effect.exit(Effect.retry(call, Retry.schedule(policy, tokens, { spent: 0 }))))
    yield* TestClock.adjust("5 minutes")
    assert.isTrue(Exit.isFailure(yield* Fiber.join(fiber)))
    return at
  })

  it.effect("waits between three attempts as decided", () =>
    Effect.gen(function*() {
      const [first = -1, second = -1, third = -1, ...more] = yield* run(limited(10))
      assert.deepStrictEqual([first, more], [0, []])
      assert.isTrue(second >= 10_000 && second <= 11_000, String(second))
      assert.isTrue(third - second >= 10_000 && third - second <= 12_000, String(third - second))
    }))

  it.effect("does not retry a permanent failure", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* run(new Reason.Unauthorized()), [0])
    }))
})
