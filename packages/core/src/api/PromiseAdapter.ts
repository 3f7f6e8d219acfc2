/**
 * Turns effects into promises and streams into async iterables. Leaving a loop or aborting a signal interrupts the
 * running request at once. A promise rejects with the error of the effect itself.
 */
import { Cause, type Context, Effect, Exit, Stream } from "effect"

/** The option that the promise form of an operation accepts in addition to the fields of the query. */
export interface Abortable {
  /** An abort cancels the running request at once. The promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The arguments, with a signal allowed in each object. */
type WithSignal<Arguments extends ReadonlyArray<unknown>> = {
  [Index in keyof Arguments]: NonNullable<Arguments[Index]> extends ReadonlyArray<unknown> ? Arguments[Index]
    : Arguments[Index] extends object | undefined ? NonNullable<Arguments[Index]> & Abortable
    : Arguments[Index]
}

/**
 * The operations of `Api` for code without Effect. A function that returns an `Effect` returns a `Promise` here; one
 * that returns a `Stream` returns an `AsyncIterable`. An `AsyncIterable` requests nothing before it is iterated. Each
 * iteration starts a new listing.
 */
export type PromiseApiOf<Api> = Api extends (...args: infer Arguments) => infer Result
  ? (...args: WithSignal<Arguments>) => Result extends Effect.Effect<infer A, infer _E> ? Promise<A>
    : Result extends Stream.Stream<infer A, infer _E> ? AsyncIterable<A>
    : Result
  : Api extends object ? { readonly [Name in keyof Api]: PromiseApiOf<Api[Name]> }
  : Api

/** Runs the operations of a client until it is closed. */
export interface Runner {
  readonly promise: (effect: Effect.Effect<unknown, unknown>, signal: AbortSignal | undefined) => Promise<unknown>
  readonly iterable: (
    stream: Stream.Stream<unknown, unknown>,
    signal: AbortSignal | undefined
  ) => AsyncIterable<unknown>
  /** Interrupts all calls and iterations that still run. */
  readonly stop: () => Promise<void>
}

/** Converts all functions of `api`. The conversion of a function depends on the value that it returns. */
export const toPromises = <Api>(api: Api, runner: Runner): PromiseApiOf<Api> => {
  const convert = (value: unknown): unknown =>
    typeof value === "function"
      ? (...args: ReadonlyArray<unknown>) => {
        const { plain, signal } = separateSignal(args)
        const result: unknown = value(...plain)
        // The casts are sound: by their types, the operations require no services. `unknown` does not show that.
        return Effect.isEffect(result)
          ? runner.promise(result as Effect.Effect<unknown, unknown>, signal)
          : Stream.isStream(result)
          ? runner.iterable(result as Stream.Stream<unknown, unknown>, signal)
          : result
      }
      : typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, convert(member)]))
      : value
  // `convert` changes the values as `PromiseApiOf` changes their types.
  return convert(api) as PromiseApiOf<Api>
}

/** Removes the signal from the arguments, because the library refuses unknown fields of a query. */
const separateSignal = (args: ReadonlyArray<unknown>) => {
  let signal: AbortSignal | undefined
  const plain = args.map((value) => {
    if (typeof value !== "object" || value === null || !("signal" in value)) return value
    const { signal: given, ...rest } = value
    // Any other value stays in the query, which is then refused.
    if (given !== undefined && !(given instanceof AbortSignal)) return value
    if (given !== undefined) signal = given
    return rest
  })
  return { plain, signal }
}

/** Returns a runner that runs effects and streams with the services of `context`. */
export const makeRunner = (context: Context.Context<never>): Runner => {
  const closing = new AbortController()
  /** Cancels each running iteration. */
  const cancellations = new Set<() => Promise<unknown>>()
  const withClosing = (signal: AbortSignal | undefined) =>
    signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal])
  return {
    promise: async (effect, signal) => {
      const abortSignal = withClosing(signal)
      abortSignal.throwIfAborted()
      const exit = await Effect.runPromiseExitWith(context)(effect, { signal: abortSignal })
      if (Exit.isSuccess(exit)) return exit.value
      if (Cause.hasInterruptsOnly(exit.cause)) abortSignal.throwIfAborted()
      throw Cause.squash(exit.cause)
    },
    iterable: (stream, signal) => ({
      [Symbol.asyncIterator]: () =>
        iterate(Stream.toAsyncIterableWith(stream, context)[Symbol.asyncIterator](), withClosing(signal), cancellations)
    }),
    stop: async () => {
      closing.abort(new DOMException("The client is closed.", "AbortError"))
      await Promise.all([...cancellations].map((cancel) => cancel()))
    }
  }
}

/**
 * Calls of `next()` run one after the other, even if the caller does not await them, because a stream allows one pull
 * at a time. `return()` and an abort do not wait: they cancel the running `next()` at once.
 */
const iterate = <A>(
  inner: AsyncIterator<A>,
  signal: AbortSignal,
  cancellations: Set<() => Promise<unknown>>
): AsyncIterator<A> => {
  const done: IteratorResult<A> = { done: true, value: undefined }
  let ended = false
  const end = () => {
    ended = true
    cancellations.delete(cancel)
    signal.removeEventListener("abort", abort)
  }
  /** Interrupts the running pull and releases its resources. */
  const cancel = async () => {
    await inner.return?.()
  }
  // Ignore the error: the running or next `next()` rejects with the signal's reason.
  const abort = () => void cancel().catch(() => {})
  cancellations.add(cancel)
  signal.addEventListener("abort", abort)
  const pull = async () => {
    if (ended) return done
    try {
      const result = signal.aborted ? done : await inner.next()
      if (result.done !== true) return result
      // The stream ended because of the abort, not because the list ended.
      if (!ended) signal.throwIfAborted()
    } catch (error) {
      end()
      throw error
    }
    end()
    return done
  }
  let previous: Promise<unknown> = Promise.resolve()
  return {
    next: () => {
      const current = previous.then(pull)
      // The caller of this `next()` receives its error. The next call runs anyway.
      previous = current.catch(() => {})
      return current
    },
    return: async () => {
      end()
      await cancel()
      return done
    }
  }
}
