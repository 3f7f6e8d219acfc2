/** The commands of the command line, for tests over all of them. */
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { chosenConfig } from "@payments/program"
import { Layer } from "effect"
import type { Completions } from "effect/cli"

/** What the commands depend on. */
export const testServices = {
  api: PaymentsApi.layer.pipe(Layer.provide(layerHttpClient), Layer.provide(chosenConfig)),
  config: chosenConfig,
  http: layerHttpClient,
  version: "0.0.0"
}

/** A command with the names of its parents. */
export interface NamedCommand {
  readonly path: ReadonlyArray<string>
  readonly command: Completions.CommandDescriptor
}

/** Returns a command and all commands below it. */
export const everyCommand = (
  command: Completions.CommandDescriptor,
  parents: ReadonlyArray<string> = []
): ReadonlyArray<NamedCommand> => {
  const path = [...parents, command.name]
  return [{ path, command }, ...command.subcommands.flatMap((sub) => everyCommand(sub, path))]
}
