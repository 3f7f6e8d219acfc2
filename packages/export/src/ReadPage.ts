/** A page on its way into a destination: what the destination needs of each record, without the parsed values. */
import { type Lists, merchantIdOf, type Page, type PageRecord, type Position } from "@payments/core"
import { amountsOf, type Layout, layoutOf, readable } from "./engine/Columns.ts"
import { countPath } from "./engine/Tally.ts"
import type { BatchRecord, Problem } from "./Sink.ts"

/** {@inheritDoc toReadPage} */
export interface ReadPage {
  readonly records: ReadonlyArray<BatchRecord>
  /** Undocumented fields by path, and how many of the records have them. */
  readonly undocumented: ReadonlyMap<string, number>
  readonly next: Position.Position | null
  readonly attempts: number
  /** Characters of the records' texts. */
  readonly characters: number
  /** The different merchant ids that its records show (§2.4). */
  readonly merchants: ReadonlyArray<string>
  readonly keyFingerprint: Page<unknown>["keyFingerprint"]
}

/** Any page: all records have an id that is text. */
type AnyPage = Page<{ readonly id: string }>

/** The page of a list without its parsed values, so that these can be freed while the page waits. */
export const toReadPage = (list: Lists.AnyList) => {
  const layout = layoutOf(list)
  return (page: AnyPage): ReadPage => {
    const records = toBatchRecords(layout, page)
    const undocumented = new Map<string, number>()
    let characters = 0
    for (const { text, value } of page.records()) {
      characters += text.length
      for (const path of layout.undocumentedIn(value)) countPath(undocumented, path, 1)
    }
    return {
      records,
      undocumented,
      next: page.next,
      attempts: page.attempts,
      characters,
      merchants: merchantsOf(list, page),
      keyFingerprint: page.keyFingerprint
    }
  }
}

/** The records of a page, in its order. */
export const toBatchRecords = (layout: Layout, { records }: AnyPage): ReadonlyArray<BatchRecord> =>
  records().map((record) => toBatchRecord(layout, record))

/** {@inheritDoc BatchRecord} */
export const toBatchRecord = (
  layout: Layout,
  { id, problem, text, value }: PageRecord<{ readonly id: string }>
): BatchRecord => {
  const known = isStorable(id) ? id : undefined
  return {
    id: known,
    text,
    amounts: amountsOf(layout, problem === undefined ? value : readable(layout, value, text)),
    problem: isDeeperThan(text, mostLevels) ? tooDeep : problem ?? (known === undefined ? notStorable : undefined)
  }
}

/** An id that some database cannot hold, or keep in an index, would be stored as another one: such a record counts as having none. */
const isStorable = (id: string | undefined): boolean =>
  id?.isWellFormed() === true && !id.includes("\0") && Buffer.byteLength(id) <= longestId

/** Bytes. PostgreSQL's indexes take 2,704 (https://www.postgresql.org/docs/current/btree.html). */
const longestId = 2000

const notStorable: Problem = {
  path: "id",
  expected: "expected text of at most 2,000 bytes without NUL that UTF-8 can carry"
}

/**
 * Objects and arrays inside each other. SQLite's JSON functions take 1,000 (https://sqlite.org/json1.html), Python's parser
 * about as many, PostgreSQL's `json` some thousands: one row beyond that fails every query over all of them.
 */
const mostLevels = 500

const tooDeep: Problem = {
  path: "",
  expected: "expected at most 500 levels of objects and arrays",
  isUnstorable: true
}

/** Whether the JSON text nests objects and arrays deeper. Reads it once. */
export const isDeeperThan = (text: string, levels: number): boolean => {
  // Each level takes two brackets.
  if (text.length <= 2 * levels) return false
  let depth = 0
  let isInString = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (isInString) {
      if (code === backslash) at++
      else if (code === quote) isInString = false
    } else if (code === quote) isInString = true
    else if (code === openBrace || code === openBracket) {
      if (++depth > levels) return true
    } else if (code === closeBrace || code === closeBracket) depth--
  }
  return false
}

const quote = 0x22, backslash = 0x5c, openBracket = 0x5b, closeBracket = 0x5d, openBrace = 0x7b, closeBrace = 0x7d

/** The different merchant ids that the records of a page show, those that do not decode included. */
export const merchantsOf = ({ merchantIdIn }: Lists.AnyList, { records }: AnyPage): ReadonlyArray<string> => {
  if (merchantIdIn === undefined) return []
  const found = new Set<string>()
  // Most pages show one merchant: there the addresses differ in the id alone.
  let before = ""
  for (const { id, value } of records()) {
    if (id === undefined || typeof value !== "object" || value === null) continue
    const paymentUrl: unknown = Object.getOwnPropertyDescriptor(value, merchantIdIn)?.value
    if (typeof paymentUrl !== "string" || (before !== "" && paymentUrl === before + id)) continue
    const merchant = merchantIdOf({ id, paymentUrl })
    if (merchant === undefined) continue
    found.add(merchant)
    before = paymentUrl.endsWith(id) ? paymentUrl.slice(0, -id.length) : ""
  }
  return [...found]
}
