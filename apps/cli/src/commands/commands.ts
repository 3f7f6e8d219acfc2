/** `payments commands`: lists the commands with what a program must know to run them. All of it derives from the commands. */
import { contract, exitCodes, requireOutput } from "@payments/program"
import { Effect, Stream } from "effect"
import { Command, Completions, type Flag } from "effect/cli"
import { all, outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"
import { type Column, printRows } from "../output/Rows.ts"
import { descriptorsOf } from "./completions.ts"

/** Makes the command. `load` returns all commands, which have `globalFlags` too. */
export const commandsCommand = (
  load: () => Promise<Command.Command.Any>,
  globalFlags: ReadonlyArray<Flag.Flag<unknown>>,
  version: string
) =>
  Command.make(
    "commands",
    { format: resultFormatFlag },
    Effect.fnUntraced(function*({ format }) {
      yield* requireOutput
      const root = Completions.fromCommand(yield* Effect.promise(load))
      const commands = root.subcommands.flatMap((command) => listed(command, []))
      if (format === "text") return yield* printRows(columns, Stream.make(commands), "table", { empty: "" })
      yield* printJson(outputs.commands, {
        program: root.name,
        version,
        globalFlags: descriptorsOf(globalFlags).map(flagMembers),
        commands,
        messages: contract.messageOutputs.map(versionMembers),
        exitCodes
      })
    })
  ).pipe(
    Command.withDescription(
      "List the commands with their arguments, flags, formats and JSON outputs, and the exit codes"
    ),
    Command.withExamples([
      { command: "payments commands", description: "the commands and their formats" },
      { command: "payments commands --format json", description: "everything that a program must know to run them" }
    ])
  )

type Listed = ReturnType<typeof membersOf>

/** Returns a command and the commands below it. */
const listed = (command: Completions.CommandDescriptor, parents: ReadonlyArray<string>): ReadonlyArray<Listed> => {
  const path = [...parents, command.name]
  return [membersOf(command, path), ...command.subcommands.flatMap((sub) => listed(sub, path))]
}

const membersOf = (command: Completions.CommandDescriptor, path: ReadonlyArray<string>) => {
  const name = path.join(" ")
  const flags = command.flags.map(flagMembers)
  return {
    command: name,
    description: command.description ?? null,
    arguments: command.arguments.map(({ description = null, name: argument, required, type, variadic }) => ({
      name: argument,
      required,
      variadic,
      ...typeMembers(type),
      description
    })),
    flags,
    formats: flags.find((flag) => flag.name === "format")?.values ?? [],
    outputs: all.filter(({ commands }) => commands.includes(name)).map(versionMembers)
  }
}

const flagMembers = ({ aliases, description, name, type }: Completions.FlagDescriptor) => ({
  name,
  aliases,
  ...typeMembers(type),
  description: description ?? null
})

/** A type as a word: text has none of its own, so that it may be a number or a duration. */
const typeMembers = (type: Completions.FlagType | Completions.ArgumentType) => ({
  type: type._tag.toLowerCase(),
  values: type._tag === "Choice" ? type.values : null
})

const versionMembers = ({ name, version }: contract.JsonOutput) => ({ name, schemaVersion: version })

const columns: ReadonlyArray<Column<Listed>> = [
  { name: "command", wholeUpTo: 30, of: ({ command }) => command },
  { name: "formats", wholeUpTo: 30, of: ({ formats }) => formats.join(", ") },
  { name: "description", minWidth: 30, of: ({ description }) => description ?? "" }
]
