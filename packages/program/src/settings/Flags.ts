/** Flags of commands, and their values. */
import { Effect, Option } from "effect"
import { CliError, Flag } from "effect/cli"
import { numberParser, type SettingParser, wholeNumber } from "./Parsers.ts"
import type { Setting, Settings } from "./SettingTable.ts"

/** An optional flag. */
export function optionalFlag<A>(flag: Flag.Flag<A>): Flag.Flag<A | undefined> {
  return Flag.map(Flag.optional(flag), Option.getOrUndefined)
}

/** Its error is reported alone: use `setting` to report it with other errors. */
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

/** A flag without a value, which is false unless it is given. */
export const switchFlag = (name: string, description: string): Flag.Flag<boolean> =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

type Flagged = Setting & Required<Pick<Setting, "flag">>

/** The flag of a setting. By default, its help is that of the table, with the name of the variable. */
export const settingFlag = (
  { flag: [name, metavar], flagMeaning, meaning, variable }: Flagged,
  help: string = flagMeaning ?? meaning.replaceAll("`", "")
): Flag.Flag<string | undefined> => textFlag(name, metavar, variable === undefined ? help : `${help} (${variable})`)

/** The name of a flag in the input of a command, such as `onLocked`. */
type InputName<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<InputName<Rest>>}`
  : Name

type FlagsOf<Rows, Program extends NonNullable<Setting["program"]>> = {
  readonly [
    Name in keyof Rows as Rows[Name] extends { readonly flag: readonly [infer Flag extends string, string] }
      ? Rows[Name] extends { readonly program: Exclude<NonNullable<Setting["program"]>, Program> } ? never
      : InputName<Flag>
      : never
  ]: Flag.Flag<string | undefined>
}

export const inputName = (flag: string): string =>
  flag.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())

/** The flags of the settings that a program has, by the names of a command's input. */
export const settingFlags = <const Rows extends Settings, const Program extends NonNullable<Setting["program"]>>(
  rows: Rows,
  program: Program
): FlagsOf<Rows, Program> =>
  // `fromEntries` loses the names.
  Object.fromEntries(
    Object.values<Setting>(rows).flatMap((row) =>
      row.flag === undefined || (row.program ?? program) !== program
        ? []
        : [[inputName(row.flag[0]), settingFlag({ ...row, flag: row.flag })]]
    )
  ) as FlagsOf<Rows, Program>
