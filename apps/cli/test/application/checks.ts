/** The tests of the application, for `node --test`. */
import { layerTest } from "@payments/core/testing"
import { Effect } from "effect"
import assert from "node:assert/strict"
import { test } from "node:test"
import { openInvoices } from "./openInvoices.ts"

test("counts what is null and what is absent", async () => {
  const invoices = [{ id: "a", settlementDate: "2024-05-01" }, { id: "b", settlementDate: null }, { id: "c" }]
  assert.equal(await Effect.runPromise(Effect.provide(openInvoices, layerTest({ invoices }))), 2)
})
