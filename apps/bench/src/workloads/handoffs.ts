/** Senders of changes, as the worker runs them. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Destination, type Maintenance, moveConsumer } from "@payments/copy"
import { handOff, makePost, parseSigningKey } from "@payments/copy/handoff"
import { Lists } from "@payments/core"
import { Duration, Effect, Redacted, Result } from "effect"
import type { WorkloadResult } from "../harness/WorkloadResult.ts"
import { secret } from "./webhooks.ts"

export interface HandOffOptions {
  /** A destination, as on the command line. */
  readonly to: string
  /** Each consumer's changes go to the path of its name. */
  readonly url: string
  readonly consumers: ReadonlyArray<string>
}

const opened = ({ to }: Pick<HandOffOptions, "to">) =>
  Effect.gen(function*() {
    const destination = yield* Destination.parse(to)
    if (destination._tag === "Stdout") return yield* Effect.die(new Error("stdout has no changes"))
    return yield* Destination.maintenance(destination)
  })

const sender = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  { url }: Pick<HandOffOptions, "url">,
  consumer: string,
  isFollowing: boolean
) {
  yield* moveConsumer(maintenance, { name: consumer, position: 0, when: "create" })
  const post = yield* makePost({ url: new URL(`/${consumer}`, url), timeout: Duration.minutes(5), allowPrivate: false })
  const key = Result.getOrThrow(parseSigningKey(Redacted.make(`whsec_${secret.toString("base64")}`)))
  return { maintenance, consumer, lists: Lists.all, isFollowing, keys: Effect.succeed([key] as const), post }
})

/** Sends all changes to one consumer. */
export const handOffAll = (options: HandOffOptions): Promise<WorkloadResult> =>
  Effect.runPromise(
    Effect.gen(function*() {
      const [consumer = ""] = options.consumers
      let records = 0
      yield* handOff({
        ...yield* sender(yield* opened(options), options, consumer, false),
        shape: { source: "bench", isThin: false },
        onAttempt: ({ batch, verdict }) =>
          Effect.sync(() => verdict._tag === "Accept" ? records += batch.changes : undefined)
      })
      return { records, sum: 0, characters: 0 }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

/** Starts a sender for each consumer, which sends until the process ends. They share a connection, as in the worker. */
export const followAll = (options: HandOffOptions): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>()
  Effect.runFork(
    Effect.gen(function*() {
      const maintenance = yield* opened(options)
      const senders = yield* Effect.forEach(
        options.consumers,
        (consumer) => sender(maintenance, options, consumer, true)
      )
      resolve()
      yield* Effect.forEach(senders, (one) => handOff({ ...one, shape: { source: "bench", isThin: false } }), {
        concurrency: "unbounded",
        discard: true
      })
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer), Effect.onError(() => Effect.sync(() => process.exit(1))))
  )
  return promise
}
