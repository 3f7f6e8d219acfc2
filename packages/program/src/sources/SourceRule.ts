/** The settings of a source's rule for personal fields, without the key (`RuleWithKey.ts`). */
import {
  type FieldAction,
  type FieldPath,
  hasPseudonyms,
  intended,
  pathText,
  type PersonalRule,
  readPath
} from "@payments/copy"
import { Lists } from "@payments/core"
import type { SourceSettings } from "./SourceSchema.ts"

type RuleName = "personal" | "omit" | "pseudonymize" | "keep" | "undocumented"

/** The settings of a rule, by their names in the sources file. */
export type RuleSettings = { readonly [Name in RuleName]?: SourceSettings[Name] | undefined }

/** The problem is a phrase that follows the setting's name. */
export interface RuleProblem {
  readonly setting: keyof RuleSettings
  readonly problem: string
}

/** Settings that list fields, each named after the action of its fields. */
const lists = ["omit", "pseudonymize", "keep"] as const satisfies ReadonlyArray<FieldAction & keyof RuleSettings>

/** The problem of a rule with pseudonyms if no setting names a key. */
export const needsKey = "needs a key"

/** Returns the rule without its key, and all mistakes. `hasKey`: a setting names a key. */
export const ruleOf = (
  settings: RuleSettings,
  hasKey: boolean
): { readonly rule: PersonalRule; readonly problems: ReadonlyArray<RuleProblem> } => {
  const problems: Array<RuleProblem> = []
  const fields = new Map<string, FieldAction>()
  for (const { path, setting } of lists.flatMap((list) => pathsOf(list, settings[list]))) {
    const name = pathText(path.names)
    const problem = problemOf(path, setting, fields.get(name))
    if (problem === undefined) fields.set(name, setting)
    else problems.push({ setting, problem })
  }
  const preset = settings.personal ?? "keep"
  const rule: PersonalRule = {
    preset,
    fields: Object.fromEntries(fields),
    undocumented: settings.undocumented ?? (preset === "keep" ? "keep" : "omit"),
    key: undefined
  }
  if (!hasKey && hasPseudonyms(rule)) {
    problems.push({ setting: preset === "pseudonymize" ? "personal" : "pseudonymize", problem: needsKey })
  }
  return { rule, problems }
}

/** The schema has reported text that is no path. */
const pathsOf = (setting: typeof lists[number], texts: ReadonlyArray<string> = []) =>
  texts.flatMap((text) => {
    const path = readPath(text)?.path
    return path === undefined ? [] : [{ setting, path }]
  })

/** `earlier` is the list that named the field before. */
const problemOf = (
  path: FieldPath,
  setting: typeof lists[number],
  earlier: FieldAction | undefined
): string | undefined => {
  const name = pathText(path.names)
  if (path.names[0] === "id" && setting !== "keep") return "names id, which every row needs"
  const meant = intended(path, documentedPaths)
  if (meant !== undefined) {
    return `names a field that the API's document does not have. Did you mean ${meant}? An undocumented field with such a name needs double quotes`
  }
  if (setting === "pseudonymize" && !texts.has(name)) {
    return `can only name text fields of the API's document${
      documentedPaths.includes(name) ? `, and ${name} is none` : ""
    }`
  }
  return earlier === undefined || earlier === setting
    ? undefined
    : `names a field that ${earlier} names too. Name it in one of them`
}

/** The paths of all lists' documented fields and embedded objects. */
const documentedPaths: ReadonlyArray<string> = [...new Set(Lists.all.flatMap(Lists.fieldPaths))]

/** The paths of the documented text fields. */
const texts: ReadonlySet<string> = new Set(
  Lists.all.flatMap(Lists.fieldMeanings).filter(({ kind }) => kind === "text").map(({ path }) => path.join("."))
)
