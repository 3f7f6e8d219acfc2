import { assert, describe, it } from "@effect/vitest"
import { Lists, parseText } from "@payments/core"
import { Redacted, Schema } from "effect"
import { readPath } from "../src/FieldPath.ts"
import {
  betweenRules,
  erasureRule,
  type FieldAction,
  hasPseudonyms,
  isSame,
  keepAll,
  nameOf,
  type PersonalRule,
  pseudonym,
  redactorOf,
  toStored
} from "../src/personal/Rule.ts"
import { hashesIn, hashOf, hashOfRecord, matches } from "../src/personal/Suppression.ts"

const keyOf = (text: string) => Redacted.make(new TextEncoder().encode(text))
const key = keyOf("0123456789abcdef0123456789abcdef")
const otherKey = keyOf("another key of thirty-two letters")

const rule = (changes: Partial<PersonalRule>): PersonalRule => ({ ...keepAll, key, ...changes })
const omitAll = rule({ preset: "omit", undocumented: "omit" })

/** JSON as a tree that keeps every character: repeated names, their spelling, and the text of scalars. */
type Tree =
  | { readonly _tag: "Scalar"; readonly text: string }
  | { readonly _tag: "Array"; readonly elements: ReadonlyArray<Tree> }
  | { readonly _tag: "Object"; readonly members: ReadonlyArray<Member> }

interface Member {
  /** The text of the name, with its quotes. */
  readonly nameText: string
  readonly value: Tree
}

const print = (tree: Tree): string =>
  tree._tag === "Scalar"
    ? tree.text
    : tree._tag === "Array"
    ? `[${tree.elements.map(print).join(",")}]`
    : `{${tree.members.map(({ nameText, value }) => `${nameText}:${print(value)}`).join(",")}}`

const treeOf = (value: unknown): Tree =>
  Array.isArray(value)
    ? { _tag: "Array", elements: value.map(treeOf) }
    : typeof value === "object" && value !== null
    ? {
      _tag: "Object",
      members: Object.entries(value).map(([name, member]) => ({
        nameText: JSON.stringify(name),
        value: treeOf(member)
      }))
    }
    : { _tag: "Scalar", text: value === Infinity ? "1e400" : Object.is(value, -0) ? "-0" : JSON.stringify(value) }

const paths = [...new Set(Lists.all.flatMap(Lists.fieldPaths))]
const names = [
  ...new Set(paths.flatMap((path) => path.split("."))),
  ...["__proto__", "10", "2", "constructor", "", "a.b", "metadata", "email2", "\ud800", "\"", "\\", "\n", "Jos\u00e9"]
]
const scalars = ["null", "true", "false", "0", "-0", "1.10", "1e400", "9007199254740993", `${"9".repeat(300)}`]

/** Decides by the numbers of a list, so that a failure shrinks to a small one. */
class Choices {
  private at = 0
  constructor(private readonly numbers: ReadonlyArray<number>) {}
  below(limit: number): number {
    return (this.numbers[this.at++] ?? 0) % limit
  }
  of<A>(values: ReadonlyArray<A>): A {
    return values[this.below(values.length)]! // it is not empty
  }
}

/** Returns a string's text with some characters spelled as escapes. */
const spelled = (text: string, choices: Choices): string =>
  choices.below(4) !== 0
    ? JSON.stringify(text)
    : `"${text.split("").map((character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}"`

const anyString = (choices: Choices): string =>
  choices.of(["", "Ana", "ps1_0", "{\"a\":1}", "]}", "\ud83d", "\\\"", "\u0000", "cc", `v${choices.below(1000)}`])

const anyTree = (choices: Choices, depth: number): Tree => {
  switch (choices.below(depth > 4 ? 2 : 6)) {
    case 0:
      return { _tag: "Scalar", text: choices.of(scalars) }
    case 1:
    case 2:
      return { _tag: "Scalar", text: spelled(anyString(choices), choices) }
    case 3:
      return { _tag: "Array", elements: some(choices, 3, () => anyTree(choices, depth + 1)) }
    default:
      return anyObject(choices, depth)
  }
}

const anyObject = (choices: Choices, depth: number): Tree => ({
  _tag: "Object",
  members: some(choices, depth === 0 ? 12 : 5, () => ({
    nameText: spelled(choices.of(names), choices),
    value: anyTree(choices, depth + 1)
  }))
})

const some = <A>(choices: Choices, most: number, make: () => A): ReadonlyArray<A> =>
  Array.from({ length: choices.below(most + 1) }, make)

const anyRule = (choices: Choices): PersonalRule => {
  const undocumented = [
    "metadata",
    "metadata.email",
    "email2",
    "\"a.b\".\"10\"",
    "customerDetails.email2",
    "metadata.10.2"
  ]
  const chosen = some(choices, 4, () => [choices.of([...paths, ...undocumented]), choices.below(3)] as const)
  return rule({
    preset: choices.of(["keep", "omit", "pseudonymize"]),
    undocumented: choices.of(["keep", "omit", "hold"]),
    fields: Object.fromEntries(
      chosen.filter(([path]) => path !== "id").map(([path, action]) => [
        path,
        action === 0 ? "keep" : action === 1 || !isText(path) ? "omit" : "pseudonymize"
      ])
    )
  })
}

const meanings = Lists.all.flatMap(Lists.fieldMeanings)
const isText = (path: string) => meanings.some((field) => field.path.join(".") === path && field.kind === "text")

/** The rule as the documentation describes it, over trees: the reference for the text. */
const expected = (list: Lists.AnyList, { fields, key: ruleKey, preset, undocumented }: PersonalRule, tree: Tree) => {
  const explicit = new Map(
    Object.entries(fields).map(([path, action]) => [JSON.stringify(readPath(path)?.path.names), action])
  )
  const documented = new Map(Lists.fieldMeanings(list).map((field) => [JSON.stringify(field.path), field]))
  const objects = new Set(Lists.fieldMeanings(list).flatMap(({ path }) => path.length === 2 ? [path[0]] : []))
  const inside = new Set(
    [...explicit.keys()].flatMap((path) => {
      const all: ReadonlyArray<string> = JSON.parse(path)
      return all.slice(1).map((_, length) => JSON.stringify(all.slice(0, length + 1)))
    })
  )
  const act = (action: FieldAction | "hold", value: Tree): Tree | undefined => {
    if (action === "keep") return value
    if (action !== "pseudonymize") return undefined
    const text = print(value)
    if (text === "null") return value
    const decoded = text.startsWith("\"") ? String(JSON.parse(text)) : text
    const hashed = pseudonym(ruleKey ?? key, decoded.isWellFormed() ? decoded : JSON.stringify(decoded))
    return { _tag: "Scalar", text: `"${hashed}"` }
  }
  const object = (
    members: ReadonlyArray<Member>,
    path: ReadonlyArray<string>,
    inherited: FieldAction | "hold"
  ): Tree => {
    const gone = new Set<string>()
    const kept = members.flatMap((member): ReadonlyArray<Member> => {
      const name = String(JSON.parse(member.nameText))
      const own = [...path, name]
      const text = JSON.stringify(own)
      const meaning = documented.get(text)
      const given = text === "[\"id\"]"
        ? undefined
        : explicit.get(text) ?? (meaning === undefined ? undefined : explicit.get(JSON.stringify(path)))
      const isObject = path.length === 0 && objects.has(name)
      const leafAction = given ??
        (meaning === undefined ? inherited : meaning.identifies === "person" ? preset : "keep")
      let after: Tree | undefined
      if (isObject || inside.has(text)) {
        const other = isObject
          ? given ?? (undocumented === "keep" && preset !== "keep" ? "omit" : undocumented)
          : leafAction
        after = member.value._tag === "Object"
          ? object(member.value.members, own, other)
          : member.value._tag === "Array"
          ? {
            _tag: "Array",
            elements: member.value.elements.flatMap((element) => {
              const one = element._tag === "Object" ? object(element.members, own, other) : act(other, element)
              return one === undefined ? [] : [one]
            })
          }
          : isObject && print(member.value) === "null" && given !== "omit"
          ? member.value
          : act(other, member.value)
      } else {
        const first = print(member.value).slice(0, 1)
        const kinds = { text: "\"", integer: "-0123456789", boolean: "tf" }
        const isOther = meaning !== undefined && given === undefined && meaning.identifies !== "person" &&
          print(member.value) !== "null" && !kinds[meaning.kind].includes(first)
        after = act(isOther ? undocumented : leafAction, member.value)
      }
      if (after === undefined) gone.add(name)
      else gone.delete(name)
      return after === undefined ? [] : [{ ...member, value: after }]
    })
    return { _tag: "Object", members: kept.filter(({ nameText }) => !gone.has(String(JSON.parse(nameText)))) }
  }
  return tree._tag === "Object" ? object(tree.members, [], undocumented) : act(undocumented, tree) ?? treeOf(null)
}

const Numbers = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 })))
  .check(Schema.isMinLength(100), Schema.isMaxLength(400))

describe("a rule", () => {
  it.prop("changes exactly the text of the fields that it names, whatever the record is", [Numbers], ([numbers]) => {
    const choices = new Choices(numbers)
    const list = choices.of(Lists.all)
    const chosen = anyRule(choices)
    const tree = choices.below(20) === 0 ? anyTree(choices, 0) : anyObject(choices, 0)
    const text = print(tree)
    const { held, text: redacted } = redactorOf(list, chosen)(text)
    assert.strictEqual(redacted, print(expected(list, chosen, tree)))
    assert.isTrue(held === undefined || chosen.undocumented === "hold")
    // The pseudonym of a number is made from its exact text, which parsing loses.
    if (!hasPseudonyms(chosen)) {
      assert.deepStrictEqual(parseText(redacted), parseText(print(expected(list, chosen, treeOf(parseText(text))))))
      assert.strictEqual(redactorOf(list, chosen)(redacted).text, redacted)
    }
    assert.strictEqual(redactorOf(list, betweenRules(toStored(chosen), chosen))(redacted).text, redacted)
    assert.isTrue(isSame(toStored(chosen), chosen))
  }, { arbitrary: { runs: 500 } })
})
