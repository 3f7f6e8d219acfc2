/**
 * Which fields of records a destination may have: each field is kept, left out or replaced by a pseudonym. A rule is applied
 * to the exact text of a record before anything is written. Text that a rule does not concern stays byte for byte.
 *
 * The path of a field goes through embedded objects, and through an array to the objects that are its elements. Names are
 * compared as decoded, and all members of the same name are concerned. A value that is not of its documented type, and an
 * embedded object that is no object, may contain anything, so they count as undocumented.
 */
import { Lists, rewriteItems } from "@payments/core"
import { Option, Redacted, Schema } from "effect"
import { createHash, createHmac, createSecretKey, type KeyObject } from "node:crypto"
import { fieldsText, storedName } from "../text/FieldNames.ts"
import { pathText, readPath } from "../text/FieldPath.ts"
import { type Classes, classKey, currentClasses, firstClasses, isFirstTable } from "./Classes.ts"

/** What happens to a field. */
export type FieldAction = "keep" | "omit" | "pseudonymize"

/** What happens to fields that the API's document does not have. `hold` leaves them out, and reports them for a decision. */
export type Undocumented = "keep" | "omit" | "hold"

/** A rule. */
export interface PersonalRule {
  /** What happens to the documented fields that identify a person. */
  readonly preset: FieldAction
  /** Fields with an action of their own, by path (`pathText`). The action of an object is also that of its fields. */
  readonly fields: { readonly [path: string]: FieldAction }
  readonly undocumented: Undocumented
  /** The key of the pseudonyms and of the suppression list. */
  readonly key: Redacted.Redacted<Uint8Array> | undefined
}

type Settings = Pick<PersonalRule, "preset" | "fields" | "undocumented">

/** Keeps every field. */
export const keepAll: PersonalRule = { preset: "keep", fields: {}, undocumented: "keep", key: undefined }

/** A record's text after a rule. */
export interface RedactedText {
  readonly text: string
  /** The path of the first undocumented field that was left out for a decision. A record that is no object has the path "". */
  readonly held: string | undefined
}

/**
 * Returns the function that applies the rule to texts of the list's records. It returns the same text if nothing changes.
 * The text must be valid JSON.
 */
export const redactorOf = (list: Lists.AnyList, rule: PersonalRule): (text: string) => RedactedText => {
  if (keepsAll(rule)) return (text) => ({ text, held: undefined })
  const root = nodeOf(list, rule)
  return (text) => {
    const state: State = { key: rule.key, held: undefined }
    const redacted = text.startsWith("{") ? rewriteMembers(root, text, state) : valueAfter(root.other, "", text, state)
    return { text: redacted ?? "null", held: state.held }
  }
}

/** Whether the rule changes nothing. */
export const keepsAll = ({ fields, preset, undocumented }: Settings): boolean =>
  preset === "keep" && undocumented === "keep" && Object.values(fields).every((action) => action === "keep")

type NodeAction = FieldAction | "hold"

/** What a rule does with a field. */
interface Leaf {
  readonly path: string
  readonly action: NodeAction
  /** The documented type, if values of another one count as undocumented. */
  readonly kind: Lists.FieldMeaning["kind"] | undefined
  /** The action of values of another type. */
  readonly other: NodeAction
  readonly members?: undefined
}

/** What a rule does with an object whose members have actions of their own. */
interface Branch {
  readonly path: string
  readonly action?: undefined
  readonly members: Map<string, Leaf | Branch>
  /** The action of all other members, and of a value that is no object. */
  readonly other: NodeAction
  /** Whether null is kept. */
  readonly keepsNull: boolean
}

/** The state of applying a rule to one record. */
interface State {
  readonly key: PersonalRule["key"]
  held: string | undefined
}

const rewriteMembers = (node: Branch, object: string, state: State): string => {
  /** The names whose last member is left out because of its type. Earlier members of the name must not take its place. */
  let gone: Set<string> | undefined
  const rewritten = rewriteItems(object, (value, name = "") => {
    const member = node.members.get(name)
    if (member === undefined) return valueAfter(node.other, node.path, value, state, name)
    const after = member.members === undefined ? leafAfter(member, value, state) : branchAfter(member, value, state)
    if (after !== undefined) gone?.delete(name)
    else if (member.action !== member.other) (gone ??= new Set()).add(name)
    return after
  })
  const names = gone
  return names === undefined || names.size === 0
    ? rewritten
    : rewriteItems(rewritten, (value, name = "") => names.has(name) ? undefined : value)
}

const branchAfter = (node: Branch, value: string, state: State): string | undefined => {
  if (value.startsWith("{")) return rewriteMembers(node, value, state)
  if (value === "null" && node.keepsNull) return value
  if (!value.startsWith("[")) return valueAfter(node.other, node.path, value, state)
  return rewriteItems(
    value,
    (element) =>
      element.startsWith("{")
        ? rewriteMembers(node, element, state)
        : valueAfter(node.other, node.path, element, state)
  )
}

const leafAfter = ({ action, kind, other, path }: Leaf, value: string, state: State): string | undefined =>
  kind === undefined || value === "null" || starts[kind].test(value)
    ? valueAfter(action, path, value, state)
    : valueAfter(other, path, value, state)

/** How the JSON text of a value of each kind starts. */
const starts = { text: /^"/, integer: /^[-\d]/, boolean: /^[tf]/ }

/** Applies an action to a value. `name` is that of an unlisted member of the object at `path`. */
const valueAfter = (
  action: NodeAction,
  path: string,
  value: string,
  state: State,
  name?: string
): string | undefined => {
  switch (action) {
    case "keep":
      return value
    case "omit":
      return undefined
    case "hold":
      state.held ??= name === undefined ? path : childPath(path, storedName(name))
      return undefined
    case "pseudonymize":
      if (state.key === undefined) throw new Error("the rule has pseudonyms and no key")
      return value === "null" ? value : `"${pseudonym(state.key, stringIn(value))}"`
  }
}

const childPath = (path: string, name: string): string => path === "" ? name : `${path}.${name}`

/** Returns the decoded string of a JSON text, or the text itself if it is no string or has no UTF-8 form. */
const stringIn = (value: string): string => {
  if (!value.startsWith("\"")) return value
  const decoded = value.includes("\\") ? String(JSON.parse(value)) : value.slice(1, -1)
  return decoded.isWellFormed() ? decoded : JSON.stringify(decoded)
}

/** Returns the pseudonym of a value: `ps1_` and 32 hexadecimal digits of its HMAC-SHA-256. */
export const pseudonym = (key: Redacted.Redacted<Uint8Array>, value: string): string =>
  `ps1_${hmac(key, value).slice(0, 32)}`

/** Returns the pseudonym of a value. A pseudonym, which a copy may have in place of a value, stays. */
export const pseudonymOnce = (key: Redacted.Redacted<Uint8Array>, value: string): string =>
  /^ps1_[0-9a-f]{32}$/.test(value) ? value : pseudonym(key, value)

/** A key object makes an HMAC seven times as fast as a key in bytes. */
const keyObjects = new WeakMap<Redacted.Redacted<Uint8Array>, KeyObject>()

/** Returns the HMAC-SHA-256 of the text's UTF-8 in hexadecimal digits. */
export const hmac = (key: Redacted.Redacted<Uint8Array>, text: string): string => {
  let keyObject = keyObjects.get(key)
  if (keyObject === undefined) keyObjects.set(key, keyObject = createSecretKey(Redacted.value(key)))
  return createHmac("sha256", keyObject).update(text, "utf8").digest("hex")
}

/** Returns a text that shows whether two keys are the same, and nothing else about them. */
export const keyCheck = (key: Redacted.Redacted<Uint8Array>): string => hmac(key, "payments key check").slice(0, 32)

/** Returns what the rule does with the list's fields. */
const nodeOf = (list: Lists.AnyList, rule: PersonalRule): Branch => {
  const root: Branch = { path: "", members: new Map(), other: rule.undocumented, keepsNull: false }
  for (const meaning of Lists.fieldMeanings(list)) {
    const { identifies, kind, path: [field, inner] } = meaning
    if (inner !== undefined && isOmittedWhole(rule, field)) {
      root.members.set(field, { path: field, action: "omit", kind: undefined, other: "omit" })
      continue
    }
    const parent = inner === undefined ? root : branchIn(root, field, ofObject(rule, rule.fields[field]))
    parent.members.set(inner ?? field, {
      path: inner === undefined ? field : childPath(field, inner),
      action: actionOf(rule, meaning),
      // The action for persons, and one that the rule names, are for values of any type.
      kind: identifies === "person" || explicitAction(rule, meaning) !== undefined ? undefined : kind,
      other: rule.undocumented
    })
  }
  const documented = new Set(Lists.fieldPaths(list))
  const others = Object.entries(rule.fields)
    .filter(([path]) => !documented.has(path))
    .map(([path, action]) => ({ names: readPath(path)?.path.names ?? [path], action }))
    // A longer path replaces a part of the action of a shorter one.
    .toSorted((one, other) => one.names.length - other.names.length)
  for (const { action, names } of others) addField(root, names, action)
  return root
}

/** Whether the rule leaves out an embedded object with all of its fields. */
const isOmittedWhole = ({ fields }: PersonalRule, field: string): boolean =>
  fields[field] === "omit" && !Object.keys(fields).some((path) => path.startsWith(`${field}.`))

/** Returns the action that the rule names for a documented field or its object. Nothing changes an id. */
const explicitAction = (
  { fields }: Pick<PersonalRule, "fields">,
  { path: [field, inner] }: Lists.FieldMeaning
): FieldAction | undefined =>
  field === "id" ? undefined : inner === undefined ? fields[field] : fields[childPath(field, inner)] ?? fields[field]

/** Returns what the rule does with values of a documented field. */
const actionOf = (rule: Pick<PersonalRule, "preset" | "fields">, field: Lists.FieldMeaning): FieldAction =>
  explicitAction(rule, field) ?? (field.identifies === "person" ? rule.preset : "keep")

/** What happens to an embedded object's undocumented members and to a value that is no object. */
const ofObject = ({ preset, undocumented }: PersonalRule, explicit: FieldAction | undefined) => ({
  // The object identifies a person, so these presets do not keep a value of another type.
  other: explicit ?? (undocumented === "keep" && preset !== "keep" ? "omit" : undocumented),
  keepsNull: explicit !== "omit"
})

const branchIn = (parent: Branch, name: string, options: Pick<Branch, "other" | "keepsNull">): Branch => {
  const found = parent.members.get(name)
  if (found?.members !== undefined) return found
  const branch: Branch = { path: childPath(parent.path, pathText([name])), members: new Map(), ...options }
  parent.members.set(name, branch)
  return branch
}

/** Adds the action of an undocumented field. */
const addField = (root: Branch, names: ReadonlyArray<string>, action: FieldAction): void => {
  let parent = root
  for (const name of names.slice(0, -1)) {
    const found = parent.members.get(name)
    const other = found === undefined ? parent.other : found.members === undefined ? found.action : found.other
    parent = branchIn(parent, name, { other, keepsNull: other === "keep" })
  }
  parent.members.set(names.at(-1) ?? "", { path: pathText(names), action, kind: undefined, other: action })
}

/**
 * The rule of erasures: a record keeps its id and the documented fields that identify nobody, such as amounts, states and
 * dates.
 */
export const erasureRule: PersonalRule = {
  preset: "omit",
  fields: Object.fromEntries(
    Lists.all.flatMap(Lists.fieldMeanings)
      .filter(({ identifies, path }) => identifies === "payment" && path[0] !== "id")
      .map(({ path }) => [path.join("."), "omit"])
  ),
  undocumented: "omit",
  key: undefined
}

/** A rule as a destination stores it. */
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

/** Returns the rule as a destination stores it: the same text for the same rule. It contains no key. */
export const toStored = (rule: PersonalRule): string => textOf(storedOf(keepsAll(rule) ? keepAll : rule))

const textOf = (stored: StoredRule): string =>
  keepsAll(stored) && stored.classes === undefined ? keepText : JSON.stringify(stored)

const storedOf = (rule: PersonalRule): StoredRule =>
  storedWith(rule, hasPseudonyms(rule) && rule.key !== undefined ? keyCheck(rule.key) : undefined)

/** Returns the stored form of a rule, under this program's table of classes. The order of its members is part of the text. */
const storedWith = (rule: Settings, key: string | undefined): StoredRule => ({
  version: isFirstTable ? 1 : 2,
  preset: rule.preset,
  undocumented: rule.undocumented,
  fields: sorted(rule.fields),
  documented: changedFields(rule),
  ...key === undefined ? {} : { key },
  ...isFirstTable ? {} : { classes: currentClasses }
})

/** Returns the documented fields that the rule does not keep. */
const changedFields = (rule: Settings): StoredRule["documented"] => {
  const changed: { [path: string]: "omit" | "pseudonymize" } = {}
  for (const field of Lists.all.flatMap(Lists.fieldMeanings)) {
    const action = actionOf(rule, field)
    if (action !== "keep") changed[field.path.join(".")] = action
  }
  return sorted(changed)
}

const sorted = <A>(record: { readonly [path: string]: A }): { readonly [path: string]: A } =>
  Object.fromEntries(Object.entries(record).toSorted(([one], [other]) => one < other ? -1 : 1))

/** Whether the rule needs a key. */
export const hasPseudonyms = (rule: PersonalRule): boolean =>
  Object.values(changedFields(rule)).includes("pseudonymize")

const classesOf = ({ classes = firstClasses }: StoredRule): Classes => classes

/** A documented field of a list, and what a stored rule and a rule of this program do with it. */
interface ComparedField {
  readonly path: string
  /** Undefined if the field was not documented when the rule was stored. */
  readonly before: FieldAction | undefined
  readonly after: FieldAction
}

/** Returns what happens to the documented fields of a list. */
const comparedFields = (before: StoredRule, after: StoredRule, list: Lists.AnyList): ReadonlyArray<ComparedField> =>
  Lists.fieldMeanings(list).map((meaning) => {
    const identifies = classesOf(before)[classKey(list, meaning.path)]
    return {
      path: meaning.path.join("."),
      before: identifies === undefined ? undefined : actionOf(before, { ...meaning, identifies }),
      after: actionOf(after, meaning)
    }
  })

/**
 * Whether a destination that was filled by the stored rule has nothing that the other rule would not keep. `stored` is undefined
 * for a destination without a rule. A field that was undocumented then, and that the stored rule did not keep, may have any
 * action now.
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

/** Whether two rules differ at most in the classes of fields. */
const hasSameSettings = (before: StoredRule, after: StoredRule): boolean =>
  before.preset === after.preset && before.undocumented === after.undocumented &&
  JSON.stringify(sorted(before.fields)) === JSON.stringify(after.fields) &&
  (before.key === after.key || !Object.values(before.documented).includes("pseudonymize"))

/**
 * Returns the fields that the stored rule kept, because the table of classes was another one, and that the rule with the same
 * settings does not keep now; none if the settings differ.
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
 * Returns the stored rule, as in the databases, with this program's table of classes; or the same text if a rewrite has to carry
 * that table out first, or if a later program stored the rule.
 */
export const withCurrentClasses = (stored: string | undefined): string | undefined => {
  const before = parseStored(stored)
  const after = before === undefined ? undefined : storedWith(before, before.key)
  if (before === undefined || after === undefined || !isSameStored(before, after)) return stored
  const text = textOf(after)
  return text === keepText ? undefined : text
}

/**
 * Returns the rule that turns the texts of a list after the stored rule into texts after the other rule. Pseudonyms of the same
 * key stay. Pseudonyms of another key get pseudonyms of the new key.
 */
export const betweenRules = (stored: string | undefined, rule: PersonalRule, list: Lists.AnyList): PersonalRule => {
  const before = parseStored(stored)
  if (before === undefined || rule.key === undefined || before.key !== keyCheck(rule.key)) return rule
  const unchanged = comparedFields(before, storedOf(rule), list).filter((field) =>
    field.before === "pseudonymize" && field.after === "pseudonymize"
  )
  const documented = new Set(Lists.fieldPaths(list))
  const isBelow = (path: string) => (field: string) => field.startsWith(`${path}.`)
  // A path that both rules name may be that of an undocumented field of this list.
  const unchangedOthers = Object.keys(rule.fields).filter((path) =>
    !documented.has(path) && rule.fields[path] === "pseudonymize" && before.fields[path] === "pseudonymize" &&
    Object.keys({ ...before.fields, ...rule.fields })
      .filter(isBelow(path))
      .every((field) => before.fields[field] === rule.fields[field])
  )
  const kept = [...unchanged.map(({ path }) => path), ...unchangedOthers]
  return { ...rule, fields: { ...rule.fields, ...Object.fromEntries(kept.map((path) => [path, "keep"])) } }
}

/**
 * The rule of erasures under the table of classes of a stored rule: it changes no text of a record that was erased under that
 * table. Undefined if erasures leave out the same fields now.
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

/** Returns the fields for which the rule has another action than the stored rule; none if a later program stored that. */
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

/** Returns the check value of the key of the pseudonyms under a stored rule, or undefined if the rule has none. */
export const keyCheckIn = (stored: string | undefined): string | undefined => parseStored(stored)?.key

/** A stored rule for people who read a copy, without the check value of its key. */
export type ShownRule = { readonly name: string } & Pick<StoredRule, "preset" | "undocumented" | "fields">

/** Returns a stored rule for people, or undefined if it keeps every field, or if a later program wrote it. */
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
