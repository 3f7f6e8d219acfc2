/** The sources of the programs, as `@payments/export/sources`. */
export { type LoadedSource, type LoadedSources, loadSources } from "./sources/LoadSources.ts"
export type { SourceOverrides } from "./sources/Overrides.ts"
export type { ShownSetting } from "./sources/ShownSettings.ts"
export type { Schedule, Source, SourceSet } from "./sources/Source.ts"
export { sourceNames } from "./sources/SourceNames.ts"
export { type Finding, SourcesError } from "./sources/SourcesError.ts"
