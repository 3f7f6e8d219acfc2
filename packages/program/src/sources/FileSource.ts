/** One source of the sources file, with the settings of `[defaults]`, and the checks over several settings. */
import { Destination, type PostgresUrl, realPathIfAny } from "@payments/copy"
import { Lists, PaymentsConfig, type Settings as ServiceSettings } from "@payments/core"
import { Cron, Effect, Result, Schema } from "effect"
import { resolve } from "node:path"
import * as StoreUrl from "../ratelimit/StoreUrl.ts"
import { allSettings, type Setting } from "../settings/SettingTable.ts"
import { pathName } from "./FileIssues.ts"
import type { Schedule } from "./Source.ts"
import { needsKey, ruleOf } from "./SourceRule.ts"
import { SourceSettings } from "./SourceSchema.ts"
import type { Container, TomlDocument, TomlPath } from "./Toml.ts"

export interface FileSource {
  readonly name: string
  /** Its own settings, and those of `[defaults]` that it does not set itself. */
  readonly settings: SourceSettings
  /** `inner`: names in the table of the setting. */
  readonly lineOf: (setting: string, ...inner: ReadonlyArray<string>) => number
  readonly to: Destination.StoredDestination | undefined
  readonly rateLimitStore: PostgresUrl.PostgresUrl | undefined
  readonly full: Schedule | undefined
  readonly window: Schedule | undefined
  readonly head: Schedule | undefined
}

/** A table of the file: the settings that are valid, and all keys that stand there. */
export interface SettingsTable {
  readonly path: TomlPath
  readonly keys: ReadonlySet<string>
  readonly valid: SourceSettings
}

/** Notes a mistake in the line of the path. */
export type Note = (path: TomlPath, problem: string) => void

/** A table can have only one of these. A source that sets one of them inherits none of the others. */
const alternatives = [
  ["api_key_file", "api_key_env", "api_key_command"],
  ["invoices_api_key_file", "invoices_api_key_env", "invoices_api_key_command"],
  ["personal_key_file", "personal_key_env", "personal_key_command"],
  ["every", "cron"]
] as const satisfies ReadonlyArray<ReadonlyArray<keyof SourceSettings>>

/** `isInvalid` says which settings do not match the schema. */
export const tableOf = (path: TomlPath, table: Container, isInvalid: (path: TomlPath) => boolean): SettingsTable => {
  const keys = Object.keys(table)
  const valid = Object.fromEntries(keys.filter((key) => !isInvalid([...path, key])).map((key) => [key, table[key]]))
  return { path, keys: new Set(keys), valid: decode(valid) }
}

const decode = Schema.decodeUnknownSync(SourceSettings)

/** Checks settings that exclude or need each other. */
export const checkTable = ({ keys, path, valid }: SettingsTable, note: Note): void => {
  for (const group of alternatives) {
    const [first, second] = group.filter((setting) => keys.has(setting))
    if (first !== undefined && second !== undefined) {
      note([...path, second], `${pathName(path)} sets both ${first} and ${second}. Set one of them.`)
    }
  }
  for (const pass of ["window", "head"] as const) {
    const settings = valid[pass]
    if (settings !== undefined && (settings.every === undefined) === (settings.cron === undefined)) {
      note([...path, pass], `${pathName(path)}.${pass} needs either every or cron.`)
    }
  }
}

const merged = (own: SettingsTable, defaults: SettingsTable) => {
  const isInherited = (setting: string): boolean => {
    const group: ReadonlyArray<string> = alternatives.find((names) => names.some((one) => one === setting)) ?? [setting]
    return !group.some((one) => own.keys.has(one))
  }
  const inherited = Object.entries(defaults.valid).filter(([setting]) => isInherited(setting))
  const isSet = (setting: string) => own.keys.has(setting) || (defaults.keys.has(setting) && isInherited(setting))
  return {
    settings: decode({ ...Object.fromEntries(inherited), ...own.valid }),
    isSet,
    pathOf: (setting: string): TomlPath =>
      own.keys.has(setting) || !isSet(setting) ? [...own.path, setting] : [...defaults.path, setting]
  }
}

/** Combines a source with the defaults, and checks what needs the settings of both. */
export const sourceOf = Effect.fnUntraced(function*(
  { defaults, document: { lineOf }, folder, name, note, own }: {
    readonly name: string
    readonly own: SettingsTable
    readonly defaults: SettingsTable
    readonly document: TomlDocument
    readonly folder: string
    readonly note: Note
  }
): Effect.fn.Return<FileSource> {
  const { isSet, pathOf, settings } = merged(own, defaults)
  const problem = (setting: string, text: string) => note(pathOf(setting), `${pathName(pathOf(setting))} ${text}`)
  for (const text of lacksOf(isSet)) note(own.path, `${pathName(own.path)} ${text}`)
  for (const { problem: text, setting } of problemsOf(settings, isSet, pathName(own.path))) problem(setting, text)
  if (settings.handoff !== undefined) {
    // Few sources have one, so its code is loaded only here.
    const { handoffProblems } = yield* Effect.promise(() => import("./HandoffProblems.ts"))
    for (const { consumer, problem: text, setting } of handoffProblems(settings)) {
      const at = [...pathOf("handoff"), consumer, ...setting === undefined ? [] : [setting]]
      note(at, `${pathName(at)} ${text}`)
    }
  }
  const scheduleOf = (setting: "cron" | "window" | "head", times: Times | undefined): Schedule | undefined => {
    const schedule = scheduleAt(times, settings.time_zone)
    if (schedule?._tag === "Cron" && !occurs(schedule.cron)) problem(setting, "names a time that never comes.")
    return schedule
  }
  return {
    name,
    settings,
    lineOf: (setting, ...inner) => lineOf([...pathOf(setting), ...inner]),
    to: settings.to === undefined
      ? undefined
      : yield* destinationOf(settings.to, folder, (text) => problem("to", `is no destination. ${text}`)),
    rateLimitStore: settings.rate_limit_store === undefined
      ? undefined
      : databaseIn(StoreUrl.parse(settings.rate_limit_store), folder, (text) => problem("rate_limit_store", text)),
    full: scheduleOf("cron", settings),
    window: scheduleOf("window", settings.window),
    head: scheduleOf("head", settings.head)
  }
})

/** Returns what a source needs and does not set. */
const lacksOf = (isSet: (setting: string) => boolean): ReadonlyArray<string> => [
  ...(isSet("base_url") ? [] : ["has no base_url."]),
  ...(alternatives[0].some(isSet) ? [] : ["has no key. Set api_key_file, api_key_env or api_key_command."])
]

/** The lists that a window pass can read. */
const windowed = Lists.all.filter(({ windowFilter }) => windowFilter !== undefined)

/** The settings match the schema. */
const problemsOf = (settings: SourceSettings, isSet: (setting: string) => boolean, source: string) => [
  ...PaymentsConfig.problemsOf(serviceTexts(settings)).flatMap(({ problem, setting: variable }) => {
    const setting = settingOf(variable)
    // A base address that is missing, or is no text, has been reported.
    return setting === undefined || settings[setting] === undefined ? [] : [{ setting, problem: `${problem}.` }]
  }),
  ...(settings.window !== undefined && !windowed.some(({ label }) => settings.lists?.includes(label) ?? true)
    ? [{
      setting: "window",
      problem: `reads ${windowed.map(({ title }) => title).join(", ")}, which are not in the lists of ${source}.`
    }]
    : []),
  ...Object.entries(settings.journal?.accounts ?? {}).flatMap(([label, account]) =>
    account === settings.journal?.clearing_account
      ? [{
        setting: "journal",
        problem: `has the same account in clearing_account and in accounts.${label}, so its journal would say nothing.`
      }]
      : []
  ),
  ...ruleOf(settings, alternatives[2].some(isSet)).problems.map(({ problem, setting }) => ({
    setting,
    problem: problem === needsKey
      ? `${problem}. Set personal_key_file, personal_key_env or personal_key_command.`
      : `${problem}.`
  }))
]

interface Times {
  readonly every?: string
  readonly cron?: string
}

const scheduleAt = ({ cron, every }: Times = {}, timeZone = "UTC"): Schedule | undefined => {
  const interval = every === undefined ? undefined : allSettings.source.every.type.parse(every)
  if (interval !== undefined) return { _tag: "Every", every: interval }
  const parsed = cron === undefined ? undefined : Cron.parse(cron, timeZone)
  return parsed === undefined || Result.isFailure(parsed) ? undefined : { _tag: "Cron", cron: parsed.success }
}

/** Returns the setting of the file that an environment variable resembles. */
export const settingOf = (variable: string): keyof SourceSettings | undefined =>
  sourceRows.find(([, row]) => row.variable === variable)?.[0]

export const sourceRows = Object.entries<Setting>(allSettings.source) as ReadonlyArray<
  readonly [keyof SourceSettings, Setting] // the keys of its own rows
>

/** Returns the settings of the service as texts of environment variables. */
export const serviceTexts = (settings: SourceSettings) => ({
  PAYMENTS_BASE_URL: settings.base_url,
  PAYMENTS_INVOICES_BASE_URL: settings.invoices_base_url,
  PAYMENTS_ACCOUNT: settings.account,
  PAYMENTS_INVOICE_PARAMS: Object.entries(settings.invoice_params ?? {}).map((pair) => pair.join("=")).join(","),
  PAYMENTS_MAX_REQUESTS_PER_SECOND: settings.max_requests_per_second?.toString(),
  PAYMENTS_UNCHECKED_FILTERS: settings.unchecked_filters?.join(",")
} satisfies ServiceSettings)

const occurs = (cron: Cron.Cron): boolean => {
  try {
    Cron.next(cron)
    return true
  } catch {
    // It throws if there is none in the next years.
    return false
  }
}

/** Returns the database of a URL in the file, or notes why it is none. Paths are relative to the folder of the file. */
export const databaseIn = (
  parsed: Result.Result<PostgresUrl.PostgresUrl, string>,
  folder: string,
  note: (problem: string) => void
): PostgresUrl.PostgresUrl | undefined => {
  const problem = Result.isFailure(parsed)
    ? parsed.failure
    : parsed.success.password !== undefined
    ? "No password stands in this file. Set PGPASSFILE or PGPASSWORD instead."
    : undefined
  if (problem !== undefined) note(`is no database. ${problem}`)
  if (problem !== undefined || Result.isFailure(parsed)) return undefined
  const { sslRootCert } = parsed.success
  return { ...parsed.success, sslRootCert: sslRootCert === undefined ? undefined : resolve(folder, sslRootCert) }
}

/** Paths are relative to the folder of the file. */
const destinationOf = Effect.fnUntraced(function*(
  text: string,
  folder: string,
  note: (problem: string) => void
): Effect.fn.Return<Destination.StoredDestination | undefined> {
  const parsed = yield* Effect.result(Destination.parse(text, "file"))
  const refuse = (problem: string) => {
    note(problem)
    return undefined
  }
  if (Result.isFailure(parsed)) {
    // The problem can repeat a path. Without a known scheme, the text may be anything.
    return refuse(
      Destination.hasScheme(text) ? parsed.failure.problem : `It must begin with ${Destination.beginnings}.`
    )
  }
  const destination = parsed.success
  return Destination.isStored(destination)
    ? Destination.operations(destination).relativeTo(folder)
    : refuse("Stdout (-) stores nothing.")
})

/** A text that is the same for two spellings of one destination, as far as this machine can know. */
export const identityOf = (destination: Destination.StoredDestination): Effect.Effect<string> => {
  const { place } = Destination.operations(destination)
  return place.isLocal ? Effect.sync(() => `file ${realPathIfAny(place.file) ?? place.file}`) : place.spelling
}
