/** The records of a page as a listing prints them. */
import type { Page } from "@payments/core"
import { createHash } from "node:crypto"
import type { Printed } from "./Output.ts"

/** A record of a page. */
export interface PrintedRecord extends Printed {
  /** Identifies the record on its page: its id, or a digest of its text if it has no readable id. */
  readonly key: string
  /** Why it does not decode, if it does not. */
  readonly problem: string | undefined
}

/** The records of a page, in its order. */
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
