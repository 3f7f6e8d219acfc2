/** Waits that end although what is waited for does not. */
import { type Duration, Effect, Exit, Fiber, Option } from "effect"

/**
 * Runs the effect and waits for its end, but not longer than this; none where it takes longer. Then, as on an interruption,
 * the effect is interrupted, and the end of that is not waited for: it takes long again where a server does not answer.
 */
export const atMost = (most: Duration.Input) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.forkDetach(effect), (fiber) => awaitAtMost(fiber, most))

/** Waits for the end of a fiber as {@link atMost} does. */
export const awaitAtMost = <A, E>(fiber: Fiber.Fiber<A, E>, most: Duration.Input): Effect.Effect<Option.Option<A>, E> =>
  Effect.timeoutOption(Fiber.await(fiber), most).pipe(
    Effect.ensuring(Effect.forkDetach(Fiber.interrupt(fiber))),
    Effect.flatMap(Option.match({
      onNone: () => Effect.succeedNone,
      onSome: (exit: Exit.Exit<A, E>): Effect.Effect<Option.Option<A>, E> => Exit.map(exit, Option.some)
    }))
  )
