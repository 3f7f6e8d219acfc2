/** Flags of commands, and their values. */
import { Effect, Option } from "effect"
import { CliError, Flag } from "effect/cli"
import { numberParser, type SettingParser, wholeNumber } from "../settings/SettingParser.ts"

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
