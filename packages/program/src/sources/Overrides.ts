/** The settings of sources that a flag or an environment variable overrides. */
import { PostgresUrl } from "@payments/copy"
import { Effect, Result } from "effect"
import { checkAll, type ProgramError, usage } from "../outcome/ProgramError.ts"
import * as StoreUrl from "../ratelimit/StoreUrl.ts"
import * as Setting from "../settings/Setting.ts"
import { duration, fieldNames, interval, onLocked, percentage, type SettingParser } from "../settings/SettingParser.ts"

/** The texts of the flags that override settings of the sources. */
export interface SourceOverrides {
  readonly to?: string | undefined
  readonly every?: string | undefined
  readonly patience?: string | undefined
  readonly onLocked?: string | undefined
  readonly ignoreFields?: string | undefined
  readonly missingLimit?: string | undefined
}

/** A setting that a flag or a variable overrides. */
export interface Override<A> {
  readonly value: A
  readonly text: string
  readonly from: string
}

const overrideOf = Effect.fnUntraced(function*<A>(
  flag: string,
  given: string | undefined,
  variable: string,
  parser: SettingParser<A>
) {
  const text = given ?? (yield* Setting.variableText(variable))
  const value = yield* Setting.setting({ name: flag, text: given }, variable, parser)
  const override: Override<A> | undefined = text === undefined || value === undefined
    ? undefined
    : { value, text, from: given === undefined ? variable : `--${flag}` }
  return override
})

/** Reads the rate limit store of the environment, whose URL may contain a password. */
export const rateLimitStore: Effect.Effect<Override<PostgresUrl.PostgresUrl> | undefined, ProgramError> = Effect.gen(
  function*() {
    const from = "PAYMENTS_RATE_LIMIT_STORE"
    const text = yield* Setting.variableText(from)
    if (text === undefined) return undefined
    const parsed = StoreUrl.parse(text)
    if (Result.isFailure(parsed)) return yield* usage(`${from}: ${parsed.failure}`)
    return { value: parsed.success, text: PostgresUrl.shown(parsed.success), from }
  }
)

/** Reads the overrides. A flag overrides its variable. */
export const overridesOf = (flags: SourceOverrides) =>
  checkAll({
    every: overrideOf("every", flags.every, "PAYMENTS_EVERY", interval),
    patience: overrideOf("patience", flags.patience, "PAYMENTS_PATIENCE", duration),
    on_locked: overrideOf("on-locked", flags.onLocked, "PAYMENTS_ON_LOCKED", onLocked),
    ignore_fields: overrideOf("ignore-field", flags.ignoreFields, "PAYMENTS_IGNORE_FIELD", fieldNames),
    rate_limit_store: rateLimitStore,
    missing_limit: overrideOf("missing-limit", flags.missingLimit, "PAYMENTS_MISSING_LIMIT", percentage)
  })

/** The overrides that are set, by the names of the file. */
export type Overrides = Effect.Success<ReturnType<typeof overridesOf>>
