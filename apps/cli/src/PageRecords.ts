/** The records of a page as a listing prints them, including those that do not match the document. */
import type { Page } from "@payments/core"
import { createHash } from "node:crypto"
import type { PrintableRecord } from "./Output.ts"

/** A record of a page. */
export interface PrintedRecord extends PrintableRecord {
  /** Identifies the record within its page: its id, or a digest of its text if it has no readable id. */
  readonly key: string
  /** Why the record does not match the document; undefined if it does. */
  readonly problem: string | undefined
}

/** Returns the records of a page in their order. */
export const recordsOf = (page: Page<{ readonly id: string }>): ReadonlyArray<PrintedRecord> =>
  page.records().map(({ id, problem, text, value }) => ({
    key: id ?? `sha256:${createHash("sha256").update(text).digest("hex")}`,
    value,
    text,
    isDocumented: problem === undefined,
    problem: problem === undefined
      ? undefined
      : problem.path === ""
      ? problem.expected
      : `${problem.path}: ${problem.expected}`
  }))
