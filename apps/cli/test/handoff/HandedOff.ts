/** A destination with changes, and a sender of them. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Destination, moveConsumer } from "@payments/copy"
import { handOff, handoffPolicy, makePost, parseSigningKey } from "@payments/copy/handoff"
import { Lists } from "@payments/core"
import { Duration, Effect, Redacted, Result } from "effect"
import { randomBytes } from "node:crypto"

export const consumer = "ledger"
export const newSecret = () => `whsec_${randomBytes(32).toString("base64")}`
export const keyOf = (text: string) => Result.getOrThrow(parseSigningKey(Redacted.make(text)))

const opened = (to: string) =>
  Effect.flatMap(Destination.parse(to, "argument"), (destination) =>
    Destination.isStored(destination)
      ? Destination.maintenance(destination)
      : Effect.die(new Error("nothing is stored"))).pipe(Effect.provide(NodeServices.layer))

/** Hands off what there is, 3 changes at a time. The limits are so long that a busy machine reaches none. */
export const handingOff = Effect.fnUntraced(function*(
  to: string,
  url: string,
  secret: string,
  giveUpAfter: Duration.Input = "5 minutes"
) {
  const maintenance = yield* opened(to)
  yield* moveConsumer(maintenance, { name: consumer, position: 0, when: "create" })
  const post = yield* makePost({ url: new URL(url), timeout: Duration.minutes(1), allowPrivate: false })
  return yield* handOff({
    maintenance,
    consumer,
    lists: Lists.all,
    shape: { source: "main", isThin: false },
    limits: { changes: 3, bytes: 20_000 },
    policy: {
      ...handoffPolicy,
      firstWait: Duration.millis(1),
      longestWait: Duration.millis(20),
      giveUpAfter: Duration.fromInputUnsafe(giveUpAfter)
    },
    keys: Effect.succeed([keyOf(secret)]),
    post,
    isFollowing: false
  })
}, Effect.scoped)
