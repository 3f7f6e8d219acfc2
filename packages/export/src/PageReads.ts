/** What a destination takes of a page, for whoever writes it and whoever compares. */
import { type Lists, merchantIdOf, type Page, type Position } from "@payments/core"
import type { Problem, ReadRecord } from "./Sink.ts"

/** A page on its way into a destination. Nothing of what was parsed is in it. */
export interface ReadPage {
  readonly reads: ReadonlyArray<ReadRecord>
  readonly next: Position.Position | null
  readonly attempts: number
  /** Of all its records' texts. */
  readonly characters: number
  /** The different merchant ids that its records show (§2.4). */
  readonly merchants: ReadonlyArray<string>
  readonly keyFingerprint: Page<unknown>["keyFingerprint"]
}

/** A page without what was parsed of it. */
export const toReadPage = (list: Lists.AnyList, page: Page<{ readonly id: string }>): ReadPage => {
  const reads = readsOf(page)
  return {
    reads,
    next: page.next,
    attempts: page.attempts,
    characters: reads.reduce((sum, { text }) => sum + text.length, 0),
    merchants: merchantsOf(list, page),
    keyFingerprint: page.keyFingerprint
  }
}

/** The records of a page in its order, those that do not decode among them. */
export const readsOf = (page: Page<{ readonly id: string }>): ReadonlyArray<ReadRecord> => {
  const texts = page.texts()
  const reads = page.items.map(({ id }, index) => toRead(id, texts[index] ?? "", undefined))
  for (const { expected, id, index, path, text } of page.bad) {
    reads.splice(index, 0, toRead(id, text, { path, expected }))
  }
  return reads
}

const toRead = (id: string | undefined, text: string, problem: Problem | undefined): ReadRecord => {
  const known = isStorable(id) ? id : undefined
  if (isDeeperThan(text, mostLevels)) return { id: known, text, problem: tooDeep }
  return { id: known, text, problem: problem ?? (known === undefined ? notStorable : undefined) }
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

/** The different merchant ids that the records of a page show, those that do not decode among them. */
export const merchantsOf = (
  { merchantIdIn }: Lists.AnyList,
  { bad, items }: Pick<Page<{ readonly id: string }>, "items" | "bad">
): ReadonlyArray<string> => {
  if (merchantIdIn === undefined) return []
  const found = new Set<string>()
  // Usually all records of a page have one merchant, and their addresses differ only in the id.
  let before = ""
  const add = (id: string, record: object) => {
    const paymentUrl: unknown = Object.getOwnPropertyDescriptor(record, merchantIdIn)?.value
    if (typeof paymentUrl !== "string") return
    if (before !== "" && paymentUrl === before + id) return
    const merchant = merchantIdOf({ id, paymentUrl })
    if (merchant === undefined) return
    found.add(merchant)
    before = paymentUrl.endsWith(id) ? paymentUrl.slice(0, -id.length) : ""
  }
  for (const item of items) add(item.id, item)
  for (const { id, value } of bad) if (id !== undefined && typeof value === "object" && value !== null) add(id, value)
  return [...found]
}
