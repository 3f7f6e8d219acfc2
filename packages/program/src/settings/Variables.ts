/** The environment variables of `payments` and `payments-worker`. A misspelt name gets a warning. */
import { ConfigProvider } from "effect"
import { closest, distance } from "fastest-levenshtein"
import { allSettings, type Setting } from "./SettingTable.ts"

const rows: ReadonlyArray<readonly [name: string, row: Setting]> = Object.values(allSettings).flatMap((table) =>
  Object.entries<Setting>(table)
)

export const variables: ReadonlyArray<string> = rows.flatMap(([, { variable }]) => variable ?? [])

/** Returns what an environment variable means, for the documentation. */
export const variableMeaning = (variable: string): string | undefined => {
  const row = rows.find(([, one]) => one.variable === variable)?.[1]
  if (row?.variableMeaning !== undefined || row === undefined) return row?.variableMeaning
  const meaning = row.meaning.replaceAll(/`(\w+)`/g, (text, name) => {
    const named = rows.find(([other, one]) => other === name && one.variable !== undefined)
    return named === undefined ? text : `\`${named[1].variable}\``
  })
  return row.flag === undefined ? meaning : `\`--${row.flag[0]}\` of ${row.program ?? "both programs"}: ${meaning}`
}

/** Variables that `bin/payments` and the tests set. They are not settings, and they get no warning. */
export const internalVariables: ReadonlyArray<string> = [
  "PAYMENTS_STDOUT",
  "PAYMENTS_CRASH",
  "PAYMENTS_POSTGRES",
  "PAYMENTS_SEED"
]

/** The variables that Kubernetes sets in every container of a namespace with a service named `payments`. */
const kubernetesVariable = /^PAYMENTS_(SERVICE|PORT)_/

/** The largest edit distance at which a name counts as a misspelt setting. */
const maxDistance = 3

/** Returns a line about each environment variable that looks like a setting but is not one. */
export const unknownVariables = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.filter((name) =>
    name.startsWith("PAYMENTS_") && !variables.includes(name) && !internalVariables.includes(name) &&
    !kubernetesVariable.test(name)
  ).toSorted().map((name) => {
    const nearest = closest(name, [...variables])
    const suggestion = distance(name, nearest) <= maxDistance ? ` Did you mean ${nearest}?` : ""
    return `${
      /^\w{1,80}$/.test(name) ? name : "A variable that starts with PAYMENTS_"
    } is not a setting and has no effect.${suggestion}`
  })

/**
 * Provides the variables of a rule for personal fields that are set but empty, as empty texts. A variable that is empty
 * usually counts as not set. But an empty variable of a rule is probably a mistake, and without the rule, personal data
 * would be kept.
 */
export const emptyRuleVariables = (
  environment: Readonly<Record<string, string | undefined>>
): ConfigProvider.ConfigProvider =>
  ConfigProvider.fromEnvRecord(
    Object.fromEntries(
      rows.flatMap(([, { part, variable = "" }]) =>
        part === "rule" && environment[variable] === "" ? [[variable, ""]] : []
      )
    ),
    { preserveEmptyStrings: true }
  )
