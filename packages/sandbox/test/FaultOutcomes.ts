/** What a listing of the invoices comes to over a faulty service: the records, the reason it ended, how often it asked. */
import { assert } from "@effect/vitest"
import type { Lists, PaymentsConfig, PaymentsError } from "@payments/core"
import type { Fault } from "@payments/core/testing"

/** What must never be seen outside a record or an answer. */
export const canary = {
  key: "sandbox_canary-key-5ecret",
  contract: "cañary contract &=?#/3",
  personal: "Cañary Pérez-Secreta",
  document: "9988776655",
  field: "canaryUndocumentedField"
}

/** 250 invoices: three pages of 100, 100 and 50. */
export const records = Array.from({ length: 250 }, (_, index) => ({
  id: `inv_${index}`,
  contract: index % 5 === 3 ? canary.contract : `con_${index % 5}`,
  amount: 1000 + index,
  settlementDate: "2024-05-01",
  description: canary.personal,
  customerDocumentNumber: canary.document,
  [canary.field]: { deep: canary.personal }
}))
/** Theirs, in order. */
export const ids = records.map(({ id }) => id)

/** What came of a listing. */
export interface Outcome {
  readonly ids: ReadonlyArray<string>
  /** Of each page. */
  readonly attempts: ReadonlyArray<number>
  readonly error: PaymentsError | undefined
}

/** Faults, and what a listing of the invoices must come to. */
export interface Case {
  readonly faults: ReadonlyArray<Fault>
  readonly query?: Lists.InvoiceFilters
  readonly config?: Partial<PaymentsConfig["Service"]>
  readonly expect: (outcome: Outcome) => void
}

/** The listing comes whole, after so many attempts at its pages. */
export const whole = (...attempts: ReadonlyArray<number>) => (outcome: Outcome) => {
  assert.isUndefined(outcome.error)
  assert.deepStrictEqual(outcome.ids, ids)
  if (attempts.length > 0) assert.deepStrictEqual(outcome.attempts, attempts)
}

/** It ends with this reason, after so many attempts, having given the records of so many pages. */
export const fails = (reason: object, attempts: number, pages = 0) => ({ error, ids: got }: Outcome) => {
  assert.deepInclude(error?.reason, reason)
  assert.strictEqual(error?.attempts, attempts)
  assert.deepStrictEqual(got, ids.slice(0, pages * 100))
}

/** It ends at once, since what stands there is not as documented. */
export const malformed = (path: string) => fails({ _tag: "MalformedResponse", kind: "wrongShape", path }, 1)
