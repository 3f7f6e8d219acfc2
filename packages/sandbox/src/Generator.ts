/**
 * Records as a function of (seed, list, index) and of what has happened to them: the same on every machine, at any size.
 * They look like a merchant's data and hold what the document allows or leaves open: names in many scripts, hostile text,
 * nulls, missing and undocumented fields, states nobody has listed, numbers that parsing would change.
 *
 * The text is put together from parts that are JSON already, since a server of pages does little else.
 */
import type { Lists } from "@payments/core"
import type { MemoryList } from "@payments/core/testing"
import * as Customers from "./Customers.ts"
import { draw, permute, pick, unpermute } from "./Draw.ts"
import { hostileText } from "./HostileText.ts"
import { type Story, untouched } from "./Life.ts"
import { createdMs, dateText, dayMs, millisecondsText, secondsText } from "./Timeline.ts"

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
    people: Array.from({ length: 512 }, () => ({ customer: -1, text: "" })),
    documentOf: (customer) => documentNumber(options.seed, customer),
    variantOf,
    paymentOf
  }
  const body = bodies[list]
  return {
    customers,
    variantOf,
    paymentOf,
    textAt: (index, story = untouched) => {
      const of = draw(key, index)
      const text = body(of, index, customers.of(index), story, shape)
      return oneIn(20, of, 9) ? `{${text},${undocumented}}` : `{${text}}`
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
export const documentNumber = (seed: number, customer: number): string =>
  String(smallestDocument + permute(15, draw(seed, 5), customer))

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
  /** The details that were used last, by the customer's lower bits. */
  readonly people: ReadonlyArray<{ customer: number; text: string }>
  readonly documentOf: (customer: number) => string
}

/** One in `n`, by a draw. */
const oneIn = (n: number, of: number, part: number): boolean => draw(of, part) % n === 0

const pairs = Array.from({ length: 36 ** 2 }, (_, pair) => pair.toString(36).padStart(2, "0"))
/** Six digits to the base of 36. */
const base36 = (value: number): string => {
  const high = Math.floor(value / 1296)
  return `${pairs[Math.floor(high / 1296) % 1296]}${pairs[high % 1296]}${pairs[value % 1296]}`
}

/** Ids are unique by their index; the rest makes them look drawn. */
const identify = (prefix: string, index: number, of: number): string =>
  `${prefix}_${base36(index)}${base36(draw(of, 1) % 36 ** 6)}`

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

/** The details of a customer. A page that holds one character beyond Latin-1 takes longer to send, so few do. */
const detailsOf = (of: number, customer: number, hostile: string | undefined, shape: Shape): string => {
  const held = shape.people[customer % shape.people.length]
  const usual = hostile === undefined && !oneIn(1000, of, 2)
  if (usual && held?.customer === customer) return held.text
  const name = names[draw(draw(shape.personKey, customer), 2) % names.length]
  const text = person(hostile ?? (usual ? name?.escaped : name?.raw) ?? "", customer, shape)
  if (!usual || held === undefined) return text
  text.charCodeAt(0) // joins its parts now, once, and not in every page
  held.customer = customer
  held.text = text
  return text
}

/** Undocumented fields, spelled so that only the exact text keeps them. */
const undocumented = `"risk":{"10":1.10,"b":{"score":1e400,"serial":9007199254740993},"flags":[]}`

const person = (name: string, customer: number, shape: Shape): string => {
  const of = draw(shape.personKey, customer)
  const phone = oneIn(9, of, 6) ? "null" : `"+57300${1_000_000 + draw(of, 7) % 9_000_000}"`
  return `{"reference":"customer-${customer}","name":"${name}","documentType":"${pick(documentTypes, draw(of, 4))}",` +
    `"documentNumber":"${
      shape.documentOf(customer)
    }","email":"customer.${customer}@example.com","phoneNumber":${phone}` +
    (oneIn(40, of, 8) ? `,"segment":{"tier":1.0,"since":null}}` : "}")
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

const amountText = (of: number, sum: number): string => {
  if (!oneIn(100, of, 21) || sum % 1000 !== 0) return String(sum)
  return oneIn(2, of, 22) ? `${sum / 1000}e3` : `${sum}.0`
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

type Body = (of: number, index: number, customer: number, story: Story, shape: Shape) => string

const bodies: { readonly [Name in Lists.ListName]: Body } = {
  payoutRequests: (of, index, customer, story, shape) => {
    const hostile = hostileIn(of, shape)
    const createdAt = created(of, index, story)
    const sum = amount(of)
    const status = state(payoutStates, "processing", of, story)
    const target = `${customer}_${shape.variantOf(index)}`
    return `"id":"${identify("por", index, of)}","reference":"payout-${index}","customerId":"cus_${customer}",` +
      `"customerDetails":${oneIn(40, of, 15) ? "null" : detailsOf(of, customer, hostile, shape)},` +
      `"payoutTargetId":"tgt_${target}","payoutTargetDetails":{"reference":"target-${target}",` +
      `"description":"${hostile ?? "Cuenta de ahorros (nómina)"}","type":"bankAccount"},"status":"${status}",` +
      (status === "failed" ? `"statusMessage":"AUTHENTICATION_FAILED",` : "") +
      `"amount":${amountText(of, sum)},"amountSent":${status === "completed" ? sum - 900 : 0},` +
      `"fee":${oneIn(30, of, 18) ? "null" : "900"},"sourceMerchantAccountId":"acc_${draw(of, 25) % 4}",` +
      `"createdAt":"${secondsText(createdAt)}","updatedAt":"${secondsText(updated(of, createdAt, story, shape))}"`
  },
  payinSources: (of, index, customer, story, shape) => {
    const hostile = hostileIn(of, shape)
    const createdAt = created(of, index, story)
    const id = identify("pis", index, of)
    const status = state(payinStates, "pending", of, story)
    const description = `"${hostile ?? "Débito automático: suscripción anual"}"`
    return `"id":"${id}","reference":"source-${index}","description":${oneIn(12, of, 15) ? "null" : description},` +
      `"customerId":"cus_${customer}","customerDetails":${
        detailsOf(of, customer, hostile, shape)
      },"status":"${status}",` +
      (status === "rejected" ? `"statusMessage":"AUTHENTICATION_FAILED",` : "") +
      `"authUrl":"https://auth.example.com/authorize/${id}?next=%2Fdone",` +
      `"redirectUrl":"https://merchant.example.com/back","partialPayinsEnabled":${oneIn(2, of, 16)},` +
      `"type":"bankAccount","createdAt":"${secondsText(createdAt)}",` +
      `"updatedAt":"${secondsText(updated(of, createdAt, story, shape))}"`
  },
  invoices: (of, index, customer, story, shape) => {
    const sum = amount(of)
    const id = identify("inv", index, of)
    const payment = shape.paymentOf(index, story)
    const status = payment === undefined ? "pending" : oneIn(200, of, 10) ? "on_hold_by_review" : "paid"
    const description = hostileIn(of, shape) ?? `Factura N.º ${index}: \\"servicio\\"`
    return `"id":"${id}","reference":"invoice-${index}","status":"${status}","amount":${amountText(of, sum)},` +
      `"description":${oneIn(15, of, 18) ? "null" : `"${description}"`},` +
      `"contract":"con_${customer * variants + shape.variantOf(index)}",` +
      `"customerDocumentNumber":"${shape.documentOf(customer)}",` +
      `"createdAt":"${millisecondsText(created(of, index, story))}",` +
      (payment === undefined ? `"paymentDate":null,` : `"paymentDate":"${millisecondsText(payment.paidMs)}",` +
        `"paymentMethod":"${pick(paymentMethods, draw(of, 26))}","paymentSource":"link","paymentAmount":${sum},` +
        `"settlementDate":"${dateText(settlementDay(payment.settledMs))}",` +
        `"settlementTime":"${settlementTime(payment.settledMs)}","paymentId":"pay_${index}",`) +
      `"paymentUrl":"https://pay.example.com/pay/mer_1/${id}"`
  }
}
