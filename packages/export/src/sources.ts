/** The sources of the programs, as `@payments/export/sources`. */
export type { Schedule, Source, SourceSet } from "./sources/Source.ts"
