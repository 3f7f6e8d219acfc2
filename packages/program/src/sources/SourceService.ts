/** The service of a source in the file: its keys come from files, variables or commands. */
import { printable } from "@payments/copy"
import { type KeySource, makeKeyFile, PaymentsConfig, PaymentsConfigError, processSettings } from "@payments/core"
import { Config, Effect, type FileSystem } from "effect"
import { dirname, resolve } from "node:path"
import { makeKeyCommand } from "../settings/KeyCommand.ts"
import { type FileSource, serviceTexts, settingOf } from "./FileSource.ts"
import type { Source } from "./Source.ts"
import type { SourceSettings } from "./SourceSchema.ts"

/** Returns the place of a setting in the file, for messages. */
const placeOf = (file: string, { lineOf }: FileSource) => (setting: keyof SourceSettings) =>
  `${printable(file)}:${lineOf(setting)}: ${setting}`

/** Returns undefined if no setting names the key. */
export const keySourceOf = (
  file: string,
  source: FileSource,
  fs: FileSystem.FileSystem,
  key: "api_key" | "invoices_api_key" | "personal_key"
): KeySource | undefined => {
  const place = placeOf(file, source)
  const folder = dirname(file)
  const keyFile = source.settings[`${key}_file`]
  const variable = source.settings[`${key}_env`]
  const command = source.settings[`${key}_command`]
  if (keyFile !== undefined) return makeKeyFile(fs, place(`${key}_file`), keyFile, (path) => resolve(folder, path))
  if (command !== undefined) return makeKeyCommand(place(`${key}_command`), command, folder)
  return variable === undefined ? undefined : { setting: place(`${key}_env`), read: keyInVariable(variable) }
}

/** Errors name the settings of the file. */
export const serviceOf = (file: string, source: FileSource, fs: FileSystem.FileSystem): Source["service"] => {
  const place = placeOf(file, source)
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
