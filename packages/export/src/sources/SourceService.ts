/** The configuration of the service of a source in the file: its keys come from files, variables or commands. */
import { type KeySource, makeKeyFile, PaymentsConfig, PaymentsConfigError, processSettings } from "@payments/core"
import { Config, Effect, type FileSystem } from "effect"
import { dirname, resolve } from "node:path"
import { printable } from "../Stdout.ts"
import { type FileSource, serviceSettings, serviceTexts } from "./FileSource.ts"
import { makeKeyCommand } from "./KeyCommand.ts"
import type { Source } from "./Source.ts"
import type { SourceSettings } from "./SourceSchema.ts"

/** Returns the configuration of the service of a source in the file. Errors name the settings of the file. */
export const serviceOf = (
  file: string,
  { lineOf, settings }: FileSource,
  fs: FileSystem.FileSystem
): Source["service"] => {
  const place = (setting: keyof SourceSettings) => `${printable(file)}:${lineOf(setting)}: ${setting}`
  const folder = dirname(file)
  const keyFrom = (prefix: "" | "invoices_"): KeySource | undefined => {
    const keyFile = settings[`${prefix}api_key_file`]
    const variable = settings[`${prefix}api_key_env`]
    const command = settings[`${prefix}api_key_command`]
    return keyFile !== undefined
      ? makeKeyFile(fs, place(`${prefix}api_key_file`), keyFile, (path) => resolve(folder, path))
      : command !== undefined
      ? makeKeyCommand(place(`${prefix}api_key_command`), command, folder)
      : variable !== undefined
      ? { setting: place(`${prefix}api_key_env`), read: keyInVariable(variable) }
      : undefined
  }
  const texts = {
    ...serviceTexts(settings),
    PAYMENTS_API_KEY_FILE: keyFrom(""),
    PAYMENTS_INVOICES_API_KEY_FILE: keyFrom("invoices_")
  }
  return Effect.flatMap(processSettings, (process) => PaymentsConfig.fromSettings({ ...texts, ...process })).pipe(
    Effect.mapError(({ problems }) =>
      new PaymentsConfigError({
        problems: problems.map(({ problem, setting }) => {
          const inFile = serviceSettings.find(([variable]) => variable === setting)?.[1]
          return { problem, setting: inFile === undefined ? setting : place(inFile) }
        })
      })
    )
  )
}

const keyInVariable = (name: string): KeySource["read"] =>
  Effect.map(
    Effect.orDie(Config.Redacted(name).pipe(Config.withDefault(undefined))),
    (key) => key === undefined ? { problem: "names a variable that is not set" } : { value: key }
  )
