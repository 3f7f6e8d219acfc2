import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Equal, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { Lists, PaymentsContract } from "../../src/index.ts"
import { InvoiceWire, PayinSourceWire, PayoutRequestWire } from "../../src/model/Records.ts"

const spec = OpenApi.fromApi(PaymentsContract)

describe("the contract", () => {
  it("has the three paths of §4, each with its filters, limit and cursor", () => {
    assert.deepStrictEqual(Object.keys(spec.paths), Lists.all.map(({ path }) => path))
    for (const list of Lists.all) {
      const parameters = spec.paths[list.path]?.get?.parameters.map((
        { in: place, name, required }
      ) => [place, name, required])
      assert.deepStrictEqual(
        parameters,
        [...Object.keys(list.filters), "limit", "cursor"].map((name) => ["query", name, false])
      )
    }
  })

  it("requires a bearer key for every operation (§5)", () => {
    assert.deepStrictEqual(
      Object.values(spec.components.securitySchemes).map((scheme) => scheme.type === "http" && scheme.scheme),
      [
        "Bearer"
      ]
    )
    for (const { path } of Lists.all) assert.deepStrictEqual(spec.paths[path]?.get?.security, [{ bearer: [] }])
  })

  it("requires only the id of a record, and allows undocumented fields", () => {
    const schemas = spec.components.schemas
    for (const name of ["PayoutRequest", "PayinSource", "Invoice"]) {
      const schema = schemas[name]
      assert.deepStrictEqual(schema?.["required"], ["id"], name)
      assert.notStrictEqual(schema?.["additionalProperties"], false, name)
    }
  })

  it.prop("describes every record that the check accepts", {
    payoutRequest: Lists.payoutRequests.record,
    payinSource: Lists.payinSources.record,
    invoice: Lists.invoices.record
  }, ({ invoice, payinSource, payoutRequest }) => {
    assert.isTrue(
      Equal.equals(Schema.decodeSync(PayoutRequestWire)({ ...payoutRequest, x: { y: 1 } }), {
        ...payoutRequest,
        x: { y: 1 }
      })
    )
    assert.isTrue(Schema.is(PayinSourceWire)(payinSource))
    assert.isTrue(Schema.is(InvoiceWire)(invoice))
  })

  it("has arbitraries for every record", () => {
    for (const { record } of Lists.all) assert.isDefined(Arbitrary.schema(record))
  })
})
