/** `payments handoff resume`, `skip` and `replay`: what a person decides about a hand-off. A worker goes on within a second. */
import { Destination, type Maintenance } from "@payments/copy"
import {
  byFlag,
  checkAll,
  CommandExit,
  ExitCode,
  fromFlag,
  personOf,
  requireOutput,
  shellWord,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { resultFormatFlag } from "../../output/ResultOutput.ts"
import { positionProblems } from "../consumers.ts"
import { decisionOn, nameArgument, notWaiting, printDecided } from "./Chosen.ts"

const module = Effect.promise(() => import("@payments/copy/handoff"))

const positionIn = (maintenance: Maintenance, consumer: string) =>
  Effect.map(
    maintenance.consumerStates,
    (states) => states.find(({ name }) => name === consumer)?.position ?? 0
  )

/** Fails if nothing could be sent after the position of the consumer: the hand-off would stop again at once. */
const requireReadable = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  consumer: string,
  destination: Destination.StoredDestination
) {
  const stored = (yield* maintenance.handoffs).some((one) => one.consumer === consumer)
  const state = (yield* maintenance.consumerStates).find(({ name }) => name === consumer)
  if (!stored || state === undefined) return
  const { pruned } = yield* maintenance.changeRange
  if (state.lag !== undefined && state.position >= pruned) return
  const [ack, place] = [`payments changes ack ${consumer}`, `--from ${shellWord(Destination.shown(destination))}`]
  return yield* new CommandExit({
    exitCode: ExitCode.incomplete,
    problem: state.lag === undefined
      ? `the destination was restored since ${consumer} stored change ${state.position}. Ask its receiver for the last change that it has, and say so first: ${ack} SEQ --generation GENERATION ${place}`
      : `changes up to ${pruned} were removed before they were sent to ${consumer}. Let its receiver copy the rows again, and say so first: ${ack} ${pruned} ${place}`
  })
})

export const resumeCommand = Command.make(
  "resume",
  { name: nameArgument, from: fromFlag, format: resultFormatFlag },
  Effect.fnUntraced(function*({ format, ...given }) {
    const { consumer, destination } = yield* checkAll(decisionOn(given))
    yield* requireOutput
    const { resumeHandoff } = yield* module
    const maintenance = yield* Destination.maintenance(destination)
    yield* requireReadable(maintenance, consumer, destination)
    const decided = yield* Effect.catchTag(resumeHandoff(maintenance, consumer), "NotWaiting", notWaiting)
    const position = yield* positionIn(maintenance, consumer)
    yield* printDecided(decided, { format, position, text: `${consumer}: goes on after change ${position}` })
  }, Effect.scoped)
).pipe(
  Command.withDescription("Send the batch of a hand-off again at once, also one that has stopped or that waits"),
  Command.withExamples([
    { command: "payments handoff resume ledger", description: "the receiver works again" },
    {
      command: "payments handoff resume ledger --from sqlite:./payments.db",
      description: "in a destination without a sources file"
    }
  ])
)

const longestReason = 500

const reasonOf = (given: string | undefined) =>
  given === undefined || given.trim() === "" || given.length > longestReason || /\p{C}/u.test(given)
    ? Effect.fail(usage(`Say why with --reason: 1 to ${longestReason} characters, without control characters.`))
    : Effect.succeed(given)

const seqArgument = Argument.String("seq").pipe(Argument.withDescription("the number of the refused change"))

export const skipCommand = Command.make(
  "skip",
  {
    name: nameArgument,
    seq: seqArgument,
    reason: textFlag("reason", "TEXT", "why, for the protocol; no personal data"),
    by: byFlag("decides"),
    from: fromFlag,
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ format, ...given }) {
    const { by, consumer, destination, reason, seq } = yield* checkAll({
      ...decisionOn(given),
      seq: numberOf("SEQ", given.seq),
      reason: reasonOf(given.reason),
      by: personOf(given.by)
    })
    yield* requireOutput
    const { skipRefused } = yield* module
    const maintenance = yield* Destination.maintenance(destination)
    const skipped = skipRefused(maintenance, { consumer, seq, reason, by })
    const decided = yield* Effect.catchTag(skipped, "NotWaiting", notWaiting)
    const position = yield* positionIn(maintenance, consumer)
    yield* printDecided(decided, { format, position, text: `${consumer}: passes over change ${seq}, decided by ${by}` })
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Pass over the one change that the receiver refuses. Who decided it and why is recorded in the destination. The receiver never gets the change, unless it is replayed"
  ),
  Command.withShortDescription("Pass over the one change that the receiver refuses"),
  Command.withExamples([
    {
      command: `payments handoff skip ledger 120 --reason "known gap, ticket 42"`,
      description: "pass over change 120"
    },
    {
      command: `payments handoff skip ledger 120 --reason "corrected by hand" --by finance --format json`,
      description: "decided by somebody else, as JSON"
    }
  ])
)

const numberOf = (name: string, text: string) => {
  const { expected, parse } = wholeNumber(1)
  const value = parse(text)
  return value === undefined
    ? Effect.fail(usage(`Invalid value for ${name}. Expected: ${expected}`))
    : Effect.succeed(value)
}

export const replayCommand = Command.make(
  "replay",
  {
    name: nameArgument,
    seq: Argument.String("seq").pipe(Argument.withDescription("the number of the first change that is sent again")),
    from: fromFlag,
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ format, ...given }) {
    const { consumer, destination, seq } = yield* checkAll({
      ...decisionOn(given),
      seq: numberOf("SEQ", given.seq)
    })
    yield* requireOutput
    const { replayHandoff } = yield* module
    const maintenance = yield* Destination.maintenance(destination)
    const decided = yield* Effect.catchTags(replayHandoff(maintenance, { consumer, from: seq }), {
      NotWaiting: notWaiting,
      NotSentYet: ({ message }) =>
        Effect.andThen(
          requireReadable(maintenance, consumer, destination),
          usage(`${message} To pass over a refused change, use payments handoff skip.`)
        )
    })
    const position = yield* positionIn(maintenance, consumer)
    yield* printDecided(decided, { format, position, text: `${consumer}: gets change ${seq} and all later ones again` })
  }, (effect, { name }) => {
    const { BeyondLastChange, ChangesRemoved, OtherGeneration } = positionProblems(name)
    return Effect.catchTags(Effect.scoped(effect), { BeyondLastChange, ChangesRemoved, OtherGeneration })
  })
).pipe(
  Command.withDescription(
    "Send a change that was sent and all later ones again. Batches that were sent before keep their ids and bytes, so a receiver recognizes them. Changes that were removed cannot be sent again"
  ),
  Command.withShortDescription("Send a change and all later ones again"),
  Command.withExamples([
    { command: "payments handoff replay ledger 100", description: "send change 100 and all later ones again" },
    {
      command: "payments handoff replay ledger 1 --from sqlite:./payments.db",
      description: "everything that is kept, in a destination without a sources file"
    }
  ])
)
