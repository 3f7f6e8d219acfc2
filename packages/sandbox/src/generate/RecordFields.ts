/**
 * Renders records as JSON text. The text is concatenated, because `JSON.stringify` cannot write the unusual numbers and
 * spellings that records contain.
 */
import * as CustomerDetails from "./CustomerDetails.ts"
import { hostileText, oddText } from "./HostileText.ts"
import type { RecordHistory } from "./Lifecycle.ts"
import type { RecordModel } from "./RecordModel.ts"
import { draw, oneIn, pick } from "./RecordRandom.ts"
import { dayMs } from "./Timeline.ts"

/** What the text of a record depends on, in addition to its model and history. */
export interface TextOptions {
  /** The share of records with hostile text, 0 to 1. */
  readonly hostileText: number
  /** Whether some amounts are negative, large or no whole thousands. */
  readonly unusualAmounts: boolean
  /** The number of the merchant that the records belong to. */
  readonly merchant: number
  /** The key from which customer details are drawn: the same in every list. */
  readonly customerKey: number
  /** The start of virtual time, in ms since 1970. */
  readonly startMs: number
}

/** What {@link RenderFields} receives in addition to the record. */
export interface RenderContext extends TextOptions {
  readonly model: RecordModel
  readonly customerDetails: CustomerDetails.RenderCustomer
}

/** Renders the documented fields of one record, as JSON members. `key` is the record's key. */
export type RenderFields = (key: number, index: number, history: RecordHistory, context: RenderContext) => string

/** Makes a function that renders the records of a list. */
export const make = (
  renderFields: RenderFields,
  model: RecordModel,
  options: TextOptions
): (index: number, history: RecordHistory) => string => {
  const context = { ...options, model, customerDetails: CustomerDetails.make(options.customerKey, model) }
  return (index, history) => {
    const key = model.keyOf(index)
    return `{${renderFields(key, index, history, context)}${oneIn(20, key, 9) ? undocumented : ""}}`
  }
}

/** Undocumented fields whose numbers and member order only the exact text keeps. */
const undocumented = `,"risk":{"10":1.10,"b":{"score":1e400,"serial":9007199254740993},"flags":[]}`

/** Returns the id of a record, without its prefix. The index makes it unique, the other digits make it look random. */
export const idOf = (index: number, key: number): string => base36(index) + base36(draw(key, 1) >>> 1)

/** Formats an integer below 2^31 as six digits in base 36. */
const base36 = (value: number): string => value.toString(36).padStart(6, "0")

/** Formats a time (ms since 1970) to the second, as payout requests and payin sources have it (§2.2, §2.3). */
export const isoSeconds = (ms: number): string => `${isoMilliseconds(ms).slice(0, 19)}Z`

/** Formats a time (ms since 1970) to the millisecond, as invoices have it (§2.4). */
export const isoMilliseconds = (ms: number): string => new Date(ms).toISOString()

/** Formats a day (days since 1970) as `YYYY-MM-DD`. */
export const isoDate = (day: number): string => isoMilliseconds(day * dayMs).slice(0, 10)

/**
 * Returns when a record was last updated, in ms since 1970. Without a change, an initial record was updated within a day
 * of its creation and before the start of virtual time.
 */
export const updatedMs = (key: number, createdAt: number, history: RecordHistory, { startMs }: RenderContext): number =>
  history.changes > 0
    ? history.lastChangeMs
    : history.appearedMs ?? Math.min(createdAt + draw(key, 19) % dayMs, Math.max(createdAt, startMs))

/**
 * Returns an amount. Most amounts are whole thousands below a million. If there are unusual ones, of 1,000 amounts 4
 * are negative, and 15 are large and no whole thousands. One is close to the largest integer that a JavaScript number
 * represents exactly.
 */
export const amountOf = (key: number, { unusualAmounts }: TextOptions): number => {
  const drawn = draw(key, 13)
  const usual = (1 + drawn % 900) * 1000
  const rare = draw(key, 12) % 1000
  if (rare >= 20 || !unusualAmounts) return usual
  if (rare === 0) return Number.MAX_SAFE_INTEGER - drawn % 1000
  return rare < 5 ? -usual : drawn * 1000 + 7
}

/** Renders an amount. One in a hundred has a spelling that parsing would lose: `5e3` or `5000.0`. */
export const amountText = (key: number, amount: number): string =>
  !oneIn(100, key, 21) || amount % 1000 !== 0
    ? String(amount)
    : oneIn(2, key, 22)
    ? `${amount / 1000}e3`
    : `${amount}.0`

/** The share of records with odd text. */
const oddShare = 0.02

/** Returns the unusual text of a record, or undefined if it has none. */
export const unusualText = (key: number, context: RenderContext): string | undefined => {
  const drawn = draw(key, 10)
  const isBelow = (share: number) => drawn < Math.round(share * 0x1_0000_0000)
  return isBelow(context.hostileText)
    ? hostileText(draw(key, 11))
    : isBelow(oddShare)
    ? oddText(draw(key, 11))
    : undefined
}

/** A status that the document does not list. */
export const onHold = "on_hold_by_review"

/**
 * Returns the status of a record. A record that appeared after the start has the first status until it changes. Otherwise
 * the status is drawn, again for each change.
 */
export const statusOf = (statuses: ReadonlyArray<string>, key: number, history: RecordHistory): string =>
  history.appearedMs !== undefined && history.changes === 0
    ? statuses[0] ?? onHold
    : oneIn(200, key, 23 + history.changes)
    ? onHold
    : pick(statuses, draw(key, 24 + history.changes))

/** Renders the status fields. A record with the status `failure` also has a message. */
export const statusFields = (status: string, failure: string): string =>
  `"status":"${status}"${status === failure ? `,"statusMessage":"AUTHENTICATION_FAILED"` : ""}`
