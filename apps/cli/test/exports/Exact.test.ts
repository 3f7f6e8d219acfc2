/** Numbers, conditions, orders, projections and queries over exact texts, compared with plain computations on big integers. */
import { assert, describe, it } from "@effect/vitest"
import { readPath, readPaths } from "@payments/copy"
import { compareNumbers, exactNumber, isNumber } from "@payments/core"
import { BigDecimal, Option, Schema } from "effect"
import { JsonQueryError, parseJsonQuery } from "../../src/listing/JsonQuery.ts"
import { parseSortKeys, sortOrder, sortValues } from "../../src/listing/SortKeys.ts"
import { meets, parseCondition } from "../../src/listing/Where.ts"
import { fieldReader, projection } from "../../src/output/PrintedRecord.ts"

const Small = Schema.Int.check(Schema.isBetween({ minimum: -30, maximum: 30 }))
/** Integers around 2^53, where parsing rounds, and around zero. */
const Amount = Schema.Tuple([
  Small,
  Schema.Literals(["0", "9007199254740992", "-9007199254740992", "900719925474099200"])
])
const Amounts = Schema.Array(Amount)
/** Integers whose sums stay below 2^53. */
const SafeAmount = Schema.Tuple([Small, Schema.Literals(["0", "9007199254740", "-9007199254740"])])
const SafeAmounts = Schema.Array(SafeAmount).check(Schema.isMaxLength(100))
const bigintOf = ([small, base]: readonly [number, string]): bigint => BigInt(base) + BigInt(small)

/** Decimal numbers in any spelling. */
const Decimal = Schema.Tuple([Schema.BigInt, Small, Schema.Literals(["e", "E", "."])])
const decimalText = ([digits, power, mark]: typeof Decimal.Type): string =>
  mark === "." && power > 0 ? `${digits}.${"0".repeat(power)}7` : `${digits}${mark === "." ? "e" : mark}${power}`

const sign = (order: number): number => Math.sign(order) + 0

describe("numbers", () => {
  it.prop("are ordered as their exact values, in any spelling", [Decimal, Decimal], ([one, other]) => {
    const [left, right] = [decimalText(one), decimalText(other)]
    const exact = (text: string) => Option.getOrThrow(BigDecimal.fromString(text))
    assert.isTrue(isNumber(left))
    assert.strictEqual(sign(compareNumbers(left, right)), BigDecimal.Order(exact(left), exact(right)))
    assert.strictEqual(sign(compareNumbers(left, left)), 0)
  })

  it.prop("are parsed only if that keeps their value", [Decimal], ([given]) => {
    const text = decimalText(given)
    const number = exactNumber(text)
    const exact = Option.getOrThrow(BigDecimal.fromString(text))
    const isSafe = BigDecimal.isInteger(exact) ? Number.isSafeInteger(Number(text)) : true
    const isKept = Option.exists(BigDecimal.fromString(String(Number(text))), BigDecimal.equals(exact))
    assert.strictEqual(number, isSafe && isKept ? Number(text) : undefined)
  })

  it("are compared in linear time, also with huge exponents", () => {
    const long = "9".repeat(1_000_000)
    const order = ["-1e999999999999", "-1", "-0", "1e-999999999999", "1.10", long, `${long}.5`, `1e${long}`]
    for (const [index, text] of order.entries()) {
      for (const [otherIndex, other] of order.entries()) {
        assert.strictEqual(sign(compareNumbers(text, other)), Math.sign(index - otherIndex))
      }
    }
    assert.deepStrictEqual([compareNumbers("-0", "0.0e5"), compareNumbers("1.10", "11e-1")], [0, 0])
  })
})

const recordOf = (amount: bigint | undefined, reference: string) =>
  `{"id":"x","a":{"b":${amount ?? null}},"reference":${JSON.stringify(reference)}}`

const compareBig = {
  "=": (l, r) => l === r,
  "!=": (l, r) => l !== r,
  "<": (l, r) => l < r,
  "<=": (l, r) => l <= r,
  ">": (l, r) => l > r,
  ">=": (l, r) => l >= r
} satisfies { readonly [operator: string]: <A extends bigint | string>(left: A, right: A) => boolean }

describe("--where", () => {
  it.prop("selects as a plain filter over exact values", [Amounts, Amount, Schema.String, Schema.String], (
    [amounts, wanted, text, wantedText]
  ) => {
    const value = bigintOf(wanted)
    for (const [operator, accepts] of Object.entries(compareBig)) {
      const number = parseCondition(`a.b ${operator} ${value}`)
      const words = parseCondition(`reference${operator}${JSON.stringify(wantedText)}`)
      assert.isDefined(number)
      assert.isDefined(words)
      for (const amount of amounts.map(bigintOf)) {
        const read = fieldReader(recordOf(amount, text))
        assert.strictEqual(
          number !== undefined && meets(number, read),
          accepts(amount, value),
          `${amount} ${operator} ${value}`
        )
        assert.strictEqual(words !== undefined && meets(words, read), accepts(text, wantedText))
      }
    }
  })

  it("distinguishes null, absent fields, text and numbers", () => {
    const records = [
      `{"v":null}`,
      `{}`,
      `{"v":"null"}`,
      `{"v":"7"}`,
      `{"v":7}`,
      `{"v":7.0}`,
      `{"v":"José"}`,
      `{"v":true}`,
      `"v"`
    ]
    const matching = (condition: string): ReadonlyArray<number> => {
      const parsed = parseCondition(condition)
      assert.isDefined(parsed, condition)
      return records.flatMap((record, index) =>
        parsed !== undefined && meets(parsed, fieldReader(record)) ? [index] : []
      )
    }
    assert.deepStrictEqual(matching("v"), [2, 3, 4, 5, 6, 7])
    assert.deepStrictEqual(matching("!v"), [0, 1, 8])
    assert.deepStrictEqual(matching("v=null"), [0, 2])
    assert.deepStrictEqual(matching(`v="null"`), [2])
    assert.deepStrictEqual(matching("v=7"), [3, 4, 5])
    assert.deepStrictEqual(matching(`v == "7"`), [3])
    assert.deepStrictEqual(matching("v!=7"), [0, 1, 2, 6, 7, 8])
    assert.deepStrictEqual(matching("v>6"), [2, 3, 4, 5, 6])
    assert.deepStrictEqual(matching("v<=6.99999999999999999999"), [])
    assert.deepStrictEqual(matching("v~jose\u0301"), [6])
    assert.deepStrictEqual(matching("v~"), [0, 2, 3, 4, 5, 6, 7])
    for (const invalid of ["", "=", "!v=1", "v ? 1", "v.=1", `v="a`, "a b"]) {
      assert.isUndefined(parseCondition(invalid), invalid)
    }
  })
})

describe("--sort", () => {
  it.prop("is a stable sort by exact values, with null last in both directions", [
    Schema.Array(Schema.NullOr(Amount)),
    Schema.Boolean
  ], ([amounts, isDescending]) => {
    const keys = parseSortKeys(isDescending ? "a.b:desc" : "a.b") ?? []
    const values = amounts.map((amount) => amount === null ? undefined : bigintOf(amount))
    const order = sortOrder(keys)
    const sorted = values.map((value, index) => ({
      value,
      index,
      keys: sortValues(keys, fieldReader(recordOf(value, "")))
    }))
      .toSorted((one, other) => order(one.keys, other.keys))
    const expected = values.map((value, index) => ({ value, index })).toSorted((one, other) =>
      one.value === other.value
        ? one.index - other.index
        : one.value === undefined
        ? 1
        : other.value === undefined
        ? -1
        : (one.value < other.value ? -1 : 1) * (isDescending ? -1 : 1)
    )
    assert.deepStrictEqual(sorted.map(({ index }) => index), expected.map(({ index }) => index))
  })

  it("orders numbers before text, by several fields, and refuses other syntax", () => {
    const keys = parseSortKeys(`"a,b":desc , c`) ?? []
    assert.deepStrictEqual(keys.map(({ isDescending, path }) => [path.names, isDescending]), [[["a,b"], true], [
      ["c"],
      false
    ]])
    const order = sortOrder(keys)
    const records = [`{"a,b":1,"c":"b"}`, `{"a,b":"x"}`, `{"c":1}`, `{"a,b":1,"c":2}`, `{"a,b":10,"c":0}`]
    const sorted = records.toSorted((one, other) =>
      order(sortValues(keys, fieldReader(one)), sortValues(keys, fieldReader(other)))
    )
    assert.deepStrictEqual(sorted.map((record) => records.indexOf(record)), [1, 4, 3, 0, 2])
    for (const invalid of ["", "a,", "a:down", "a:desc:desc", ",", "a b"]) {
      assert.isUndefined(parseSortKeys(invalid), invalid)
    }
  })
})

const Names = Schema.Array(Schema.String)

describe("--fields", () => {
  it.prop("keeps exactly the chosen fields of any record, in their order, with exact texts", [Names, Schema.BigInt], (
    [names, number]
  ) => {
    const record = `{${
      [...names, "rest"].map((name) => `${JSON.stringify(name)}:{"n":${number}.10,${JSON.stringify(`_${name}`)}:null}`)
        .join(
          ","
        )
    }}`
    const paths = readPaths([...names].map((name) => `${JSON.stringify(name)}.n`).join(",") || "none")
    assert.isDefined(paths)
    const expected = [...new Set(names)].map((name) => `${JSON.stringify(name)}:{"n":${number}.10}`)
    assert.strictEqual(projection(paths ?? [])(record), `{${expected.join(",")}}`)
    for (const path of paths ?? []) {
      assert.strictEqual(fieldReader(record)(path), names.includes(path.names[0] ?? "") ? `${number}.10` : undefined)
    }
  })

  it("reads paths with quoted names", () => {
    assert.deepStrictEqual(readPath(`a . "b.c" .d>=1`)?.path.names, ["a", "b.c", "d"])
    for (const invalid of ["", "a..b", ".a", "a.", `"a`, "a,,b", "a b", `"\\x"`]) {
      assert.isUndefined(readPaths(invalid), invalid)
    }
    const project = projection(readPaths("a.b,c,a.d,a,e.f,g.h") ?? [])
    assert.strictEqual(project(`{"c":1,"a":{"d":2,"x":3},"e":null,"g":[1]}`), `{"a":{"d":2,"x":3},"c":1,"e":null}`)
    assert.strictEqual(project(`"text"`), `"text"`)
  })
})

const run = (expression: string, records: ReadonlyArray<string>): string => parseJsonQuery(expression).run(records).json

describe("--query", () => {
  it("keeps a member of any name", () => {
    const record = `{"id":"a","__proto__":{"id":"b"},"constructor":1}`
    assert.strictEqual(
      run(`[0].{"__proto__": id, id: id, "constructor": "constructor"}`, [record]),
      `{"__proto__":"a","id":"a","constructor":1}`
    )
    assert.strictEqual(run(`[0].{id: id, "__proto__": "__proto__"}`, [record]), `{"id":"a","__proto__":{"id":"b"}}`)
  })

  it.prop("sums, compares and sorts integers up to 2^53 exactly", [SafeAmounts, SafeAmount], ([amounts, wanted]) => {
    const values = amounts.map(bigintOf)
    const records = values.map((value) => `{"n":${value}}`)
    const ordered = values.toSorted((one, other) => one < other ? -1 : one > other ? 1 : 0)
    const value = bigintOf(wanted)
    const total = values.reduce((sum, number) => sum + number, 0n)
    assert.strictEqual(run("sum([].n)", records), String(total))
    assert.strictEqual(run("avg([].n)", records), values.length === 0 ? "null" : String(Number(total) / values.length))
    assert.strictEqual(run("sort([].n)", records), `[${ordered}]`)
    assert.strictEqual(run("sort_by(@,&n)[].n", records), `[${ordered}]`)
    assert.strictEqual(run("reverse(sort_by(@,&n))[0].n", records), String(ordered.at(-1) ?? null))
    assert.strictEqual(run("[max([].n),min_by(@,&n).n]", records), `[${ordered.at(-1) ?? null},${ordered[0] ?? null}]`)
    for (const [operator, accepts] of Object.entries({ ...compareBig, "==": compareBig["="], "=": undefined })) {
      if (accepts === undefined) continue
      const expected = values.filter((number) => accepts(number, value))
      assert.strictEqual(run(`[?n ${operator} \`${value}\`].n`, records), `[${expected}]`, operator)
    }
    assert.strictEqual(run(`contains([].n, \`${value}\`)`, records), String(values.includes(value)))
    assert.strictEqual(
      run(`[].[n + \`${value}\`, n - \`${value}\`, n * \`3\`, -n][]`, records),
      `[${values.flatMap((number) => [number + value, number - value, number * 3n, -number])}]`
    )
  })

  it.prop("computes with integers of any size exactly or not at all", [Amounts, Amount], ([amounts, wanted]) => {
    const values = amounts.map(bigintOf)
    const records = values.map((value) => `{"n":${value}}`)
    const value = bigintOf(wanted)
    const total = values.reduce((sum, number) => sum + number, 0n)
    const ordered = values.toSorted((one, other) => one < other ? -1 : one > other ? 1 : 0)
    /** Returns the result, or undefined if the expression is refused because it would round a number. */
    const exactly = (expression: string): string | undefined => {
      try {
        return run(expression, records)
      } catch (error) {
        assert.instanceOf(error, JsonQueryError)
        assert.include(error instanceof Error ? error.message : "", "would round a number", expression)
        return undefined
      }
    }
    const expected: ReadonlyArray<readonly [expression: string, result: string]> = [
      ["[].n", `[${values}]`],
      ["sum([].n)", String(total)],
      ["sort_by(@,&n)[].n", `[${ordered}]`],
      ["max([].n)", String(ordered.at(-1) ?? null)],
      [`[?n > \`${value}\`].n`, `[${values.filter((number) => number > value)}]`],
      [`[?n == \`${value}\`].n`, `[${values.filter((number) => number === value)}]`],
      [`contains([].n, \`${value}\`)`, String(values.includes(value))],
      [`[].[n + \`${value}\`, n * \`3\`, -n][]`, `[${values.flatMap((n) => [n + value, n * 3n, -n])}]`]
    ]
    for (const [expression, result] of expected) {
      const found = exactly(expression)
      if (found !== undefined) assert.strictEqual(found, result, expression)
    }
    assert.isDefined(exactly("[].n"))
  })

  it("keeps the text of every number, and refuses what it cannot compute exactly", () => {
    const records = [`{"a":1.10,"b":1e999,"c":-0,"d":9007199254740993,"e":{"f":[0.1,1e2]},"text":"x"}`]
    assert.strictEqual(run("@", records), `[${records[0]}]`)
    assert.strictEqual(
      run("[0].[to_string(d), type(d), to_number('9007199254740995'), abs(c), floor(a), ceil(a)]", records),
      `["9007199254740993","number",9007199254740995,0,1,2]`
    )
    // A number with another spelling is one that JavaScript holds.
    assert.strictEqual(run("[?a == `1.1`] | length(@)", records), "1")
    assert.strictEqual(run("sum([0].[e.f[1], `1.0`])", records), "101")
    assert.strictEqual(run("sort([0].[e.f[1], a, c])", records), "[-0,1.10,1e2]")
    assert.strictEqual(run("[0].[constructor, e.toString, d && 'yes']", records), `[null,null,"yes"]`)
    assert.strictEqual(run("sort(`[10,9]`)", records), "[9,10]")
    assert.strictEqual(run("avg(`[1,2]`)", records), "1.5")
    const names = `["007","+5","5e1","__proto__","constructor"]`
    assert.strictEqual(run("map(&to_number(@), [0])", [names]), "[null,null,5e1,null,null]")
    assert.strictEqual(
      run("group_by([0][3:], &@)", [names]),
      `{"__proto__":["__proto__"],"constructor":["constructor"]}`
    )
    assert.throws(() => run("group_by(@, &a)", [`{"a":1}`]), "group_by() needs keys that all are text")
    assert.strictEqual(
      run(
        "[0].[d.text, d.toJSON, d.*, d.{x: text}, !d, not_null(d), to_array(d), [d] == [text], d == text]",
        records
      ),
      `[null,null,null,{"x":null},false,9007199254740993,[9007199254740993],false,false]`
    )
    assert.strictEqual(run("[0].*", records), `[1.10,1e999,-0,9007199254740993,{"f":[0.1,1e2]},"x"]`)
    assert.strictEqual(
      run("[0].e.[length(@), keys(@), values(@), items(@), length('a\u{1f600}'), length(f)]", records),
      `[1,["f"],[[0.1,1e2]],[["f",[0.1,1e2]]],2,2]`
    )
    assert.strictEqual(
      run("merge([0], [1])", [`{"a":9007199254740993,"b":1}`, `{"b":2,"__proto__":1.10}`]),
      `{"a":9007199254740993,"b":2,"__proto__":1.10}`
    )
    // A number is no object, however many digits it has.
    for (const name of ["length", "keys", "values", "items", "merge", "reverse", "join", "from_items", "zip"]) {
      for (const number of ["9007199254740993", "1.10", "5"]) {
        const call = name === "join" ? "join(',', @)" : name === "from_items" ? "from_items(@)" : `${name}([0])`
        assert.throws(() => run(call, [number]), JsonQueryError, undefined, call)
      }
    }
    for (
      const expression of [
        "pad_left('x', [0].d)",
        "split('x', 'x', [0].d)",
        "[0].d.length(@)",
        "starts_with([0].d, '9')"
      ]
    ) {
      assert.throws(() => run(expression, records), JsonQueryError, undefined, expression)
    }
    for (
      const expression of [
        ..."> >= < <= == != + - * / // %".split(" ").map((operator) => `[0].d ${operator} \`1\``),
        ..."sum avg max min sort".split(" ").map((name) => `${name}([[0].d, \`1\`])`),
        ..."max_by min_by sort_by".split(" ").map((name) => `${name}([0].[{n: d}, {n: \`1\`}], &n)`),
        ..."abs ceil floor".split(" ").map((name) => `${name}([0].d)`),
        "-[0].d",
        "contains([[0].d], `1`)",
        "[0].b + `1`",
        // The results are not exact, or would not be without rounding.
        "[0].e.f[0] + [0].a",
        "`9007199254740991` + `1`",
        "`9007199254740991` * `3`",
        "`9007199254740993`",
        "`[9007199254740993]`",
        "`{\"a\":1e999}`"
      ]
    ) {
      assert.throws(
        () => run(expression, records),
        /^[^\n]+ would round a number .* use payments query$/,
        undefined,
        expression
      )
    }
  })

  it("refuses an expression that is not valid, without repeating its values", () => {
    for (
      const expression of [
        "[?a == 'secret'",
        "a b",
        "'secret' 'secret'",
        "secret(@)x",
        "[].{a: 'secret' 'x'}",
        "`secret`",
        "[?a > \"secret",
        "a.'secret'"
      ]
    ) {
      let message = ""
      try {
        parseJsonQuery(expression)
      } catch (error) {
        message = error instanceof Error ? error.message : ""
      }
      assert.match(message, /^not a valid JMESPath expression: ./, expression)
      assert.notInclude(message, "secret")
    }
    assert.throws(
      () => parseJsonQuery("lenght(@)"),
      "there is no function of the name lenght. The nearest one is length"
    )
    assert.throws(() => run("length(`1`)", []), "length() needs text, an array or an object")
    assert.throws(() => run("[0] + 'a'", ["1"]), "+ needs numbers")
    assert.throws(() => run("sort_by(@, &a)", [`{"a":1}`, `{"a":"x"}`]), "sort_by() needs values that all are")
  })
})
