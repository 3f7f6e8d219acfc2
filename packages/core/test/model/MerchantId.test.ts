import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { merchantIdOf } from "../../src/index.ts"

const NotEmpty = Schema.String.check(Schema.isMinLength(1), Schema.makeFilter((text) => text.isWellFormed()))
/** Text without control characters that is not `.` or `..`. */
const Merchant = NotEmpty.check(
  Schema.isMaxLength(200),
  Schema.makeFilter((text) => !/^\.{1,2}$|\p{Cc}/u.test(text))
)

describe("the merchant id of an invoice", () => {
  it.each([
    ["https://pay.example.com/pay/mer_1/inv_1", "mer_1"],
    ["http://127.0.0.1:8080/pay/7/inv_1", "7"],
    ["https://example.com/shop/pay/pages/pay/mer_1/inv_1", "mer_1"],
    ["https://example.com/pay/pay/inv_1", "pay"],
    ["https://example.com/pay/mer_1/inv_1/", "mer_1"],
    ["https://example.com/pay/mer_1/inv_1?lang=es#top", "mer_1"],
    ["https://example.com/pay/mer%201/inv_1", "mer 1"],
    ["/pay/mer_1/inv_1", "mer_1"],
    [`https://example.com/pay/${"m".repeat(200)}/inv_1`, "m".repeat(200)]
  ])("in %s is %s", (paymentUrl, merchant) => {
    assert.strictEqual(merchantIdOf({ id: "inv_1", paymentUrl }), merchant)
  })

  it.each([
    undefined,
    null,
    "",
    "inv_1",
    "/inv_1",
    "https://example.com/pay/mer_1/inv_2",
    "https://example.com/pay/mer_1/xinv_1",
    "https://example.com/pay/inv_1",
    "https://example.com/pay//inv_1",
    "https://example.com/repay/mer_1/inv_1",
    "https://example.com/PAY/mer_1/inv_1",
    "https://example.com/pay/mer_1/more/inv_1",
    "https://example.com/pay/../inv_1",
    "https://example.com/pay/%2E%2E/inv_1",
    "https://example.com/pay/%/inv_1",
    "https://example.com/pay/%00/inv_1",
    "https://example.com/pay/mer\ud800/inv_1",
    "https://example.com/?to=/pay/mer_1/inv_2",
    `https://example.com/pay/${"m".repeat(201)}/inv_1`
  ])("is in no address such as %j", (paymentUrl) => {
    assert.isUndefined(merchantIdOf(paymentUrl === undefined ? { id: "inv_1" } : { id: "inv_1", paymentUrl }))
  })

  it.prop(
    "is the segment that §2.4 names, plain or percent-encoded",
    [NotEmpty, Merchant, NotEmpty],
    ([page, merchant, id]) => {
      const [segment, last] = [encodeURIComponent(merchant), encodeURIComponent(id)]
      for (const base of [page, `https://example.com/${encodeURIComponent(page)}`]) {
        assert.strictEqual(merchantIdOf({ id, paymentUrl: `${base}/pay/${segment}/${last}` }), merchant)
        assert.strictEqual(merchantIdOf({ id, paymentUrl: `${base}/pay/${segment}/${id}` }), merchant)
        if (!/[/%]/.test(merchant)) {
          assert.strictEqual(merchantIdOf({ id, paymentUrl: `${base}/pay/${merchant}/${id}` }), merchant)
        }
      }
    }
  )

  it.prop("is found only in an address that ends in the invoice's id, and no text makes it throw", [
    Schema.String,
    Schema.String
  ], ([id, paymentUrl]) => {
    const merchant = merchantIdOf({ id, paymentUrl })
    if (merchant === undefined) return
    assert.include(paymentUrl, "/pay/")
    assert.isTrue(paymentUrl.includes(`/${id}`) || paymentUrl.includes(`/${encodeURIComponent(id)}`))
  })
})
