/**
 * From effects and streams to promises and async iterables. Leaving an iteration or aborting a signal interrupts what is
 * in flight at once; an error comes out as the value it is.
 */
import { Cause, type Context, Effect, Exit, Stream } from "effect"

/** What every query may carry here beside its own fields. */
export interface Abortable {
  /** Aborting cancels the request in flight at once; what was waited for is rejected with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** Arguments of which a query may carry a signal. */
type WithSignal<Arguments extends ReadonlyArray<unknown>> = {
  [Index in keyof Arguments]: NonNullable<Arguments[Index]> extends ReadonlyArray<unknown> ? Arguments[Index]
    : Arguments[Index] extends object | undefined ? NonNullable<Arguments[Index]> & Abortable
    : Arguments[Index]
}

/**
 * The operations of the library as plain JavaScript: what gives an `Effect` gives a `Promise`, what gives a `Stream` an
 * `AsyncIterable`. That one asks for nothing before it is iterated, and starts a new listing each time it is.
 */
export type PromiseApiOf<Api> = Api extends (...args: infer Arguments) => infer Answer
  ? (...args: WithSignal<Arguments>) => Answer extends Effect.Effect<infer A, infer _E> ? Promise<A>
    : Answer extends Stream.Stream<infer A, infer _E> ? AsyncIterable<A>
    : Answer
  : Api extends object ? { readonly [Name in keyof Api]: PromiseApiOf<Api[Name]> }
  : Api

/** How the operations of a client are run, until it is closed. */
export interface Run {
  readonly promise: (effect: Effect.Effect<unknown, unknown>, signal: AbortSignal | undefined) => Promise<unknown>
  readonly iterable: (
    stream: Stream.Stream<unknown, unknown>,
    signal: AbortSignal | undefined
  ) => AsyncIterable<unknown>
  readonly stop: () => Promise<void>
}

/** Walks the operations, whatever they are: told apart by what they answer, not by their names. */
export const toPromises = <Api>(api: Api, run: Run): PromiseApiOf<Api> => {
  const walk = (value: unknown): unknown =>
    typeof value === "function"
      ? (...args: ReadonlyArray<unknown>) => {
        const { plain, signal } = takeSignal(args)
        const answer: unknown = value(...plain)
        // That no services are needed is in the type of each operation, which the walk does not see.
        return Effect.isEffect(answer)
          ? run.promise(answer as Effect.Effect<unknown, unknown>, signal)
          : Stream.isStream(answer)
          ? run.iterable(answer as Stream.Stream<unknown, unknown>, signal)
          : answer
      }
      : typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, walk(member)]))
      : value
  // The walk does to the values what `PromiseApiOf` does to their types.
  return walk(api) as PromiseApiOf<Api>
}

/** The library refuses what is no field of a query, so the signal is taken out of it. */
const takeSignal = (args: ReadonlyArray<unknown>) => {
  let signal: AbortSignal | undefined
  const plain = args.map((value) => {
    if (typeof value !== "object" || value === null || !("signal" in value)) return value
    const { signal: given, ...rest } = value
    // Anything else stays where it is, and is refused with the query.
    if (given !== undefined && !(given instanceof AbortSignal)) return value
    if (given !== undefined) signal = given
    return rest
  })
  return { plain, signal }
}

/** Runs them with these services. */
export const runIn = (context: Context.Context<never>): Run => {
  const closing = new AbortController()
  const running = new Set<() => Promise<unknown>>()
  const either = (signal: AbortSignal | undefined) =>
    signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal])
  return {
    promise: async (effect, signal) => {
      const stop = either(signal)
      stop.throwIfAborted()
      const exit = await Effect.runPromiseExitWith(context)(effect, { signal: stop })
      if (Exit.isSuccess(exit)) return exit.value
      if (Cause.hasInterruptsOnly(exit.cause)) stop.throwIfAborted()
      throw Cause.squash(exit.cause)
    },
    iterable: (stream, signal) => ({
      [Symbol.asyncIterator]: () =>
        iterate(Stream.toAsyncIterableWith(stream, context)[Symbol.asyncIterator](), either(signal), running)
    }),
    stop: async () => {
      closing.abort(new DOMException("The client is closed.", "AbortError"))
      await Promise.all([...running].map((leave) => leave()))
    }
  }
}

/**
 * Turns are taken in order, also by a caller who doesn't wait for the one before, since a stream is pulled by one at a
 * time. Leaving and aborting wait for no turn: they end the one that is taken.
 */
const iterate = <A>(
  inner: AsyncIterator<A>,
  stop: AbortSignal,
  running: Set<() => Promise<unknown>>
): AsyncIterator<A> => {
  const done: IteratorResult<A> = { done: true, value: undefined }
  let ended = false
  const end = () => {
    ended = true
    running.delete(cancel)
    stop.removeEventListener("abort", abort)
  }
  /** Interrupts what is in flight and gives back what it holds. */
  const cancel = async () => {
    await inner.return?.()
  }
  // The turn that is taken, or the next one, throws the signal's reason, and whatever went wrong here.
  const abort = () => void cancel().catch(() => {})
  running.add(cancel)
  stop.addEventListener("abort", abort)
  const take = async () => {
    if (ended) return done
    try {
      const result = stop.aborted ? done : await inner.next()
      if (result.done !== true) return result
      // The end that an abort brings is not the end of the list.
      if (!ended) stop.throwIfAborted()
    } catch (error) {
      end()
      throw error
    }
    end()
    return done
  }
  let turn: Promise<unknown> = Promise.resolve()
  return {
    next: () => {
      const taken = turn.then(take)
      // Whoever asked for this turn hears of its error; it does not keep the next one waiting.
      turn = taken.catch(() => {})
      return taken
    },
    return: async () => {
      end()
      await cancel()
      return done
    }
  }
}
