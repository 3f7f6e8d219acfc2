/** The service of a source in the file: its keys come from files, variables or commands. */
import { printable } from "@payments/copy"
import { type KeySource, makeKeyFile, PaymentsConfig, PaymentsConfigError, processSettings } from "@payments/core"
import { Config, Effect, type FileSystem } from "effect"
import { dirname, resolve } from "node:path"
import { makeKeyCommand } from "../settings/KeyCommand.ts"
import { type FileSource, serviceTexts, settingOf } from "./FileSource.ts"
import type { Source } from "./Source.ts"

/** Returns the place of a setting in the file, for messages. */
const placeOf = (file: string, lineOf: (setting: string) => number) => (setting: string) =>
  `${printable(file)}:${lineOf(setting)}: ${setting}`

/** How the settings of the file name a key. */
interface NamedKey {
  readonly file: string | undefined
  readonly variable: string | undefined
  readonly command: ReadonlyArray<string> | undefined
}

/** Returns undefined if no setting names the key. `setting` is the beginning of their names. */
export const keySourceFrom = (
  named: NamedKey,
  { file, fs, lineOf, setting }: {
    readonly file: string
    readonly fs: FileSystem.FileSystem
    readonly setting: string
    readonly lineOf: (setting: string) => number
  }
): KeySource | undefined => {
  const place = placeOf(file, lineOf)
  const folder = dirname(file)
  if (named.file !== undefined) {
    return makeKeyFile(fs, place(`${setting}_file`), named.file, (path) => resolve(folder, path))
  }
  if (named.command !== undefined) return makeKeyCommand(place(`${setting}_command`), named.command, folder)
  return named.variable === undefined
    ? undefined
    : { setting: place(`${setting}_env`), read: keyInVariable(named.variable) }
}

/** Returns undefined if no setting names the key. */
export const keySourceOf = (
  file: string,
  { lineOf, settings }: FileSource,
  fs: FileSystem.FileSystem,
  key: "api_key" | "invoices_api_key" | "personal_key"
): KeySource | undefined =>
  keySourceFrom(
    { file: settings[`${key}_file`], variable: settings[`${key}_env`], command: settings[`${key}_command`] },
    { file, fs, setting: key, lineOf }
  )

/** Errors name the settings of the file. */
export const serviceOf = (file: string, source: FileSource, fs: FileSystem.FileSystem): Source["service"] => {
  const place = placeOf(file, source.lineOf)
  const texts = {
    ...serviceTexts(source.settings),
    PAYMENTS_API_KEY_FILE: keySourceOf(file, source, fs, "api_key"),
    PAYMENTS_INVOICES_API_KEY_FILE: keySourceOf(file, source, fs, "invoices_api_key")
  }
  return Effect.flatMap(processSettings, (process) => PaymentsConfig.fromSettings({ ...texts, ...process })).pipe(
    Effect.mapError(({ problems }) =>
      new PaymentsConfigError({
        problems: problems.map(({ problem, setting }) => {
          const inFile = settingOf(setting)
          return { problem, setting: inFile === undefined ? setting : place(inFile) }
        })
      })
    )
  )
}

export const keyInVariable = (name: string): KeySource["read"] =>
  Effect.map(
    Effect.orDie(Config.Redacted(name).pipe(Config.withDefault(undefined))),
    (key) => key === undefined ? { problem: "names a variable that is not set" } : { value: key }
  )
