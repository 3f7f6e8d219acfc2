/** Where an API key comes from, and the file as such a place. */
import { Effect, FileSystem, Redacted } from "effect"
import { bitsOfOthers, readPlainFile } from "./PlainFile.ts"

/** The value of a setting, or what is wrong with it. */
export type Checked<A> = { readonly value: A } | { readonly problem: string }

/** Where an API key comes from. */
export interface KeySource {
  /** The setting that names the place, for messages. */
  readonly setting: string
  /** Reads the key, each time it runs. A problem is a phrase that follows the setting's name. */
  readonly read: Effect.Effect<Checked<Redacted.Redacted<string>>>
}

/** Checks that a key contains only visible ASCII, since it is sent in a header (RFC 9110 §5.5, RFC 6750 §2.1). */
export const checkKey = (
  key: Redacted.Redacted<string>
): Checked<Redacted.Redacted<string>> =>
  Redacted.value(key) === ""
    ? { problem: "is not set" }
    : /^[\x21-\x7e]+$/.test(Redacted.value(key))
    ? { value: key }
    : { problem: "contains a character that is not allowed in a header, such as a space or a line break" }

/** The size of the largest key, in bytes. */
export const largestKeyBytes = 64 * 1024

/**
 * Returns the key in the file at `path`, without the white space around it. The first reading logs a warning if other
 * users may read the file.
 */
export const makeKeyFile = (
  fs: FileSystem.FileSystem,
  setting: string,
  path: string,
  /** Makes a path absolute that is not relative to the working folder. */
  resolve: (path: string) => string = (given) => given
): KeySource => {
  let warned = false
  const read = Effect.gen(function*() {
    const file = yield* readPlainFile(resolve(path), { maxBytes: largestKeyBytes })
    const { mode, text } = file
    if ((bitsOfOthers(file) & 0o044) !== 0 && !warned) {
      warned = true
      yield* Effect.logWarning(
        `${setting}: other users may read ${path} (mode ${
          mode.toString(8)
        }). Make it readable by its owner alone: chmod 600.`
      )
    }
    const key = text.trim()
    return key === "" ? { problem: "names an empty file" } : { value: Redacted.make(key) }
  }).pipe(
    Effect.catch((error) =>
      Effect.map(nameOf(path, resolve), (name) => ({ problem: `cannot be used: ${name} ${error.problem}` }))
    ),
    Effect.provideService(FileSystem.FileSystem, fs)
  )
  return { setting, read }
}

/**
 * Returns the name of the file for messages. Returns the path if it, or its first folder, exists or if it looks like a
 * path. Any other text may be the key itself, put into the wrong variable by mistake, and is not repeated.
 */
const nameOf = Effect.fnUntraced(function*(path: string, resolve: (path: string) => string) {
  const fs = yield* FileSystem.FileSystem
  const exists = (one: string) => Effect.orElseSucceed(fs.exists(resolve(one)), () => false)
  const [, folder = path] = /^(\.{0,2}\/[^/]*|[^/]+)\//.exec(path) ?? []
  return looksLikePath(path) || (yield* exists(path)) || (yield* exists(folder)) ? path : "the file that it names"
})

/** Whether the text is a path from `/` or `~`. Names that mix capitals, small letters and digits look like keys. */
const looksLikePath = (path: string): boolean =>
  /^(?:~(?:\/[\w.-]{1,64})+|(?:\/[\w.-]{1,64}){2,})$/.test(path) &&
  !path.split("/").some((name) => [/[a-z]/, /[A-Z]/, /\d/].every((some) => some.test(name)))
