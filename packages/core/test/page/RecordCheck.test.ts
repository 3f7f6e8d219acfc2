import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Schema } from "effect"
import * as Lists from "../../src/model/Lists.ts"
import { CustomerDetails, PayoutTargetDetails } from "../../src/model/Records.ts"
import { recordCheck } from "../../src/page/RecordCheck.ts"

/** Valid and invalid values of fields. */
const oddValues: ReadonlyArray<unknown> = JSON.parse(
  `[null,true,false,0,-0,-1,1.5,1e400,9007199254740991,9007199254740993,"","1","cc","processing",[],["a"],{},{"id":1},
    {"reference":7},{"name":null,"email":[]},{"__proto__":{"id":"a"}},{"type":"other","more":{"deep":[1]}}]`
)
const absent = Symbol("absent")

const structs = [...Lists.all.map(({ record }) => record), CustomerDetails, PayoutTargetDetails]

describe("the check of a record", () => {
  for (const schema of structs) {
    const is = Schema.is(schema)
    const check = recordCheck(schema)
    const agree = (value: unknown) => {
      assert.strictEqual(check(value), is(value), JSON.stringify(value))
    }
    const names = Object.keys(schema.fields)

    it.prop(`agrees with Schema.is on valid and changed records: ${names.join(" ")}`, [schema], ([record]) => {
      const parsed: object = JSON.parse(JSON.stringify(record))
      assert.isTrue(check(parsed))
      agree(parsed)
      for (const name of [...names, "undocumented", "constructor"]) {
        for (const odd of [...oddValues, absent]) {
          const { [name]: _, ...changed } = parsed as Record<string, unknown> // JSON
          if (odd !== absent) changed[name] = odd
          agree(changed)
          agree(JSON.parse(JSON.stringify(changed)))
        }
      }
      agree(JSON.parse(JSON.stringify({ ...parsed, PROTO: { id: 1 } }).replace("PROTO", "__proto__")))
    })

    it.prop(`agrees with Schema.is on any JSON: ${names.join(" ")}`, [Schema.Json], ([json]) => {
      for (const value of [json, ...oddValues]) agree(value)
      agree({ id: "a", customerDetails: json, amount: json, status: json })
    })
  }

  it("agrees with Schema.is on schemas that it does not check itself", () => {
    const strange = Schema.Struct({
      short: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(2))),
      either: Schema.Union([Schema.Struct({ a: Schema.String }), Schema.Struct({ b: Schema.Int }), Schema.Literal(7)]),
      list: Schema.Array(Schema.String),
      map: Schema.Record(Schema.String, Schema.Boolean),
      constructor: Schema.optionalKey(Schema.String)
    })
    const good = { short: "ab", either: { b: 1 }, list: ["a"], map: { a: true } }
    for (
      const change of [
        {},
        { short: "abc" },
        { either: { a: "" } },
        { either: { a: 1 } },
        { either: 7 },
        { either: 8 },
        { list: [1] },
        { list: {} },
        { map: { a: 1 } },
        { constructor: 1 },
        { constructor: "a" }
      ]
    ) {
      const value = { ...good, ...change }
      assert.strictEqual(recordCheck(strange)(value), Schema.is(strange)(value), JSON.stringify(change))
    }
    const { constructor: _, ...known } = strange.fields
    assert.isTrue(recordCheck(Schema.Struct(known))(good))
  })

  it("works where code generation from strings is forbidden", () => {
    const program = `
      import { recordCheck } from ${JSON.stringify(new URL("../../src/page/RecordCheck.ts", import.meta.url).href)}
      import { Invoice } from ${JSON.stringify(new URL("../../src/model/Records.ts", import.meta.url).href)}
      const check = recordCheck(Invoice)
      console.log(check({ id: "a", amount: 1 }), check({ id: "a", amount: "1" }))`
    const output = execFileSync(
      process.execPath,
      ["--disallow-code-generation-from-strings", "--input-type=module", "--eval", program],
      { encoding: "utf8" }
    )
    assert.strictEqual(output, "true false\n")
  })
})
