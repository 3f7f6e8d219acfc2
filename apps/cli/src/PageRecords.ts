/** The records of a page in its order, those that are not as the document describes them among them. */
import type { BadRecord, Page } from "@payments/core"
import { createHash } from "node:crypto"
import type { Printed } from "./Output.ts"

/** A record of a page. */
export interface PageRecord extends Printed {
  /** Tells it apart from the others of its page: its id, or a digest of its text where it has no readable one. */
  readonly key: string
  /** What is wrong with it, if it is not as documented. */
  readonly problem: string | undefined
}

/** The records of a page, in its order. */
export const recordsOf = (page: Page<{ readonly id: string }>): ReadonlyArray<PageRecord> => {
  const texts = page.texts()
  const records = page.items.map((value, index): PageRecord => ({
    key: value.id,
    value,
    text: texts[index] ?? "",
    isDocumented: true,
    problem: undefined
  }))
  for (const bad of page.bad) records.splice(bad.index, 0, badRecord(bad))
  return records
}

const badRecord = ({ expected, id, path, text, value }: BadRecord): PageRecord => ({
  key: id ?? `sha256:${createHash("sha256").update(text).digest("hex")}`,
  value,
  text,
  isDocumented: false,
  problem: path === "" ? expected : `${path}: ${expected}`
})
