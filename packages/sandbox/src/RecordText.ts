/** Records as JSON, written part by part: a server of pages does little else. */
import type { Lists } from "@payments/core"
import { draw, pick } from "./Draw.ts"
import { type Facts, oneIn, settlementCycle, settlementDay, variants } from "./Facts.ts"
import { hostileText, oddText } from "./HostileText.ts"
import type { Story } from "./Life.ts"
import * as Person from "./Person.ts"
import { fixed, type RecordWriter } from "./RecordWriter.ts"
import { dayMs } from "./Timeline.ts"

/** What the texts depend on, besides the facts. */
export interface TextOptions {
  /** The share of records with hostile text, 0 to 1. */
  readonly hostileText: number
  /** The number of the merchant that the records belong to. */
  readonly merchant: number
  /** What is drawn for a customer is drawn of this, in every list. */
  readonly personKey: number
  /** When a moving world began, in ms since 1970. */
  readonly beganMs: number
}

/** Writes the records of a list. */
export const make = (
  list: Lists.ListName,
  facts: Facts,
  options: TextOptions
): (writer: RecordWriter, index: number, story: Story) => void => {
  const body = bodies[list]
  const person = Person.make(options.personKey, facts)
  const shape: Shape = {
    ...options,
    facts,
    person,
    hostile: Math.round(options.hostileText * 0x1_0000_0000),
    paymentUrl: fixed(`"paymentUrl":"https://pay.example.com/pay/mer_${options.merchant}/inv_`)
  }
  return (writer, index, story) => {
    const of = facts.keyOf(index)
    body(writer, of, index, story, shape)
    if (oneIn(20, of, 9)) writer.put(undocumented)
    writer.put(closing)
  }
}

interface Shape extends TextOptions {
  readonly facts: Facts
  readonly person: Person.WritePerson
  /** An invoice's address of shape §2.4, up to the part that differs. */
  readonly paymentUrl: Uint8Array
  /** Of 2^32 records. */
  readonly hostile: number
}

/** Ids are unique by their index; the rest makes them look drawn. */
const writeId = (writer: RecordWriter, index: number, of: number): void => {
  writer.base36(index)
  writer.base36(draw(of, 1) >>> 1)
}

/** Nothing of the past happens after the world began to move. */
const updated = (of: number, createdAt: number, story: Story, { beganMs }: Shape): number =>
  story.changes > 0
    ? story.lastChangeMs
    : story.appearedMs ?? Math.min(createdAt + draw(of, 19) % dayMs, Math.max(createdAt, beganMs))

/** Undocumented fields, spelled so that only the exact text keeps them. */
const undocumented = fixed(
  `,"risk":{"10":1.10,"b":{"score":1e400,"serial":9007199254740993},"flags":[]}`
)
const closing = fixed("}")

/**
 * Whole thousands mostly, as people pay; now and then a refund, an odd or a large sum, the largest that JSON carries
 * exactly, or a number that is spelled in another way.
 */
const amount = (of: number): number => {
  const drawn = draw(of, 13)
  const usual = (1 + drawn % 900) * 1000
  const rare = draw(of, 12) % 1000
  if (rare >= 20) return usual
  if (rare === 0) return Number.MAX_SAFE_INTEGER - drawn % 1000
  return rare < 5 ? -usual : drawn * 1000 + 7
}

const writeAmount = (writer: RecordWriter, of: number, sum: number): void => {
  const odd = oneIn(100, of, 21) && sum % 1000 === 0
  const short = odd && oneIn(2, of, 22)
  writer.number(short ? sum / 1000 : sum)
  if (odd) writer.put(short ? parts.thousands : parts.fraction)
}

/** The share of records with odd text, of 2^32. */
const odd = Math.round(0.02 * 0x1_0000_0000)

const unusualText = (of: number, shape: Shape): Uint8Array | undefined => {
  const drawn = draw(of, 10)
  return drawn < shape.hostile ? hostileText(draw(of, 11)) : drawn < odd ? oddText(draw(of, 11)) : undefined
}

/** The state of a record: drawn anew with each change. */
const state = (states: ReadonlyArray<Uint8Array>, first: Uint8Array, of: number, story: Story): Uint8Array =>
  story.appearedMs !== undefined && story.changes === 0
    ? first
    : oneIn(200, of, 23 + story.changes)
    ? onHold
    : pick(states, draw(of, 24 + story.changes))

const processing = fixed("processing")
const completed = fixed("completed")
const failed = fixed("failed")
const pending = fixed("pending")
const authorized = fixed("authorized")
const rejected = fixed("rejected")
const paid = fixed("paid")
/** A state that no list of states has. */
const onHold = fixed("on_hold_by_review")
const payoutStates = [processing, ...Array<Uint8Array>(7).fill(completed), failed, failed, fixed("reversed")]
const payinStates = [pending, ...Array<Uint8Array>(6).fill(authorized), rejected, fixed("expired")]
const paymentMethods = ["pse", "pse", "card"].map(fixed)

type Body = (
  writer: RecordWriter,
  of: number,
  index: number,
  story: Story,
  shape: Shape
) => void

/** What stands between the values. */
const parts = {
  thousands: fixed("e3"),
  fraction: fixed(".0"),
  none: fixed("null"),
  quote: fixed(`"`),
  true: fixed("true"),
  false: fixed("false"),
  status: fixed(`"status":"`),
  failed: fixed(`","statusMessage":"AUTHENTICATION_FAILED`),
  amount: fixed(`,"amount":`),
  customerId: fixed(`","customerId":"cus_`),
  customerDetails: fixed(`","customerDetails":`),
  createdAt: fixed(`"createdAt":"`),
  updatedAt: fixed(`","updatedAt":"`),
  description: fixed(`","description":`)
}

const payoutParts = {
  id: fixed(`{"id":"por_`),
  reference: fixed(`","reference":"payout-`),
  payoutTargetId: fixed(`,"payoutTargetId":"tgt_`),
  variant: fixed("_"),
  payoutTargetDetails: fixed(`","payoutTargetDetails":{"reference":"target-`),
  description: fixed(`","description":"`),
  usualDescription: fixed("Cuenta de ahorros (nómina)"),
  endTarget: fixed(`","type":"bankAccount"},`),
  amount: fixed(`","amount":`),
  amountSent: fixed(`,"amountSent":`),
  fee: fixed(`,"fee":900,"sourceMerchantAccountId":"acc_`),
  noFee: fixed(`,"fee":null,"sourceMerchantAccountId":"acc_`),
  endAccount: fixed(`",`)
}

const payinParts = {
  id: fixed(`{"id":"pis_`),
  reference: fixed(`","reference":"source-`),
  usualDescription: fixed("Débito automático: suscripción anual"),
  customerId: fixed(`,"customerId":"cus_`),
  status: fixed(`,"status":"`),
  authUrl: fixed(`","authUrl":"https://auth.example.com/authorize/pis_`),
  redirectUrl: fixed(`?next=%2Fdone","redirectUrl":"https://merchant.example.com/back","partialPayinsEnabled":`),
  type: fixed(`,"type":"bankAccount",`)
}

const invoiceParts = {
  id: fixed(`{"id":"inv_`),
  reference: fixed(`","reference":"invoice-`),
  status: fixed(`","status":"`),
  amount: fixed(`","amount":`),
  description: fixed(`,"description":`),
  usualDescription: fixed("Factura N.º "),
  endDescription: fixed(`: \\"servicio\\"`),
  contract: fixed(`,"contract":"con_`),
  document: fixed(`","customerDocumentNumber":"`),
  createdAt: fixed(`","createdAt":"`),
  unpaid: fixed(`","paymentDate":null,`),
  paymentDate: fixed(`","paymentDate":"`),
  paymentMethod: fixed(`","paymentMethod":"`),
  paymentSource: fixed(`","paymentSource":"link","paymentAmount":`),
  settlementDate: fixed(`,"settlementDate":"`),
  settlementTime: fixed(`","settlementTime":"`),
  paymentId: fixed(`","paymentId":"pay_`),
  endPayment: fixed(`",`)
}

const bodies: { readonly [Name in Lists.ListName]: Body } = {
  payoutRequests: (writer, of, index, story, shape) => {
    const customer = shape.facts.customers.of(index)
    const unusual = unusualText(of, shape)
    const createdAt = shape.facts.createdMs(index, story)
    const sum = amount(of)
    const status = state(payoutStates, processing, of, story)
    const variant = shape.facts.variantOf(index)
    const writeTarget = () => {
      writer.number(customer)
      writer.put(payoutParts.variant)
      writer.number(variant)
    }
    writer.put(payoutParts.id)
    writeId(writer, index, of)
    writer.put(payoutParts.reference)
    writer.number(index)
    writer.put(parts.customerId)
    writer.number(customer)
    writer.put(parts.customerDetails)
    if (oneIn(40, of, 15)) writer.put(parts.none)
    else shape.person(writer, of, customer, unusual)
    writer.put(payoutParts.payoutTargetId)
    writeTarget()
    writer.put(payoutParts.payoutTargetDetails)
    writeTarget()
    writer.put(payoutParts.description)
    if (unusual === undefined) writer.put(payoutParts.usualDescription)
    else writer.put(unusual)
    writer.put(payoutParts.endTarget)
    writer.put(parts.status)
    writer.put(status)
    if (status === failed) writer.put(parts.failed)
    writer.put(payoutParts.amount)
    writeAmount(writer, of, sum)
    writer.put(payoutParts.amountSent)
    writer.number(status === completed ? sum - 900 : 0)
    writer.put(oneIn(30, of, 18) ? payoutParts.noFee : payoutParts.fee)
    writer.number(draw(of, 25) % 4)
    writer.put(payoutParts.endAccount)
    writer.put(parts.createdAt)
    writer.seconds(createdAt)
    writer.put(parts.updatedAt)
    writer.seconds(updated(of, createdAt, story, shape))
    writer.put(parts.quote)
  },
  payinSources: (writer, of, index, story, shape) => {
    const customer = shape.facts.customers.of(index)
    const unusual = unusualText(of, shape)
    const createdAt = shape.facts.createdMs(index, story)
    const status = state(payinStates, pending, of, story)
    writer.put(payinParts.id)
    writeId(writer, index, of)
    writer.put(payinParts.reference)
    writer.number(index)
    writer.put(parts.description)
    if (oneIn(12, of, 15)) writer.put(parts.none)
    else {
      writer.put(parts.quote)
      if (unusual === undefined) writer.put(payinParts.usualDescription)
      else writer.put(unusual)
      writer.put(parts.quote)
    }
    writer.put(payinParts.customerId)
    writer.number(customer)
    writer.put(parts.customerDetails)
    shape.person(writer, of, customer, unusual)
    writer.put(payinParts.status)
    writer.put(status)
    if (status === rejected) writer.put(parts.failed)
    writer.put(payinParts.authUrl)
    writeId(writer, index, of)
    writer.put(payinParts.redirectUrl)
    writer.put(oneIn(2, of, 16) ? parts.true : parts.false)
    writer.put(payinParts.type)
    writer.put(parts.createdAt)
    writer.seconds(createdAt)
    writer.put(parts.updatedAt)
    writer.seconds(updated(of, createdAt, story, shape))
    writer.put(parts.quote)
  },
  invoices: (writer, of, index, story, shape) => {
    const customer = shape.facts.customers.of(index)
    const sum = amount(of)
    const payment = shape.facts.paymentOf(index, story)
    const unusual = unusualText(of, shape)
    writer.put(invoiceParts.id)
    writeId(writer, index, of)
    writer.put(invoiceParts.reference)
    writer.number(index)
    writer.put(invoiceParts.status)
    writer.put(payment === undefined ? pending : oneIn(200, of, 10) ? onHold : paid)
    writer.put(invoiceParts.amount)
    writeAmount(writer, of, sum)
    writer.put(invoiceParts.description)
    if (oneIn(15, of, 18)) writer.put(parts.none)
    else {
      writer.put(parts.quote)
      if (unusual === undefined) {
        writer.put(invoiceParts.usualDescription)
        writer.number(index)
        writer.put(invoiceParts.endDescription)
      } else writer.put(unusual)
      writer.put(parts.quote)
    }
    writer.put(invoiceParts.contract)
    writer.number(customer * variants + shape.facts.variantOf(index))
    writer.put(invoiceParts.document)
    writer.number(shape.facts.documentOf(customer))
    writer.put(invoiceParts.createdAt)
    writer.milliseconds(shape.facts.createdMs(index, story))
    if (payment === undefined) writer.put(invoiceParts.unpaid)
    else {
      writer.put(invoiceParts.paymentDate)
      writer.milliseconds(payment.paidMs)
      writer.put(invoiceParts.paymentMethod)
      writer.put(pick(paymentMethods, draw(of, 26)))
      writer.put(invoiceParts.paymentSource)
      writer.number(sum)
      writer.put(invoiceParts.settlementDate)
      writer.date(settlementDay(payment.settledMs))
      writer.put(invoiceParts.settlementTime)
      writer.number(settlementCycle(payment.settledMs))
      writer.put(invoiceParts.paymentId)
      writer.number(index)
      writer.put(invoiceParts.endPayment)
    }
    writer.put(shape.paymentUrl)
    writeId(writer, index, of)
    writer.put(parts.quote)
  }
}
