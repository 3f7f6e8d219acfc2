/** How a sender is stopped. */
import { assert, describe, it } from "@effect/vitest"
import type { SenderOptions } from "@payments/copy/handoff"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { sendGracefully } from "../../src/loop/GracefulSender.ts"

/** Options of which these tests use two. */
const optionsOf = (given: Pick<SenderOptions, "post"> & { readonly onStore: Effect.Effect<void> }): SenderOptions =>
  ({
    post: given.post,
    maintenance: { changeHandoff: () => Effect.as(given.onStore, { handoff: undefined, moved: undefined }) }
  }) as unknown as SenderOptions // nothing reads the others

/** Sends and stores, like a sender. */
const send = ({ maintenance, post }: SenderOptions) =>
  Effect.forever(
    Effect.andThen(
      post({}, new Uint8Array()),
      maintenance.changeHandoff({ consumer: "ledger", epoch: 1, change: () => undefined })
    )
  )

const accepted = { _tag: "Status", status: 200, retryAfter: undefined } as const

describe("a sender that is interrupted", () => {
  it.effect("stores what the request in flight has brought, and begins no other", () =>
    Effect.gen(function*() {
      const answer = yield* Deferred.make<typeof accepted>()
      let [requests, stored] = [0, 0]
      const options = optionsOf({
        post: () => Effect.suspend(() => (requests++, Deferred.await(answer))),
        onStore: Effect.sync(() => void stored++)
      })
      const fiber = yield* Effect.forkChild(sendGracefully(options, send))
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([requests, stored], [1, 0])
      yield* Deferred.succeed(answer, accepted)
      yield* Fiber.join(stopping)
      assert.deepStrictEqual([requests, stored], [1, 1])
    }))

  it.effect("does not wait for longer than some seconds", () =>
    Effect.gen(function*() {
      const options = optionsOf({ post: () => Effect.never, onStore: Effect.void })
      const fiber = yield* Effect.forkChild(sendGracefully(options, send))
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("3 seconds")
      yield* Fiber.join(stopping)
    }))

  it.effect("ends with an error or a defect, and never only with an interruption", () =>
    Effect.gen(function*() {
      const options = optionsOf({ post: () => Effect.never, onStore: Effect.void })
      assert.deepStrictEqual(yield* Effect.exit(sendGracefully(options, () => Effect.fail("no"))), Exit.fail("no"))
      const interrupted = yield* Effect.exit(sendGracefully(options, () => Effect.interrupt))
      assert.include(String(interrupted), "the sender was interrupted")
    }))
})
