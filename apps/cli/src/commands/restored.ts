/** `payments restored`: begins a generation of the changes of a destination that was restored from a backup. */
import { describeGeneration, Destination, printable } from "@payments/copy"
import {
  checkAll,
  fromDestination,
  fromFlag,
  print,
  requireOutput,
  setting,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { DateTime, Effect } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"

export const restoredCommand = Command.make(
  "restored",
  {
    from: fromFlag,
    after: textFlag(
      "after",
      "SEQ",
      "the last change that the backup had, if exports have run since it was restored"
    ),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ after: text, format, from }) {
    const { after, destination } = yield* checkAll({
      after: setting({ name: "after", text }, undefined, wholeNumber(0)),
      destination: fromDestination(from)
    })
    yield* requireOutput
    const maintenance = yield* Destination.maintenance(destination)
    const { last } = yield* maintenance.changeRange
    if (after !== undefined && after > last) {
      return yield* usage(`--after: there is no change ${after}: the last one is ${last}.`)
    }
    const now = DateTime.formatIso(yield* DateTime.now)
    const begun = (yield* maintenance.beginGeneration({ reason: "restored", after, now })).at(-1)
    if (begun === undefined) return yield* Effect.die("no generation was begun")
    const consumers = (yield* maintenance.consumerStates).map(({ generation = null, name, position }) => ({
      consumer: name,
      generation,
      position
    }))
    if (format === "json") return yield* printJson(outputs.restored, { ...begun, consumers })
    yield* print(`${printable(maintenance.location)}: is now in ${describeGeneration(begun)}\n`)
    for (const { consumer, generation, position } of consumers) {
      yield* print(
        `${consumer}: stored change ${position} of generation ${generation}. It reads nothing until it has said where it stands: payments changes ack ${consumer} SEQ --generation GENERATION\n`
      )
    }
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Say that a destination was restored from a backup, so that its numbers of changes are not mistaken"
  ),
  Command.withExamples([
    {
      command: "payments restored --from sqlite:./payments.db",
      description: "after the restore, and before the next export"
    },
    {
      command: "payments restored --from sqlite:./payments.db --after 120",
      description: "exports have run since; the backup had the changes up to 120"
    }
  ])
)
