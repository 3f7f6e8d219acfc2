/** Reads a setting from a flag or from the environment. */
import { Config, Effect } from "effect"
import { usage } from "../outcome/ProgramError.ts"
import type { SettingParser } from "./SettingParser.ts"

/** Returns the text of an environment variable, or undefined if it is not set or empty. */
export const variableText = (name: string): Effect.Effect<string | undefined> =>
  Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))

/** Reads a flag, or without the flag an environment variable. The error of an invalid value names where it came from. */
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
