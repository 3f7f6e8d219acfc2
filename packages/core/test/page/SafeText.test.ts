/** Which text of an answer is safe to show. The sandbox's `Privacy.test.ts` tests whole answers. */
import { assert, describe, it } from "@effect/vitest"
import { looksLikeCode, looksLikeRequestId, makeSecrets, safeContentType } from "../../src/page/SafeText.ts"

describe("an error code", () => {
  it.each(["BAD_FILTER", "STATUS_403", "ORA_01017", "OAUTH2_EXPIRED", "_3DS", "E_1", "FORBIDDEN", "UNAUTHENTICATED"])(
    "is shown: %s",
    (code) => assert.isTrue(looksLikeCode(code))
  )

  it.each([
    "",
    "4433221100",
    "44_33",
    "CANARYNAME",
    "DOC_4433221100",
    "SK_CANARY5ECRET",
    "bad_filter",
    "BAD-FILTER",
    "A_".repeat(40)
  ])(
    "is not shown: %s",
    (code) => assert.isFalse(looksLikeCode(code))
  )
})

describe("a request id", () => {
  it.each([
    "5ec2e700-ca4a-4cca-9a21-c0ffee123456",
    "4BF92F3577B34DA6A3CE929D0E0E4736",
    "00f067aa0ba902b7",
    "8a1b2c3d4e5f6789-BOG",
    "01HZX3KQ5V7N9B2M4C6D8F0G1H",
    "1-5759e988-bd862e3fe1be46a994272793",
    "Root=1-5759e988-bd862e3fe1be46a994272793",
    "req-7",
    "req_AbCd1234EfGh56"
  ])("is shown: %s", (id) => assert.isTrue(looksLikeRequestId(id)))

  it.each([
    "",
    "4433221100",
    "4433221100443322",
    "req-4433221100",
    "CANARYNAME",
    "req-CANARYNAME",
    "maria.perez",
    "sk_CANARYKEY5ecret",
    "req_sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "eyJhbGciOiJIUzI1NiJ9",
    "c2tfQ0FOQVJZS0VZNWVjcmV0",
    "a canary",
    `req-${"a1".repeat(40)}`
  ])("is not shown: %s", (id) => assert.isFalse(looksLikeRequestId(id)))
})

describe("a content type", () => {
  it.each([
    ["text/html", "text/html"],
    ["Application/JSON; charset=utf-8", "application/json"],
    ["4433221100/CANARYNAME", "an unknown type"],
    ["canary", "an unknown type"],
    [undefined, undefined]
  ])("%s is shown as %s", (header, shown) => assert.strictEqual(safeContentType(header), shown))
})

describe("whether a text shows a secret", () => {
  const secrets = makeSecrets(["sk_CANARYKEY5ecret"])
  secrets.add("CON-7 ñ")
  secrets.add("1")

  it.each([
    "sk_CANARYKEY5ecret",
    "SK-canarykey5ECRET",
    "req-sk_CANARYKEY5ecret-1",
    "CANARYKEY5ecret",
    Buffer.from("sk_CANARYKEY5ecret").toString("hex"),
    Buffer.from("sk_CANARYKEY5ecret").toString("base64url"),
    "CON_7_Ñ",
    "1",
    "A_1_B",
    "req-1a"
  ])("true for %s", (text) => assert.isTrue(secrets.areIn(text)))

  it.each(["BAD_FILTER", "req-7", "canary"])("false for %s", (text) => assert.isFalse(secrets.areIn(text)))

  it("true for an excerpt of a key or of a latest value, and for a whole older value", () => {
    const many = makeSecrets(["the-key"])
    for (const value of ["the-first-cursor", "--"]) many.add(value)
    many.addKey("the-next-key")
    for (let index = 0; index < 254; index++) many.add(`cursor number ${index}`)
    assert.isTrue(many.areIn("before-the-first-cursor"))
    for (let index = 254; index < 2000; index++) many.add(`cursor number ${index}`)
    const texts = [
      "a-the-key",
      "a-the-next-key",
      "a-cursor-number-1999",
      "the-first-cursor",
      "customer.the_first_CURSOR"
    ]
    for (const text of texts) assert.isTrue(many.areIn(text), text)
    for (const text of ["before-the-first-cursor", "customer.segment", "_", "a."]) {
      assert.isFalse(many.areIn(text), text)
    }
    for (let index = 2000; index < 102_000; index++) many.add(`cursor number ${index}`)
    assert.isFalse(many.areIn("the-first-cursor"), "only the latest 100,000 hashes are kept")
  })
})
