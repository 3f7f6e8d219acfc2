/** Replaces old names of settings in the sources file (`Renamed.ts`). */
import type { Finding } from "../outcome/SourcesError.ts"
import { type Renamed, warningOf } from "../settings/Renamed.ts"
import { type Container, isTable, type TomlDocument, type TomlPath } from "./Toml.ts"

/**
 * Returns the document with the new names, and a warning for each old one. A table with both names keeps both, so that the old one
 * is reported as unknown.
 */
export const withCurrentSettings = (document: TomlDocument, settings: ReadonlyArray<Renamed>) => {
  const warnings: Array<Finding> = []
  const oldPaths = new Map<string, TomlPath>()
  const renamedIn = (path: TomlPath, table: unknown): unknown => {
    if (!isTable(table)) return table
    const current: Container = Object.create(null)
    for (const key of Object.keys(table)) {
      const renamed = settings.find(({ from, to }) => from === key && !(to in table))
      current[renamed?.to ?? key] = table[key]
      if (renamed === undefined) continue
      oldPaths.set(JSON.stringify([...path, renamed.to]), [...path, key])
      warnings.push({ line: document.lineOf([...path, key]), problem: warningOf(renamed) })
    }
    return current
  }
  const value: Container = Object.assign(Object.create(null), document.value)
  if ("defaults" in value) value["defaults"] = renamedIn(["defaults"], value["defaults"])
  const { sources } = value
  if (isTable(sources)) {
    const current: Container = Object.create(null)
    for (const name of Object.keys(sources)) current[name] = renamedIn(["sources", name], sources[name])
    value["sources"] = current
  }
  return {
    document: {
      value,
      lineOf: (path: TomlPath) => {
        // A setting of a source has three keys, and one of the defaults has two.
        const length = path[0] === "defaults" ? 2 : 3
        const old = oldPaths.get(JSON.stringify(path.slice(0, length)))
        return document.lineOf(old === undefined ? path : [...old, ...path.slice(length)])
      }
    },
    warnings
  }
}
