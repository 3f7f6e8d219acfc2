/** The records of a page as a listing prints them, including those that do not match the document. */
import type { Page } from "@payments/core"
import { createHash } from "node:crypto"

export interface ListedRecord {
  /** Identifies the record within its page: its id, or a digest of its text if it has no `id` that is a string. */
  readonly key: string
  readonly value: unknown
  readonly text: string
  /** Why the record does not match the document; undefined if it does. */
  readonly problem: string | undefined
}

export const recordsOf = (page: Page<{ readonly id: string }>): ReadonlyArray<ListedRecord> =>
  page.records().map(({ id, problem, text, value }) => ({
    key: id ?? `sha256:${createHash("sha256").update(text).digest("hex")}`,
    value,
    text,
    problem: problem === undefined
      ? undefined
      : problem.path === ""
      ? problem.expected
      : `${problem.path}: ${problem.expected}`
  }))
