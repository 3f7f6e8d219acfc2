/** `payments completions`: prints the script that completes commands in a shell, and computes the candidates for it. */
import { print, printOrEnd, requireOutput } from "@payments/program"
import { Effect } from "effect"
import { Argument, Command, Completions, type Flag } from "effect/cli"
import { candidatesFor } from "../completions/Candidates.ts"
import { scripts, shells } from "../completions/Scripts.ts"
import { shellWords } from "../completions/ShellWords.ts"

/** Makes the command. `load` returns the command line that the words name, with `globalFlags`. */
export const completionsCommand = (
  load: (words: ReadonlyArray<string>) => Promise<Command.Command.Any>,
  globalFlags: ReadonlyArray<Flag.Flag<unknown>>
) =>
  Command.make(
    "completions",
    {
      shell: Argument.Literals("shell", shells).pipe(
        Argument.withMetavar("SHELL"),
        Argument.withDescription(`${shells.join(", ")}`)
      )
    },
    ({ shell }) => Effect.andThen(requireOutput, print(scripts[shell]))
  ).pipe(
    Command.withDescription("Print the script that completes commands, flags and values in a shell"),
    Command.withExamples([
      {
        command: "source <(payments completions bash)",
        description: "complete in this bash; for every bash, add this line to ~/.bashrc"
      },
      {
        command: "source <(payments completions zsh)",
        description: "complete in this zsh; for every zsh, add this line to ~/.zshrc after compinit"
      },
      {
        command: "payments completions fish > ~/.config/fish/completions/payments.fish",
        description: "complete in every fish"
      }
    ]),
    Command.withSubcommands([candidatesCommand(load, globalFlags)])
  )

/** The command that the scripts run for each completion. */
const candidatesCommand = (
  load: (words: ReadonlyArray<string>) => Promise<Command.Command.Any>,
  globalFlags: ReadonlyArray<Flag.Flag<unknown>>
) =>
  Command.make(
    "candidates",
    { line: Argument.String("line") },
    Effect.fnUntraced(function*({ line }) {
      const words = shellWords(line)
      // The word at the cursor is not complete: it does not name a command yet.
      const root = yield* Effect.promise(() => load(words.slice(1, -1)))
      const tree = { root: Completions.fromCommand(root), globalFlags: descriptorsOf(globalFlags) }
      const { candidates, continues, files } = yield* candidatesFor(words, tree)
      const lines = [
        ...candidates.map(({ description, value }) => description === undefined ? value : `${value}\t${description}`),
        ...(files === undefined ? [] : [`:files ${files.prefix}`]),
        ...(continues === true ? [":continues"] : [])
      ]
      yield* printOrEnd(lines.map((one) => `${one}\n`).join(""))
    })
  ).pipe(Command.unlisted)

/** Describes global flags. The library describes only the flags of a command. */
export const descriptorsOf = (flags: ReadonlyArray<Flag.Flag<unknown>>) =>
  Completions.fromCommand(Command.make("global", Object.fromEntries(flags.map((flag, index) => [index, flag]))))
    .flags
