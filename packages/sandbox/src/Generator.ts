/**
 * Records as a function of (seed, list, index) and of what has happened to them: the same on every machine, at any size.
 * They look like a merchant's data and hold what the document allows or leaves open: names in many scripts, hostile text,
 * nulls, missing and undocumented fields, states nobody has listed, numbers that parsing would change.
 *
 * The text is written part by part, each JSON already, since a server of pages does little else.
 */
import type { Lists } from "@payments/core"
import type { MemoryList } from "@payments/core/testing"
import * as Customers from "./Customers.ts"
import { draw, permute, pick, unpermute } from "./Draw.ts"
import { hostileText } from "./HostileText.ts"
import { type Story, untouched } from "./Life.ts"
import { fixed, RecordWriter } from "./RecordWriter.ts"
import { createdMs, dayMs } from "./Timeline.ts"

export { fraction } from "./Draw.ts"

/** What makes the records of a list. */
export interface GeneratorOptions {
  /** Another seed gives other records. */
  readonly seed: number
  /** The share of records with text that breaks whoever trusts it, 0 to 1; 0.02 unless given. */
  readonly hostileText?: number | undefined
  /** When a moving world began, in ms since 1970: nothing is paid later without a change. Never unless given. */
  readonly beganMs?: number | undefined
}

/** The records of a list, and what filters ask about them. */
export interface Generator {
  /** A record as JSON text. */
  readonly textAt: (index: number, story?: Story) => string
  readonly customers: Customers.Customers
  /** Which of its customer's payout targets or contracts the record names, 0 to 2. */
  readonly variantOf: (index: number) => number
  /** When an invoice was paid and when that went into settlement, in ms since 1970; undefined where it is not paid. */
  readonly paymentOf: (
    index: number,
    story: Story
  ) => { readonly paidMs: number; readonly settledMs: number } | undefined
}

/** The records of one list as they are in a world that does not move. */
export const records = (list: Lists.ListName, length: number, seed: number): MemoryList.MemoryRecords => ({
  length,
  textAt: make(list, { seed }).textAt
})

/** Makes the records of a list. */
export const make = (list: Lists.ListName, options: GeneratorOptions): Generator => {
  const key = draw(options.seed, listNumber[list])
  const customers = Customers.make(draw(key, 0))
  const variantOf = (index: number) => draw(draw(key, index), 16) % variants
  const beganMs = options.beganMs ?? Infinity
  const paymentOf = (index: number, story: Story) => {
    const of = draw(key, index)
    const paidMs = story.appearedMs === undefined && !oneIn(5, of, 15)
      ? created(of, index, story) + delay(of)
      : Infinity
    const waits = paidMs > beganMs || paidMs === Infinity
    if (waits && story.changes === 0) return undefined
    return {
      paidMs: waits ? story.firstChangeMs : paidMs,
      settledMs: story.changes === 0 ? paidMs : story.lastChangeMs
    }
  }
  const shape: Shape = {
    hostile: Math.round((options.hostileText ?? 0.02) * 0x1_0000_0000),
    beganMs,
    personKey: draw(options.seed, 0),
    documentOf: (customer) => documentNumber(options.seed, customer),
    variantOf,
    paymentOf
  }
  const body = bodies[list]
  const writer = new RecordWriter()
  return {
    customers,
    variantOf,
    paymentOf,
    textAt: (index, story = untouched) => {
      const of = draw(key, index)
      body(writer, of, index, customers.of(index), story, shape)
      if (oneIn(20, of, 9)) writer.put(undocumented)
      writer.put(closing)
      return writer.take()
    }
  }
}

/** How many payout targets or contracts a customer has. */
export const variants = 3

/** Cycles begin at midnight, noon and 17:00. */
export const settlementTime = (settledMs: number): string => {
  const hour = settledMs % dayMs / 3_600_000
  return hour < 12 ? "1" : hour < 17 ? "2" : "3"
}

/** Money is settled on the day after. Days since 1970. */
export const settlementDay = (settledMs: number): number => Math.floor(settledMs / dayMs) + 1

/** The longest time from an invoice to its payment in the past, in days. */
export const longestDelayDays = 7

const smallestDocument = 1_000_000_000
/** Customers beyond this number do not exist: their document numbers could not be told apart. */
export const mostCustomers = 2 ** 30

/** The document number of a customer; no two have the same. */
const documentNumber = (seed: number, customer: number): number =>
  smallestDocument + permute(15, draw(seed, 5), customer)

/** The customer with that document number, if any. */
export const customerWithDocument = (seed: number, document: string): number | undefined => {
  const number = /^\d{10}$/.test(document) ? Number(document) - smallestDocument : -1
  return number >= 0 && number < mostCustomers ? unpermute(15, draw(seed, 5), number) : undefined
}

const listNumber: { readonly [Name in Lists.ListName]: number } = { payoutRequests: 1, payinSources: 2, invoices: 3 }

interface Shape extends Pick<Generator, "variantOf" | "paymentOf"> {
  /** Of 2^32 records. */
  readonly hostile: number
  readonly beganMs: number
  readonly personKey: number
  readonly documentOf: (customer: number) => number
}

/** One in `n`, by a draw. */
const oneIn = (n: number, of: number, part: number): boolean => draw(of, part) % n === 0

/** Ids are unique by their index; the rest makes them look drawn. */
const writeId = (writer: RecordWriter, index: number, of: number): void => {
  writer.base36(index)
  writer.base36(draw(of, 1) >>> 1)
}

const created = (of: number, index: number, story: Story): number =>
  story.appearedMs ?? createdMs(index, draw(of, 14) / 0x1_0000_0000)

/** Most are paid within a day, a few after a week. */
const delay = (of: number): number => {
  const share = draw(of, 17) / 0x1_0000_0000
  return Math.floor(share * share * share * longestDelayDays * dayMs)
}

/** Nothing of the past happens after the world began to move. */
const updated = (of: number, createdAt: number, story: Story, { beganMs }: Shape): number =>
  story.changes > 0
    ? story.lastChangeMs
    : story.appearedMs ?? Math.min(createdAt + draw(of, 19) % dayMs, Math.max(createdAt, beganMs))

/** A text as a server may spell it: as it is, or with all beyond Latin-1 escaped. */
interface Spelling {
  readonly raw: string
  readonly escaped: string
}

const spellings = (texts: ReadonlyArray<string>): ReadonlyArray<Spelling> =>
  texts.map((raw) => ({
    raw,
    // Put together from parts of one byte per character: what replacing leaves keeps two.
    escaped: Array.from(raw, (character) =>
      character < "\u0100" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")
  }))

const names = spellings(
  [
    "María",
    "José",
    "Łucja",
    "Søren",
    "Zoë",
    "Nguyễn",
    "Αθηνά",
    "Олена",
    "美咲",
    "يوسف",
    "Siân",
    "O'Neil"
  ].flatMap((first) =>
    [
      "García Ñáñez",
      "da Conceição",
      "Żółkiewska",
      "Ångström",
      "d’Arc",
      "Thị Hương",
      "Παππά",
      "Шевчук",
      "山田",
      "حداد",
      "Núñez-Ríos",
      `de la \\"Roca\\"`
    ].map((last) => `${first} ${last}`)
  )
)

/** Undocumented fields, spelled so that only the exact text keeps them. */
const undocumented = fixed(
  `,"risk":{"10":1.10,"b":{"score":1e400,"serial":9007199254740993},"flags":[]}`
)
const closing = fixed("}")

/** The name of a customer. A page that holds one character beyond Latin-1 takes longer to send, so few do. */
const nameOf = (of: number, person: number): string => {
  const name = names[draw(person, 2) % names.length]
  return (oneIn(1000, of, 2) ? name?.raw : name?.escaped) ?? ""
}

const writePerson = (
  writer: RecordWriter,
  of: number,
  customer: number,
  hostile: string | undefined,
  shape: Shape
): void => {
  const person = draw(shape.personKey, customer)
  writer.put(parts.personReference)
  writer.number(customer)
  writer.put(parts.name)
  writer.text(hostile ?? nameOf(of, person))
  writer.put(parts.documentType)
  writer.text(pick(documentTypes, draw(person, 4)))
  writer.put(parts.documentNumber)
  writer.number(shape.documentOf(customer))
  writer.put(parts.email)
  writer.number(customer)
  if (oneIn(9, person, 6)) writer.put(parts.noPhone)
  else {
    writer.put(parts.phone)
    writer.number(1_000_000 + draw(person, 7) % 9_000_000)
    writer.put(parts.endPhone)
  }
  writer.put(oneIn(40, person, 8) ? parts.endPersonSegment : parts.endPerson)
}
const documentTypes = ["cc", "cc", "cc", "ce", "nit"]

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

const hostileIn = (of: number, shape: Shape): string | undefined =>
  draw(of, 10) < shape.hostile ? hostileText(draw(of, 11)) : undefined

/** The state of a record: drawn anew with each change. */
const state = (states: ReadonlyArray<string>, first: string, of: number, story: Story): string =>
  story.appearedMs !== undefined && story.changes === 0
    ? first
    : oneIn(200, of, 23 + story.changes)
    ? "on_hold_by_review"
    : pick(states, draw(of, 24 + story.changes))

const payoutStates = ["processing", ...Array<string>(7).fill("completed"), "failed", "failed", "reversed"]
const payinStates = ["pending", ...Array<string>(6).fill("authorized"), "rejected", "expired"]
const paymentMethods = ["pse", "pse", "card"]

type Body = (
  writer: RecordWriter,
  of: number,
  index: number,
  customer: number,
  story: Story,
  shape: Shape
) => void

/** What stands between the values. */
const parts = {
  personReference: fixed(`{"reference":"customer-`),
  name: fixed(`","name":"`),
  documentType: fixed(`","documentType":"`),
  documentNumber: fixed(`","documentNumber":"`),
  email: fixed(`","email":"customer.`),
  noPhone: fixed(`@example.com","phoneNumber":null`),
  phone: fixed(`@example.com","phoneNumber":"+57300`),
  endPhone: fixed(`"`),
  endPersonSegment: fixed(`,"segment":{"tier":1.0,"since":null}}`),
  endPerson: fixed(`}`),
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
  endPayment: fixed(`",`),
  paymentUrl: fixed(`"paymentUrl":"https://pay.example.com/pay/mer_1/inv_`)
}

const bodies: { readonly [Name in Lists.ListName]: Body } = {
  payoutRequests: (writer, of, index, customer, story, shape) => {
    const hostile = hostileIn(of, shape)
    const createdAt = created(of, index, story)
    const sum = amount(of)
    const status = state(payoutStates, "processing", of, story)
    const variant = shape.variantOf(index)
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
    else writePerson(writer, of, customer, hostile, shape)
    writer.put(payoutParts.payoutTargetId)
    writeTarget()
    writer.put(payoutParts.payoutTargetDetails)
    writeTarget()
    writer.put(payoutParts.description)
    if (hostile === undefined) writer.put(payoutParts.usualDescription)
    else writer.text(hostile)
    writer.put(payoutParts.endTarget)
    writer.put(parts.status)
    writer.text(status)
    if (status === "failed") writer.put(parts.failed)
    writer.put(payoutParts.amount)
    writeAmount(writer, of, sum)
    writer.put(payoutParts.amountSent)
    writer.number(status === "completed" ? sum - 900 : 0)
    writer.put(oneIn(30, of, 18) ? payoutParts.noFee : payoutParts.fee)
    writer.number(draw(of, 25) % 4)
    writer.put(payoutParts.endAccount)
    writer.put(parts.createdAt)
    writer.seconds(createdAt)
    writer.put(parts.updatedAt)
    writer.seconds(updated(of, createdAt, story, shape))
    writer.put(parts.quote)
  },
  payinSources: (writer, of, index, customer, story, shape) => {
    const hostile = hostileIn(of, shape)
    const createdAt = created(of, index, story)
    const status = state(payinStates, "pending", of, story)
    writer.put(payinParts.id)
    writeId(writer, index, of)
    writer.put(payinParts.reference)
    writer.number(index)
    writer.put(parts.description)
    if (oneIn(12, of, 15)) writer.put(parts.none)
    else {
      writer.put(parts.quote)
      if (hostile === undefined) writer.put(payinParts.usualDescription)
      else writer.text(hostile)
      writer.put(parts.quote)
    }
    writer.put(payinParts.customerId)
    writer.number(customer)
    writer.put(parts.customerDetails)
    writePerson(writer, of, customer, hostile, shape)
    writer.put(payinParts.status)
    writer.text(status)
    if (status === "rejected") writer.put(parts.failed)
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
  invoices: (writer, of, index, customer, story, shape) => {
    const sum = amount(of)
    const payment = shape.paymentOf(index, story)
    const hostile = hostileIn(of, shape)
    writer.put(invoiceParts.id)
    writeId(writer, index, of)
    writer.put(invoiceParts.reference)
    writer.number(index)
    writer.put(invoiceParts.status)
    writer.text(payment === undefined ? "pending" : oneIn(200, of, 10) ? "on_hold_by_review" : "paid")
    writer.put(invoiceParts.amount)
    writeAmount(writer, of, sum)
    writer.put(invoiceParts.description)
    if (oneIn(15, of, 18)) writer.put(parts.none)
    else {
      writer.put(parts.quote)
      if (hostile === undefined) {
        writer.put(invoiceParts.usualDescription)
        writer.number(index)
        writer.put(invoiceParts.endDescription)
      } else writer.text(hostile)
      writer.put(parts.quote)
    }
    writer.put(invoiceParts.contract)
    writer.number(customer * variants + shape.variantOf(index))
    writer.put(invoiceParts.document)
    writer.number(shape.documentOf(customer))
    writer.put(invoiceParts.createdAt)
    writer.milliseconds(created(of, index, story))
    if (payment === undefined) writer.put(invoiceParts.unpaid)
    else {
      writer.put(invoiceParts.paymentDate)
      writer.milliseconds(payment.paidMs)
      writer.put(invoiceParts.paymentMethod)
      writer.text(pick(paymentMethods, draw(of, 26)))
      writer.put(invoiceParts.paymentSource)
      writer.number(sum)
      writer.put(invoiceParts.settlementDate)
      writer.date(settlementDay(payment.settledMs))
      writer.put(invoiceParts.settlementTime)
      writer.text(settlementTime(payment.settledMs))
      writer.put(invoiceParts.paymentId)
      writer.number(index)
      writer.put(invoiceParts.endPayment)
    }
    writer.put(invoiceParts.paymentUrl)
    writeId(writer, index, of)
    writer.put(parts.quote)
  }
}
