import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { parseExactly } from "../../src/page/JsonParse.ts"
import {
  compact,
  elementsOf,
  endsEarly,
  hasEscapedName,
  isExactInteger,
  mayLoseDigits,
  membersOf,
  rewriteItems
} from "../../src/page/JsonText.ts"
import { fraction as randomFraction } from "../../src/testing/SeededRandom.ts"

/** Returns JSON text with white space between all tokens. */
const spaced = (value: unknown): string => JSON.stringify(value, null, "\t ").replaceAll("\n", "\r\n ")

describe("JsonText", () => {
  it.prop(
    "returns each element of items without white space between tokens",
    [Schema.Array(Schema.Json)],
    ([items]) => {
      const body = spaced({ count: 3, items: "first", cursor: "\\\"[{", other: [1, { items: [2] }] }).replace(
        "\"first\"",
        () => spaced(items)
      )
      assert.deepStrictEqual(elementsOf(body, "items"), items.map((item) => JSON.stringify(item)))
    }
  )

  const texts = ["", "},{", "],", "\\\"items\\\":[{", "a, b", "x } , { y", "} {", "items", "[", "]"]
  it.prop(
    "cuts objects as it reads them",
    [Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 32 - 1 }))],
    ([seed]) => {
      let drawn = 0
      const random = () => randomFraction(seed, drawn++)
      const choose = <A>(values: ReadonlyArray<A>): A | undefined => values[Math.floor(random() * values.length)]
      const many = (most: number, make: () => string): ReadonlyArray<string> =>
        Array.from({ length: Math.floor(random() * (most + 1)) }, make)
      const space = () => random() < 0.03 ? choose([" ", "  ", "\n", "\t", "\r"]) : ""
      const joined = (parts: ReadonlyArray<string>) => `${space()}${parts.join(`${space()},${space()}`)}${space()}`
      const textOf = () => `"${choose(texts)}"`
      const valueOf = (): string => random() < 0.2 ? arrayOf() : random() < 0.2 ? objectOf() : textOf()
      const objectOf = (): string => `{${joined(many(2, () => `${textOf()}${space()}:${space()}${valueOf()}`))}}`
      const arrayOf = (): string => `[${joined(many(3, random() < 0.2 ? valueOf : objectOf))}]`
      const members = many(2, () => `"${choose(["items", "items", "\\u0069tems", "cursor"])}":${arrayOf()}`)
      const body = `{"items":${arrayOf()}${["", ...members].join(",")}}`
      const { items } = JSON.parse(body) as { readonly items: ReadonlyArray<unknown> } // the body has this member
      const objects = items.every((item) => typeof item === "object" && !Array.isArray(item)) ? items.length : 0
      assert.deepStrictEqual(elementsOf(body, "items", objects), elementsOf(body, "items"), body)
    },
    { arbitrary: { runs: 30000 } }
  )

  it.prop("compacts text to the output of JSON.stringify", [Schema.Json], ([value]) => {
    assert.strictEqual(compact(spaced(value)), JSON.stringify(value))
  })

  it("keeps text that parsing would change", () => {
    const record = `{"b":1.10,"10":1e400,"n":9007199254740993,"b":-0.0,"t":"\\u0061 \\\\","__proto__":{"x":[ 1 , 2 ]}}`
    assert.deepStrictEqual(elementsOf(`{"items":[ ${record} ],"cursor":null}`, "items"), [
      record.replace("[ 1 , 2 ]", "[1,2]")
    ])
  })

  it("finds members by escaped names, and returns the last of members with the same name", () => {
    assert.deepStrictEqual([...membersOf(`{"a":1,"\\u0061":[2, 3],"":"}"}`)], [["a", "[2,3]"], ["", "\"}\""]])
    assert.deepStrictEqual(elementsOf(`{"items":[1],"\\u0069tems":[2,3]}`, "items"), ["2", "3"])
  })

  it.prop(
    "removes and replaces members and elements",
    [Schema.Array(Schema.Tuple([Schema.Json, Schema.Literals(["keep", "omit", "replace"])]))],
    ([items]) => {
      const expected = items.flatMap(([value, action], index) =>
        action === "omit" ? [] : [[`${index}"`, action === "keep" ? value : null] as const]
      )
      const decide = (value: string, at: number) =>
        ({ keep: value, omit: undefined, replace: "null" })[items[at]?.[1] ?? "keep"]
      const object = spaced(Object.fromEntries(items.map(([value], index) => [`${index}"`, value])))
      const rewritten = rewriteItems(object, (value, name = "") => decide(value, Number.parseInt(name)))
      assert.strictEqual(compact(rewritten), JSON.stringify(Object.fromEntries(expected)))
      let index = 0
      const array = rewriteItems(spaced(items.map(([value]) => value)), (value) => decide(value, index++))
      assert.strictEqual(compact(array), JSON.stringify(expected.map(([, value]) => value)))
      assert.strictEqual(rewriteItems(object, (value) => value), object)
    }
  )

  it("keeps the text around the members that it removes", () => {
    const object = ` { "a" : 1.10 , "\\u0062" : [ 1e400 ] , "a" : {} } `
    const without = (name: string) => rewriteItems(object, (value, found) => found === name ? undefined : value)
    assert.strictEqual(without("a"), ` { "\\u0062" : [ 1e400 ] } `)
    assert.strictEqual(without("b"), ` { "a" : 1.10 , "a" : {} } `)
    assert.strictEqual(rewriteItems(object, () => undefined), " {  } ")
    for (const other of ["1.10", "\"[1]\"", "null", " [ ] "]) {
      assert.strictEqual(rewriteItems(other, () => undefined), other)
    }
  })

  it.prop("distinguishes text that ends early from whole text", [Schema.Array(Schema.Json)], ([items]) => {
    const body = JSON.stringify({ items, cursor: "\\\"]}" })
    for (let end = 1; end < body.length; end++) assert.isTrue(endsEarly(body.slice(0, end)), body.slice(0, end))
    assert.isFalse(endsEarly(body))
    assert.isFalse(endsEarly(`<html>${body}`))
  })

  it.prop("calls an integer exact if parsing keeps its digits", [Schema.BigInt], ([integer]) => {
    for (const digits of [integer, 2n ** 53n - 1n + integer % 3n]) {
      assert.strictEqual(
        isExactInteger(String(digits)),
        digits >= -(2n ** 53n - 1n) && digits <= 2n ** 53n - 1n,
        String(digits)
      )
    }
  })

  it("reads a very long number in short time", () => {
    assert.isFalse(isExactInteger(`1.${"0".repeat(1_000_000)}1`))
    assert.isTrue(mayLoseDigits(`{"a":${"1.1".repeat(1_000_000)}}`))
  })

  it("suspects rounding only in numbers, not in times, rates and addresses", () => {
    assert.isFalse(mayLoseDigits(`{"at":"2024-05-01T10:00:00.000Z","amount":-9007199254740991,"fee":1.5e3,"risk":1.10,
      "x":1200e-2,"host":"10.0.0.1","e-mail":"9e-4@example.com","version":"1.1.1"}`))
    for (const text of ["1.00000000000000000001", "-1e-400", "10000000000000000001e-19", `0.${"0".repeat(400)}1`]) {
      assert.isTrue(mayLoseDigits(`{"amount" :\n ${text}}`), text)
    }
  })

  const Digits = Schema.String.check(Schema.isPattern(/^\d{1,18}$/))
  it.prop(
    "never misses a number that parsing rounds to an integer",
    [Digits, Digits, Schema.Int.check(Schema.isBetween({ minimum: -40, maximum: 5 })), Schema.Boolean],
    ([whole, fraction, power, zeros]) => {
      for (
        const one of [whole, `${BigInt(whole)}.${fraction}`, `1.${zeros ? "0".repeat(14) : "9".repeat(15)}${fraction}`]
      ) {
        for (const text of [one, `${one}e${power}`, `-${one}E${power}`]) {
          if (!/^-?(0|[1-9]\d*)(\.|[eE]|$)/.test(text)) continue
          const lost = Number.isSafeInteger(Number(text)) && !isExactInteger(text)
          if (lost) assert.isTrue(mayLoseDigits(`{"fee":${text},"at":1}`), text)
        }
      }
    }
  )

  it("distinguishes escaped names from escaped values", () => {
    for (const name of ["f\\u0065e", "\\\"", "a\\\\", "\\n"]) {
      assert.isTrue(hasEscapedName(`{"x":"y","${name}" :1}`), name)
      assert.isFalse(hasEscapedName(`{"x":"${name}","y":["${name}"]}`), name)
    }
    assert.isFalse(hasEscapedName(`{"name":"${"\\u0041".repeat(1_000_000)}"}`))
  })

  const Names = Schema.Record(Schema.String, Schema.Array(Schema.Struct({ amount: Schema.NullOr(Schema.Boolean) })))
  it.prop("parses escaped names correctly, which JSON.parse of Node 24 does not", [Names], ([value]) => {
    assert.deepStrictEqual(parseExactly(JSON.stringify(value)), value)
  })

  it("does not replace a name by one that it parsed before", () => {
    const names = ["\\", "\n", "\t", "\"", "a\nb"]
    assert.deepStrictEqual(
      names.map((name) => Object.keys(parseExactly(JSON.stringify({ [name]: 1 })) as object)), // JSON.stringify made an object
      names.map((name) => [name])
    )
    const odd = parseExactly(`{"__proto__":{"a":1},"\\u0061":[1e400,"\\u0061",true,null]}`)
    assert.deepStrictEqual(Object.entries(odd as object), [["__proto__", { a: 1 }], ["a", [Infinity, "a", true, null]]]) // the text is an object
  })

  it("calls a number exact by its text, not by its parsed value", () => {
    for (
      const text of [
        "0",
        "-0",
        "0.0",
        "1e2",
        "1.50e1",
        "1200e-2",
        "9007199254740991",
        "0e999999999",
        "9.007199254740991E15"
      ]
    ) {
      assert.isTrue(isExactInteger(text), text)
    }
    for (
      const text of ["9007199254740990.6", "9007199254740992", "1.5", "1e16", "1e400", "1e-400", "15e-1", "1e999999999"]
    ) {
      assert.isFalse(isExactInteger(text), text)
      assert.strictEqual(
        mayLoseDigits(`{"amount":${text}}`),
        Number.isSafeInteger(Number(text)) && /[.]|e-/.test(text),
        text
      )
    }
  })
})
