/**
 * The source that a command of `payments` uses. `--source` or PAYMENTS_SOURCE names it. Without a name, it is the
 * environment if PAYMENTS_BASE_URL is set, else the only source of the sources file. The file is read only if it is
 * needed, and once.
 */
import { type PersonalRule, printable } from "@payments/copy"
import { PaymentsConfig } from "@payments/core"
import { Context, Effect, FileSystem, Layer } from "effect"
import { GlobalFlag } from "effect/cli"
import { closest } from "fastest-levenshtein"
import { type ProgramError, usage } from "../outcome/ProgramError.ts"
import { settingFlag } from "../settings/Flags.ts"
import { existingUsualFile, namedFile, usualFile } from "../settings/Location.ts"
import { isAnySet, variableText } from "../settings/Setting.ts"
import { allSettings } from "../settings/SettingTable.ts"
import { shellWord } from "../terminal/ShellWord.ts"
import { allOf } from "../text/WordLists.ts"
import type { LoadedSource } from "./LoadSources.ts"
import type { ShownSetting } from "./ShownValues.ts"
import type { JournalSettings } from "./SourceSchema.ts"
import { rateLimitStore, type SourceOverrides } from "./SourceValues.ts"

/** `--source`, which every command accepts. */
export const SourceFlag = GlobalFlag.Setting("source")({ flag: settingFlag(allSettings.program.source) })

/** `--config`, which every command accepts. */
export const ConfigFlag = GlobalFlag.Setting("config")({ flag: settingFlag(allSettings.program.config) })

/** Returns the flags that name a source in a command which is printed. */
export const flagsOfSource = (name: string) =>
  Effect.map(
    ConfigFlag,
    (file) => `--source ${shellWord(name)}${file === undefined ? "" : ` --config ${shellWord(file)}`}`
  )

/** The source that a command uses; undefined for the environment. */
type Choice = Effect.Effect<LoadedSource | undefined, ProgramError>

/** The source that a command uses. */
export class ChosenSource extends Context.Service<ChosenSource, {
  /** Whether a flag or PAYMENTS_SOURCE asks for a source of the file. */
  readonly isNamed: boolean
  readonly forService: Choice
  /** The source of a command that only needs a destination. The environment has one if PAYMENTS_TO is set. */
  readonly forDestination: Choice
  /**
   * The sources of a command that shows several destinations: the named one, or all of the file. Empty if the
   * environment has the destination.
   */
  readonly forDestinations: Effect.Effect<ReadonlyArray<LoadedSource>, ProgramError>
  /**
   * The named source. Without a name: the environment if it is used, and all sources of the file. The flags override
   * their settings. Empty if nothing is set up: `nothing` says so.
   */
  readonly listed: (flags?: SourceOverrides) => Effect.Effect<ReadonlyArray<LoadedSource>, ProgramError>
  /** What names the source: a flag, a variable, or nothing. */
  readonly namedBy: Pick<ShownSetting, "value" | "from"> | undefined
  /** Says that no source is set up, where the sources file would be, and what to do. `found` has no full stop. */
  readonly nothing: Effect.Effect<{ readonly found: string; readonly advice: string }, ProgramError>
  /** The absolute path of the sources file, whether it exists or not, and what names it. */
  readonly fileToEdit: Effect.Effect<Pick<ShownSetting, "value" | "from">, ProgramError>
}>()("@payments/program/ChosenSource") {
  static readonly layer = Layer.effect(
    ChosenSource,
    Effect.gen(function*() {
      const withFiles = Effect.provideService(FileSystem.FileSystem, yield* FileSystem.FileSystem)
      const [sourceFlag, configFlag] = [yield* SourceFlag, yield* ConfigFlag]
      const name = sourceFlag ?? (yield* variableText("PAYMENTS_SOURCE"))
      const flagName = sourceFlag === undefined ? "PAYMENTS_SOURCE" : "--source"
      const isNamed = name !== undefined || configFlag !== undefined
      const file = yield* Effect.cached(
        Effect.flatMap(
          namedFile(configFlag),
          (named) => named === undefined ? withFiles(existingUsualFile) : Effect.succeed(named)
        )
      )
      const load = (path: string, flags?: SourceOverrides) =>
        Effect.flatMap(loader, ({ sourcesOfFile }) => withFiles(sourcesOfFile(path, flags, name)))
      /** Whether the environment has what the command needs, and nothing names a source. */
      const isEnvironment = (...variables: ReadonlyArray<string>) =>
        isNamed ? Effect.succeed(false) : isAnySet(variables)
      const sourceOfFile = Effect.fnUntraced(function*(flags?: SourceOverrides) {
        const path = yield* file
        if (path === undefined) return yield* withoutFile(name, flagName)
        const { sources } = yield* load(path, flags)
        const { noSourceIn, warnAboutIgnoredVariables } = yield* loader
        yield* warnAboutIgnoredVariables(path, sources)
        if (sources.length === 0 && isNamed) return yield* noSourceIn(path)
        return yield* choose(sources, { name, flagName, path })
      })
      const fromFile = yield* Effect.cached(sourceOfFile())
      const ofCommand = (...variables: ReadonlyArray<string>): Choice =>
        Effect.flatMap(isEnvironment(...variables), (isUsed) => isUsed ? Effect.undefined : fromFile)
      const forDestination = ofCommand("PAYMENTS_BASE_URL", "PAYMENTS_TO")
      const forDestinations = Effect.gen(function*() {
        const path = yield* file
        if (name !== undefined || path === undefined || (yield* isEnvironment("PAYMENTS_BASE_URL", "PAYMENTS_TO"))) {
          const source = yield* forDestination
          return source === undefined ? [] : [source]
        }
        const { sources } = yield* load(path)
        yield* (yield* loader).warnAboutIgnoredVariables(path, sources)
        return sources
      })
      const listed = Effect.fnUntraced(function*(flags?: SourceOverrides) {
        const { checkEnvironment, isEnvironmentSet, sourcesOfEnvironment } = yield* loader
        const path = yield* file
        const chosen = name === undefined ? undefined : yield* sourceOfFile(flags)
        if (chosen !== undefined) return [chosen]
        const inFile = name === undefined && path !== undefined ? (yield* load(path, flags)).sources : []
        if (inFile.length > 0 && !(yield* isEnvironment("PAYMENTS_BASE_URL"))) return inFile
        if (inFile.length === 0 && (configFlag !== undefined || !(yield* isEnvironmentSet))) return []
        yield* checkEnvironment
        const { sources } = yield* withFiles(sourcesOfEnvironment(flags))
        return [...sources, ...inFile]
      })
      const fileToEdit = fileNamedBy(configFlag)
      return ChosenSource.of({
        isNamed,
        nothing: withFiles(Effect.flatMap(fileToEdit, nothingIn)),
        forService: ofCommand("PAYMENTS_BASE_URL"),
        forDestination,
        forDestinations,
        listed,
        namedBy: name === undefined ? undefined : { value: name, from: flagName },
        fileToEdit
      })
    })
  )
}

/** Most commands need no file, so they do not load its parser. */
const loader = Effect.promise(() => import("./LoadSources.ts"))

/** The choice without a sources file: the environment, unless a source is named. */
const withoutFile = Effect.fnUntraced(function*(name: string | undefined, flagName: string) {
  if (name === undefined || name === "default") return undefined
  return yield* usage(
    `${flagName}: there is no sources file. Write ${yield* usualPlace}, or name one with --config or PAYMENTS_CONFIG.`
  )
})

/** Without a name, returns the only source. */
const choose = (
  sources: ReadonlyArray<LoadedSource>,
  { flagName, name, path }: { readonly name: string | undefined; readonly flagName: string; readonly path: string }
): Choice => {
  const [first, second] = sources
  if (first === undefined || (name === undefined && second === undefined)) return Effect.succeed(first)
  const names = allOf(sources.slice(0, mostNames).map((source) => source.name))
  const more = sources.length > mostNames ? `, and ${sources.length - mostNames} more` : ""
  if (name === undefined) {
    return usage(
      `${printable(path)} has several sources. Choose one with --source or PAYMENTS_SOURCE: ${names}${more}.`
    )
  }
  const found = sources.find((source) => source.name === name)
  if (found !== undefined) return Effect.succeed(found)
  const nearest = closest(name, sources.map((source) => source.name))
  return usage(
    `${flagName}: ${
      printable(path)
    } has no source of that name. The nearest one is ${nearest}; its sources are ${names}${more}.`
  )
}

/** Returns the absolute path of the file, and what names it. */
const fileNamedBy = Effect.fnUntraced(function*(flag: string | undefined) {
  const named = yield* namedFile(flag)
  const value = named ?? (yield* usualFile())
  if (value === undefined) {
    return yield* usage("This user has no folder for settings. Name the sources file with --config or PAYMENTS_CONFIG.")
  }
  return { value, from: named === undefined ? "default" : flag === undefined ? "PAYMENTS_CONFIG" : "--config" }
})

const nothingIn = Effect.fnUntraced(function*({ value }: { readonly value: string }) {
  const fs = yield* FileSystem.FileSystem
  const exists = yield* Effect.orElseSucceed(fs.exists(value), () => false)
  return {
    found: exists ? `${printable(value)} has no source` : `There is no sources file. It would be ${printable(value)}`,
    advice: "Add a source: payments source add NAME --base-url URL. Or set PAYMENTS_BASE_URL and PAYMENTS_API_KEY."
  }
})

const mostNames = 20

const usualPlace = Effect.map(usualFile(), (path) => path === undefined ? "payments.toml" : printable(path))

/**
 * The rate limit store of the chosen source, if there is one. Its code is loaded only then, and it connects with the
 * first request.
 */
export const chosenRateLimitStore: Layer.Layer<never, ProgramError, ChosenSource> = Layer.unwrap(
  Effect.gen(function*() {
    const source = yield* (yield* ChosenSource).forService
    const url = source === undefined ? (yield* rateLimitStore)?.value : source.rateLimitStore
    if (url === undefined) return Layer.empty
    const { layer } = yield* Effect.promise(() => import("../ratelimit/PostgresRateLimiterStore.ts"))
    return layer(url)
  })
)

/** The rule for personal fields of the environment, with its key. */
export const environmentPersonal: Effect.Effect<PersonalRule, ProgramError, FileSystem.FileSystem> = Effect.flatMap(
  Effect.promise(() => import("./RuleWithKey.ts")),
  ({ personalInEnvironment }) => personalInEnvironment
)

/** The rule for personal fields of the chosen source, with its key. `from` chooses the source of a command. */
export const chosenPersonal = (
  from: "forService" | "forDestination"
): Effect.Effect<PersonalRule, ProgramError, ChosenSource | FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const source = yield* (yield* ChosenSource)[from]
    return yield* source?.personal ?? environmentPersonal
  })

/** How the records of the chosen source become transactions of a journal. Fails if the sources file does not say it. */
export const chosenJournal: Effect.Effect<JournalSettings, ProgramError, ChosenSource> = Effect.gen(function*() {
  const source = yield* (yield* ChosenSource).forDestination
  if (source?.journal !== undefined) return source.journal
  const place = source === undefined ? "[sources.NAME.journal] of the sources file" : `[sources.${source.name}.journal]`
  return yield* usage(
    `A journal needs accounts, a unit and a commodity: set unit, commodity, clearing_account and accounts in ${place}.`
  )
})

/**
 * The source to which destinations of the chosen source are bound. Undefined if the settings have no address. `from`
 * chooses the source of a command.
 */
export const chosenBoundTo = (
  from: "forService" | "forDestination"
): Effect.Effect<string | undefined, ProgramError, ChosenSource> =>
  Effect.gen(function*() {
    const source = yield* (yield* ChosenSource)[from]
    return yield* source?.boundTo ?? Effect.flatMap(loader, ({ boundToEnvironment }) => boundToEnvironment)
  })

/** The configuration of the chosen source's service. */
export const chosenConfig: Layer.Layer<PaymentsConfig, ProgramError, ChosenSource | FileSystem.FileSystem> = Layer
  .effect(
    PaymentsConfig,
    Effect.gen(function*() {
      const source = yield* (yield* ChosenSource).forService
      return yield* source?.service ?? PaymentsConfig.fromEnvironment
    })
  )
