/**
 * How both programs handle arguments, errors and exit codes. A usage error is explained on stderr and writes nothing to
 * stdout. Any other error is one line on stderr. With `--format json` or `ndjson` every error is one line of JSON
 * (`ErrorFacts`). This is a separate entry of the package, so that the library does not load the command line's code.
 */
import { Cause, ConfigProvider, Console, Effect, Exit, Layer, type LogLevel, Option, type Runtime } from "effect"
import { CliConfig, CliError, CliOutput, Command, Flag, GlobalFlag } from "effect/cli"
import { errorText, logError, logLine, messageFormatOf, Messages, onTerminal, requireOutput } from "./ConsoleOutput.ts"
import { DestinationError, parse as parseDestination, type StoredDestination } from "./DestinationUrl.ts"
import { ExitCode } from "./ExitCode.ts"
import { helpFormatter } from "./HelpText.ts"
import { nearest } from "./Nearest.ts"
import {
  checkAll,
  CommandExit,
  type ErrorFacts,
  factsOf,
  interruptedFacts,
  type Next,
  nextMembers,
  type ProgramError,
  programExitCodeOf,
  usage,
  withNext
} from "./ProgramError.ts"
import { RenamedNames, warningsOfVariables, withCurrentCommand, withCurrentFlags, withOldVariables } from "./Renamed.ts"
import { setting, variableText } from "./Setting.ts"
import {
  duration,
  fieldNames,
  numberParser,
  onLocked,
  percentage,
  type SettingParser,
  wholeNumber
} from "./SettingParser.ts"
import { unknownSettings } from "./Settings.ts"
import { chosenBoundTo, ChosenSource } from "./sources/ChosenSource.ts"
import type { LoadedSource } from "./sources/LoadSources.ts"
import { emptyRuleVariables } from "./sources/RuleVariables.ts"
import type { Source } from "./sources/Source.ts"
import { printable } from "./Stdout.ts"
import { systemProblem } from "./SystemProblem.ts"
import { canColor, canRedraw, canRedrawScreen, terminalWidth } from "./TerminalRules.ts"
import { usageText, withoutFlagValues } from "./UsageText.ts"

export { requestOf } from "./ChildRequest.ts"
export { ExitCode } from "./ExitCode.ts"
export { realPathOf } from "./RealPath.ts"
export { fileLength as stdoutFileLength, layerProcess as layerStdout } from "./Stdout.ts"
export {
  canColor,
  canRedraw,
  canRedrawScreen,
  checkAll,
  CommandExit,
  factsOf,
  type Next,
  nextMembers,
  type ProgramError,
  programExitCodeOf,
  terminalWidth,
  usage,
  withNext
}
export {
  drawProgress,
  eraseProgress,
  flushOrEnd,
  handleOutputErrors,
  lineLogger,
  logLine,
  logNote,
  print,
  printOrEnd,
  requireOutput
} from "./ConsoleOutput.ts"
export { checkPaths, type FieldPath, readPath, readPaths, unquoted } from "./FieldPath.ts"
export { wordsIn } from "./HelpWidth.ts"
export { isLoopback, type ListenProblem, listenProblem } from "./ListenProblem.ts"
export { nearest } from "./Nearest.ts"
export { RenamedNames, withCurrentCommand } from "./Renamed.ts"
export { setting, variableText } from "./Setting.ts"
export { duration, interval, type SettingParser, wholeNumber } from "./SettingParser.ts"
export {
  chosenBoundTo,
  chosenConfig,
  chosenPersonal,
  chosenRateLimitStore,
  ChosenSource,
  ConfigFlag,
  environmentPersonal,
  SourceFlag
} from "./sources/ChosenSource.ts"

/** Runs a command line and returns its exit code. Names that have changed still work, with a warning. */
export const run = <const Name extends string, Input, R, Context>(
  command: Command.Command<Name, Input, Context, ProgramError, R>,
  given: ReadonlyArray<string>,
  version: string,
  /** The environment's variables. */
  environment: Readonly<Record<string, string | undefined>> = {},
  /** The name of the subcommand that checks the settings. */
  settingsCheck?: string
) =>
  Effect.flatMap(Effect.all([RenamedNames, ConfigProvider.ConfigProvider]), ([renamed, provider]) => {
    const named = withCurrentCommand(command.name, given, renamed.commands)
    const { args, warnings } = withCurrentFlags(named.args, renamed.flags)
    const variables = Object.keys(environment)
    const known = variables.filter((name) => !renamed.variables.some(({ from }) => from === name))
    const notes = [
      ...named.warnings,
      ...warnings,
      ...warningsOfVariables(variables, renamed.variables),
      ...unknownSettings(known)
    ]
    return Effect.forEach(notes, (line) => logLine(`${command.name}: ${line}`), { discard: true }).pipe(
      Effect.andThen(runCurrent(command, args, version, settingsCheck)),
      Effect.provideService(
        ConfigProvider.ConfigProvider,
        ConfigProvider.orElse(withOldVariables(provider, renamed.variables), emptyRuleVariables(environment))
      ),
      Effect.provideService(Messages, { format: messageFormatOf(args), next: undefined })
    )
  })

const runCurrent = <const Name extends string, Input, R, Context>(
  command: Command.Command<Name, Input, Context, ProgramError, R>,
  args: ReadonlyArray<string>,
  version: string,
  settingsCheck: string | undefined
) => {
  const format = messageFormatOf(args)
  const path = commandPathOf(command, args)
  const nextOf = ({ exitCode, next, reason }: ErrorFacts): Next | null =>
    next !== null
      ? next
      : reason === "Usage"
      ? helpOf(path)
      : exitCode === ExitCode.configuration && settingsCheck !== undefined && path[1] !== settingsCheck
      ? `${command.name} ${settingsCheck}${settingsFlags(args)}`
      : null
  const fail = (error: ProgramError) => {
    const facts = factsOf(error)
    // A command that ends silently has printed its message, or its reader has closed the output.
    if (facts.exitCode === ExitCode.done || (error.message === "" && format === "text")) return Effect.void
    return logError(command.name, { ...facts, next: nextOf(facts) })
  }
  /** Help or a version that cannot be printed. */
  const refused: { error?: ProgramError } = {}
  return Command.runWith(command, { version })(path.at(-1) === "query" ? withStatements(args) : args)
    .pipe(
      Effect.catch((error) => refused.error === undefined ? Effect.fail(error) : Effect.void),
      Effect.andThen(Effect.suspend(() =>
        refused.error === undefined
          ? Effect.succeed<ExitCode>(ExitCode.done)
          : Effect.fail(refused.error)
      )),
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
 * Puts white space before an SQL statement that begins with a comment, so that it is not read as a flag. A comment has white space
 * before any `=`, which no flag has, or is followed by another line.
 */
const withStatements = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  args.map((word) => /^--(?:[^=\s]*\s|[^\n]*\n)/.test(word) ? ` ${word}` : word)

const helpOf = (commandPath: ReadonlyArray<string>): string => `${commandPath.join(" ")} --help`

/**
 * Returns the flags of the words that name the settings and the destination, to check the same ones. A destination that may
 * contain a password is left out.
 */
const settingsFlags = (args: ReadonlyArray<string>): string =>
  args.flatMap((word, index) => {
    const [, flag, text = args[index + 1] ?? ""] = /^--(source|config|to)(?:=(.*))?$/s.exec(word) ?? []
    return flag === undefined || printable(text) !== text || (flag === "to" && /@|password/i.test(text))
      ? []
      : [` --${flag} ${/^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`}`]
  }).join("")

/** A word of the command line that is where a command should be. */
interface UnknownCommand {
  readonly word: string
  /** The command that has no such subcommand, with its parents. */
  readonly path: ReadonlyArray<string>
}

/** Returns the command that the words name, with its parents, and the first word that should name a command but does not. */
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

const commandPathOf = (command: Command.Command.Any, args: ReadonlyArray<string>): ReadonlyArray<string> =>
  commandIn(command, args).path

/** Returns the names of the subcommands of the command at the path, without unlisted ones. */
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

/** The output of help, versions and usage errors. What cannot be printed is an error in `refused`. */
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
 * Notifies the launcher (`apps/cli/bundle.ts`) that the program has its own signal listeners. The launcher keeps the signals
 * that arrive while the program loads, which would otherwise end the process, and now emits them again.
 */
export const handOverSignals = (): void => {
  const events: NodeJS.EventEmitter = process
  events.emit("payments:ready")
}

/** Ends the process with the exit code that {@link run} returned, or after an interrupt with the code of `interrupted`. */
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

/** The destination of an export. `more` is help text about further kinds of destination. */
export const toFlag = (more = "") =>
  textFlag(
    "to",
    "DESTINATION",
    `sqlite:FILE, postgres://HOST/DATABASE or file:FOLDER?format=ndjson|csv|parquet${more} (PAYMENTS_TO)`
  )
/** The destination that a command reads. */
export const fromFlag = textFlag(
  "from",
  "DESTINATION",
  "where an export wrote: sqlite:FILE, postgres://HOST/DATABASE or file:FOLDER (PAYMENTS_TO)"
)

/**
 * Returns the destination that a flag, or without the flag PAYMENTS_TO, names. Only PAYMENTS_TO may contain a password,
 * because every user of the machine can read the arguments.
 */
export const destinationOf = Effect.fnUntraced(
  function*(flag: { readonly name: string; readonly text: string | undefined }) {
    const text = yield* setting(flag, "PAYMENTS_TO", {
      expected: "a destination",
      parse: (given) => given === "" ? undefined : given
    })
    if (text === undefined) return yield* usage(`There is no destination: give --${flag.name} or set PAYMENTS_TO.`)
    const [name, from] = flag.text === undefined
      ? ["PAYMENTS_TO", "environment"] as const
      : [`--${flag.name}`, "argument"] as const
    return yield* Effect.mapError(
      parseDestination(text, from),
      ({ problem }) => new DestinationError({ problem: `${name}: ${problem}` })
    )
  }
)

/** {@inheritDoc destinationOf} Stdout, which stores nothing, fails with the text `refusal`. */
export const storedDestinationOf = Effect.fnUntraced(
  function*(flag: { readonly name: string; readonly text: string | undefined }, refusal: string) {
    const destination = yield* destinationOf(flag)
    return destination._tag === "Stdout" ? yield* usage(refusal) : destination
  }
)

/** Returns the source whose destination a command reads. Undefined if `--from` or PAYMENTS_TO names the destination. */
export const sourceOfDestination = (from: string | undefined) =>
  from === undefined ? Effect.flatMap(ChosenSource, ({ forDestination }) => forDestination) : Effect.undefined

/** Returns the sources whose destinations a command shows. Empty if `--from` or PAYMENTS_TO names the destination. */
export const sourcesOfDestinations = (from: string | undefined) =>
  from === undefined ? Effect.flatMap(ChosenSource, ({ forDestinations }) => forDestinations) : Effect.succeed([])

/**
 * Returns the stored destination that a flag, by default `--from`, names, or without it the destination of the chosen source or
 * PAYMENTS_TO. The environment with PAYMENTS_TO may describe a source, too: opening the copy of another one then fails.
 */
export const fromDestination = Effect.fnUntraced(function*(text: string | undefined, name = "from") {
  const source = yield* sourceOfDestination(text)
  if (source !== undefined) return yield* copyOf(source, name)
  const destination = yield* storedDestinationOf(
    { name, text },
    "An export to - (stdout) stores nothing. Name a database or a folder of files."
  )
  if (text !== undefined) return destination
  // A command that reads a copy needs no valid settings of a service.
  const boundTo = yield* Effect.orElseSucceed(chosenBoundTo("forDestination"), () => undefined)
  return { ...destination, boundTo } satisfies StoredDestination
})

/** Returns the destination as {@link fromDestination} does, or undefined if none is named. */
export const fromDestinationIfAny = Effect.fnUntraced(function*(text: string | undefined) {
  const source = yield* sourceOfDestination(text)
  if (source !== undefined) return source.to === undefined ? undefined : yield* copyOf(source, "from")
  return text === undefined && (yield* variableText("PAYMENTS_TO")) === undefined
    ? undefined
    : yield* fromDestination(text)
})

/** Returns the destination that `--to` names, or without it the destination of the chosen source or PAYMENTS_TO. */
export const toDestination = Effect.fnUntraced(function*(text: string | undefined) {
  const source = text === undefined ? yield* (yield* ChosenSource).forService : undefined
  return source === undefined ? yield* destinationOf({ name: "to", text }) : yield* destinationIn(source, "to")
})

/** Returns the destination of the source to read or maintain. Opening it fails if it has the copy of another source. */
export const copyOf = Effect.fnUntraced(function*(source: LoadedSource, flag: string) {
  const { boundTo, to } = yield* Effect.all({ boundTo: source.boundTo, to: destinationIn(source, flag) })
  return { ...to, boundTo } satisfies StoredDestination
})

const destinationIn = ({ name, to }: Source, flag: string) =>
  to === undefined
    ? Effect.fail(usage(`The source ${name} has no destination: give --${flag}, or set to in the sources file.`))
    : Effect.succeed(to)

/** The flags of a scan, for both programs. Each has an environment variable too. */
export const scanFlags = {
  patience: textFlag(
    "patience",
    "DURATION",
    "how long to retry a page that keeps failing; default 15m (PAYMENTS_PATIENCE)"
  ),
  onLocked: textFlag(
    "on-locked",
    "refuse|wait",
    "what to do while another program writes the same list; default refuse, for an endless worker wait (PAYMENTS_ON_LOCKED)"
  ),
  ignoreFields: textFlag(
    "ignore-field",
    "NAMES",
    "fields to ignore when comparing records, such as authUrl (PAYMENTS_IGNORE_FIELD)"
  ),
  missingLimit: textFlag(
    "missing-limit",
    "PERCENT",
    "the share of a list that may be marked missing at once; default 10%; up to 3 rows always, unless it is 0% (PAYMENTS_MISSING_LIMIT)"
  )
}

/** The texts of the {@link scanFlags}. */
interface GivenScanFlags {
  readonly patience: string | undefined
  readonly onLocked: string | undefined
  readonly ignoreFields: string | undefined
  readonly missingLimit: string | undefined
}

/** Parses the {@link scanFlags} or their environment variables. What they leave out comes from the chosen source. */
export const chosenScanOptionsOf = Effect.fnUntraced(function*(given: GivenScanFlags) {
  const { options, source } = yield* checkAll({
    options: scanOptionsOf(given),
    source: (yield* ChosenSource).forService
  })
  return source === undefined ? options : {
    patience: options.patience ?? source.scan.patience,
    onLocked: options.onLocked ?? source.scan.onLocked,
    ignoredFields: options.ignoredFields ?? source.scan.ignoredFields,
    missingLimit: options.missingLimit ?? source.scan.missingLimit
  }
})

/** Parses the {@link scanFlags} or their environment variables. */
export const scanOptionsOf = (given: GivenScanFlags) =>
  checkAll({
    patience: setting({ name: "patience", text: given.patience }, "PAYMENTS_PATIENCE", duration),
    onLocked: setting({ name: "on-locked", text: given.onLocked }, "PAYMENTS_ON_LOCKED", onLocked),
    ignoredFields: setting({ name: "ignore-field", text: given.ignoreFields }, "PAYMENTS_IGNORE_FIELD", fieldNames),
    missingLimit: setting({ name: "missing-limit", text: given.missingLimit }, "PAYMENTS_MISSING_LIMIT", percentage)
  })

/** An optional flag. */
export function optionalFlag<A>(flag: Flag.Flag<A>): Flag.Flag<A | undefined> {
  return Flag.map(Flag.optional(flag), Option.getOrUndefined)
}

/** A flag with a number. Its error is reported alone: use {@link setting} to report it with other errors. */
const numberFlag = (name: string, { expected, parse }: SettingParser<number>): Flag.Flag<number> =>
  Flag.String(name).pipe(
    Flag.withMetavar("NUMBER"),
    Flag.mapEffect((text) => {
      const number = parse(text)
      return number === undefined
        ? Effect.fail(new CliError.InvalidValue({ option: name, value: text, expected, kind: "flag" }))
        : Effect.succeed(number)
    })
  )

/** A flag with a {@link wholeNumber}. */
export const wholeNumberFlag = (name: string, minimum: number, maximum?: number): Flag.Flag<number> =>
  numberFlag(name, wholeNumber(minimum, maximum))

/** A flag with a number from `minimum` to `maximum`. */
export const rangeFlag = (name: string, minimum: number, maximum: number): Flag.Flag<number> =>
  numberFlag(
    name,
    numberParser(`a number from ${minimum} to ${maximum}`, (number) => number >= minimum && number <= maximum)
  )

/** An optional flag with text. */
export function textFlag(name: string, metavar: string, description: string): Flag.Flag<string | undefined> {
  return optionalFlag(
    Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description))
  )
}
