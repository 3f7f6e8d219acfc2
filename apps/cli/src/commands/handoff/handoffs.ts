/** `payments handoff`: the commands about hand-offs. */
import { Command } from "effect/cli"
import { replayCommand, resumeCommand, skipCommand } from "./decide.ts"
import { listCommand } from "./listHandoffs.ts"
import { rotateCommand } from "./rotate.ts"
import { testCommand } from "./testHandoff.ts"
import { verifyCommand } from "./verifyRequest.ts"

export const handoffCommand = Command.make("handoff").pipe(
  Command.withDescription("Look at the hand-offs of changes to other systems, and decide about them"),
  Command.withSubcommands([
    listCommand,
    testCommand,
    resumeCommand,
    skipCommand,
    replayCommand,
    rotateCommand,
    verifyCommand
  ]),
  Command.withExamples([
    { command: "payments handoff list", description: "how far each hand-off is" },
    { command: "payments handoff resume ledger", description: "go on after the receiver works again" }
  ])
)
