import { assert, describe, it } from "@effect/vitest"
import { namesForLogs, namesForTerminal } from "../../src/index.ts"

const found = {
  "routingHint": 1,
  "constructor": 1,
  "customer_details.tax_id2": 2,
  "CANARYNAME": 3,
  "n4433221100": 4,
  "customerDetails.CANARY": 5,
  "sk_canarykey": 6,
  "(other)": 7
}
const isSecret = (text: string) => text === "sk_canarykey"

describe("the names of undocumented fields", () => {
  it("are shown on a terminal, unless they contain a secret", () => {
    assert.deepStrictEqual(namesForTerminal(found, isSecret), {
      "routingHint": 1,
      "constructor": 1,
      "customer_details.tax_id2": 2,
      "CANARYNAME": 3,
      "n4433221100": 4,
      "customerDetails.CANARY": 5,
      "(other)": 13
    })
  })

  it("are logged only if they look like identifiers and not like numbers", () => {
    assert.deepStrictEqual(namesForLogs(found, isSecret), {
      "routingHint": 1,
      "constructor": 1,
      "customer_details.tax_id2": 2,
      "(other)": 25
    })
  })
})
