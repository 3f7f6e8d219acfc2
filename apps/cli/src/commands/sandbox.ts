/** `payments sandbox`. The sandbox is loaded here and in `start`, and nowhere else. */
import { print, say, usage } from "@payments/export/program"
import { Effect, Redacted, Schema } from "effect"
import { Command, Flag } from "effect/cli"

const whole = (minimum: number, maximum: number) =>
  Schema.Int.check(Schema.isBetween({ minimum, maximum }, { message: `a whole number from ${minimum} to ${maximum}` }))

/** `payments sandbox`. */
export const sandboxCommand = Command.make(
  "sandbox",
  {
    port: Flag.Int("port").pipe(
      Flag.withSchema(whole(0, 65_535)),
      Flag.withDefault(8787),
      Flag.withDescription("the port on this machine; 0 takes a free one")
    ),
    records: Flag.Int("records").pipe(
      Flag.withSchema(whole(0, 1_000_000)),
      Flag.withDefault(1000),
      Flag.withDescription("records in each list")
    ),
    seed: Flag.Int("seed").pipe(Flag.withDefault(1), Flag.withDescription("another seed gives other records"))
  },
  Effect.fnUntraced(function*({ port, records, seed }) {
    const { Sandbox, sandboxKey } = yield* Effect.promise(() => import("@payments/sandbox"))
    return yield* Effect.gen(function*() {
      const { url } = yield* Sandbox
      yield* print(`export PAYMENTS_BASE_URL=${url}\nexport PAYMENTS_API_KEY=${Redacted.value(sandboxKey)}\n`)
      yield* say(
        `Serving ${records} records in each list at ${url} until Ctrl-C. Paste the two lines above into another terminal.`
      )
      return yield* Effect.never
    }).pipe(Effect.provide(Sandbox.layer({ port, records, seed })), Effect.mapError((error) => usage(error.message)))
  })
).pipe(Command.withDescription("Serve the API on this machine, with made-up records"))
