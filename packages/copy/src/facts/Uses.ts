/** Who uses a fact once it is certain. Other facts are shown only. */
import type { Lists } from "@payments/core"

/** A fact that changes what a program does. */
export interface Use {
  readonly fact: string
  readonly by: string
  /** Whether only exports observe it. Otherwise a probe does too. */
  readonly isObservedByExports?: boolean
  /** Whether it only adds a warning, or another fact can take its place. */
  readonly isOptional?: boolean
}

const usesOfAll: ReadonlyArray<Use> = [
  { fact: "list-order", by: "head passes", isObservedByExports: true },
  { fact: "places", by: "head passes", isObservedByExports: true },
  { fact: "count", by: "exports" },
  { fact: "cursor-life", by: "exports", isOptional: true }
]

/** Returns the facts of a list that change what a program does. */
export const usesOf = (list: Lists.AnyList): ReadonlyArray<Use> => [
  ...usesOfAll,
  ...(list.windowFilter === undefined ? [] : [{ fact: `filter-${list.windowFilter}`, by: "window passes" }]),
  // Each of them can find a record that the list has skipped.
  ...Object.keys(list.filters).filter((field) => field !== list.windowFilter)
    .map((field) => ({ fact: `filter-${field}`, by: "exports", isOptional: true })),
  ...(list.parameterNames === "documented"
    ? []
    : [...Object.keys(list.filters), "limit", "cursor"].map((field) => ({
      fact: `name-${field}`,
      by: "exports"
    })))
]

export const usedBy = (list: Lists.AnyList, fact: string): string | undefined =>
  usesOf(list).find((use) => use.fact === fact)?.by
