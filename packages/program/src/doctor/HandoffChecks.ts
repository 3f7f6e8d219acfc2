/** Checks the hand-offs of a source: their keys, whether anything may be sent to the address, and where they go on. */
import { Destination } from "@payments/copy"
import { checkedLookup } from "@payments/copy/handoff"
import { Duration, Effect, Option, Redacted, Result } from "effect"
import { ExitCode } from "../outcome/ExitCode.ts"
import type { SourceHandoff } from "../sources/Source.ts"
import { allOf } from "../text/WordLists.ts"
import { failed, type Finding, ok } from "./Finding.ts"

/** Sends nothing. `keyTime`: how long the keys may take. */
export const checkHandoff = Effect.fnUntraced(function*(
  handoff: SourceHandoff,
  to: Destination.StoredDestination | undefined,
  keyTime: Duration.Duration
): Effect.fn.Return<Finding> {
  const check = `hand-off ${handoff.consumer}`
  const wrong = (found: string, advice: string, reason = "Configuration") =>
    failed(check, ExitCode.configuration, found, { advice, reason })
  const read = yield* Effect.result(Effect.timeoutOption(handoff.keys, keyTime))
  if (Result.isFailure(read)) {
    const [{ problem, setting } = { problem: "cannot be read", setting: "secret" }] = read.failure.problems
    const advice = handoff.keyFile === undefined
      ? "Correct this setting."
      : `Correct this setting, or make a key: payments handoff rotate ${handoff.consumer}`
    return wrong(`${setting} ${problem}`, advice)
  }
  if (Option.isNone(read.success)) return wrong("the keys were not read in time", "Correct this setting.")
  const refused = yield* addressProblem(handoff)
  if (refused !== undefined) {
    const advice = refused === isPrivate ? "Correct url, or set allow_private." : "Correct url."
    return wrong(`${handoff.origin} ${refused}`, advice, "Address")
  }
  const keys = read.success.value
  const what = `${handoff.shape.isThin ? "numbers, kinds and ids of " : ""}changes of ${
    allOf(handoff.lists.map(({ label }) => label))
  }`
  const signed = `signed with ${keys.map(({ scheme }) => scheme === "v1" ? "HMAC-SHA256" : "ed25519").join(" and ")}`
  return ok(check, `${what} to ${handoff.origin}, ${signed}; ${yield* startText(handoff, to)}`)
})

const isPrivate = "is a private or link-local address"

/** Why nothing can be sent to the address now, as the end of a sentence. */
const addressProblem = ({ target }: SourceHandoff): Effect.Effect<string | undefined> => {
  const given = Redacted.value(target)
  // The proxy resolves the name. The checks of the file have refused private addresses and this machine.
  if (given.proxy !== undefined) return Effect.undefined
  return Effect.callback<string | undefined>((resume) => {
    checkedLookup(given)(given.url.hostname.replace(/^\[(.*)\]$/, "$1"), { all: true }, (error) => {
      const code = error === null ? undefined : error.code
      resume(
        Effect.succeed(
          error === null
            ? undefined
            : code === undefined
            ? isPrivate
            : "cannot be resolved"
        )
      )
    })
  }).pipe(Effect.timeoutOption(Duration.seconds(5)), Effect.map(Option.getOrElse(() => "cannot be resolved in 5 s")))
}

const startText = (
  { consumer, start }: SourceHandoff,
  to: Destination.StoredDestination | undefined
): Effect.Effect<string> =>
  Effect.scoped(Effect.gen(function*() {
    if (to === undefined) return undefined
    const reader = yield* Destination.reader(to)
    return (yield* reader.consumerStates).find(({ name }) => name === consumer)
  })).pipe(
    // The finding of the destination says what is wrong with it.
    Effect.orElseSucceed(() => undefined),
    Effect.map((state) =>
      state !== undefined
        ? `goes on after change ${state.position}`
        : start === "now"
        ? "begins with the next change"
        : "begins with the first change that is kept"
    )
  )
