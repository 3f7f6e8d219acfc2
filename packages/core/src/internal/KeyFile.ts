/** A key that stands in a file which the environment names. */
import { Effect, FileSystem, Redacted } from "effect"
import { type PlainFileError, readPlainFile } from "../PlainFile.ts"

/** A setting that was read, or what is wrong with it. */
export type Checked<A> = { readonly value: A } | { readonly problem: string }

/** Reads the key, or says why it cannot be read. */
export type KeyFile = Effect.Effect<Checked<Redacted.Redacted<string>>>

/** A key is a line; what is larger is no key. */
const maxBytes = 64 * 1024

/** Reads the key from the file that a setting names, if it names one. The first reading warns where others may read it too. */
export const fileInEnvironment = (
  fs: FileSystem.FileSystem,
  setting: string,
  path: string | undefined
): KeyFile | undefined => {
  if (path === undefined || path === "") return undefined
  let warned = false
  return Effect.gen(function*() {
    const { mode, text } = yield* readPlainFile(path, { maxBytes })
    if ((mode & 0o044) !== 0 && !warned) {
      warned = true
      yield* Effect.logWarning(
        `${setting}: other users may read ${path} (mode ${
          mode.toString(8)
        }). Make it readable by its owner alone: chmod 600.`
      )
    }
    return { value: Redacted.make(text.trim()) }
  }).pipe(
    Effect.catch((error) =>
      Effect.map(nameOf(path, error), (name) => ({ problem: `cannot be used: ${name} ${error.problem}` }))
    ),
    Effect.provideService(FileSystem.FileSystem, fs)
  )
}

/** How the file is called in a message. Where there is none of that name, the setting may hold the key itself. */
const nameOf = (path: string, { kind }: PlainFileError): Effect.Effect<string, never, FileSystem.FileSystem> => {
  if (kind !== "notFound" || looksLikePath(path)) return Effect.succeed(path)
  const [, folder] = /^(\.{0,2}\/[^/]*|[^/]+)\//.exec(path) ?? []
  if (folder === undefined) return Effect.succeed(unnamed)
  return Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.orElseSucceed(fs.exists(folder), () => false)).pipe(
    Effect.map((isThere) => isThere ? path : unnamed)
  )
}

const unnamed = "the file that it names"

/** An absolute path of several names, none of which mixes capitals, small letters and digits as keys do. */
const looksLikePath = (path: string): boolean =>
  /^(?:\/[\w.-]{1,64}){2,}$/.test(path) &&
  !path.split("/").some((name) => [/[a-z]/, /[A-Z]/, /\d/].every((some) => some.test(name)))
