/**
 * Adds a source to the sources file, or removes one. All other lines stay byte for byte. A file with a mistake is not
 * changed. The new file replaces the old one atomically, and only its owner may read it. A lock file next to it
 * serializes programs that edit it.
 */
import { lockFile, makeFolder, printable, replaceFile, systemCodeOf, writeProblem } from "@payments/copy"
import { readPlainFile } from "@payments/core"
import { Duration, Effect, FileSystem, type Path, type PlatformError, Redacted, Result } from "effect"
import { closest } from "fastest-levenshtein"
import { dirname, join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { ExitCode } from "../outcome/ExitCode.ts"
import { CommandExit, type ProgramError, usage } from "../outcome/ProgramError.ts"
import type { SourcesError } from "../outcome/SourcesError.ts"
import { parseSourcesFile, readText, type SourcesDocument } from "./SourcesFile.ts"
import { type Container, isTable, parseToml } from "./Toml.ts"
import { appendTable, removeTable, type TomlValue } from "./TomlEdit.ts"

/** A source to add. */
export interface NewSource<R> {
  readonly name: string
  /** The keys are the names in the file. Paths are absolute. */
  readonly settings: { readonly [setting: string]: TomlValue }
  /** Gets the address if neither the settings nor the defaults of the file have one. It may ask a person. */
  readonly baseUrl: Effect.Effect<string, ProgramError, R>
  /** Gets a key to store in a file of its own, which the setting `api_key_file` then names. It may ask a person. */
  readonly key: Effect.Effect<Redacted.Redacted<string>, ProgramError, R> | undefined
}

type Editing<A> = Effect.Effect<A, ProgramError, FileSystem.FileSystem | Path.Path>

/** How long an edit waits for another one. An edit takes milliseconds. */
const lockTime = Duration.seconds(10)

/** It is relative to the folder of the sources file. */
const keyFolder = "keys"

/** Adds a source. Creates a missing file. Returns the path of the key file, if it stored a key. */
export const addSource = Effect.fnUntraced(function*<R>(file: string, { baseUrl, key, name, settings }: NewSource<R>) {
  const keyFile = join(keyFolder, name)
  const withSource = Effect.fnUntraced(function*(
    { document, text }: Pick<Editable, "document" | "text">,
    own: NewSource<R>["settings"]
  ) {
    const all = key === undefined ? own : { ...own, api_key_file: keyFile }
    if (document.sources.some((source) => source.name === name)) {
      return yield* usage(`${printable(file)} already has a source ${name}. Remove it first, or choose another name.`)
    }
    const changed = appendTable(text, ["sources", name], all)
    yield* requireOnly(file, text, changed, (sources) => ({ ...sources, [name]: all }))
    // The file had no mistake before, so the only mistakes are those of the new source.
    yield* Effect.mapError(
      parseSourcesFile(file, changed),
      ({ findings }) => usage(findings.map(({ problem }) => problem).join("\n"))
    )
    return changed
  })
  // Report mistakes before a person is asked for anything, and before a file is made. Other programs can edit the file
  // meanwhile.
  const text = yield* Effect.catch(currentText(file), () => editing(file, (editable) => Effect.succeed(editable.text)))
  const current = { text, document: yield* parseSourcesFile(file, text) }
  const needsAddress = settings["base_url"] === undefined && !hasDefaultAddress(text)
  if (needsAddress) yield* withSource(current, { base_url: placeholder, ...settings })
  const complete = needsAddress ? { base_url: yield* baseUrl, ...settings } : settings
  yield* withSource(current, complete)
  const secret = key === undefined ? undefined : yield* key
  const stored = join(dirname(file), keyFile)
  yield* editing(
    file,
    Effect.fnUntraced(function*(editable) {
      const changed = yield* withSource(editable, complete)
      if (secret !== undefined) yield* storeKey(stored, secret)
      yield* editable.replace(changed)
    })
  )
  return secret === undefined ? undefined : stored
})

/** Stands for an address that a person has not given yet. */
const placeholder = "https://example.com"

const hasDefaultAddress = (text: string): boolean => {
  const parsed = parseToml(text)
  const defaults = Result.isSuccess(parsed) ? parsed.success.value["defaults"] : undefined
  return isTable(defaults) && defaults["base_url"] !== undefined
}

/** Removes a source. Returns the path of the key file that {@link addSource} stored and that no other source uses. */
export const removeSource = (file: string, name: string): Editing<string | undefined> =>
  editing(
    file,
    Effect.fnUntraced(function*({ document: { sources }, replace, text }) {
      const found = sources.find((source) => source.name === name)
      if (found === undefined) {
        const advice = sources.length === 0 ? "It has none" : `The nearest one is ${closest(name, namesOf(sources))}`
        return yield* usage(`${printable(file)} has no source of that name. ${advice}.`)
      }
      const changed = removeTable(text, ["sources", name])
      yield* requireOnly(file, text, changed, (all) =>
        Object.fromEntries(
          Object.entries(all).filter(([other]) => other !== name)
        ))
      yield* replace(changed)
      const keyFile = join(keyFolder, name)
      const uses = sources.filter(({ settings }) =>
        [settings.api_key_file, settings.invoices_api_key_file].includes(keyFile)
      )
      if (found.settings.api_key_file !== keyFile || uses.length > 1) {
        return undefined
      }
      const fs = yield* FileSystem.FileSystem
      const stored = join(dirname(file), keyFile)
      yield* Effect.mapError(fs.remove(stored, { force: true }), unwritable(stored))
      return stored
    })
  )

const namesOf = (sources: SourcesDocument["sources"]) => sources.map(({ name }) => name)

interface Editable {
  readonly text: string
  readonly document: SourcesDocument
  /** Fails if another program has changed the file since it was read. */
  readonly replace: (text: string) => Effect.Effect<void, ProgramError, FileSystem.FileSystem | Path.Path>
}

/** Locks the file, checks it and runs the edit. */
const editing = <A>(
  file: string,
  edit: (editable: Editable) => Editing<A>
): Editing<A> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    yield* Effect.mapError(makeFolder(dirname(file), 0o700), unwritable(file))
    // A link stays a link.
    const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
    yield* Effect.mapError(lockFile(`${target}.lock`, lockTime), ({ reason }) =>
      unchanged(
        file,
        reason._tag === "Locked"
          ? "another program is changing it. Run again."
          : reason._tag === "Full"
          ? "there is no space left."
          : reason.message
      ))
    const text = yield* currentText(target)
    const document = yield* parseSourcesFile(file, text)
    const replace = Effect.fnUntraced(function*(changed: string) {
      // An editor does not use the lock.
      if ((yield* currentText(target)) !== text) {
        return yield* unchanged(file, "another program has changed it meanwhile. Run again.")
      }
      yield* Effect.mapError(replaceFile(target, changed), unwritable(file))
    })
    return yield* edit({ text, document, replace })
  }).pipe(Effect.scoped)

/** Returns no text if the file does not exist. */
const currentText = (file: string): Effect.Effect<string, SourcesError, FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const exists = yield* Effect.orElseSucceed(fs.exists(file), () => true)
    return exists ? (yield* readText(file)).text : ""
  })

type Sources = { readonly [name: string]: unknown }
type Change = (sources: Sources) => Sources

/** Fails unless the changed text has exactly the expected sources and all other settings of the text. */
const requireOnly = (
  file: string,
  text: string,
  changed: string,
  expected: Change
): Effect.Effect<void, CommandExit> => {
  const before = parseToml(text)
  const after = parseToml(changed)
  const isExpected = Result.isSuccess(before) && Result.isSuccess(after) &&
    isDeepStrictEqual(plain(after.success.value), plain(before.success.value, expected))
  return isExpected
    ? Effect.void
    : unchanged(file, "its sources are not written as tables [sources.NAME]. Edit it yourself.")
}

/**
 * Returns the document with other sources, as plain objects. A document without sources is the same as one with none.
 */
const plain = (document: Container, change: Change = (sources) => sources): unknown => {
  const { sources = {}, ...others } = document
  return JSON.parse(JSON.stringify({ ...others, sources: change(sources as Sources) })) // the schema requires a table
}

/** An existing file stays, because it may be needed elsewhere. */
const storeKey = Effect.fnUntraced(function*(file: string, key: Redacted.Redacted<string>) {
  const fs = yield* FileSystem.FileSystem
  const text = `${Redacted.value(key)}\n`
  const existing = yield* Effect.option(readPlainFile(file, { maxBytes: text.length }))
  if (existing._tag === "Some" && existing.value.text === text) return
  if (yield* Effect.mapError(fs.exists(file), unwritable(file))) {
    return yield* usage(
      `${printable(file)} exists and has another key. Remove it, or use it: --key-file ${printable(file)}`
    )
  }
  yield* Effect.mapError(
    Effect.andThen(makeFolder(dirname(file), 0o700), replaceFile(file, text)),
    unwritable(file)
  )
})

const unwritable = (file: string) => (error: PlatformError.PlatformError) =>
  unchanged(file, `it cannot be written: ${writeProblem(systemCodeOf(error))}.`)

const unchanged = (file: string, problem: string) =>
  new CommandExit({ exitCode: ExitCode.destination, problem: `${printable(file)} was not changed: ${problem}` })
