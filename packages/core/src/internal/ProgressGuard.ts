/**
 * Knows a listing that would never end: a cursor that comes again, however long the circle, and page after page that
 * brings nothing new under ever fresh cursors. What it remembers can be compared, not read.
 */
import type { PaymentsConfig } from "../PaymentsConfig.ts"
import { PaginationFault, type PaymentsError } from "../PaymentsError.ts"
import { failed } from "./Client.ts"
import { cursorMarks } from "./CursorMark.ts"
import type { PageRequest } from "./PageSource.ts"

/** Watches one listing. */
export interface ProgressGuard {
  /** Why `next` must not be asked for after a page of these records, or nothing. */
  readonly check: (next: PageRequest, records: ReadonlyArray<unknown>) => PaymentsError | undefined
}

/** A guard of the listing that begins with this request. */
export const makeProgressGuard = (
  first: PageRequest,
  { emptyPages, repeatedPages }: PaymentsConfig["Service"]["progress"]
): ProgressGuard => {
  const { markCursor, markRecords } = cursorMarks()
  const cursors = new Set(first.cursor === undefined ? [] : [markCursor(first.cursor)])
  const contents = new Set<string>()
  let empty = 0
  let repeated = 0
  return {
    check: (next, records) => {
      const cursor = markCursor(next.cursor ?? "")
      // Its cursors lead nowhere, so the listing can go on only from its start: no position.
      if (cursors.has(cursor)) {
        return failed({ ...next, cursor: undefined }, { reason: new PaginationFault({ kind: "repeatedCursor" }) }, 0)
      }
      cursors.add(cursor)
      empty = records.length === 0 ? empty + 1 : 0
      const ids = records.map(idOf)
      // Records without a readable id are not known again.
      if (ids.length > 0 && ids.every((id) => id !== undefined)) {
        const content = markRecords(ids)
        repeated = contents.has(content) ? repeated + 1 : 0
        contents.add(content)
      }
      return empty > emptyPages || repeated > repeatedPages
        ? failed(next, { reason: new PaginationFault({ kind: "limitReached" }) }, 0)
        : undefined
    }
  }
}

/** The records have not been looked at yet: an id may be anything. */
const idOf = (record: unknown): string | undefined =>
  typeof record === "object" && record !== null && "id" in record && typeof record.id === "string"
    ? record.id
    : undefined
