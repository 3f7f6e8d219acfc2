/** What a destination takes of a page, for whoever writes it and whoever compares. */
import type { Page } from "@payments/core"
import type { ReadRecord } from "./Sink.ts"

/** The records of a page in its order, those that do not decode among them. */
export const readsOf = (page: Page<{ readonly id: string }>): ReadonlyArray<ReadRecord> => {
  const texts = page.texts()
  const reads = page.items.map(({ id }, index): ReadRecord =>
    isStorable(id)
      ? { id, text: texts[index] ?? "", problem: undefined }
      : { id: undefined, text: texts[index] ?? "", problem: notStorable }
  )
  for (const { expected, id, index, path, text } of page.bad) {
    reads.splice(index, 0, { id: isStorable(id) ? id : undefined, text, problem: { path, expected } })
  }
  return reads
}

/** An id that some database cannot hold, or keep in an index, would be stored as another one: such a record counts as having none. */
const isStorable = (id: string | undefined): boolean =>
  id?.isWellFormed() === true && !id.includes("\0") && Buffer.byteLength(id) <= longestId

/** Bytes. PostgreSQL's indexes take 2,704 (https://www.postgresql.org/docs/current/btree.html). */
const longestId = 2000

const notStorable = {
  path: "id",
  expected: "expected text of at most 2,000 bytes without NUL that UTF-8 can carry"
}
