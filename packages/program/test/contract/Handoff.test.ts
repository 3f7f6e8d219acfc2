import { assert, describe, it } from "@effect/vitest"
import { mismatchOf } from "@payments/testkit/contract/CheckedOutput"
import { bodyOf, bodyVersion } from "../../../copy/src/handoff/Body.ts"
import type { ChangeRow } from "../../../copy/src/store/Store.ts"
import { handoffOutput } from "../../src/contract/HandoffOutput.ts"
import { jsonSchemas } from "../../src/contract/index.ts"

const batch = {
  generation: "g1",
  after: 0,
  first: 1,
  last: 2,
  list: "invoices",
  changes: 2,
  selection: "invoices",
  nonce: "n",
  storedAt: "2026-01-01T00:00:00.000Z",
  scannedAt: undefined
}

const rows: ReadonlyArray<ChangeRow> = (["update", "missing"] as const).map((kind, index) => ({
  seq: index + 1,
  generation: "g1",
  list: "invoices",
  scan: 1,
  at: "2026-01-01T00:00:00.000Z",
  kind,
  id: "a",
  fields: ["amount"],
  before: undefined,
  after: kind === "update" ? `{"id":"a","amount":9007199254740993}` : undefined,
  rechecked: undefined
}))

describe("the body of a hand-off", () => {
  it.each([
    { isThin: false, scannedAt: "2025-12-31T00:00:00.000Z" },
    { isThin: false, scannedAt: undefined },
    { isThin: true, scannedAt: undefined }
  ])("matches its schema: %j", ({ isThin, scannedAt }) => {
    const body = Buffer.from(bodyOf({ source: "north", isThin }, { ...batch, scannedAt }, rows)).toString()
    const value: unknown = JSON.parse(body)
    assert.isUndefined(mismatchOf(value, [handoffOutput]))
    assert.isDefined(mismatchOf({ ...(value as object), first: "1" }, [handoffOutput])) // an object, as the text shows
  })

  it("has the version of its schema, which says that first is an integer of any size", () => {
    assert.strictEqual(bodyVersion, handoffOutput.version)
    const [{ schema } = { schema: {} }] = jsonSchemas([handoffOutput])
    assert.include(JSON.stringify(schema), `"first":{"type":"integer"}`)
  })
})
