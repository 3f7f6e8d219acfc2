/** Records as JSON text. Text, because parsing would lose the odd numbers and spellings that records contain on purpose. */
import type { Lists } from "@payments/core"
import { draw, pick } from "./Draw.ts"
import { type Facts, oneIn, settlementCycle, settlementDay, variants } from "./Facts.ts"
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

/** Renders the records of a list. */
export const make = (
  list: Lists.ListName,
  facts: Facts,
  options: TextOptions
): (index: number, story: Story) => string => {
  const body = bodies[list]
  const shape = { ...options, facts, person: Person.make(options.personKey, facts) }
  return (index, story) => {
    const of = facts.keyOf(index)
    return `{${body(of, index, story, shape)}${oneIn(20, of, 9) ? undocumented : ""}}`
  }
}

interface Shape extends TextOptions {
  readonly facts: Facts
  readonly person: Person.RenderPerson
}

/** Undocumented fields whose numbers and key order survive only in the exact text. */
const undocumented = `,"risk":{"10":1.10,"b":{"score":1e400,"serial":9007199254740993},"flags":[]}`

/** The index makes an id unique; the rest makes it look random. */
const idOf = (index: number, of: number): string => base36(index) + base36(draw(of, 1) >>> 1)

/** Six digits in base 36, for an integer below 2^31. */
const base36 = (value: number): string => value.toString(36).padStart(6, "0")

/** An instant (ms since 1970) with the precision of payout requests and payin sources (§2.2, §2.3). */
const seconds = (ms: number): string => `${milliseconds(ms).slice(0, 19)}Z`

/** An instant (ms since 1970) with the precision of invoices (§2.4). */
const milliseconds = (ms: number): string => new Date(ms).toISOString()

/** `YYYY-MM-DD` of a day since 1970. */
const date = (day: number): string => milliseconds(day * dayMs).slice(0, 10)

/** Records of the past were last updated before the world began to move. */
const updatedMs = (of: number, createdAt: number, story: Story, { beganMs }: Shape): number =>
  story.changes > 0
    ? story.lastChangeMs
    : story.appearedMs ?? Math.min(createdAt + draw(of, 19) % dayMs, Math.max(createdAt, beganMs))

/**
 * Mostly whole thousands, as people pay. Rarely a refund, an odd or a large sum, or one of the largest integers that JSON
 * carries exactly.
 */
const amount = (of: number): number => {
  const drawn = draw(of, 13)
  const usual = (1 + drawn % 900) * 1000
  const rare = draw(of, 12) % 1000
  if (rare >= 20) return usual
  if (rare === 0) return Number.MAX_SAFE_INTEGER - drawn % 1000
  return rare < 5 ? -usual : drawn * 1000 + 7
}

/** One amount in a hundred has a spelling that parsing would lose: `5e3` or `5000.0`. */
const amountText = (of: number, sum: number): string =>
  !oneIn(100, of, 21) || sum % 1000 !== 0 ? String(sum) : oneIn(2, of, 22) ? `${sum / 1000}e3` : `${sum}.0`

/** The share of records with odd text, in 2^-32. */
const odd = Math.round(0.02 * 0x1_0000_0000)

const unusualText = (of: number, shape: Shape): string | undefined => {
  const drawn = draw(of, 10)
  const hostile = Math.round(shape.hostileText * 0x1_0000_0000)
  return drawn < hostile ? hostileText(draw(of, 11)) : drawn < odd ? oddText(draw(of, 11)) : undefined
}

/** A state that the document does not list. */
const onHold = "on_hold_by_review"
const payoutStates = ["processing", ...Array<string>(7).fill("completed"), "failed", "failed", "reversed"]
const payinStates = ["pending", ...Array<string>(6).fill("authorized"), "rejected", "expired"]
const paymentMethods = ["pse", "pse", "card"]

/** The state of a record. Each change draws another one; a new record begins with the first. */
const stateOf = (states: ReadonlyArray<string>, of: number, story: Story): string =>
  story.appearedMs !== undefined && story.changes === 0
    ? states[0] ?? onHold
    : oneIn(200, of, 23 + story.changes)
    ? onHold
    : pick(states, draw(of, 24 + story.changes))

/** The status fields; a record with the status `failure` has a message too. */
const statusFields = (status: string, failure: string): string =>
  `"status":"${status}"${status === failure ? `,"statusMessage":"AUTHENTICATION_FAILED"` : ""}`

type Body = (of: number, index: number, story: Story, shape: Shape) => string

const bodies: { readonly [Name in Lists.ListName]: Body } = {
  payoutRequests: (of, index, story, shape) => {
    const customer = shape.facts.customers.of(index)
    const target = `${customer}_${shape.facts.variantOf(index)}`
    const unusual = unusualText(of, shape)
    const createdAt = shape.facts.createdMs(index, story)
    const sum = amount(of)
    const status = stateOf(payoutStates, of, story)
    const details = oneIn(40, of, 15) ? "null" : shape.person(of, customer, unusual)
    return `"id":"por_${idOf(index, of)}","reference":"payout-${index}"` +
      `,"customerId":"cus_${customer}","customerDetails":${details}` +
      `,"payoutTargetId":"tgt_${target}","payoutTargetDetails":{"reference":"target-${target}"` +
      `,"description":"${unusual ?? "Cuenta de ahorros (nómina)"}","type":"bankAccount"},` +
      statusFields(status, "failed") +
      `,"amount":${amountText(of, sum)},"amountSent":${status === "completed" ? sum - 900 : 0}` +
      `,"fee":${oneIn(30, of, 18) ? "null" : "900"},"sourceMerchantAccountId":"acc_${draw(of, 25) % 4}"` +
      `,"createdAt":"${seconds(createdAt)}","updatedAt":"${seconds(updatedMs(of, createdAt, story, shape))}"`
  },
  payinSources: (of, index, story, shape) => {
    const customer = shape.facts.customers.of(index)
    const unusual = unusualText(of, shape)
    const createdAt = shape.facts.createdMs(index, story)
    const id = idOf(index, of)
    const description = oneIn(12, of, 15) ? "null" : `"${unusual ?? "Débito automático: suscripción anual"}"`
    return `"id":"pis_${id}","reference":"source-${index}","description":${description}` +
      `,"customerId":"cus_${customer}","customerDetails":${shape.person(of, customer, unusual)},` +
      statusFields(stateOf(payinStates, of, story), "rejected") +
      `,"authUrl":"https://auth.example.com/authorize/pis_${id}?next=%2Fdone"` +
      `,"redirectUrl":"https://merchant.example.com/back","partialPayinsEnabled":${oneIn(2, of, 16)}` +
      `,"type":"bankAccount","createdAt":"${seconds(createdAt)}"` +
      `,"updatedAt":"${seconds(updatedMs(of, createdAt, story, shape))}"`
  },
  invoices: (of, index, story, shape) => {
    const customer = shape.facts.customers.of(index)
    const sum = amount(of)
    const payment = shape.facts.paymentOf(index, story)
    const unusual = unusualText(of, shape)
    const id = idOf(index, of)
    const status = payment === undefined ? "pending" : oneIn(200, of, 10) ? onHold : "paid"
    const description = oneIn(15, of, 18) ? "null" : `"${unusual ?? `Factura N.º ${index}: \\"servicio\\"`}"`
    const paid = payment === undefined
      ? `"paymentDate":null`
      : `"paymentDate":"${milliseconds(payment.paidMs)}","paymentMethod":"${pick(paymentMethods, draw(of, 26))}"` +
        `,"paymentSource":"link","paymentAmount":${sum},"settlementDate":"${date(settlementDay(payment.settledMs))}"` +
        `,"settlementTime":"${settlementCycle(payment.settledMs)}","paymentId":"pay_${index}"`
    return `"id":"inv_${id}","reference":"invoice-${index}","status":"${status}","amount":${amountText(of, sum)}` +
      `,"description":${description},"contract":"con_${customer * variants + shape.facts.variantOf(index)}"` +
      `,"customerDocumentNumber":"${shape.facts.documentOf(customer)}"` +
      `,"createdAt":"${milliseconds(shape.facts.createdMs(index, story))}",${paid}` +
      `,"paymentUrl":"https://pay.example.com/pay/mer_${shape.merchant}/inv_${id}"`
  }
}
