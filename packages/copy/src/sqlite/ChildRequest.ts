/** Requests to a process that computes without yielding, so that only its end can stop it. */
import { Effect } from "effect"
import type { ChildProcess, Serializable } from "node:child_process"

/**
 * Sends a message, and waits for its response or for the end of the process, whose error `endedBy` makes. A process
 * that cannot be started is a defect. `Response` is the type that the file of the process sends.
 */
export const requestOf = <Response, E>(
  child: ChildProcess,
  message: Serializable,
  endedBy: (signal: NodeJS.Signals | null) => E
): Effect.Effect<Response, E> =>
  Effect.callback((resume) => {
    // The file of the process declares the type.
    const onMessage = (response: unknown) => settle(Effect.succeed(response as Response))
    const onExit = () => settle(Effect.fail(endedBy(child.signalCode)))
    const onError = (error: Error) => child.pid === undefined ? settle(Effect.die(error)) : onExit()
    const removeListeners = () => child.off("message", onMessage).off("exit", onExit).off("error", onError)
    const settle = (result: Effect.Effect<Response, E>) => {
      removeListeners()
      resume(result)
    }
    child.once("message", onMessage).once("exit", onExit).once("error", onError)
    if (child.exitCode !== null || child.signalCode !== null) onExit()
    // Without a pid it could not start, and its event "error" follows.
    else if (child.pid !== undefined) child.send(message)
    return Effect.sync(removeListeners)
  })
