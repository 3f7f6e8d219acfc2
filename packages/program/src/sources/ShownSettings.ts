/** The settings of sources for people: each with the place that it comes from, and without keys. */
import { Destination, printable } from "@payments/copy"
import { Lists } from "@payments/core"
import { Effect } from "effect"
import * as Setting from "../settings/Setting.ts"
import { type FileSource, serviceSettings } from "./FileSource.ts"
import type { Overrides } from "./Overrides.ts"
import { ruleVariables } from "./RuleVariables.ts"
import { SourceSettings } from "./SourceSchema.ts"

/** A setting of a source, for people. */
export interface ShownSetting {
  /** Its name in the sources file. */
  readonly name: string
  /** Its value. Keys, and how to get them, are masked. */
  readonly value: string
  /** Where it comes from: a flag, a variable, `FILE:LINE` or `default`. */
  readonly from: string
}

/** A value and its place. */
type Shown = Omit<ShownSetting, "name">

/** The defaults that people may want to see. */
const defaultTexts: { readonly [Name in keyof SourceSettings]?: string } = {
  lists: Lists.all.map(({ label }) => label).join(", "),
  every: "5m",
  order: "unknown",
  patience: "15m",
  on_locked: "refuse",
  missing_limit: "10%"
}

/** Stands for a secret. Its length says nothing about the secret. */
export const masked = "***"

/** The defaults of all other settings that are in effect although nothing sets them. */
const otherDefaults: { readonly [Name in keyof SourceSettings]?: string } = {
  account: "none",
  invoice_params: "none renamed",
  unchecked_filters: "none",
  max_requests_per_second: "no limit",
  rate_limit_store: "none",
  time_zone: "UTC",
  window: "none",
  head: "none",
  max_age: "any",
  runner: "any",
  ignore_fields: "none",
  personal: "keep",
  omit: "none",
  pseudonymize: "none",
  keep: "none",
  keep_changes: "for ever",
  keep_scans: "for ever",
  keep_missing: "for ever",
  keep_snapshots: "1"
}

/** Returns all settings that are in effect: those shown, and the defaults of the others. */
export const effectiveSettings = (shown: ReadonlyArray<ShownSetting>): ReadonlyArray<ShownSetting> => {
  const valueOf = (name: string) => shown.find((setting) => setting.name === name)?.value
  const defaults = Object.entries({
    invoices_base_url: valueOf("base_url"),
    to: "none",
    undocumented: (valueOf("personal") ?? "keep") === "keep" ? "keep" : "omit",
    ...otherDefaults
  }).flatMap(
    ([name, value]) => value === undefined ? [] : [{ name, value, from: "default" }]
  )
  const order = ["api_key", "invoices_api_key", "personal_key", ...settingNames]
  return [...shown, ...defaults.filter(({ name }) => valueOf(name) === undefined)].toSorted((one, other) =>
    order.indexOf(one.name) - order.indexOf(other.name)
  )
}

/** The environment variables of keys, and the settings of the file that they resemble. */
export const keyVariables = [
  ["PAYMENTS_API_KEY", "api_key"],
  ["PAYMENTS_API_KEY_FILE", "api_key_file"],
  ["PAYMENTS_INVOICES_API_KEY", "invoices_api_key"],
  ["PAYMENTS_INVOICES_API_KEY_FILE", "invoices_api_key_file"],
  ["PAYMENTS_PERSONAL_KEY", "personal_key"],
  ["PAYMENTS_PERSONAL_KEY_FILE", "personal_key_file"]
] as const

const isKey = (name: string): boolean => /^((invoices_)?api|personal)_key/.test(name)

const settingNames = Object.keys(SourceSettings.fields) as ReadonlyArray<keyof SourceSettings> // the keys of its own fields

const textOf = (value: NonNullable<SourceSettings[keyof SourceSettings]>): string =>
  typeof value !== "object"
    ? String(value)
    : Array.isArray(value)
    ? value.join(", ")
    : Object.entries(value).map(([name, part]) => `${name} = ${part}`).join(", ")

/** Returns the settings of a source in the file. `to` is the destination that a flag names. */
export const shownInFile = (
  file: string,
  source: FileSource,
  to: Destination.StoredDestination | undefined,
  overrides: Overrides
): ReadonlyArray<ShownSetting> => {
  const set = new Map<string, Shown>()
  for (const name of settingNames) {
    const value = source.settings[name]
    if (value === undefined) continue
    const from = `${printable(file)}:${source.lineOf(name)}`
    set.set(name, { value: isKey(name) ? masked : textOf(value), from })
    if (name === "to" && source.to !== undefined) set.set(name, { value: Destination.shown(source.to), from })
  }
  if (to !== undefined) set.set("to", { value: Destination.shown(to), from: "--to" })
  return shownSettings(set, overrides)
}

/** Returns the settings of the environment. `destination` is the one that a flag or a variable names. */
export const shownInEnvironment = Effect.fnUntraced(function*(
  destination: { readonly to: Destination.StoredDestination; readonly from: string } | undefined,
  overrides: Overrides
) {
  const set = new Map<string, Shown>()
  for (const [variable, name] of [...serviceSettings, ...ruleVariables, ...keyVariables]) {
    const text = yield* Setting.variableText(variable)
    if (text !== undefined) set.set(name, { value: isKey(name) ? masked : text, from: variable })
  }
  if (destination !== undefined) {
    set.set("to", { value: Destination.shown(destination.to), from: destination.from })
  }
  return shownSettings(set, overrides)
})

/** Adds overrides and defaults to the settings that are set. */
const shownSettings = (
  set: ReadonlyMap<string, Shown>,
  overrides: Overrides
): ReadonlyArray<ShownSetting> =>
  [...new Set(["api_key", "invoices_api_key", "personal_key", ...settingNames])].flatMap((name) => {
    const override = Object.entries(overrides).find(([setting]) => setting === name)?.[1]
    const hasOtherSchedule = name === "cron" ? overrides.every !== undefined : name === "every" && set.has("cron")
    const fallback = Object.entries(defaultTexts).find(([setting]) => setting === name)?.[1]
    const shown = override !== undefined
      ? { value: override.text, from: override.from }
      : hasOtherSchedule
      ? undefined
      : set.get(name) ?? (fallback === undefined ? undefined : { value: fallback, from: "default" })
    return shown === undefined ? [] : [{ name, ...shown }]
  })
