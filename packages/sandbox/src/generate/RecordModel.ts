/** The properties of records that filters compare, computed from the index of a record without rendering it. */
import * as Customers from "./Customers.ts"
import type { RecordHistory } from "./Lifecycle.ts"
import { draw, fraction, oneIn, permute, unpermute } from "./RecordRandom.ts"
import { createdMs, dayMs } from "./Timeline.ts"

/** The properties of the records of a list. */
export interface RecordModel {
  /** Returns the key of a record. All random properties of the record are drawn from it. */
  readonly keyOf: (index: number) => number
  readonly customers: Customers.Customers
  /** Returns which payout target or contract of its customer a record has: 0, 1 or 2. */
  readonly variantOf: (index: number) => number
  /** Returns the document number of a customer. */
  readonly documentOf: (customer: number) => number
  /** Returns the customer with a document number, or undefined if there is none. */
  readonly customerWithDocument: (document: string) => number | undefined
  /** Returns when a record was created, in ms since 1970. */
  readonly createdMs: (index: number, history: RecordHistory) => number
  /** Returns the payment of an invoice, or undefined if it is not paid. */
  readonly paymentOf: (index: number, history: RecordHistory) => Payment | undefined
}

export interface Payment {
  /** When the invoice was paid, in ms since 1970. */
  readonly paidMs: number
  /** When the payment entered its settlement cycle, in ms since 1970. */
  readonly settledMs: number
}

/** How many payout targets or contracts a customer has. */
export const variants = 3

/** The longest time from the creation of an initial invoice to its payment, in days. */
export const longestDelayDays = 7

/** The number of customers. Document numbers are a permutation of 30 bits, so more customers would share them. */
export const maxCustomers = 2 ** 30
const smallestDocument = 1_000_000_000

/** Returns the settlement cycle of a payment. The cycles of a day begin at midnight, noon and 17:00. */
export const settlementTimeOf = (settledMs: number): number => {
  const hour = settledMs % dayMs / 3_600_000
  return hour < 12 ? 1 : hour < 17 ? 2 : 3
}

/** Returns the day of a payment's settlement, in days since 1970: the day after it entered its cycle. */
export const settlementDay = (settledMs: number): number => Math.floor(settledMs / dayMs) + 1

/**
 * Makes the model of a list. Most initial invoices are paid some time after their creation, if that is not after
 * `startMs`. The first change of any other invoice pays it.
 */
export const make = (key: number, seed: number, startMs: number): RecordModel => {
  const documentKey = draw(seed, 5)
  const created = (index: number, history: RecordHistory) =>
    history.appearedMs ?? createdMs(index, fraction(draw(key, index), 14))
  return {
    keyOf: (index) => draw(key, index),
    customers: Customers.make(draw(key, 0)),
    variantOf: (index) => draw(draw(key, index), 16) % variants,
    documentOf: (customer) => smallestDocument + permute(15, documentKey, customer),
    customerWithDocument: (document) => {
      const number = /^\d{10}$/.test(document) ? Number(document) - smallestDocument : -1
      return number >= 0 && number < maxCustomers ? unpermute(15, documentKey, number) : undefined
    },
    createdMs: created,
    paymentOf: (index, history) => {
      const recordKey = draw(key, index)
      const scheduledMs = history.appearedMs === undefined && !oneIn(5, recordKey, 15)
        ? created(index, history) + paymentDelay(recordKey)
        : Infinity
      // `startMs` of a fixed list is Infinity, so Infinity needs a check of its own.
      const isPaidByChange = scheduledMs > startMs || scheduledMs === Infinity
      if (isPaidByChange && history.changes === 0) return undefined
      return {
        paidMs: isPaidByChange ? history.firstChangeMs : scheduledMs,
        // Every change moves the settlement of a paid invoice.
        settledMs: history.changes === 0 ? scheduledMs : history.lastChangeMs
      }
    }
  }
}

/** Returns the ms from creation to payment: less than a day for most invoices, up to a week for a few. */
const paymentDelay = (recordKey: number): number => {
  const share = fraction(recordKey, 17)
  return Math.floor(share * share * share * longestDelayDays * dayMs)
}
