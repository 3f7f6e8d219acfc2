/** Converts pages for a destination. A converted page has only the data that a destination and its guards need. */
import {
  type Lists,
  merchantIdOf,
  type Page,
  type PageRecord,
  parseText,
  type PaymentsApi,
  type PaymentsError,
  Position,
  recordProblem
} from "@payments/core"
import type { Effect } from "effect"
import { amountsOf, type Layout, layoutOf, withoutRoundedAmounts } from "../plan/Columns.ts"
import { instantsOf, type PageSight, sightOf } from "../plan/PageSight.ts"
import { countPath } from "../plan/ScanTotals.ts"
import type { Batch, BatchRecord, OwnerClaim, Problem } from "../port/Sink.ts"
import type { Redactor } from "../rule/OpenPersonal.ts"
import type { RedactedText } from "../rule/Rule.ts"

/**
 * A batch of one page, without the parsed values, so that they can be freed while the page is in a queue. Its checkpoint is
 * encoded only once per commit, because that takes about 0.1 ms.
 */
export interface PageBatch extends Omit<Batch, "checkpoint"> {
  readonly next: Position.Position | null
  readonly attempts: number
  /** The total length of the records' texts. */
  readonly characters: number
  /** The different merchant ids in its records (§2.4). */
  readonly merchants: ReadonlyArray<string>
  readonly keyFingerprint: Page<unknown>["keyFingerprint"]
  /** What the page shows about the service. */
  readonly sight: PageSight
  /** The numbers of its request and its answer in the order of all requests and answers of its source. */
  readonly requested: number
  readonly received: number
}

export type RequestOrder = Pick<PageBatch, "requested" | "received">

type AnyPage = Page<{ readonly id: string }>

export const pageReader = (api: PaymentsApi["Service"], name: Lists.ListName): (
  query: {
    readonly limit: number
    readonly position: Position.Position | undefined
    readonly onBadRecord: "quarantine"
  }
) => Effect.Effect<AnyPage, PaymentsError> => api[name].page

/**
 * The redactor applies to what is written. Merchant ids and names of undocumented fields are taken before that, but no
 * names from records of erased persons.
 */
export const toPageBatch = (list: Lists.AnyList, redactor: Redactor) => {
  const layout = layoutOf(list)
  const hasAmounts = keepsAmounts(layout, redactor)
  const instants = instantsOf(list)
  return (page: AnyPage, order: RequestOrder): PageBatch => {
    const undocumented = new Map<string, number>()
    let characters = 0
    const found = page.records()
    const records = found.map((record) => {
      const redacted = redactor.redact(record.text)
      // A name may be a value of an erased person.
      if (redacted.isErased !== true) {
        for (const path of layout.undocumentedIn(record.value)) countPath(undocumented, path, 1)
      }
      characters += redacted.text.length
      // A record without a problem has the same amounts under a rule that keeps them, so its new text is not parsed.
      return hasAmounts && redacted.isErased !== true && record.problem === undefined
        ? withText(list, record, redacted, record)
        : withText(list, record, redacted, parsedAgain(list, record, redacted.text, redactor))
    })
    return {
      pages: 1,
      records,
      undocumented,
      next: page.next,
      attempts: page.attempts,
      characters,
      merchants: merchantsOf(list, page),
      keyFingerprint: page.keyFingerprint,
      sight: sightOf(instants, page.count, found),
      ...order
    }
  }
}

const noAmounts: BatchRecord["amounts"] = []

/** Returns the page as the merchant guard needs it. The other pages of its list may be many. */
export const withoutTexts = (page: PageBatch): PageBatch => ({
  ...page,
  records: page.records.map(({ id }) => ({ id, text: "", amounts: noAmounts, problem: undefined })),
  undocumented: new Map()
})

/** Whether the rule keeps every amount of a record. It decides by the paths of fields, unless a person was erased. */
const keepsAmounts = ({ amounts }: Layout, { redact }: Redactor): boolean =>
  amounts.every(({ path: [field, inner] }) => {
    const text = JSON.stringify({ [field]: inner === undefined ? 1 : { [inner]: 1 } })
    return redact(text).text === text
  })

/** Makes one batch of successive pages. */
export const joined = (pages: ReadonlyArray<PageBatch>, owner: OwnerClaim | undefined): Batch => {
  const undocumented = new Map<string, number>()
  const next = pages.at(-1)?.next ?? null
  for (const page of pages) for (const [path, records] of page.undocumented) countPath(undocumented, path, records)
  return {
    pages: pages.length,
    records: pages.flatMap(({ records }) => records),
    undocumented,
    checkpoint: next === null ? null : Position.toJson(next),
    owner
  }
}

export const recordsIn = (pages: ReadonlyArray<PageBatch>): number =>
  pages.reduce((sum, { records }) => sum + records.length, 0)

export const charactersIn = (pages: ReadonlyArray<PageBatch>): number =>
  pages.reduce((sum, { characters }) => sum + characters, 0)

export const toBatchRecords = (
  list: Lists.AnyList,
  { records }: AnyPage,
  redactor: Redactor
): ReadonlyArray<BatchRecord> => records().map((record) => toBatchRecord(list, record, redactor))

type AnyRecord = PageRecord<{ readonly id: string }>

/** Quarantines the record if its id or its nesting cannot be stored, or if a field needs a decision. */
export const toBatchRecord = (list: Lists.AnyList, record: AnyRecord, redactor: Redactor): BatchRecord => {
  const redacted = redactor.redact(record.text)
  return withText(list, record, redacted, parsedAgain(list, record, redacted.text, redactor))
}

const withText = (
  list: Lists.AnyList,
  record: AnyRecord,
  { held, text }: RedactedText,
  { problem, value }: Pick<AnyRecord, "problem" | "value">
): BatchRecord => {
  const layout = layoutOf(list)
  const storableId = isStorable(record.id) ? record.id : undefined
  return {
    id: storableId,
    text,
    amounts: amountsOf(layout, problem === undefined ? value : withoutRoundedAmounts(layout, value, text)),
    problem: isDeeperThan(text, maxLevels) ? tooDeep : problem ?? problemOf(storableId, held)
  }
}

const problemOf = (storableId: string | undefined, held: string | undefined): Problem | undefined => {
  if (storableId === undefined) return invalidId
  return held === undefined ? undefined : { path: held, expected: decision }
}

/** Returns the value of a record's new text, and its problem: the rule may have left out the value that had one. */
const parsedAgain = (
  list: Lists.AnyList,
  record: AnyRecord,
  text: string,
  { redactDocumented }: Redactor
): Pick<AnyRecord, "problem" | "value"> =>
  text === record.text ? record : {
    value: parseText(text),
    problem: record.problem === undefined ? undefined : recordProblem(list, redactDocumented(record.text).text)
  }

const decision = "expected a decision: add the field to keep, omit or pseudonymize"

/** Whether every database can store and index the id unchanged. Otherwise the record counts as one without an id. */
const isStorable = (id: string | undefined): boolean =>
  id?.isWellFormed() === true && !id.includes("\0") && Buffer.byteLength(id) <= maxIdBytes

/** PostgreSQL's indexes accept 2,704 bytes (https://www.postgresql.org/docs/current/btree.html). */
const maxIdBytes = 2000

const invalidId: Problem = {
  path: "id",
  expected: "expected text of at most 2,000 bytes without NUL that UTF-8 can carry"
}

/**
 * The maximum nesting of objects and arrays. SQLite's JSON functions accept 1,000 levels (https://sqlite.org/json1.html),
 * Python's parser about as many, PostgreSQL's `json` some thousands. One deeper row would make every query over all rows fail.
 */
const maxLevels = 500

const tooDeep: Problem = {
  path: "",
  expected: "expected at most 500 levels of objects and arrays",
  isUnstorable: true
}

/** Whether objects and arrays in the JSON text are nested deeper than the given level. Reads the text once. */
export const isDeeperThan = (text: string, levels: number): boolean => {
  // Each level has two brackets.
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

/** Returns the different merchant ids in the records of a page, including records that do not decode. */
export const merchantsOf = ({ merchantIdIn }: Lists.AnyList, { records }: AnyPage): ReadonlyArray<string> => {
  if (merchantIdIn === undefined) return []
  const found = new Set<string>()
  // Most pages have one merchant. Then the addresses differ only in the record's id, and this prefix skips the parsing.
  let prefix = ""
  for (const { id, value } of records()) {
    if (id === undefined || typeof value !== "object" || value === null) continue
    const paymentUrl: unknown = Object.getOwnPropertyDescriptor(value, merchantIdIn)?.value
    if (typeof paymentUrl !== "string" || (prefix !== "" && paymentUrl === prefix + id)) continue
    const merchant = merchantIdOf({ id, paymentUrl })
    if (merchant === undefined) continue
    found.add(merchant)
    prefix = paymentUrl.endsWith(id) ? paymentUrl.slice(0, -id.length) : ""
  }
  return [...found]
}
