/** The settings of sources for people: each with the place that it comes from, and without keys. */
import { Destination, printable } from "@payments/copy"
import { Effect } from "effect"
import { handoffSetting } from "../settings/FileTable.ts"
import { variableText } from "../settings/Setting.ts"
import { allSettings, type Setting } from "../settings/SettingTable.ts"
import type { FileSource } from "./FileSource.ts"
import type { SourceSettings } from "./SourceSchema.ts"
import type { Overrides } from "./SourceValues.ts"

/** A setting of a source, for people. */
export interface ShownSetting {
  /** Its name in the sources file. */
  readonly name: string
  /** Its value. Keys, and how to get them, are masked. */
  readonly value: string
  /** Where it comes from: a flag, a variable, `FILE:LINE` or `default`. */
  readonly from: string
}

type Shown = Omit<ShownSetting, "name">

/** Stands for a secret. Its length says nothing about the secret. */
export const masked = "***"

const rows: ReadonlyArray<readonly [name: string, row: Setting]> = Object.entries<Setting>({
  ...allSettings.keys,
  ...allSettings.source,
  handoff: handoffSetting
})

/** Returns the settings shown, and the defaults of the others. */
export const effectiveSettings = (shown: ReadonlyArray<ShownSetting>): ReadonlyArray<ShownSetting> => {
  const find = (name: string) => shown.find((setting) => setting.name === name)
  return rows.flatMap(([name, { unset }]) => {
    const value = typeof unset === "function" ? unset((other) => find(other)?.value) : unset
    return find(name) ?? (value === undefined ? [] : [{ name, value, from: "default" }])
  })
}

const textOf = (value: unknown): string =>
  typeof value !== "object" || value === null
    ? String(value)
    : Array.isArray(value)
    ? value.join(", ")
    : Object.entries(value).map(([name, part]) =>
      typeof part === "object" ? `${name} = { ${textOf(part)} }` : `${name} = ${part}`
    ).join(", ")

/** The rest of an address may contain a secret. */
const handoffText = (handoff: SourceSettings["handoff"] = {}): string =>
  Object.entries(handoff).map(([consumer, { url = "" }]) => `${consumer} = ${new URL(url).origin}`).join(", ")

/** `to` is the destination that a flag names. */
export const shownInFile = (
  { file, overrides, source, to }: {
    readonly file: string
    readonly source: FileSource
    readonly to: Destination.StoredDestination | undefined
    readonly overrides: Overrides
  }
): ReadonlyArray<ShownSetting> => {
  const values: Readonly<Record<string, SourceSettings[keyof SourceSettings]>> = source.settings
  return shownSettings(overrides, ([name, { part }]) => {
    const value = values[name]
    if (name === "to" && to !== undefined) return { value: Destination.shown(to), from: "--to" }
    if (value === undefined) return undefined
    const from = `${printable(file)}:${source.lineOf(name)}`
    if (name === "to" && source.to !== undefined) return { value: Destination.shown(source.to), from }
    if (name === "handoff") return { value: handoffText(source.settings.handoff), from }
    return { value: part === "key" ? masked : textOf(value), from }
  })
}

/** `destination` is the one that a flag or a variable names. */
export const shownInEnvironment = Effect.fnUntraced(function*(
  destination: { readonly to: Destination.StoredDestination; readonly from: string } | undefined,
  overrides: Overrides
) {
  const texts = new Map(
    yield* Effect.forEach(
      rows,
      ([name, { variable }]) =>
        Effect.map(variable === undefined ? Effect.undefined : variableText(variable), (text) => [name, text] as const)
    )
  )
  return shownSettings(overrides, ([name, { part, variable = "" }]) => {
    const value = texts.get(name)
    if (name === "to") {
      return destination === undefined
        ? undefined
        : { value: Destination.shown(destination.to), from: destination.from }
    }
    return value === undefined ? undefined : { value: part === "key" ? masked : value, from: variable }
  })
})

const shownSettings = (
  overrides: Overrides,
  shownOf: (row: typeof rows[number]) => Shown | undefined
): ReadonlyArray<ShownSetting> => {
  const given = new Map(Object.entries(overrides))
  const set = new Map(rows.map((row) => [row[0], shownOf(row)]))
  return rows.flatMap(([name, { default: value }]) => {
    const override = given.get(name)
    // A source has one schedule of full scans.
    const hasOther = name === "cron"
      ? given.get("every") !== undefined
      : name === "every" && set.get("cron") !== undefined
    if (override !== undefined) return [{ name, value: override.text, from: override.from }]
    const shown = hasOther ? undefined : set.get(name) ?? (value === undefined ? undefined : { value, from: "default" })
    return shown === undefined ? [] : [{ name, ...shown }]
  })
}
