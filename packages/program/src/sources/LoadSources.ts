/**
 * The sources of a program: those of the sources file, or the environment as one source. A flag overrides the
 * environment, which overrides the file. But the service and the destination of a source in the file come from the file
 * only. So a key never goes to the address of another source.
 */
import { Destination, printable } from "@payments/copy"
import { Lists, PaymentsConfig, PaymentsConfigError } from "@payments/core"
import { Duration, Effect, FileSystem, Result } from "effect"
import { createHash } from "node:crypto"
import { checkAll, type ProgramError, usage } from "../outcome/ProgramError.ts"
import { SourcesError } from "../outcome/SourcesError.ts"
import { existingUsualFile, namedFile } from "../settings/Location.ts"
import { isAnySet, variableText } from "../settings/Setting.ts"
import { allSettings, type Setting } from "../settings/SettingTable.ts"
import { type FileSource, serviceTexts } from "./FileSource.ts"
import { personalInEnvironment, personalInFile, ruleInEnvironment } from "./RuleWithKey.ts"
import { shownInEnvironment, shownInFile, type ShownSetting } from "./ShownValues.ts"
import type { Schedule, Source, SourceSet } from "./Source.ts"
import type { JournalSettings, SourceSettings } from "./SourceSchema.ts"
import { serviceOf } from "./SourceService.ts"
import { readSourcesFile } from "./SourcesFile.ts"
import { membersOf, type Overrides, overridesOf, type SourceOverrides, valueOf } from "./SourceValues.ts"
import type { FileCluster } from "./WorkerCluster.ts"

/** A source, and where its settings come from. */
export interface LoadedSource extends Source {
  /** In the order of the schema. */
  readonly settings: ReadonlyArray<ShownSetting>
  /** A digest of all settings. If it is the same after the file was read again, the source has not changed. */
  readonly revision: string
  /** The environment variables that the source reads its keys from, if the file names any. */
  readonly keyVariables?: ReadonlyArray<string> | undefined
  /** How its records become transactions of a journal. */
  readonly journal?: JournalSettings | undefined
}

/** The sources of a program. */
export interface LoadedSources extends SourceSet {
  readonly sources: ReadonlyArray<LoadedSource>
  /** The cluster that the file names. */
  readonly cluster?: FileCluster | undefined
}

type Loading = Effect.fn.Return<LoadedSources, ProgramError, FileSystem.FileSystem>

const defaultConcurrency = 32
const defaultSchedule: Schedule = { _tag: "Every", every: Duration.minutes(5) }

/**
 * Loads the sources of the worker. `--config` or PAYMENTS_CONFIG names the file. Without them, the environment is the
 * source if PAYMENTS_BASE_URL is set. Else it is the file in the configuration folder if it exists, else the
 * environment. Every source needs a destination.
 */
export const loadSources = Effect.fnUntraced(function*(
  { config, flags = {} }: { readonly config?: string | undefined; readonly flags?: SourceOverrides }
): Loading {
  const file = (yield* namedFile(config)) ??
    ((yield* variableText("PAYMENTS_BASE_URL")) === undefined ? yield* existingUsualFile : undefined)
  if (file === undefined) {
    const text = flags.to ?? (yield* variableText("PAYMENTS_TO"))
    if (text === undefined) return yield* usage("There is no destination: give --to or set PAYMENTS_TO.")
    if (text === "-") {
      return yield* usage(
        "The worker cannot write to stdout (-), because its stdout is its log. Use payments export --to - instead."
      )
    }
    return yield* sourcesOfEnvironment(flags)
  }
  const loaded = yield* sourcesOfFile(file, flags)
  if (loaded.sources.length === 0) return yield* noSourceIn(file)
  yield* warnAboutIgnoredVariables(file, loaded.sources)
  const findings = loaded.sources.flatMap(({ name, to }) =>
    to === undefined ? [{ line: undefined, problem: `sources.${name} has no destination. Set to.` }] : []
  )
  return findings.length === 0 ? loaded : yield* new SourcesError({ file, findings })
})

/** The error about a file without sources, for a program that needs one. */
export const noSourceIn = (file: string): SourcesError =>
  new SourcesError({
    file,
    findings: [{
      line: undefined,
      problem: "The file has no source. Add one: payments source add NAME --base-url URL."
    }]
  })

/** With `chosen`, the flags are for that source. */
export const sourcesOfFile = Effect.fnUntraced(function*(
  file: string,
  flags: SourceOverrides = {},
  chosen?: string
): Loading {
  const fs = yield* FileSystem.FileSystem
  const { document, overrides, to } = yield* checkAll({
    document: readSourcesFile(file),
    overrides: overridesOf(flags),
    to: flags.to === undefined ? Effect.undefined : parseDestination(flags.to, "--to")
  })
  if (to !== undefined && chosen === undefined && document.sources.length > 1) {
    return yield* usage(
      `--to is for one source, and ${printable(file)} has ${document.sources.length}. Set to in the file.`
    )
  }
  // Few sources have a hand-off, so its code is loaded only here.
  const hasHandoff = document.sources.some(({ settings }) => settings.handoff !== undefined)
  const handoffs = hasHandoff ? yield* Effect.promise(() => import("./Handoffs.ts")) : undefined
  const sources = document.sources.map((source): LoadedSource => ({
    ...inFile(source, overrides),
    to: keepingSnapshots(to ?? source.to, source.settings.keep_snapshots),
    service: serviceOf(file, source, fs),
    personal: personalInFile(file, source, fs),
    boundTo: Effect.succeed(PaymentsConfig.sourceOf(serviceTexts(source.settings))),
    settings: shownInFile({ file, source, to, overrides }),
    journal: source.settings.journal,
    handoffs: handoffs?.handoffsOf({ file, fs, source, lists: listsOf(source.settings) }),
    revision: digestOf([file, source.settings, to, overrides]),
    keyVariables: [
      source.settings.api_key_env ?? [],
      source.settings.invoices_api_key_env ?? [],
      source.settings.personal_key_env ?? [],
      Object.values(source.settings.handoff ?? {}).flatMap(({ secret_env: name }) => name ?? [])
    ].flat()
  }))
  return { file, concurrency: document.concurrency ?? defaultConcurrency, cluster: document.cluster, sources }
})

const keepingSnapshots = (
  to: Destination.StoredDestination | undefined,
  keepSnapshots: number | undefined
): Destination.StoredDestination | undefined =>
  to === undefined || keepSnapshots === undefined ? to : { ...to, keepSnapshots }

export const sourcesOfEnvironment = Effect.fnUntraced(function*(flags: SourceOverrides = {}): Loading {
  const fs = yield* FileSystem.FileSystem
  const [text, from] = flags.to === undefined
    ? [yield* variableText("PAYMENTS_TO"), "PAYMENTS_TO"] as const
    : [flags.to, "--to"] as const
  const { overrides, to } = yield* checkAll({
    overrides: overridesOf(flags),
    // Stdout is a destination of `payments export` only.
    to: text === undefined || text === "-" ? Effect.undefined : parseDestination(text, from)
  })
  const source: LoadedSource = {
    ...withOverrides({}, overrides),
    name: "default",
    service: Effect.provideService(PaymentsConfig.fromEnvironment, FileSystem.FileSystem, fs),
    personal: Effect.provideService(personalInEnvironment, FileSystem.FileSystem, fs),
    boundTo: boundToEnvironment,
    to,
    rateLimitStore: overrides.rate_limit_store?.value,
    full: fullSchedule(undefined, overrides),
    window: undefined,
    head: undefined,
    settings: yield* shownInEnvironment(to === undefined ? undefined : { to, from }, overrides),
    // The environment of a process does not change.
    revision: ""
  }
  return { file: undefined, concurrency: defaultConcurrency, cluster: undefined, sources: [source] }
})

/** A digest, because arguments of commands can be secrets. */
const digestOf = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("hex")

const serviceVariables = Effect.map(
  Effect.forEach(
    Object.keys(serviceTexts({})),
    (variable) => Effect.map(variableText(variable), (text) => [variable, text] as const)
  ),
  (texts): { readonly [variable: string]: string | undefined } => Object.fromEntries(texts)
)

/** It is undefined if PAYMENTS_BASE_URL is not set. */
export const boundToEnvironment: Effect.Effect<string | undefined, PaymentsConfigError> = Effect.gen(function*() {
  const texts = yield* serviceVariables
  const source = PaymentsConfig.sourceOf(texts)
  return source === undefined && texts["PAYMENTS_BASE_URL"] !== undefined
    ? yield* new PaymentsConfigError({ problems: PaymentsConfig.problemsOf(texts) })
    : source
})

const variablesOf = (part: Setting["part"]) =>
  Object.values<Setting>({ ...allSettings.source, ...allSettings.keys }).flatMap((row) =>
    row.part === part && row.variable !== undefined ? [row.variable] : []
  )

/** Sources of the file ignore these. */
const ignoredVariables = [
  ...Object.keys(serviceTexts({})),
  ...variablesOf("key").toSorted(),
  ...variablesOf("rule"),
  ...variablesOf("destination")
]

/** Whether any variable of a source is set. */
export const isEnvironmentSet: Effect.Effect<boolean> = isAnySet(ignoredVariables)

/** The keys are not checked. */
export const checkEnvironment = Effect.gen(function*() {
  const texts = yield* serviceVariables
  const rule = yield* Effect.result(ruleInEnvironment)
  const problems = [
    ...PaymentsConfig.problemsOf(texts),
    ...Result.isFailure(rule) ? rule.failure.problems : []
  ]
  if (problems.length > 0) return yield* new PaymentsConfigError({ problems })
})

const parseDestination = Effect.fnUntraced(function*(text: string, from: "--to" | "PAYMENTS_TO") {
  const destination = yield* Effect.mapError(
    Destination.parse(text, from === "--to" ? "argument" : "environment"),
    ({ problem }) => new Destination.DestinationError({ problem: `${from}: ${problem}` })
  )
  return Destination.isStored(destination)
    ? destination
    : yield* usage(`${from}: stdout (-) stores nothing. Name a database or a folder of files.`)
})

const inFile = ({ full, head, name, rateLimitStore, settings, window }: FileSource, overrides: Overrides) => ({
  ...withOverrides(settings, overrides),
  name,
  rateLimitStore: overrides.rate_limit_store?.value ?? rateLimitStore,
  full: fullSchedule(full, overrides),
  window: window === undefined || settings.window === undefined
    ? undefined
    : { days: settings.window.days, schedule: window },
  head: head === undefined || settings.head === undefined
    ? undefined
    : { pages: settings.head.pages, schedule: head }
})

const fullSchedule = (own: Schedule | undefined, { every }: Overrides): Schedule =>
  every === undefined ? own ?? defaultSchedule : { _tag: "Every", every: every.value }

const listsOf = (settings: SourceSettings): ReadonlyArray<Lists.ListName> =>
  Lists.all.filter(({ label }) => settings.lists?.includes(label) ?? true).map(({ name }) => name)

/** Returns the settings that are neither schedules, nor of the service, nor the destination. */
const withOverrides = (settings: SourceSettings, overrides: Overrides) => ({
  ...membersOf(settings, overrides),
  lists: listsOf(settings),
  scan: {
    patience: valueOf("patience", settings, overrides),
    onLocked: valueOf("on_locked", settings, overrides),
    ignoredFields: valueOf("ignore_fields", settings, overrides),
    missingLimit: valueOf("missing_limit", settings, overrides)
  }
})

/** Logs which variables are set but have no effect on the sources of the file. */
export const warnAboutIgnoredVariables = Effect.fnUntraced(
  function*(file: string, sources: ReadonlyArray<LoadedSource>) {
    const used = new Set(sources.flatMap(({ keyVariables: named = [] }) => named))
    const set = yield* Effect.filter(
      ignoredVariables.filter((name) => !used.has(name)),
      (name) => Effect.map(variableText(name), (text) => text !== undefined)
    )
    if (set.length === 0) return
    yield* Effect.logWarning(
      `${set.join(", ")}: ignored, because the sources come from ${printable(file)}.`
    )
  }
)
