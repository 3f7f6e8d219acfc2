/** The outcome of listing the invoices of a faulty service, and checks of it. */
import { assert } from "@effect/vitest"
import type { Lists, PaymentsConfig, PaymentsError } from "@payments/core"
import type { Fault } from "@payments/core/testing"

/** Secrets and personal data. No log, span, metric or error may contain them. */
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
/** The ids of the records, in order. */
export const ids = records.map(({ id }) => id)

/** The outcome of a listing. */
export interface Outcome {
  /** The ids of the records that were returned. */
  readonly ids: ReadonlyArray<string>
  /** The number of attempts for each page. */
  readonly attempts: ReadonlyArray<number>
  /** The error that ended the listing. */
  readonly error: PaymentsError | undefined
}

/** Faults, and a check of the outcome with them. */
export interface Case {
  readonly faults: ReadonlyArray<Fault>
  readonly query?: Lists.InvoiceFilters
  readonly config?: Partial<PaymentsConfig["Service"]>
  readonly expect: (outcome: Outcome) => void
}

/** Asserts that the listing returned all records, with these numbers of attempts per page. */
export const returnsAll = (...attempts: ReadonlyArray<number>) => (outcome: Outcome) => {
  assert.isUndefined(outcome.error)
  assert.deepStrictEqual(outcome.ids, ids)
  if (attempts.length > 0) assert.deepStrictEqual(outcome.attempts, attempts)
}

/**
 * Asserts that the listing returned the records of `pages` pages, and then failed with this reason after `attempts`
 * attempts to read the next page.
 */
export const fails = (reason: object, attempts: number, pages = 0) => ({ error, ids: received }: Outcome) => {
  assert.deepInclude(error?.reason, reason)
  assert.strictEqual(error?.attempts, attempts)
  assert.deepStrictEqual(received, ids.slice(0, pages * 100))
}

/** Asserts that the listing ended at the first answer, because the value at `path` does not match the document. */
export const malformed = (path: string) => fails({ _tag: "MalformedResponse", kind: "wrongShape", path }, 1)
