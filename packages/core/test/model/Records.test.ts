import { assert, describe, it } from "@effect/vitest"
import { DateTime, Option, Schema } from "effect"
import { Lists, timestamp } from "../../src/index.ts"

describe("a timestamp", () => {
  it("is the instant of its text, to the millisecond", () => {
    for (
      const [text, iso] of [["2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000Z"], [
        "2024-02-29T23:59:59.123Z",
        "2024-02-29T23:59:59.123Z"
      ]]
    ) {
      assert.strictEqual(Option.getOrThrow(Option.map(timestamp(text), DateTime.formatIso)), iso)
    }
  })

  it.each([
    null,
    undefined,
    "",
    "2024-05-01",
    "2024-05-01T10:00:00",
    "2024-05-01T10:00:00+02:00",
    "2024-02-30T00:00:00Z",
    "2024-13-01T00:00:00Z",
    "soon",
    "TZ"
  ])(
    "is none for %s",
    (text) => assert.isTrue(Option.isNone(timestamp(text)))
  )
})

describe("the data map", () => {
  const meanings = Object.fromEntries(Lists.all.map((list) => [
    list.label,
    Object.fromEntries(Lists.fieldMeanings(list).map(({ identifies, path }) => [path.join("."), identifies]))
  ]))
  const customer = {
    "customerDetails.reference": "person",
    "customerDetails.name": "person",
    "customerDetails.documentType": "nobody",
    "customerDetails.documentNumber": "person",
    "customerDetails.email": "person",
    "customerDetails.phoneNumber": "person"
  } as const

  it("says for every documented field whom or what it identifies", () => {
    assert.deepStrictEqual(meanings, {
      "payout-requests": {
        id: "payment",
        reference: "payment",
        customerId: "person",
        ...customer,
        payoutTargetId: "person",
        "payoutTargetDetails.reference": "person",
        "payoutTargetDetails.description": "person",
        "payoutTargetDetails.type": "nobody",
        status: "nobody",
        statusMessage: "nobody",
        amount: "nobody",
        amountSent: "nobody",
        fee: "nobody",
        sourceMerchantAccountId: "nobody",
        createdAt: "nobody",
        updatedAt: "nobody"
      },
      "payin-sources": {
        id: "payment",
        reference: "payment",
        description: "person",
        customerId: "person",
        ...customer,
        status: "nobody",
        statusMessage: "nobody",
        authUrl: "person",
        redirectUrl: "person",
        partialPayinsEnabled: "nobody",
        type: "nobody",
        createdAt: "nobody",
        updatedAt: "nobody"
      },
      invoices: {
        id: "payment",
        reference: "payment",
        status: "nobody",
        amount: "nobody",
        description: "person",
        contract: "person",
        customerDocumentNumber: "person",
        createdAt: "nobody",
        paymentDate: "nobody",
        paymentMethod: "nobody",
        paymentSource: "nobody",
        paymentAmount: "nobody",
        settlementDate: "nobody",
        settlementTime: "nobody",
        paymentId: "payment",
        paymentUrl: "payment"
      }
    })
  })

  it("gives the personal fields of a list", () => {
    assert.deepStrictEqual(Lists.personalFields(Lists.invoices), ["description", "contract", "customerDocumentNumber"])
  })

  it("does not compile without what a field identifies", () => {
    // @ts-expect-error: the field says nothing about whom it identifies
    const record: Lists.AnyList["record"] = Schema.Struct({ id: Schema.String })
    assert.isDefined(record)
  })
})
