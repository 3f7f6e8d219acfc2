/**
 * Ends a sender without repeating what was accepted: it begins no further request, and the answer to the one in flight is
 * awaited for some seconds and stored. What is not stored in time is sent again, with the same id.
 */
import type { SenderOptions } from "@payments/copy/handoff"
import { Cause, Duration, Effect, Exit, Fiber, Latch } from "effect"

/** How long a stop waits for the request in flight. Service managers kill after 10 s or more. */
const stopTime = Duration.seconds(3)

/** Runs a sender. An interruption stops it as described above. */
export const sendGracefully = <A, E>(
  options: SenderOptions,
  send: (options: SenderOptions) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const { guarded, stop } = guard(options)
      const fiber = yield* Effect.forkDetach(restore(send(guarded)))
      const exit = yield* restore(Fiber.await(fiber)).pipe(
        Effect.onInterrupt(() => Effect.andThen(Effect.timeoutOption(stop, stopTime), Fiber.interrupt(fiber)))
      )
      // Nobody else interrupts it. An interruption would end the runs of the lists too.
      return yield* Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
        ? Effect.die(new Error("the sender was interrupted"))
        : exit
    })
  )

/** Returns options with which `stop` ends when no answer is awaited or has to be stored. */
const guard = (options: SenderOptions) => {
  const { maintenance, post, untilWoken } = options
  const isSettled = Latch.makeUnsafe(true)
  let [isStopping, isInFlight] = [false, false]
  const settle = Effect.sync(() => void isSettled.openUnsafe())
  const guarded: SenderOptions = {
    ...options,
    maintenance: {
      ...maintenance,
      // What follows an answer is stored by the next change, or by the interruption.
      changeHandoff: (change) =>
        Effect.ensuring(maintenance.changeHandoff(change), Effect.suspend(() => isInFlight ? Effect.void : settle))
    },
    post: (headers, body) =>
      Effect.suspend(() => {
        if (isStopping) return Effect.andThen(settle, Effect.never)
        isSettled.closeUnsafe()
        isInFlight = true
        return Effect.ensuring(post(headers, body), Effect.sync(() => void (isInFlight = false)))
      }),
    ...untilWoken === undefined ? {} : { untilWoken: Effect.andThen(settle, untilWoken) }
  }
  const stop = Effect.suspend(() => {
    isStopping = true
    return isSettled.await
  })
  return { guarded, stop }
}
