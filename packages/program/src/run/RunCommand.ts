/**
 * How both programs handle arguments, errors and exit codes. A usage error is explained on stderr and writes nothing to
 * stdout. Any other error is one line on stderr. With `--format json` or `ndjson` every error is one line of JSON
 * (`ErrorFacts`).
 */
import { nearest, printable, systemProblem } from "@payments/copy"
import { Cause, ConfigProvider, Console, Effect, Exit, Layer, type LogLevel, type Runtime } from "effect"
import { CliConfig, CliError, CliOutput, Command, Flag, GlobalFlag } from "effect/cli"
import { ExitCode } from "../outcome/ExitCode.ts"
import {
  CommandExit,
  type ErrorFacts,
  factsOf,
  interruptedFacts,
  type Next,
  type ProgramError,
  usage
} from "../outcome/ProgramError.ts"
import { emptyRuleVariables, unknownVariables } from "../settings/Variables.ts"
import { helpFormatter } from "../terminal/HelpText.ts"
import { shellWord } from "../terminal/ShellWord.ts"
import { canColor, terminalWidth } from "../terminal/TerminalRules.ts"
import { usageText, withoutFlagValues } from "../terminal/UsageText.ts"
import { errorText, logError, logLine, messageFormatOf, Messages, onTerminal, requireOutput } from "./ConsoleOutput.ts"
import { withCurrentNames } from "./OldNames.ts"

/** Runs a command line and returns its exit code. */
export const run = <const Name extends string, Input, R, Context>(
  command: Command.Command<Name, Input, Context, ProgramError, R>,
  given: ReadonlyArray<string>,
  { environment = {}, settingsCheck, version }: {
    readonly version: string
    readonly environment?: Readonly<Record<string, string | undefined>>
    /** The subcommand that checks the settings. */
    readonly settingsCheck?: string
  }
) =>
  Effect.flatMap(ConfigProvider.ConfigProvider, (provider) => {
    const { args, warnings } = command.name === "payments" ? withCurrentNames(given) : { args: given, warnings: [] }
    const notes = [...warnings, ...unknownVariables(Object.keys(environment))]
    return Effect.forEach(notes, (line) => logLine(`${command.name}: ${line}`), { discard: true }).pipe(
      Effect.andThen(runCurrent(command, args, { version, settingsCheck })),
      Effect.provideService(
        ConfigProvider.ConfigProvider,
        ConfigProvider.orElse(provider, emptyRuleVariables(environment))
      ),
      Effect.provideService(Messages, { format: messageFormatOf(args), next: undefined })
    )
  })

const runCurrent = <const Name extends string, Input, R, Context>(
  command: Command.Command<Name, Input, Context, ProgramError, R>,
  args: ReadonlyArray<string>,
  { settingsCheck, version }: { readonly version: string; readonly settingsCheck: string | undefined }
) => {
  const format = messageFormatOf(args)
  const { path } = commandIn(command, args)
  const nextOf = ({ exitCode, next, reason }: ErrorFacts): Next | null => {
    if (next !== null) return next
    if (reason === "Usage") return helpOf(path)
    return exitCode === ExitCode.configuration && settingsCheck !== undefined && path[1] !== settingsCheck
      ? `${command.name} ${settingsCheck}${settingsFlags(args)}`
      : null
  }
  const fail = (error: ProgramError) => {
    const facts = factsOf(error)
    // A command that ends silently has printed its message, or its reader has closed the output.
    if (facts.exitCode === ExitCode.done || (error.message === "" && format === "text")) return Effect.void
    return logError(command.name, { ...facts, next: nextOf(facts) })
  }
  /** Why help or a version could not be printed. */
  const refused: { error?: ProgramError } = {}
  return Command.runWith(command, { version })(path.at(-1) === "query" ? withStatements(args) : args)
    .pipe(
      Effect.mapError((error) => refused.error ?? error),
      Effect.flatMap(() =>
        refused.error === undefined ? Effect.succeed<ExitCode>(ExitCode.done) : Effect.fail(refused.error)
      ),
      Effect.catch((error) =>
        // The presenter has printed an error of the command line's parser.
        CliError.isCliError(error)
          ? Effect.succeed(ExitCode.usage)
          : Effect.as(fail(error), factsOf(error).exitCode)
      ),
      Effect.catchCauseIf(
        (cause) => !Cause.hasInterruptsOnly(cause),
        (cause) => {
          const lack = systemProblem(Cause.squash(cause))
          const exitCode = lack === undefined ? ExitCode.unexpected : ExitCode.destination
          return Effect.as(
            fail(new CommandExit({ exitCode, problem: lack ?? `unexpected: ${Cause.pretty(cause)}` })),
            exitCode
          )
        }
      ),
      Effect.onInterrupt(() => format === "json" ? logError(command.name, interruptedFacts) : Effect.void),
      Effect.provide(presentation(command, args, refused))
    )
}

/**
 * Puts white space before an SQL statement that begins with a comment, so that it is not read as a flag. A comment has
 * white space before any `=`, which no flag has, or another line follows it.
 */
const withStatements = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  args.map((word) => /^--(?:[^=\s]*\s|[^\n]*\n)/.test(word) ? ` ${word}` : word)

const helpOf = (commandPath: ReadonlyArray<string>): string => `${commandPath.join(" ")} --help`

/**
 * Repeats the flags that name the settings and the destination, for a command that checks them. A destination that may
 * contain a password is left out.
 */
const settingsFlags = (args: ReadonlyArray<string>): string =>
  args.flatMap((word, index) => {
    const [, flag, text = args[index + 1] ?? ""] = /^--(source|config|to)(?:=(.*))?$/s.exec(word) ?? []
    return flag === undefined || printable(text) !== text || (flag === "to" && /@|password/i.test(text))
      ? []
      : [` --${flag} ${shellWord(text)}`]
  }).join("")

/** A word of the command line that is where a command should be. */
interface UnknownCommand {
  readonly word: string
  /** The command that has no such subcommand, with its parents. */
  readonly path: ReadonlyArray<string>
}

/**
 * Returns the command that the words name, with its parents, and the first word that should name a command but does
 * not.
 */
const commandIn = (command: Command.Command.Any, args: ReadonlyArray<string>) => {
  const path = [command.name]
  let unknown: UnknownCommand | undefined
  let at: Command.Command.Any = command
  for (const [index, word] of args.entries()) {
    // The word before it may be a flag whose value this word is.
    if (word.startsWith("-") || /^--(?!help$|version$)[^=]+$/.test(args[index - 1] ?? "")) continue
    const commands = at.subcommands.flatMap((group) => group.commands)
    const named = commands.find(({ name }) => name === word)
    if (named === undefined) {
      if (commands.length > 0) unknown ??= { word, path: [...path] }
      continue
    }
    path.push(word)
    at = named
  }
  return { path, unknown }
}

/** Leaves out unlisted subcommands. */
const subcommandsOf = (root: Command.Command.Any, path: ReadonlyArray<string>): ReadonlyArray<string> => {
  let commands = listed(root)
  for (const name of path.slice(1)) {
    const found = commands.find((command) => command.name === name)
    if (found !== undefined) commands = listed(found)
  }
  return commands.map(({ name }) => name)
}

const listed = ({ subcommands }: Command.Command.Any): ReadonlyArray<Command.Command.Any> =>
  subcommands.flatMap(({ commands }) => commands).filter(({ unlisted }) => !unlisted)

/** Prints help, versions and usage errors. What cannot be printed is an error in `refused`. */
const presentation = (
  command: Command.Command.Any,
  args: ReadonlyArray<string>,
  refused: { error?: ProgramError }
) => {
  const format = messageFormatOf(args)
  const presentErrors = (commandPath: ReadonlyArray<string>, errors: ReadonlyArray<CliError.CliError>) => {
    const texts = withoutFlagValues(errors, args).map((error) =>
      usageText(error, args, (path) => subcommandsOf(command, path))
    )
    const next = helpOf(commandPath)
    const text = errorText(command.name, { ...factsOf(usage(texts.join("\n"))), next }, format)
    return Console.error(format === "text" ? onTerminal(`${text}\nSee ${next}`) : text)
  }
  return Layer.mergeAll(
    Layer.unwrap(
      Effect.map(
        Effect.all([canColor, terminalWidth]),
        ([colors, width]) => CliOutput.layer(helpFormatter(colors, width))
      )
    ),
    CliOutput.layerPresenter({
      present: (event) => {
        if (event._tag === "InvalidInvocation") return presentErrors(event.commandPath, event.errors)
        const { unknown } = commandIn(command, args)
        // The library prints the help of the command before an unknown one.
        if (event._tag === "Help" && unknown !== undefined && (event.helpDoc.args ?? []).length === 0) {
          const { path, word } = unknown
          const suggestions = nearest(word, subcommandsOf(command, path))
          refused.error = new CliError.UnknownSubcommand({
            subcommand: word,
            parent: [...path],
            suggestions: [...suggestions]
          })
          return presentErrors(path, [refused.error])
        }
        return Effect.matchEffect(requireOutput, {
          onFailure: (error) =>
            Effect.sync(() => {
              refused.error = error
            }),
          onSuccess: () => CliOutput.defaultPresenter.present(event)
        })
      }
    }),
    CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] })
  )
}

/**
 * Notifies the launcher (`apps/cli/bundle.ts`) that the program has its own signal listeners. The launcher keeps the
 * signals that arrive while the program loads, which would end the process, and now emits them again.
 */
export const handOverSignals = (): void => {
  const events: NodeJS.EventEmitter = process
  events.emit("payments:ready")
}

/**
 * Ends the process with the exit code that {@link run} returned, or after an interrupt with the code of `interrupted`.
 */
export const teardown = (interrupted: () => ExitCode): Runtime.Teardown => (exit, onExit) =>
  onExit(
    Exit.isFailure(exit)
      ? Cause.hasInterruptsOnly(exit.cause) ? interrupted() : ExitCode.unexpected
      : typeof exit.value === "number"
      ? exit.value
      : ExitCode.done
  )

/** `--log-level`, which every command accepts. */
export const LogLevelFlag = GlobalFlag.Setting("log-level")({
  flag: Flag.ChoiceWithValue("log-level", [["debug", "Debug"], ["info", "Info"], ["warn", "Warn"], ["error", "Error"]])
    .pipe(
      Flag.withDescription("the least important messages to print; debug adds each request; default info"),
      Flag.withDefault<LogLevel.LogLevel>("Info")
    )
})
