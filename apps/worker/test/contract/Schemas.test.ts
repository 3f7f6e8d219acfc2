/** The schemas of the worker's JSON outputs. The other tests of the worker compare what it prints and answers with them. */
import { assert, it } from "@effect/vitest"
import { contract } from "@payments/program"
import { outputsPage, refusals, staleSchemas, withOutputs } from "@payments/testkit/contract/SchemaFiles"
import { readFileSync } from "node:fs"
import { all } from "../../src/contract/WorkerOutputs.ts"

it("the committed schemas are those of the outputs: run npm run docs", () => {
  const schemas = contract.jsonSchemas(all)
  assert.deepStrictEqual(refusals(schemas), [])
  assert.deepStrictEqual(staleSchemas(schemas), [])
  const page = readFileSync(outputsPage, "utf8")
  assert.strictEqual(page, withOutputs(page, "payments-worker", all))
})
