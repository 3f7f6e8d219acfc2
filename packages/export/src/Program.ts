/**
 * What both programs do with their arguments, errors and exit codes: a usage error says what is wrong on stderr and puts
 * nothing on stdout; any other error is one line on stderr; the exit code is that of the design. Only main files import
 * this entry, so that the library does not load a command line.
 */
import { Cause, Config, Console, Duration, Effect, Exit, Layer, Option, type Runtime } from "effect"
import { CliConfig, CliError, CliOutput, Command, Flag, GlobalFlag } from "effect/cli"
import ms from "ms"
import * as Destination from "./Destination.ts"
import { checkAll, codeOf, Ended, type ProgramError, usage } from "./Ended.ts"
import { ExitCode } from "./ExitCode.ts"
import { unknownSettings } from "./Settings.ts"
import { say } from "./Talk.ts"
import { canColor, canRedraw } from "./TerminalRules.ts"
import { usageText } from "./UsageText.ts"

export { canRedraw, checkAll, Ended, type ProgramError, usage }
export { type ListenProblem, listenProblem } from "./Listening.ts"
export { drawProgress, eraseProgress, guardOutput, lineLogger, print, printOrEnd, requireOutput, say } from "./Talk.ts"

/** Runs a command line to its exit code. */
export const run = <const Name extends string, Input, R, Context>(
  command: Command.Command<Name, Input, Context, ProgramError, R>,
  args: ReadonlyArray<string>,
  version: string,
  /** The names of the environment's variables. */
  variables: ReadonlyArray<string> = []
) =>
  Effect.forEach(unknownSettings(variables), (line) => say(`${command.name}: ${line}`), { discard: true }).pipe(
    Effect.andThen(Command.runWith(command, { version })(args)),
    Effect.as<ExitCode>(ExitCode.done),
    Effect.catch((error) => {
      // The presenter below has said it.
      if (CliError.isCliError(error)) return Effect.succeed(ExitCode.usage)
      const lines = error.message === "" ? [] : error.message.split("\n")
      return Effect.as(
        Effect.forEach(lines, (line) => say(`${command.name}: ${line}`), { discard: true }),
        codeOf(error)
      )
    }),
    Effect.catchCauseIf(
      (cause) => !Cause.hasInterruptsOnly(cause),
      (cause) => Effect.as(say(`${command.name}: unexpected: ${Cause.pretty(cause)}`), ExitCode.unexpected)
    ),
    Effect.provide(presentation(command.name, args))
  )

const presentation = (name: string, args: ReadonlyArray<string>) =>
  Layer.mergeAll(
    Layer.unwrap(Effect.map(canColor, (colors) =>
      CliOutput.layer({
        ...CliOutput.defaultFormatter({ colors }),
        formatVersion: (_name, version) => version
      }))),
    CliOutput.layerPresenter({
      present: (event) =>
        event._tag === "InvalidInvocation"
          ? Console.error(
            [
              ...event.errors.map((error) => `${name}: ${usageText(error, args)}`),
              `See ${event.commandPath.join(" ")} --help`
            ].join("\n")
          )
          : CliOutput.defaultPresenter.present(event)
    }),
    CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] })
  )

/**
 * Called when the program has its own listeners for signals: those that came while it was loaded are emitted again for them.
 * Until then the launcher (`apps/cli/bundle.ts`) keeps signals, which would otherwise end the process.
 */
export const handOverSignals = (): void => {
  const events: NodeJS.EventEmitter = process
  events.emit("payments:ready")
}

/** Ends the process with the exit code that {@link run} came to; an interrupt ends it as `interrupted` says. */
export const teardown = (interrupted: () => ExitCode): Runtime.Teardown => (exit, onExit) =>
  onExit(
    Exit.isFailure(exit)
      ? Cause.hasInterruptsOnly(exit.cause) ? interrupted() : ExitCode.unexpected
      : typeof exit.value === "number"
      ? exit.value
      : ExitCode.done
  )

/** How the text of a setting is read: undefined where it is not `expected`. */
export interface Reading<A> {
  readonly read: (text: string) => A | undefined
  readonly expected: string
}

/** A flag, or in its absence the environment's variable, if there is one. What is wrong is said of the one that it came from. */
export const setting = Effect.fnUntraced(function*<A>(
  flag: { readonly name: string; readonly text: string | undefined },
  variable: string | undefined,
  { expected, read }: Reading<A>
) {
  const text = flag.text ?? (variable === undefined
    ? undefined
    : yield* Effect.orDie(Config.String(variable).pipe(Config.withDefault(undefined))))
  if (text === undefined) return undefined
  const value = read(text)
  if (value !== undefined) return value
  return yield* usage(
    `Invalid value for ${flag.text === undefined ? variable : `--${flag.name}`}. Expected: ${expected}`
  )
})

/** Where an export writes: to one that is kept, or where `more` says. */
export const toFlag = (more = "") =>
  textFlag(
    "to",
    "DESTINATION",
    `sqlite:FILE, postgres://HOST/DATABASE or file:FOLDER?format=ndjson|csv|parquet${more} (PAYMENTS_TO)`
  )
/** Where an export wrote. */
export const fromFlag = textFlag(
  "from",
  "DESTINATION",
  "where an export wrote: sqlite:FILE, postgres://HOST/DATABASE or file:FOLDER (PAYMENTS_TO)"
)

/**
 * The destination that a flag, or in its absence PAYMENTS_TO, names. Only there a password may stand in it: every user of the
 * machine can read the arguments.
 */
export const destinationOf = Effect.fnUntraced(
  function*(flag: { readonly name: string; readonly text: string | undefined }) {
    const text = yield* setting(flag, "PAYMENTS_TO", {
      expected: "a destination",
      read: (given) => given === "" ? undefined : given
    })
    if (text === undefined) return yield* usage(`There is no destination: give --${flag.name} or set PAYMENTS_TO.`)
    const [name, from] = flag.text === undefined
      ? ["PAYMENTS_TO", "environment"] as const
      : [`--${flag.name}`, "argument"] as const
    return yield* Effect.mapError(
      Destination.parse(text, from),
      ({ problem }) => new Destination.DestinationError({ problem: `${name}: ${problem}` })
    )
  }
)

/** {@inheritDoc destinationOf} One that keeps nothing is refused with these words. */
export const keptDestinationOf = Effect.fnUntraced(
  function*(flag: { readonly name: string; readonly text: string | undefined }, refusal: string) {
    const destination = yield* destinationOf(flag)
    return destination._tag === "Stdout" ? yield* usage(refusal) : destination
  }
)

/** The destination that `--from`, or PAYMENTS_TO, names. */
export const originOf = (text: string | undefined) =>
  keptDestinationOf(
    { name: "from", text },
    "What was exported to - (stdout) is kept nowhere: name a database or files."
  )

/** A duration as people write it. A number without a unit is not one to guess about. */
export const duration: Reading<Duration.Duration> = {
  expected: "a duration such as 90s, 5m or 2h",
  read: (text) => {
    // `ms` takes the texts that it knows and answers undefined for others.
    const millis = /^\d+(\.\d+)? ?[a-z]+$/i.test(text) && text.length <= 100 ? ms(text as ms.StringValue) : undefined
    return millis !== undefined && millis > 0 ? Duration.millis(millis) : undefined
  }
}

/** A share, as a percentage. */
const percentage: Reading<number> = {
  expected: "a percentage from 0% to 100%",
  read: (text) => {
    const share = /^\d{1,3}(\.\d+)?%$/.test(text) ? Number.parseFloat(text) / 100 : Number.NaN
    return share >= 0 && share <= 1 ? share : undefined
  }
}

const onLocked: Reading<"refuse" | "wait"> = {
  expected: "refuse or wait",
  read: (text) => text === "refuse" || text === "wait" ? text : undefined
}

const names: Reading<ReadonlyArray<string>> = {
  expected: "names of fields, with commas between them",
  read: (text) => {
    const fields = text.split(",").map((name) => name.trim())
    return fields.every((name) => name !== "") ? fields : undefined
  }
}

/** How to scan, for both programs. Each can also come from the environment. */
export const scanFlags = {
  patience: textFlag(
    "patience",
    "DURATION",
    "how long a page that keeps failing is asked for again; 15m unless given (PAYMENTS_PATIENCE)"
  ),
  onLocked: textFlag(
    "on-locked",
    "refuse|wait",
    "what to do while another program writes the same list; refuse unless given (PAYMENTS_ON_LOCKED)"
  ),
  ignoreFields: textFlag(
    "ignore-field",
    "NAMES",
    "fields whose difference alone is no change, such as authUrl (PAYMENTS_IGNORE_FIELD)"
  ),
  missingLimit: textFlag(
    "missing-limit",
    "PERCENT",
    "the share of a list that may be marked missing at once; 10% unless given (PAYMENTS_MISSING_LIMIT)"
  )
}

/** What those flags, or their variables, say. */
export const scanOptionsOf = (given: {
  readonly patience: string | undefined
  readonly onLocked: string | undefined
  readonly ignoreFields: string | undefined
  readonly missingLimit: string | undefined
}) =>
  checkAll({
    patience: setting({ name: "patience", text: given.patience }, "PAYMENTS_PATIENCE", duration),
    onLocked: setting({ name: "on-locked", text: given.onLocked }, "PAYMENTS_ON_LOCKED", onLocked),
    ignoredFields: setting({ name: "ignore-field", text: given.ignoreFields }, "PAYMENTS_IGNORE_FIELD", names),
    missingLimit: setting({ name: "missing-limit", text: given.missingLimit }, "PAYMENTS_MISSING_LIMIT", percentage)
  })

/** A flag that need not be given. */
export function optionalFlag<A>(flag: Flag.Flag<A>): Flag.Flag<A | undefined> {
  return Flag.map(Flag.optional(flag), Option.getOrUndefined)
}

const numberReading = (expected: string, isExpected: (number: number) => boolean): Reading<number> => ({
  expected,
  read: (text) => {
    const number = /^[+-]?(\d+(\.\d*)?|\.\d+)(e\d+)?$/i.test(text) ? Number(text) : Number.NaN
    return Number.isFinite(number) && isExpected(number) ? number : undefined
  }
})

/** A whole number from `minimum` to `maximum`; without the latter, any from `minimum` on. */
export const wholeNumber = (minimum: number, maximum?: number): Reading<number> =>
  numberReading(
    maximum === undefined ? `a whole number, ${minimum} or more` : `a whole number from ${minimum} to ${maximum}`,
    (number) => Number.isSafeInteger(number) && number >= minimum && number <= (maximum ?? Infinity)
  )

/** A flag that takes a number. What is wrong with it is reported alone: use {@link setting} beside other checks. */
const numberFlag = (name: string, { expected, read }: Reading<number>): Flag.Flag<number> =>
  Flag.String(name).pipe(
    Flag.withMetavar("NUMBER"),
    Flag.mapEffect((text) => {
      const number = read(text)
      return number === undefined
        ? Effect.fail(new CliError.InvalidValue({ option: name, value: text, expected, kind: "flag" }))
        : Effect.succeed(number)
    })
  )

/** A flag that takes a {@link wholeNumber}. */
export const wholeNumberFlag = (name: string, minimum: number, maximum?: number): Flag.Flag<number> =>
  numberFlag(name, wholeNumber(minimum, maximum))

/** A flag that takes a number from `minimum` to `maximum`. */
export const rangeFlag = (name: string, minimum: number, maximum: number): Flag.Flag<number> =>
  numberFlag(
    name,
    numberReading(`a number from ${minimum} to ${maximum}`, (number) => number >= minimum && number <= maximum)
  )

/** A flag that takes text and need not be given. */
export function textFlag(name: string, metavar: string, description: string): Flag.Flag<string | undefined> {
  return optionalFlag(
    Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description))
  )
}
