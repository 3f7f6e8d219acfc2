/** The hand-off that a command is about, and the output of a decision about it. */
import { type Destination as Stored, isConsumerName, printable } from "@payments/copy"
import type { Handoff, NotWaiting } from "@payments/copy/handoff"
import { ChosenSource, CommandExit, ExitCode, fromDestination, print, usage } from "@payments/program"
import type { SourceHandoff } from "@payments/program/sources"
import { Effect } from "effect"
import { Argument } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { printJson } from "../../output/ResultOutput.ts"

export const nameArgument = Argument.String("name").pipe(Argument.withDescription("the consumer of the hand-off"))

export const consumerOf = (name: string): Effect.Effect<string, CommandExit> =>
  isConsumerName(name)
    ? Effect.succeed(name)
    : Effect.fail(usage("Invalid value for NAME. Expected: a name of 1 to 40 characters out of a-z, 0-9, _ and -"))

/** Returns the settings of a hand-off, which only a sources file has. */
export const chosenHandoff = Effect.fnUntraced(function*(given: string) {
  const name = yield* consumerOf(given)
  const source = yield* (yield* ChosenSource).forDestination
  if (source === undefined) {
    return yield* usage("Hand-offs are set in a sources file: [sources.NAME.handoff.CONSUMER] in payments.toml.")
  }
  const handoff = source.handoffs?.find(({ consumer }) => consumer === name)
  if (handoff !== undefined) return { source, handoff }
  const names = (source.handoffs ?? []).map(({ consumer }) => consumer).join(", ")
  return yield* usage(
    `The source ${source.name} has no hand-off to ${name}${
      names === "" ? "" : `, only to ${names}`
    }. Set [sources.${source.name}.handoff.${name}].`
  )
})

/** Reads the name and the destination of a decision. */
export const decisionOn = (given: { readonly name: string; readonly from: string | undefined }) => ({
  consumer: consumerOf(given.name),
  destination: fromDestination(given.from)
})

export const notWaiting = ({ message }: NotWaiting) => new CommandExit({ exitCode: ExitCode.usage, problem: message })

/** Prints the state after a decision. */
export const printDecided = (
  { consumer, reason, state }: Handoff,
  { format, position, text }: { readonly format: "text" | "json"; readonly position: number; readonly text: string }
) =>
  format === "json"
    ? printJson(outputs.handoffDecided, { consumer, state, reason: reason ?? null, position })
    : print(`${text}\n`)

export const originText = ({ origin }: SourceHandoff): string => printable(origin)

export type StoredDestination = Stored.StoredDestination
