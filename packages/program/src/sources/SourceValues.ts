/** The values of a source's settings: those of the file, and what flags and environment variables override. */
import { PostgresUrl } from "@payments/copy"
import { Effect, Record, Result } from "effect"
import { checkAll, type ProgramError, usage } from "../outcome/ProgramError.ts"
import * as StoreUrl from "../ratelimit/StoreUrl.ts"
import { inputName } from "../settings/Flags.ts"
import { type Given, given, type TextSetting, variableText } from "../settings/Setting.ts"
import { allSettings, type Setting } from "../settings/SettingTable.ts"
import type { SourceSettings } from "./SourceSchema.ts"

type Rows = typeof allSettings.source
type Name = keyof Rows

/** The value of a setting, as its parser returns it. */
type Value<N extends Name> = Rows[N]["type"] extends { readonly parse: (text: string) => infer A } ? NonNullable<A>
  : never

type PartOf<N extends Name> = Rows[N] extends { readonly part: infer Part } ? Part : undefined

type OverridableName = { [N in Name]: PartOf<N> extends undefined | "schedule" | "scan" ? N : never }[Name]

type CamelCase<N extends string> = N extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<CamelCase<Rest>>}`
  : N

type MemberName = { [N in Name]: PartOf<N> extends undefined ? N : never }[Name]

/** Settings without a part are members of a source, such as `maxAge` for `max_age`. */
export type SourceMembers =
  & {
    readonly [N in MemberName as Rows[N] extends { readonly default: string } ? CamelCase<N> : never]: Value<N>
  }
  & {
    readonly [N in MemberName as Rows[N] extends { readonly default: string } ? never : CamelCase<N>]?:
      | Value<N>
      | undefined
  }

/** The flags of a command that override settings of the sources, by the names of its input. */
export type SourceOverrides = { readonly [flag: string]: unknown; readonly to?: string | undefined }

/** The overrides that are set, by the names of the file. */
export type Overrides = { readonly [N in OverridableName]?: Given<Value<N>> | undefined } & {
  readonly rate_limit_store?: Given<PostgresUrl.PostgresUrl> | undefined
}

/** The URL in the environment may contain a password. */
export const rateLimitStore: Effect.Effect<Given<PostgresUrl.PostgresUrl> | undefined, ProgramError> = Effect.gen(
  function*() {
    const from = allSettings.source.rate_limit_store.variable
    const text = yield* variableText(from)
    if (text === undefined) return undefined
    const parsed = StoreUrl.parse(text)
    if (Result.isFailure(parsed)) return yield* usage(`${from}: ${parsed.failure}`)
    return { value: parsed.success, text: PostgresUrl.shown(parsed.success), from }
  }
)

const rows: Readonly<Record<string, Setting>> = allSettings.source

const isOverridable = ({ flag, part, variable }: Setting): boolean =>
  (part === undefined || part === "schedule" || part === "scan") && (flag !== undefined || variable !== undefined)

/** A flag overrides its variable. */
export const overridesOf = (flags: SourceOverrides): Effect.Effect<Overrides, ProgramError> => {
  const textOf = ({ flag = ["", ""] }: TextSetting<unknown>) => {
    const text = flags[inputName(flag[0])]
    return typeof text === "string" ? text : undefined
  }
  const checks = Record.map(Record.filter(rows, isOverridable), (row) => {
    // Only settings with a parser have a flag or a variable that overrides the file.
    const text = row as TextSetting<unknown>
    return given(text, textOf(text))
  })
  // `Record.map` loses the type of each row.
  return checkAll({ ...checks, rate_limit_store: rateLimitStore }) as Effect.Effect<Overrides, ProgramError>
}

/** Returns what overrides the setting, else the value of the file. */
export const valueOf = <N extends OverridableName>(
  name: N,
  file: SourceSettings,
  overrides: Overrides
): Value<N> | undefined => {
  const override: Given<unknown> | undefined = overrides[name]
  const { type }: Setting = allSettings.source[name]
  // The type of the row's value in the file is that of its schema.
  const fromFile = type.fromFile as ((value: unknown) => unknown) | undefined
  const value = override?.value ?? (file[name] === undefined ? undefined : fromFile?.(file[name]))
  return value as Value<N> | undefined // the parser of the same row returned it
}

export const membersOf = (file: SourceSettings, overrides: Overrides): SourceMembers =>
  // `fromEntries` loses the names.
  Object.fromEntries(
    Object.entries(rows).flatMap(([name, { default: text, part, type }]) => {
      if (part !== undefined) return []
      const key = name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
      const otherwise = text === undefined ? undefined : type.parse?.(text)
      return [[key, valueOf(name as MemberName, file, overrides) ?? otherwise]]
    })
  ) as unknown as SourceMembers
