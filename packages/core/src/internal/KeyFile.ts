/** Reads the API key from the file that an environment variable names. */
import { Effect, FileSystem, Redacted } from "effect"
import { readPlainFile } from "../PlainFile.ts"

/** The value of a setting, or what is wrong with it. */
export type Checked<A> = { readonly value: A } | { readonly problem: string }

/** An effect that reads the key file each time it runs. */
export type KeyFile = Effect.Effect<Checked<Redacted.Redacted<string>>>

/** Larger than any key. */
const maxBytes = 64 * 1024

/**
 * Returns the effect that reads the key file at `path`, or undefined without a path. It logs a warning once if other
 * users may read the file.
 */
export const makeKeyFile = (
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
 * Returns the name of the file for messages. Returns the path if it, or its first folder, exists or if it looks like a
 * path. Any other text may be the key itself, put into the wrong variable by mistake, and is not repeated.
 */
const nameOf = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const exists = (one: string) => Effect.orElseSucceed(fs.exists(one), () => false)
  const [, folder = path] = /^(\.{0,2}\/[^/]*|[^/]+)\//.exec(path) ?? []
  return looksLikePath(path) || (yield* exists(path)) || (yield* exists(folder)) ? path : "the file that it names"
})

/** Whether the text is a path from `/` or `~`. Names that mix capitals, small letters and digits look like keys. */
const looksLikePath = (path: string): boolean =>
  /^(?:~(?:\/[\w.-]{1,64})+|(?:\/[\w.-]{1,64}){2,})$/.test(path) &&
  !path.split("/").some((name) => [/[a-z]/, /[A-Z]/, /\d/].every((some) => some.test(name)))
