/** One source of the sources file: its settings with those of `[defaults]`, and the checks over several settings. */
import { Destination, type PostgresUrl, realPathIfAny } from "@payments/copy"
import { Lists, PaymentsConfig, type Settings as ServiceSettings } from "@payments/core"
import { Cron, Effect, Result, Schema } from "effect"
import { resolve } from "node:path"
import * as StoreUrl from "../ratelimit/StoreUrl.ts"
import { interval } from "../settings/SettingParser.ts"
import { pathName } from "./FileIssues.ts"
import { needsKey, ruleOf } from "./RuleSettings.ts"
import type { Schedule } from "./Source.ts"
import { SourceSettings } from "./SourceSchema.ts"
import type { Container, TomlDocument, TomlPath } from "./Toml.ts"

/** A source as the file describes it. */
export interface FileSource {
  readonly name: string
  /** Its own settings, and those of `[defaults]` that it does not set itself. */
  readonly settings: SourceSettings
  /** Returns the line of a setting. */
  readonly lineOf: (setting: keyof SourceSettings) => number
  readonly to: Destination.StoredDestination | undefined
  readonly rateLimitStore: PostgresUrl.PostgresUrl | undefined
  /** The schedules that are set. */
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

/** Settings of which a table can have only one. A source that sets one of them inherits none of the others. */
const alternatives = [
  ["api_key_file", "api_key_env", "api_key_command"],
  ["invoices_api_key_file", "invoices_api_key_env", "invoices_api_key_command"],
  ["personal_key_file", "personal_key_env", "personal_key_command"],
  ["every", "cron"]
] as const satisfies ReadonlyArray<ReadonlyArray<keyof SourceSettings>>

/** Reads the settings in a table. `isInvalid` says which of them do not match the schema. */
export const tableOf = (path: TomlPath, table: Container, isInvalid: (path: TomlPath) => boolean): SettingsTable => {
  const keys = Object.keys(table)
  const valid = Object.fromEntries(keys.filter((key) => !isInvalid([...path, key])).map((key) => [key, table[key]]))
  return { path, keys: new Set(keys), valid: decode(valid) }
}

const decode = Schema.decodeUnknownSync(SourceSettings)

/** Checks the settings of a table that exclude or need each other. */
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

/** Combines a source with the defaults, and checks what needs the settings of both. */
export const sourceOf = Effect.fnUntraced(function*(
  name: string,
  own: SettingsTable,
  defaults: SettingsTable,
  { lineOf }: TomlDocument,
  folder: string,
  note: Note
): Effect.fn.Return<FileSource> {
  const isInherited = (setting: string): boolean => {
    const group: ReadonlyArray<string> = alternatives.find((names) => names.some((one) => one === setting)) ?? [setting]
    return !group.some((one) => own.keys.has(one))
  }
  const inherited = Object.entries(defaults.valid).filter(([setting]) => isInherited(setting))
  const settings = decode({ ...Object.fromEntries(inherited), ...own.valid })
  const isSet = (setting: string) => own.keys.has(setting) || (defaults.keys.has(setting) && isInherited(setting))
  const pathOf = (setting: string): TomlPath =>
    own.keys.has(setting) || !isSet(setting) ? [...own.path, setting] : [...defaults.path, setting]
  const problem = (setting: string, text: string) => note(pathOf(setting), `${pathName(pathOf(setting))} ${text}`)

  if (!isSet("base_url")) note(own.path, `${pathName(own.path)} has no base_url.`)
  if (!alternatives[0].some(isSet)) {
    note(own.path, `${pathName(own.path)} has no key. Set api_key_file, api_key_env or api_key_command.`)
  }
  for (const { problem: text, setting } of PaymentsConfig.problemsOf(serviceTexts(settings))) {
    const inFile = serviceSettings.find(([variable]) => variable === setting)?.[1]
    // A base address that is missing, or is no text, has been reported.
    if (inFile !== undefined && settings[inFile] !== undefined) problem(inFile, `${text}.`)
  }
  if (settings.head !== undefined && settings.order !== "newest-first") {
    problem("head", `needs order = "newest-first", which ${pathName(own.path)} does not have.`)
  }
  const windowed = Lists.all.filter(({ windowFilter }) => windowFilter !== undefined)
  if (settings.window !== undefined && !windowed.some(({ label }) => settings.lists?.includes(label) ?? true)) {
    problem(
      "window",
      `reads ${windowed.map(({ title }) => title).join(", ")}, which are not in the lists of ${pathName(own.path)}.`
    )
  }
  for (const { problem: text, setting } of ruleOf(settings, alternatives[2].some(isSet)).problems) {
    problem(
      setting,
      text === needsKey ? `${text}. Set personal_key_file, personal_key_env or personal_key_command.` : `${text}.`
    )
  }
  const scheduleOf = (
    setting: "cron" | "window" | "head",
    times: { readonly every?: string; readonly cron?: string } | undefined
  ): Schedule | undefined => {
    const every = times?.every === undefined ? undefined : interval.parse(times.every)
    if (every !== undefined) return { _tag: "Every", every }
    if (times?.cron === undefined) return undefined
    const cron = Cron.parse(times.cron, settings.time_zone ?? "UTC")
    if (Result.isFailure(cron)) return undefined
    if (!occurs(cron.success)) problem(setting, "names a time that never comes.")
    return { _tag: "Cron", cron: cron.success }
  }
  return {
    name,
    settings,
    lineOf: (setting) => lineOf(pathOf(setting)),
    to: settings.to === undefined
      ? undefined
      : yield* destinationOf(settings.to, folder, (text) => problem("to", `is no destination. ${text}`)),
    rateLimitStore: settings.rate_limit_store === undefined
      ? undefined
      : storeOf(settings.rate_limit_store, folder, (text) => problem("rate_limit_store", `is no database. ${text}`)),
    full: scheduleOf("cron", settings),
    window: scheduleOf("window", settings.window),
    head: scheduleOf("head", settings.head)
  }
})

/** The environment variables that correspond to settings of the file, except those of the keys. */
export const serviceSettings = [
  ["PAYMENTS_BASE_URL", "base_url"],
  ["PAYMENTS_INVOICES_BASE_URL", "invoices_base_url"],
  ["PAYMENTS_ACCOUNT", "account"],
  ["PAYMENTS_INVOICE_PARAMS", "invoice_params"],
  ["PAYMENTS_MAX_REQUESTS_PER_SECOND", "max_requests_per_second"],
  ["PAYMENTS_UNCHECKED_FILTERS", "unchecked_filters"]
] as const satisfies ReadonlyArray<readonly [keyof ServiceSettings, keyof SourceSettings]>

/** Returns the settings of the service as texts of environment variables. */
export const serviceTexts = (settings: SourceSettings): ServiceSettings => ({
  PAYMENTS_BASE_URL: settings.base_url,
  PAYMENTS_INVOICES_BASE_URL: settings.invoices_base_url,
  PAYMENTS_ACCOUNT: settings.account,
  PAYMENTS_INVOICE_PARAMS: Object.entries(settings.invoice_params ?? {}).map((pair) => pair.join("=")).join(","),
  PAYMENTS_MAX_REQUESTS_PER_SECOND: settings.max_requests_per_second?.toString(),
  PAYMENTS_UNCHECKED_FILTERS: settings.unchecked_filters?.join(",")
})

const occurs = (cron: Cron.Cron): boolean => {
  try {
    Cron.next(cron)
    return true
  } catch {
    // It throws if there is none in the next years.
    return false
  }
}

/** Parses the URL of a rate limit store. */
const storeOf = (
  text: string,
  folder: string,
  note: (problem: string) => void
): PostgresUrl.PostgresUrl | undefined => {
  const parsed = StoreUrl.parse(text)
  const problem = Result.isFailure(parsed)
    ? parsed.failure
    : parsed.success.password !== undefined
    ? "No password stands in this file. Set PGPASSFILE or PGPASSWORD instead."
    : undefined
  if (problem !== undefined) note(problem)
  return problem !== undefined || Result.isFailure(parsed) ? undefined : inFolder(parsed.success, folder)
}

/** The paths of a URL in the file are relative to the folder of the file. */
const inFolder = (url: PostgresUrl.PostgresUrl, folder: string): PostgresUrl.PostgresUrl =>
  url.sslRootCert === undefined ? url : { ...url, sslRootCert: resolve(folder, url.sslRootCert) }

/** Parses a destination of the file. Its paths are relative to the folder of the file. */
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

/** Returns a text that is the same for two spellings of one destination, as far as this machine can know. */
export const identityOf = (destination: Destination.StoredDestination): Effect.Effect<string> => {
  const { place } = Destination.operations(destination)
  return place.isLocal ? Effect.sync(() => `file ${realPathIfAny(place.file) ?? place.file}`) : place.spelling
}
