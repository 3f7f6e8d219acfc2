/** Records as JSON text. Text, because parsing would lose the odd numbers and spellings that records contain on purpose. */
import { draw, pick } from "./Draw.ts"
import { type Facts, oneIn } from "./Facts.ts"
import { hostileText, oddText } from "./HostileText.ts"
import type { Story } from "./Life.ts"
import * as Person from "./Person.ts"
import { dayMs } from "./Timeline.ts"

/** What the texts depend on, besides the facts. */
export interface TextOptions {
  /** The share of records with hostile text, 0 to 1. */
  readonly hostileText: number
  /** The number of the merchant that the records belong to. */
  readonly merchant: number
  /** The key from which customers are drawn: the same in every list. */
  readonly personKey: number
  /** When a moving world began, in ms since 1970. */
  readonly beganMs: number
}

/** Renders the records of a list; `body` renders the documented fields of one. */
export const make = (
  body: Body,
  facts: Facts,
  options: TextOptions
): (index: number, story: Story) => string => {
  const shape = { ...options, facts, person: Person.make(options.personKey, facts) }
  return (index, story) => {
    const of = facts.keyOf(index)
    return `{${body(of, index, story, shape)}${oneIn(20, of, 9) ? undocumented : ""}}`
  }
}

/** What a record is rendered from, besides its index. */
export interface Shape extends TextOptions {
  readonly facts: Facts
  readonly person: Person.RenderPerson
}

/** Undocumented fields whose numbers and key order survive only in the exact text. */
const undocumented = `,"risk":{"10":1.10,"b":{"score":1e400,"serial":9007199254740993},"flags":[]}`

/** The index makes an id unique; the rest makes it look random. */
export const idOf = (index: number, of: number): string => base36(index) + base36(draw(of, 1) >>> 1)

/** Six digits in base 36, for an integer below 2^31. */
const base36 = (value: number): string => value.toString(36).padStart(6, "0")

/** An instant (ms since 1970) with the precision of payout requests and payin sources (§2.2, §2.3). */
export const seconds = (ms: number): string => `${milliseconds(ms).slice(0, 19)}Z`

/** An instant (ms since 1970) with the precision of invoices (§2.4). */
export const milliseconds = (ms: number): string => new Date(ms).toISOString()

/** `YYYY-MM-DD` of a day since 1970. */
export const date = (day: number): string => milliseconds(day * dayMs).slice(0, 10)

/** Records of the past were last updated before the world began to move. */
export const updatedMs = (of: number, createdAt: number, story: Story, { beganMs }: Shape): number =>
  story.changes > 0
    ? story.lastChangeMs
    : story.appearedMs ?? Math.min(createdAt + draw(of, 19) % dayMs, Math.max(createdAt, beganMs))

/**
 * Mostly whole thousands, as people pay. Rarely a refund, an odd or a large sum, or one of the largest integers that JSON
 * carries exactly.
 */
export const amount = (of: number): number => {
  const drawn = draw(of, 13)
  const usual = (1 + drawn % 900) * 1000
  const rare = draw(of, 12) % 1000
  if (rare >= 20) return usual
  if (rare === 0) return Number.MAX_SAFE_INTEGER - drawn % 1000
  return rare < 5 ? -usual : drawn * 1000 + 7
}

/** One amount in a hundred has a spelling that parsing would lose: `5e3` or `5000.0`. */
export const amountText = (of: number, sum: number): string =>
  !oneIn(100, of, 21) || sum % 1000 !== 0 ? String(sum) : oneIn(2, of, 22) ? `${sum / 1000}e3` : `${sum}.0`

/** The share of records with odd text, in 2^-32. */
const odd = Math.round(0.02 * 0x1_0000_0000)

export const unusualText = (of: number, shape: Shape): string | undefined => {
  const drawn = draw(of, 10)
  const hostile = Math.round(shape.hostileText * 0x1_0000_0000)
  return drawn < hostile ? hostileText(draw(of, 11)) : drawn < odd ? oddText(draw(of, 11)) : undefined
}

/** A state that the document does not list. */
export const onHold = "on_hold_by_review"

/** The state of a record. Each change draws another one; a new record begins with the first. */
export const stateOf = (states: ReadonlyArray<string>, of: number, story: Story): string =>
  story.appearedMs !== undefined && story.changes === 0
    ? states[0] ?? onHold
    : oneIn(200, of, 23 + story.changes)
    ? onHold
    : pick(states, draw(of, 24 + story.changes))

/** The status fields; a record with the status `failure` has a message too. */
export const statusFields = (status: string, failure: string): string =>
  `"status":"${status}"${status === failure ? `,"statusMessage":"AUTHENTICATION_FAILED"` : ""}`

/** The documented fields of one record, as JSON members. */
export type Body = (of: number, index: number, story: Story, shape: Shape) => string
