/** Timeouts that do not wait for the interruption of the effect that timed out. */
import { type Duration, Effect, Exit, Fiber, Option } from "effect"

/**
 * Runs the effect and returns its result, or none after the timeout. On a timeout or an interrupt, the effect is interrupted
 * in the background. If a server does not respond, waiting for the interruption would take long again.
 */
export const timeoutDetached = (timeout: Duration.Input) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.forkDetach(effect), (fiber) => joinWithTimeout(fiber, timeout))

/** Waits for a fiber as {@link timeoutDetached} does. */
export const joinWithTimeout = <A, E>(
  fiber: Fiber.Fiber<A, E>,
  timeout: Duration.Input
): Effect.Effect<Option.Option<A>, E> =>
  Effect.timeoutOption(Fiber.await(fiber), timeout).pipe(
    Effect.ensuring(Effect.forkDetach(Fiber.interrupt(fiber))),
    Effect.flatMap(Option.match({
      onNone: () => Effect.succeedNone,
      onSome: (exit: Exit.Exit<A, E>): Effect.Effect<Option.Option<A>, E> => Exit.map(exit, Option.some)
    }))
  )
