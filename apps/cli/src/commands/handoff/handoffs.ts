/** `payments handoff`: the commands about hand-offs. */
import { Command } from "effect/cli"
import { verifyCommand } from "./verifyRequest.ts"

export const handoffCommand = Command.make("handoff").pipe(
  Command.withDescription("Look at the hand-offs of changes to other systems, and decide about them"),
  Command.withSubcommands([verifyCommand]),
  Command.withExamples([
    { command: "payments handoff list", description: "how far each hand-off is" },
    { command: "payments handoff resume ledger", description: "go on after the receiver works again" }
  ])
)
