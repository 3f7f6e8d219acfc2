/** The records of a page as a listing prints them, including those that do not match the document. */
import type { Page } from "@payments/core"
import { createHash } from "node:crypto"

/** A record of a page, with its identity and its problem. */
export interface ListedRecord {
  /** Identifies the record within its page: its id, or a digest of its text if it has no `id` that is a string. */
  readonly key: string
  /** The parsed JSON. */
  readonly value: unknown
  /** The exact text. */
  readonly text: string
  /** Why the record does not match the document; undefined if it does. */
  readonly problem: string | undefined
}

/** Returns the records of a page in their order. */
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
