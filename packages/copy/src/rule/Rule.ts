/**
 * Which fields of records a destination may have: each field is kept, left out or replaced by a pseudonym. A rule is applied
 * to the exact text of a record before anything is written. Text that a rule does not concern stays byte for byte.
 *
 * The path of a field goes through embedded objects, and through an array to the objects that are its elements. Names are
 * compared as decoded, and all members of the same name are concerned. A value that is not of its documented type, and an
 * embedded object that is no object, may contain anything, so they count as undocumented.
 */
import { Lists, rewriteItems } from "@payments/core"
import type { Redacted } from "effect"
import { storedName } from "../text/FieldNames.ts"
import { pathText, readPath } from "../text/FieldPath.ts"
import { pseudonym, type ToPseudonym } from "./Pseudonym.ts"

/** What happens to a field. */
export type FieldAction = "keep" | "omit" | "pseudonymize"

/** What happens to fields that the API's document does not have. `hold` leaves them out, and reports them for a decision. */
export type Undocumented = "keep" | "omit" | "hold"

/** A rule for personal data. */
export interface PersonalRule {
  /** What happens to the documented fields that identify a person. */
  readonly preset: FieldAction
  /** Fields with an action of their own, by path (`pathText`). The action of an object is also that of its fields. */
  readonly fields: { readonly [path: string]: FieldAction }
  readonly undocumented: Undocumented
  /** The key of the pseudonyms and of the suppression list. */
  readonly key: Redacted.Redacted<Uint8Array> | undefined
}

export type RuleSettings = Pick<PersonalRule, "preset" | "fields" | "undocumented">

/** Keeps every field. */
export const keepAll: PersonalRule = { preset: "keep", fields: {}, undocumented: "keep", key: undefined }

export interface RedactedText {
  readonly text: string
  /** The path of the first undocumented field that was left out for a decision. A record that is no object has the path "". */
  readonly held: string | undefined
}

/**
 * The function returns the same text if nothing changes. Its text must be valid JSON. `toPseudonym` is `pseudonymOnce` for
 * texts that may have pseudonyms of the same key.
 */
export const redactorOf = (
  list: Lists.AnyList,
  rule: PersonalRule,
  toPseudonym: ToPseudonym = pseudonym
): (text: string) => RedactedText => {
  if (keepsAll(rule)) return (text) => ({ text, held: undefined })
  const root = nodeOf(list, rule)
  return (text) => {
    const state: State = { key: rule.key, toPseudonym, held: undefined }
    const redacted = text.startsWith("{") ? rewriteMembers(root, text, state) : valueAfter(root.other, "", text, state)
    return { text: redacted ?? "null", held: state.held }
  }
}

export const keepsAll = ({ fields, preset, undocumented }: RuleSettings): boolean =>
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
  readonly keepsNull: boolean
}

/** The state of applying a rule to one record. */
interface State {
  readonly key: PersonalRule["key"]
  readonly toPseudonym: ToPseudonym
  held: string | undefined
}

const rewriteMembers = (node: Branch, object: string, state: State): string => {
  /** The names whose last member is left out because of its type. Earlier members of the name must not take its place. */
  let gone: Set<string> | undefined
  const rewritten = rewriteItems(object, (value, name = "") => {
    const member = node.members.get(name)
    if (member === undefined) {
      return node.other === "hold"
        ? withhold(childPath(node.path, storedName(name)), state)
        : valueAfter(node.other, node.path, value, state)
    }
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

const valueAfter = (action: NodeAction, path: string, value: string, state: State): string | undefined => {
  switch (action) {
    case "keep":
      return value
    case "omit":
      return undefined
    case "hold":
      return withhold(path, state)
    case "pseudonymize":
      if (state.key === undefined) throw new Error("the rule has pseudonyms and no key")
      return value === "null" ? value : `"${state.toPseudonym(state.key, stringIn(value))}"`
  }
}

/** Leaves a value out until a person decides. */
const withhold = (path: string, state: State): undefined => {
  state.held ??= path
}

const childPath = (path: string, name: string): string => path === "" ? name : `${path}.${name}`

/** Returns the decoded string of a JSON text, or the text itself if it is no string or has no UTF-8 form. */
const stringIn = (value: string): string => {
  if (!value.startsWith("\"")) return value
  const decoded = value.includes("\\") ? String(JSON.parse(value)) : value.slice(1, -1)
  return decoded.isWellFormed() ? decoded : JSON.stringify(decoded)
}

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

const isOmittedWhole = ({ fields }: PersonalRule, field: string): boolean =>
  fields[field] === "omit" && !Object.keys(fields).some((path) => path.startsWith(`${field}.`))

/** Returns the action that the rule names for a documented field or its object. Nothing changes an id. */
const explicitAction = (
  { fields }: Pick<PersonalRule, "fields">,
  { path: [field, inner] }: Lists.FieldMeaning
): FieldAction | undefined =>
  field === "id" ? undefined : inner === undefined ? fields[field] : fields[childPath(field, inner)] ?? fields[field]

export const actionOf = (rule: Pick<PersonalRule, "preset" | "fields">, field: Lists.FieldMeaning): FieldAction =>
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
