/** The sources of the programs, as `@payments/export/sources`. */
export { addSource, type NewSource, removeSource } from "./sources/EditSources.ts"
export { type LoadedSource, type LoadedSources, loadSources } from "./sources/LoadSources.ts"
export type { SourceOverrides } from "./sources/Overrides.ts"
export { processSettings } from "./sources/ProcessSettings.ts"
export { effectiveSettings, type ShownSetting } from "./sources/ShownSettings.ts"
export type { Schedule, Source, SourceSet } from "./sources/Source.ts"
export { sourceNames } from "./sources/SourceNames.ts"
export { type Finding, SourcesError } from "./sources/SourcesError.ts"
