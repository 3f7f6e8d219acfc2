/**
 * Detects a listing that would never end. Its cursor repeats after any number of pages, or its pages bring no new
 * records under ever new cursors. It remembers fingerprints, from which no cursor and no id can be read.
 */
import type { PaymentsConfig } from "../config/PaymentsConfig.ts"
import type { PageRequest } from "../http/PageRequest.ts"
import { PaginationFault, type PaymentsError } from "../model/PaymentsError.ts"
import { isJsonObject } from "../page/JsonParse.ts"
import { paymentsErrorOf } from "./Client.ts"
import { makeFingerprints } from "./CursorFingerprint.ts"

export interface ProgressGuard {
  /**
   * Returns the error that forbids the request `next` after a page of `records`, or undefined if the listing may go on.
   */
  readonly check: (next: PageRequest, records: ReadonlyArray<unknown>) => PaymentsError | undefined
}

/** Returns the guard of the listing that starts with the request `first`. */
export const makeProgressGuard = (
  first: PageRequest,
  { emptyPages, repeatedPages }: PaymentsConfig["Service"]["progress"]
): ProgressGuard => {
  const { fingerprintCursor, fingerprintIds } = makeFingerprints()
  const cursors = new Set(first.cursor === undefined ? [] : [fingerprintCursor(first.cursor)])
  const contents = new Set<string>()
  let empty = 0
  let repeated = 0
  return {
    check: (next, records) => {
      const cursor = fingerprintCursor(next.cursor ?? "")
      // The listing cannot continue from any of its cursors, so the error has no position.
      if (cursors.has(cursor)) {
        return paymentsErrorOf({ ...next, cursor: undefined }, {
          reason: new PaginationFault({ kind: "repeatedCursor" })
        }, 0)
      }
      cursors.add(cursor)
      empty = records.length === 0 ? empty + 1 : 0
      const ids = records.map(idOf)
      // A page with a record that has no readable id is never recognized as a repetition.
      if (ids.length > 0 && ids.every((id) => id !== undefined)) {
        const content = fingerprintIds(ids)
        repeated = contents.has(content) ? repeated + 1 : 0
        contents.add(content)
      }
      return empty > emptyPages || repeated > repeatedPages
        ? paymentsErrorOf(next, { reason: new PaginationFault({ kind: "limitReached" }) }, 0)
        : undefined
    }
  }
}

/** The records have not been checked yet, so the id may have any type. */
const idOf = (record: unknown): string | undefined =>
  isJsonObject(record) && typeof record["id"] === "string" ? record["id"] : undefined
