/** The key in a file that the environment names. */
import { Effect, FileSystem, Redacted } from "effect"
import { readPlainFile } from "../PlainFile.ts"

/** A setting that was read, or what is wrong with it. */
export type Checked<A> = { readonly value: A } | { readonly problem: string }

/** Reads the key, or says why it cannot be read. */
export type KeyFile = Effect.Effect<Checked<Redacted.Redacted<string>>>

/** More than any key has. */
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
      Effect.map(nameOf(path), (name) => ({ problem: `cannot be used: ${name} ${error.problem}` }))
    ),
    Effect.provideService(FileSystem.FileSystem, fs)
  )
}

/**
 * The file as a message may name it: by its path where the path is that of something that exists, or looks like one. Any
 * other text may be the key itself, which somebody has put in the wrong variable.
 */
const nameOf = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const exists = (one: string) => Effect.orElseSucceed(fs.exists(one), () => false)
  const [, folder = path] = /^(\.{0,2}\/[^/]*|[^/]+)\//.exec(path) ?? []
  return looksLikePath(path) || (yield* exists(path)) || (yield* exists(folder)) ? path : "the file that it names"
})

/** A path from the root or from `~`, none of whose names mixes capitals, small letters and digits as keys do. */
const looksLikePath = (path: string): boolean =>
  /^(?:~(?:\/[\w.-]{1,64})+|(?:\/[\w.-]{1,64}){2,})$/.test(path) &&
  !path.split("/").some((name) => [/[a-z]/, /[A-Z]/, /\d/].every((some) => some.test(name)))
