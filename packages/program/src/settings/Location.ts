/**
 * Where the sources file is. It is never a file that merely lies in the working folder, because it can name commands
 * that the programs run.
 */
import { Effect, FileSystem } from "effect"
import { userInfo } from "node:os"
import { isAbsolute, join, resolve } from "node:path"
import { variableText } from "./Setting.ts"

const inConfigurationFolder = join("payments", "payments.toml")

/** The absolute path that the flag `--config`, or without it PAYMENTS_CONFIG, names. */
export const namedFile = (flag: string | undefined): Effect.Effect<string | undefined> =>
  Effect.map(
    flag === undefined ? variableText("PAYMENTS_CONFIG") : Effect.succeed(flag),
    (path) => path === undefined || path === "" ? undefined : resolve(path)
  )

/**
 * Returns the path of the file in the platform's configuration folder, whether it exists or not. Undefined if this user
 * has no home folder. Relative paths in the environment are ignored.
 */
export const usualFile = Effect.fnUntraced(function*(platform: NodeJS.Platform = process.platform) {
  const folder = (name: string) =>
    Effect.map(variableText(name), (path) => path !== undefined && isAbsolute(path) ? path : undefined)
  const home = (yield* folder("HOME")) ?? homeOfUser()
  const inHome = (...names: ReadonlyArray<string>) => home === undefined ? undefined : join(home, ...names)
  const configuration = platform === "win32"
    ? (yield* folder("APPDATA")) ?? inHome("AppData", "Roaming")
    : platform === "darwin"
    ? inHome("Library", "Application Support")
    // https://specifications.freedesktop.org/basedir-spec/latest
    : (yield* folder("XDG_CONFIG_HOME")) ?? inHome(".config")
  return configuration === undefined ? undefined : join(configuration, inConfigurationFolder)
})

const homeOfUser = (): string | undefined => {
  try {
    return userInfo().homedir
  } catch {
    // The system does not know this user, as in many containers.
    return undefined
  }
}

/** Returns {@link usualFile} if it exists. */
export const existingUsualFile = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const file = yield* usualFile()
  if (file === undefined) return undefined
  // If this user may not even look for it, reading it reports that. The home of many system users is no folder.
  const exists = Effect.catch(fs.exists(file), ({ reason }) => Effect.succeed(reason._tag === "PermissionDenied"))
  return (yield* exists) ? file : undefined
})
