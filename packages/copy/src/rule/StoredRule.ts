/**
 * The rule for personal data that a destination stores. It can differ from a rule of this program in its settings, and
 * in the table of classes under which its texts were written.
 */
import { Lists } from "@payments/core"
import { Option, Schema } from "effect"
import { createHash } from "node:crypto"
import { fieldsText } from "../text/FieldNames.ts"
import { type Classes, classKey, currentClasses, firstClasses, isFirstTable, sorted } from "./Classes.ts"
import { keyCheck } from "./Pseudonym.ts"
import {
  actionOf,
  erasureRule,
  type FieldAction,
  keepAll,
  keepsAll,
  type PersonalRule,
  type RuleSettings,
  type Undocumented
} from "./Rule.ts"

const StoredRule = Schema.Struct({
  /** Version 2 has a table of classes. Programs that know only version 1 refuse it. */
  version: Schema.Literals([1, 2]),
  preset: Schema.Literals(["keep", "omit", "pseudonymize"]),
  undocumented: Schema.Literals(["keep", "omit", "hold"]),
  fields: Schema.Record(Schema.String, Schema.Literals(["keep", "omit", "pseudonymize"])),
  /** The documented fields that were not kept when the rule was stored. A later program may document more fields. */
  documented: Schema.Record(Schema.String, Schema.Literals(["omit", "pseudonymize"])),
  /** The check value of the key, if the rule has pseudonyms. */
  key: Schema.optionalKey(Schema.String),
  /** The table of classes under which the texts were written, unless it is the first one. */
  classes: Schema.optionalKey(Schema.Record(Schema.String, Schema.Literals(["person", "payment", "nobody"])))
})
type StoredRule = typeof StoredRule.Type

const decodeStored = Schema.decodeUnknownOption(Schema.fromJsonString(StoredRule))

/** Returns the stored rule, or undefined if a later program wrote it. A destination without a stored rule keeps every field. */
const parseStored = (stored: string | undefined): StoredRule | undefined =>
  stored === undefined || stored === keepText ? storedKeep : Option.getOrUndefined(decodeStored(stored))

/** The stored form of a rule that keeps every field, under the first table of classes. The databases have NULL for it. */
export const keepText = "keep"
const storedKeep: StoredRule = { version: 1, preset: "keep", undocumented: "keep", fields: {}, documented: {} }

/** The same rule has the same text. It contains no key. */
export const toStored = (rule: PersonalRule): string => textOf(storedOf(keepsAll(rule) ? keepAll : rule))

const textOf = (stored: StoredRule): string =>
  keepsAll(stored) && stored.classes === undefined ? keepText : JSON.stringify(stored)

const storedOf = (rule: PersonalRule): StoredRule =>
  storedWith(rule, hasPseudonyms(rule) && rule.key !== undefined ? keyCheck(rule.key) : undefined)

/** With this program's table of classes. The order of the members is part of the text. */
const storedWith = (rule: RuleSettings, key: string | undefined): StoredRule => ({
  version: isFirstTable ? 1 : 2,
  preset: rule.preset,
  undocumented: rule.undocumented,
  fields: sorted(Object.entries(rule.fields)),
  documented: changedFields(rule),
  ...key === undefined ? {} : { key },
  ...isFirstTable ? {} : { classes: currentClasses }
})

/** Returns the documented fields that the rule does not keep. */
const changedFields = (rule: RuleSettings): StoredRule["documented"] => {
  const changed = new Map<string, "omit" | "pseudonymize">()
  for (const field of Lists.all.flatMap(Lists.fieldMeanings)) {
    const action = actionOf(rule, field)
    if (action !== "keep") changed.set(field.path.join("."), action)
  }
  return sorted([...changed])
}

/** Returns the documented fields that a stored rule leaves out, such as `customerDetails.name`. */
export const omittedIn = (stored: string | undefined): ReadonlyArray<string> =>
  Object.entries(parseStored(stored)?.documented ?? {}).flatMap(([field, action]) => action === "omit" ? [field] : [])

/** Whether the rule needs a key. */
export const hasPseudonyms = (rule: PersonalRule): boolean =>
  Object.values(changedFields(rule)).includes("pseudonymize")

const classesOf = ({ classes = firstClasses }: StoredRule): Classes => classes

/** What a stored rule (`before`) and a rule of this program (`after`) do with a documented field. */
interface ComparedField {
  readonly path: string
  /** Undefined if the field was not documented when the rule was stored. */
  readonly before: FieldAction | undefined
  readonly after: FieldAction
}

const comparedFields = (before: StoredRule, after: StoredRule, list: Lists.AnyList): ReadonlyArray<ComparedField> =>
  Lists.fieldMeanings(list).map((meaning) => {
    const identifies = classesOf(before)[classKey(list, meaning.path)]
    return {
      path: meaning.path.join("."),
      before: identifies === undefined ? undefined : actionOf(before, { ...meaning, identifies }),
      after: actionOf(after, meaning)
    }
  })

/** Returns the paths of the documented fields of which a copy with the stored rule has the service's own values. */
export const keptFields = (stored: string | undefined, list: Lists.AnyList): ReadonlySet<string> =>
  fieldsWith("keep", stored, list)

/** Returns the paths of the documented fields of which a copy with the stored rule has pseudonyms. */
export const pseudonymFields = (stored: string | undefined, list: Lists.AnyList): ReadonlySet<string> =>
  fieldsWith("pseudonymize", stored, list)

const fieldsWith = (action: FieldAction, stored: string | undefined, list: Lists.AnyList): ReadonlySet<string> => {
  const rule = parseStored(stored)
  const compared = rule === undefined ? [] : comparedFields(rule, rule, list)
  return new Set(
    compared.flatMap(({ before, path }) =>
      (before ?? rule?.fields[path] ?? rule?.undocumented) === action ? [path] : []
    )
  )
}

/**
 * Whether a destination that the stored rule has filled has nothing that the other rule would not keep. `stored` is
 * undefined for a destination without a rule. A field that was undocumented and not kept may have any action.
 */
export const isSame = (stored: string | undefined, rule: PersonalRule): boolean => {
  const before = parseStored(stored)
  return before !== undefined && isSameStored(before, storedOf(keepsAll(rule) ? keepAll : rule))
}

const isSameStored = (before: StoredRule, after: StoredRule): boolean =>
  hasSameSettings(before, after) && Lists.all.every((list) =>
    comparedFields(before, after, list).every((field) =>
      field.before === undefined
        ? field.after === "keep" || before.undocumented !== "keep" || field.path in before.fields
        : field.before === field.after
    )
    // A later program documents more fields.
  ) && Object.keys(classesOf(before)).every((name) =>
    name in currentClasses
  )

const hasSameSettings = (before: StoredRule, after: StoredRule): boolean =>
  before.preset === after.preset && before.undocumented === after.undocumented &&
  JSON.stringify(sorted(Object.entries(before.fields))) === JSON.stringify(after.fields) &&
  (before.key === after.key || !Object.values(before.documented).includes("pseudonymize"))

/**
 * Returns the fields that the stored rule kept only because of its table of classes, and that the same settings do not
 * keep now. Returns none if the settings differ.
 */
export const reclassifiedFields = (stored: string | undefined, rule: PersonalRule): ReadonlyArray<string> => {
  const before = parseStored(stored)
  const after = storedOf(keepsAll(rule) ? keepAll : rule)
  if (before === undefined || !hasSameSettings(before, after)) return []
  return differingPaths((list) =>
    comparedFields(before, after, list).filter((field) => field.before === "keep" && field.after !== "keep")
  )
}

/** Returns the fields that erased records kept, because the table of classes was another one. Erasures now leave them out. */
export const reclassifiedInErasures = (stored: string | undefined): ReadonlyArray<string> => {
  const before = parseStored(stored)
  if (before === undefined) return []
  return differingPaths((list) =>
    Lists.fieldMeanings(list)
      .filter(({ identifies, path }) => identifies !== "nobody" && classesOf(before)[classKey(list, path)] === "nobody")
      .map(({ path }) => ({ path: path.join(".") }))
  )
}

const differingPaths = (
  fieldsOf: (list: Lists.AnyList) => ReadonlyArray<{ readonly path: string }>
): ReadonlyArray<string> => [...new Set(Lists.all.flatMap((list) => fieldsOf(list).map(({ path }) => path)))]

/**
 * Returns the stored rule with this program's table of classes. Returns the same text if a rewrite has to carry that
 * table out first, or if a later program stored the rule.
 */
export const withCurrentClasses = (stored: string | undefined): string | undefined => {
  const before = parseStored(stored)
  const after = before === undefined ? undefined : storedWith(before, before.key)
  if (before === undefined || after === undefined || !isSameStored(before, after)) return stored
  const text = textOf(after)
  return text === keepText ? undefined : text
}

/**
 * The rule of erasures under the table of classes of a stored rule. It changes no text of a record that was erased
 * under that table. Undefined if erasures leave out the same fields now.
 */
export const earlierErasureRule = (stored: string | undefined, list: Lists.AnyList): PersonalRule | undefined => {
  const before = parseStored(stored)
  if (before === undefined || reclassifiedInErasures(stored).length === 0) return undefined
  return {
    ...erasureRule,
    preset: "keep",
    fields: Object.fromEntries(
      Lists.fieldMeanings(list).flatMap((meaning): ReadonlyArray<[string, FieldAction]> => {
        const path = meaning.path.join(".")
        const wasKept = classesOf(before)[classKey(list, meaning.path)] === "nobody"
        return path === "id" || (wasKept && meaning.identifies === "nobody") ? [] : [[path, wasKept ? "keep" : "omit"]]
      })
    )
  }
}

/** A field for which two rules have different actions. */
export interface FieldChange {
  /** The path of the field, or `(undocumented)` for all undocumented fields without an action of their own. */
  readonly field: string
  readonly from: FieldAction | Undocumented
  readonly to: FieldAction | Undocumented
}

/**
 * Returns the fields for which the rule has another action than the stored rule. Returns none if a later program stored
 * that one.
 */
export const fieldChanges = (
  stored: string | undefined,
  rule: PersonalRule
): ReadonlyArray<FieldChange> => {
  const before = parseStored(stored)
  if (before === undefined) return []
  const after = storedOf(rule)
  const compared = Lists.all.flatMap((list) => comparedFields(before, after, list))
  const documented = new Set(compared.map(({ path }) => path))
  const others = Object.keys({ ...before.fields, ...after.fields }).filter((path) => !documented.has(path))
  const changes: ReadonlyArray<FieldChange> = [
    ...compared.map((field): FieldChange => ({
      field: field.path,
      // A field that was undocumented is one of them.
      from: field.before ?? (field.after === "keep" ? "keep" : before.fields[field.path] ?? before.undocumented),
      to: field.after
    })),
    { field: "(undocumented)", from: before.undocumented, to: after.undocumented },
    ...others.map((field): FieldChange => ({
      field,
      from: before.fields[field] ?? before.undocumented,
      to: after.fields[field] ?? after.undocumented
    }))
  ]
  return [...new Map(changes.filter(({ from, to }) => from !== to).map((change) => [change.field, change])).values()]
}

/** Whether a rule leaves out every documented field that identifies a person. */
export const omitsPersons = (rule: RuleSettings): boolean =>
  Lists.all.flatMap(Lists.fieldMeanings)
    .every((field) => field.identifies !== "person" || actionOf(rule, field) === "omit")

/** Returns the check value of the key of the pseudonyms under a stored rule, or undefined if the rule has none. */
export const keyCheckIn = (stored: string | undefined): string | undefined => parseStored(stored)?.key

/** A stored rule for people who read a copy, without the check value of its key. */
export type ShownRule = { readonly name: string } & Pick<StoredRule, "preset" | "undocumented" | "fields">

/** Returns undefined if the rule keeps every field, or if a later program wrote it. */
export const shownRule = (stored: string | undefined): ShownRule | undefined => {
  const rule = parseStored(stored)
  if (rule === undefined || keepsAll(rule)) return undefined
  const { fields, preset, undocumented } = rule
  return { name: nameOf(stored), preset, undocumented, fields }
}

/**
 * Returns a short name of a rule, such as `omit-3f2a91bc`, or `keep` if it keeps every field. It does not depend on the key. It is
 * for programs and stored data: people get {@link ruleWords}.
 */
export const nameOf = (rule: PersonalRule | string | undefined): string => {
  const stored = typeof rule === "object" ? storedOf(rule) : parseStored(rule)
  if (stored === undefined) return "unknown"
  const { key: _, ...named } = stored
  const digest = createHash("sha256").update(JSON.stringify(named)).digest("hex").slice(0, 8)
  return keepsAll(stored) ? "keep" : `${stored.preset}-${digest}`
}

/** Returns a rule in words, such as `omit personal data, keep customerId`. They do not depend on the key. */
export const ruleWords = (rule: PersonalRule | string | undefined): string => {
  const stored = typeof rule === "object" ? storedOf(rule) : parseStored(rule)
  if (stored === undefined) return "unknown, of a later version"
  if (keepsAll(stored)) return "keep every field"
  const { fields, preset, undocumented } = stored
  const named = (["keep", "omit", "pseudonymize"] as const).flatMap((action) => {
    const paths = Object.keys(fields).filter((path) => fields[path] === action)
    return paths.length === 0 ? [] : [`${action} ${fieldsText(paths)}`]
  })
  // The settings have the same defaults.
  const others = undocumented === (preset === "keep" ? "keep" : "omit") ? [] : [`${undocumented} undocumented fields`]
  return [`${preset} personal data`, ...named, ...others].join(", ")
}

/** Returns two rules in words. Different rules have different words: their names are added where it is necessary. */
export const bothRuleWords = (
  one: PersonalRule | string | undefined,
  other: PersonalRule | string | undefined
): readonly [one: string, other: string] => {
  const [first, second] = [ruleWords(one), ruleWords(other)]
  const [firstName, secondName] = [nameOf(one), nameOf(other)]
  return first !== second || firstName === secondName
    ? [first, second]
    : [`${first}, ${firstName}`, `${second}, ${secondName}`]
}
