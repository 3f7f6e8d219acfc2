/** Reads a setting from a flag or from the environment. */
import { Config, Effect } from "effect"
import { usage } from "../outcome/ProgramError.ts"
import type { SettingParser } from "./Parsers.ts"

/** Returns the text of an environment variable, or undefined if it is not set or empty. */
export const variableText = (name: string): Effect.Effect<string | undefined> =>
  Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))

/** Whether one of these environment variables is set. */
export const isAnySet = (variables: ReadonlyArray<string>): Effect.Effect<boolean> =>
  Effect.map(Effect.forEach(variables, variableText), (texts) => texts.some((text) => text !== undefined))

/** Reads a flag, or without it an environment variable. The error of an invalid value names where it came from. */
export const setting = Effect.fnUntraced(function*<A>(
  flag: { readonly name: string; readonly text: string | undefined },
  variable: string | undefined,
  { expected, parse }: SettingParser<A>
) {
  const text = flag.text ?? (variable === undefined ? undefined : yield* variableText(variable))
  if (text === undefined) return undefined
  const value = parse(text)
  if (value !== undefined) return value
  return yield* usage(
    `Invalid value for ${flag.text === undefined ? variable : `--${flag.name}`}. Expected: ${expected}`
  )
})

/** A row of the table that texts can set. */
export interface TextSetting<A> {
  readonly type: SettingParser<A>
  readonly variable?: string
  readonly flag?: readonly [name: string, metavar: string]
}

/** A value, its text, and the flag or variable that set it. */
export interface Given<A> {
  readonly value: A
  readonly text: string
  readonly from: string
}

/** Reads a setting of the table from the text of its flag, or without it from its variable. */
export const given = Effect.fnUntraced(
  function*<A>({ flag: [name] = ["", ""], type, variable }: TextSetting<A>, flag?: string) {
    const text = flag ?? (variable === undefined ? undefined : yield* variableText(variable))
    const value = yield* setting({ name, text: flag }, variable, {
      expected: type.expected.replaceAll("`", ""),
      parse: type.parse
    })
    const found: Given<A> | undefined = text === undefined || value === undefined
      ? undefined
      : { value, text, from: flag === undefined ? variable ?? "" : `--${name}` }
    return found
  }
)

/** Reads the value of a setting of the table as {@link given} does. */
export const valueGiven = <A>(row: TextSetting<A>, flag?: string) =>
  Effect.map(given(row, flag), (found) => found?.value)
