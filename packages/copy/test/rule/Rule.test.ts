import { assert, describe, it } from "@effect/vitest"
import { Lists, parseText } from "@payments/core"
import { Redacted, Schema } from "effect"
import { type Classes, currentClasses, firstClasses } from "../../src/rule/Classes.ts"
import { pseudonym, pseudonymOnce } from "../../src/rule/Pseudonym.ts"
import { erasureRule, type FieldAction, keepAll, type PersonalRule, redactorOf } from "../../src/rule/Rule.ts"
import {
  bothRuleWords,
  earlierErasureRule,
  fieldChanges,
  hasPseudonyms,
  isSame,
  nameOf,
  reclassifiedFields,
  reclassifiedInErasures,
  ruleWords,
  toStored,
  withCurrentClasses
} from "../../src/rule/StoredRule.ts"
import { hashesIn, hashOf, hashOfRecord, matcherOf } from "../../src/rule/Suppression.ts"
import { readPath } from "../../src/text/FieldPath.ts"

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
const oddNames = ["__proto__", "10", "constructor", "", "a.b", "metadata", "email2", "\ud800", "\"", "\\", "\n", "José"]
const names = [...new Set(paths.flatMap((path) => path.split("."))), ...oddNames]
const scalars = ["null", "true", "false", "0", "-0", "1.10", "1e400", "9007199254740993", `${"9".repeat(300)}`]

/** Decides by the numbers of a list, so that a failure shrinks to a small one. */
class Choices {
  private at = 0
  private readonly numbers: ReadonlyArray<number>
  constructor(numbers: ReadonlyArray<number>) {
    this.numbers = numbers
  }
  below(limit: number): number {
    return (this.numbers[this.at++] ?? 0) % limit
  }
  of<A>(values: ReadonlyArray<A>): A {
    return values[this.below(values.length)] as A // no caller passes an empty array
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
      if (isObject && given === "omit" && !inside.has(text)) after = undefined
      else if (isObject || inside.has(text)) {
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
    assert.strictEqual(redactorOf(list, chosen, pseudonymOnce)(redacted).text, redacted)
    assert.isTrue(isSame(toStored(chosen), chosen))
  }, { arbitrary: { runs: 500 } })

  it("omits, keeps and holds undocumented fields at every depth, with exceptions", () => {
    const text =
      `{"id":"1","amount":1.10,"meta":{"kind":"a","mail":"b"},"customerDetails":{"name":"Ana","vip":true,"documentType":"cc"}}`
    const apply = (changes: Partial<PersonalRule>) => redactorOf(Lists.payoutRequests, rule(changes))(text)
    assert.strictEqual(apply(keepAll).text, text)
    assert.strictEqual(
      apply({ preset: "omit", undocumented: "omit" }).text,
      `{"id":"1","amount":1.10,"customerDetails":{"documentType":"cc"}}`
    )
    assert.strictEqual(
      apply({ undocumented: "omit", fields: { "meta": "keep", "meta.mail": "omit", "customerDetails.vip": "keep" } })
        .text,
      text.replace(",\"mail\":\"b\"", "")
    )
    assert.strictEqual(apply({ fields: { customerDetails: "omit" } }).text, text.replace(/,"customerDetails.*/, "}"))
    assert.deepStrictEqual(apply({ undocumented: "hold", fields: { meta: "keep" } }), {
      text: text.replace("\"vip\":true,", ""),
      held: "customerDetails.vip"
    })
    const held = redactorOf(Lists.invoices, rule({ undocumented: "hold" }))
    assert.deepStrictEqual(held(`{"1020304050":1}`), { text: "{}", held: "(other)" })
    assert.deepStrictEqual(held(`["Ana"]`), { text: "null", held: "" })
  })

  it("leaves out null in place of an object that it leaves out, and keeps it in place of any other", () => {
    const text = `{"id":"1","customerDetails":null,"meta":null}`
    const apply = (changes: Partial<PersonalRule>) => redactorOf(Lists.payoutRequests, rule(changes))(text).text
    assert.strictEqual(apply({ preset: "omit", undocumented: "omit" }), `{"id":"1","customerDetails":null}`)
    assert.strictEqual(
      apply({ fields: { "customerDetails": "omit", "customerDetails.documentType": "keep" } }),
      `{"id":"1","meta":null}`
    )
    assert.strictEqual(
      apply({ undocumented: "omit", fields: { "meta.kind": "keep" } }),
      `{"id":"1","customerDetails":null}`
    )
    assert.strictEqual(apply({ fields: { "meta.kind": "omit" } }), text)
  })

  it("does not keep a value of another type than the documented one, except by name", () => {
    const text = `{"id":{"a":1},"status":{"name":"Ana"},"amount":"Ana","customerDetails":"Ana","description":["Ana"]}`
    assert.strictEqual(redactorOf(Lists.payinSources, omitAll)(text).text, "{}")
    const named = rule({
      undocumented: "omit",
      fields: { status: "keep", customerDetails: "keep", description: "omit" }
    })
    assert.strictEqual(
      redactorOf(Lists.payinSources, named)(text).text,
      `{"status":{"name":"Ana"},"customerDetails":"Ana"}`
    )
    assert.strictEqual(redactorOf(Lists.payinSources, rule({ preset: "omit" }))(`{"customerDetails":"Ana"}`).text, "{}")
  })

  it("does not let an earlier member take the place of one that it leaves out", () => {
    const text = `{"status":"paid","st\\u0061tus":{"name":"Ana"}}`
    assert.strictEqual(redactorOf(Lists.invoices, omitAll)(text).text, "{}")
  })

  it("leaves an erased record its id and what identifies nobody", () => {
    for (const list of Lists.all) {
      const record: { [field: string]: unknown } = { extra: "x" }
      for (const { kind, path: [field, inner] } of Lists.fieldMeanings(list)) {
        const value = kind === "text" ? "x" : kind === "integer" ? 1 : true
        record[field] = inner === undefined ? value : { extra: "x", ...record[field] as object, [inner]: value } // made here
      }
      const left = parseText(redactorOf(list, erasureRule)(JSON.stringify(record)).text)
      const leftPaths = Object.entries(left as object) // a record is an object
        .flatMap(([field, value]) =>
          typeof value === "object" ? Object.keys(value).map((one) => `${field}.${one}`) : [field]
        )
      assert.deepStrictEqual(
        leftPaths.toSorted(),
        Lists.fieldMeanings(list).filter(({ identifies, path }) => identifies === "nobody" || path[0] === "id")
          .map(({ path }) => path.join(".")).toSorted()
      )
    }
  })

  it.prop("shows no value that it leaves out", [Numbers], ([numbers]) => {
    const choices = new Choices(numbers)
    const list = choices.of(Lists.all)
    let count = 0
    const withCanaries = (tree: Tree): Tree =>
      tree._tag === "Array"
        ? { ...tree, elements: tree.elements.map(withCanaries) }
        : tree._tag === "Object"
        ? { ...tree, members: tree.members.map((member) => ({ ...member, value: withCanaries(member.value) })) }
        : tree.text.startsWith("\"")
        ? { _tag: "Scalar", text: spelled(`canary${count++}`, choices) }
        : tree
    const tree = withCanaries(anyObject(choices, 0))
    // Texts of documented fields for nobody and of ids stay.
    const kept = new Set(
      Lists.fieldMeanings(list).filter(({ identifies }) => identifies !== "person").map(({ path }) => path.join("."))
    )
    const values = (value: unknown, path: string): ReadonlyArray<string> =>
      typeof value === "string"
        ? kept.has(path) ? [] : [value]
        : typeof value === "object" && value !== null
        ? Object.entries(value).flatMap(([name, one]) =>
          values(one, Array.isArray(value) ? path : path === "" ? name : `${path}.${name}`)
        )
        : []
    const redacted = redactorOf(list, omitAll)(print(tree)).text
    assert.deepStrictEqual(values(parseText(redacted), ""), [])
  }, { arbitrary: { runs: 300 } })
})

describe("pseudonyms", () => {
  const pseudonymize = rule({ preset: "pseudonymize", undocumented: "omit" })

  it("are the HMAC-SHA-256 of the decoded value, the same in every field, list and spelling", () => {
    // printf %s 1020304050 | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
    assert.strictEqual(pseudonym(key, "1020304050"), "ps1_eb5670989c144da577724f5dcd71dbd6")
    const invoice = redactorOf(Lists.invoices, pseudonymize)
    const payout = redactorOf(Lists.payoutRequests, pseudonymize)
    const expectedText = pseudonym(key, "José")
    for (const spelling of [`"José"`, `"Jos\\u00e9"`, `"\\u004aos\\u00E9"`]) {
      assert.strictEqual(invoice(`{"contract":${spelling}}`).text, `{"contract":"${expectedText}"}`)
      assert.strictEqual(
        payout(`{"customerId":${spelling},"customerDetails":{"name":${spelling},"email":null}}`).text,
        `{"customerId":"${expectedText}","customerDetails":{"name":"${expectedText}","email":null}}`
      )
    }
    // A number has the pseudonym of its digits.
    assert.strictEqual(invoice(`{"contract":12}`).text, `{"contract":"${pseudonym(key, "12")}"}`)
    assert.strictEqual(invoice(`{"contract":"\\uD800"}`).text, invoice(`{"contract":"\\ud800"}`).text)
    assert.notStrictEqual(pseudonym(otherKey, "José"), expectedText)
  })
})

describe("a stored rule", () => {
  const omitMail = rule({ fields: { "customerDetails.email": "omit" } })
  const pseudonymize = rule({ preset: "pseudonymize", undocumented: "omit" })

  it("has no key, and the same text for the same rule", () => {
    assert.notInclude(toStored(pseudonymize), "0123456789")
    const one = rule({ fields: { a: "omit", b: "keep" } })
    const other = rule({ fields: { b: "keep", a: "omit" } })
    assert.strictEqual(toStored(one), toStored(other))
    assert.strictEqual(nameOf(one), nameOf(toStored(other)))
    assert.match(nameOf(pseudonymize), /^pseudonymize-[0-9a-f]{8}$/)
    assert.strictEqual(nameOf(undefined), "keep")
    assert.strictEqual(toStored(rule({ fields: { contract: "keep" } })), toStored(keepAll))
    assert.strictEqual(nameOf("keep"), "keep")
    assert.strictEqual(nameOf("{\"version\":2}"), "unknown")
  })

  it("has words for people, with its name only beside the same words of another rule", () => {
    assert.strictEqual(ruleWords(undefined), "keep every field")
    assert.strictEqual(ruleWords(toStored(pseudonymize)), "pseudonymize personal data")
    assert.strictEqual(ruleWords(omitMail), "keep personal data, omit customerDetails.email")
    const settings = rule({
      preset: "omit",
      undocumented: "hold",
      fields: { customerId: "keep", "\"0123 4567\"": "omit" }
    })
    assert.strictEqual(
      ruleWords(toStored(settings)),
      "omit personal data, keep customerId, omit 1 field, hold undocumented fields"
    )
    assert.strictEqual(ruleWords("{\"version\":2}"), "unknown, of a later version")
    const many = (last: string) =>
      rule({ fields: Object.fromEntries(["a", "b", "c", "d", "e", last].map((field) => [field, "omit"])) })
    const words = "keep personal data, omit a, b, c, d, e and 1 more"
    assert.deepStrictEqual(bothRuleWords(many("f"), toStored(many("g"))), [
      `${words}, ${nameOf(many("f"))}`,
      `${words}, ${nameOf(many("g"))}`
    ])
    assert.deepStrictEqual(bothRuleWords(keepAll, many("g")), ["keep every field", words])
    assert.deepStrictEqual(bothRuleWords(pseudonymize, { ...pseudonymize, key: otherKey }), [
      "pseudonymize personal data",
      "pseudonymize personal data"
    ])
  })

  it("differs from every rule that keeps other fields, or has another key", () => {
    const rules = [
      keepAll,
      omitMail,
      omitAll,
      pseudonymize,
      { ...pseudonymize, key: otherKey },
      rule({ undocumented: "omit" }),
      rule({ preset: "omit", undocumented: "hold" })
    ]
    for (const [at, one] of rules.entries()) {
      for (const [otherAt, other] of rules.entries()) {
        assert.strictEqual(isSame(toStored(one), other), at === otherAt, `${at} ${otherAt}`)
      }
      assert.strictEqual(isSame(undefined, one), at === 0)
      assert.isFalse(isSame("{\"version\":2}", one))
    }
    // A key that makes no pseudonyms does not matter.
    assert.isTrue(isSame(toStored(omitMail), { ...omitMail, key: otherKey }))
  })

  it("stays the same when a later program documents fields that it left out", () => {
    const { "invoices contract": _, ...earlierClasses } = currentClasses
    const earlier = (stored: PersonalRule) =>
      JSON.stringify({ ...JSON.parse(toStored(stored)), version: 2, classes: earlierClasses })
    assert.isTrue(isSame(earlier(omitAll), omitAll))
    assert.isTrue(isSame(earlier(pseudonymize), pseudonymize))
    assert.isFalse(isSame(earlier(rule({ preset: "omit" })), rule({ preset: "omit" })))
    const named = rule({ fields: { contract: "omit" } })
    assert.isTrue(isSame(earlier(named), named))
  })

  it("is another one than the same settings with another table of classes, if that concerns a field", () => {
    const under = (changes: Classes, settings: PersonalRule) =>
      JSON.stringify({
        ...JSON.parse(toStored({ ...settings, undocumented: "omit" })),
        undocumented: settings.undocumented,
        version: 2,
        classes: { ...currentClasses, ...changes }
      })
    const nobody = { "invoices description": "nobody", "payin-sources authUrl": "payment" } as const
    for (const settings of [omitAll, pseudonymize]) {
      assert.isTrue(isSame(under({}, settings), settings))
      assert.isFalse(isSame(under(nobody, settings), settings))
      assert.notStrictEqual(nameOf(under(nobody, settings)), nameOf(under({}, settings)))
      assert.deepStrictEqual(reclassifiedFields(under(nobody, settings), settings), ["authUrl", "description"])
      // Texts without a field that this version keeps have nothing to remove.
      const lessPersonal = under({ "invoices status": "person" }, settings)
      assert.isFalse(isSame(lessPersonal, settings))
      assert.deepStrictEqual(reclassifiedFields(lessPersonal, settings), [])
      assert.deepStrictEqual(fieldChanges(under(nobody, settings), settings), [
        { field: "authUrl", from: "keep", to: settings.preset },
        { field: "description", from: "keep", to: settings.preset }
      ])
    }
    // Erasures keep only fields of the class nobody.
    assert.deepStrictEqual(reclassifiedInErasures(under(nobody, omitAll)), ["description"])
    const wasErased = earlierErasureRule(under(nobody, omitAll), Lists.invoices)
    assert.isDefined(wasErased)
    const erased = `{"id":"1","amount":1,"status":"paid","description":"d"}`
    if (wasErased !== undefined) {
      const before = redactorOf(Lists.invoices, wasErased)
      assert.strictEqual(before(erased).text, erased)
      assert.strictEqual(
        before(`{"id":"1","contract":"c","reference":"r","description":"d"}`).text,
        `{"id":"1","description":"d"}`
      )
    }
    assert.isTrue(isSame("keep", keepAll))
    assert.deepStrictEqual(reclassifiedFields("keep", keepAll), [])
  })

  it("of the first table of classes has the form and the name that earlier versions gave it", () => {
    assert.deepStrictEqual(
      firstClasses,
      currentClasses,
      "until a field gets another class or there is another list, then remove this line"
    )
    assert.strictEqual(nameOf(omitAll), "omit-c5f47d77")
    assert.strictEqual(toStored(keepAll), "keep")
    assert.match(
      toStored(pseudonymize),
      /^\{"version":1,"preset":"pseudonymize","undocumented":"omit","fields":\{\},"documented":\{"authUrl"/
    )
    assert.deepStrictEqual(reclassifiedInErasures(undefined), [])
    assert.strictEqual(withCurrentClasses(toStored(omitAll)), toStored(omitAll))
    assert.isUndefined(withCurrentClasses(undefined))
  })

  it("can be applied again without pseudonyms of pseudonyms", () => {
    const text = `{"id":"1","contract":"a","description":"b","callerId":7}`
    const next = rule({ ...pseudonymize, fields: { callerId: "pseudonymize", description: "omit" } })
    const once = redactorOf(Lists.invoices, next)(text).text
    assert.strictEqual(once, `{"id":"1","contract":"${pseudonym(key, "a")}","callerId":"${pseudonym(key, "7")}"}`)
    assert.strictEqual(redactorOf(Lists.invoices, next, pseudonymOnce)(once).text, once)
    assert.strictEqual(redactorOf(Lists.invoices, next, pseudonymOnce)(text).text, once)
    assert.include(redactorOf(Lists.invoices, next)(once).text, pseudonym(key, pseudonym(key, "a")))
  })
})

describe("the suppression list", () => {
  const criterion = (kind: "customer-id" | "document-number" | "id", value: string) => ({
    kind,
    value: Redacted.make(value)
  })
  const payout =
    `{"id":"p1","customerId":"c1","customerDetails":{"documentNumber":"d\\u0031"},"customerDetails":[{"documentNumber":22}]}`

  it("finds records by their id, their customer id and every document number", () => {
    const hashes = hashesIn(key, Lists.payoutRequests, payout)
    for (
      const one of [
        criterion("id", "p1"),
        criterion("customer-id", "c1"),
        criterion("document-number", "d1"),
        criterion("document-number", "22")
      ]
    ) {
      assert.include(hashes, hashOf(key, one))
      assert.notInclude(hashes, hashOf(otherKey, one))
      assert.strictEqual(matcherOf(key, [one])(Lists.payoutRequests, payout), 0)
      assert.strictEqual(matcherOf(key, [{ ...one, value: Redacted.make("x") }])(Lists.payoutRequests, payout), -1)
    }
    assert.include(hashes, hashOfRecord(key, Lists.payoutRequests, "p1"))
    assert.notInclude(hashes, hashOfRecord(key, Lists.payinSources, "p1"))
    assert.strictEqual(hashes.length, 5)
    const invoice = `{"id":"c1","customerDocumentNumber":"d1","customerId":"undocumented"}`
    assert.include(hashesIn(key, Lists.invoices, invoice), hashOf(key, criterion("document-number", "d1")))
    assert.strictEqual(hashesIn(key, Lists.invoices, invoice).length, 3)
    assert.strictEqual(matcherOf(key, [criterion("customer-id", "c1")])(Lists.invoices, invoice), -1)
    assert.deepStrictEqual(hashesIn(key, Lists.invoices, `["d1"]`), [])
  })

  it("finds stored records by their pseudonyms", () => {
    const stored = redactorOf(Lists.payoutRequests, rule({ preset: "pseudonymize" }))(payout).text
    assert.strictEqual(matcherOf(key, [criterion("document-number", "22")])(Lists.payoutRequests, stored), 0)
    assert.strictEqual(matcherOf(key, [criterion("document-number", "23")])(Lists.payoutRequests, stored), -1)
  })
})
