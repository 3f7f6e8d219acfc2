/** What a record says, as far as filters ask for it: computed from its index, without writing the record. */
import * as Customers from "./Customers.ts"
import { draw, permute, unpermute } from "./Draw.ts"
import type { Story } from "./Life.ts"
import { createdMs, dayMs } from "./Timeline.ts"

/** The facts about the records of a list. */
export interface Facts {
  /** What is drawn for a record is drawn of this. */
  readonly keyOf: (index: number) => number
  readonly customers: Customers.Customers
  /** Which of its customer's payout targets or contracts the record names, 0 to 2. */
  readonly variantOf: (index: number) => number
  readonly documentOf: (customer: number) => number
  readonly customerWithDocument: (document: string) => number | undefined
  /** When the record was created, in ms since 1970. */
  readonly createdMs: (index: number, story: Story) => number
  /** When an invoice was paid and when that went into settlement; undefined where it is not paid. */
  readonly paymentOf: (index: number, story: Story) => Payment | undefined
}

/** In ms since 1970. */
export interface Payment {
  readonly paidMs: number
  readonly settledMs: number
}

/** How many payout targets or contracts a customer has. */
export const variants = 3

/** The longest time from an invoice to its payment in the past, in days. */
export const longestDelayDays = 7

/** Customers beyond this number do not exist: their document numbers could not be told apart. */
export const mostCustomers = 2 ** 30
const smallestDocument = 1_000_000_000

/** Cycles begin at midnight, noon and 17:00. */
export const settlementCycle = (settledMs: number): number => {
  const hour = settledMs % dayMs / 3_600_000
  return hour < 12 ? 1 : hour < 17 ? 2 : 3
}

/** Money is settled on the day after. Days since 1970. */
export const settlementDay = (settledMs: number): number => Math.floor(settledMs / dayMs) + 1

/** One in `n`, by a draw. */
export const oneIn = (n: number, of: number, part: number): boolean => draw(of, part) % n === 0

/** The facts of the list with that key. Nothing is paid after `beganMs` without a change. */
export const make = (key: number, seed: number, beganMs: number): Facts => {
  const documentKey = draw(seed, 5)
  const created = (index: number, story: Story) =>
    story.appearedMs ?? createdMs(index, draw(draw(key, index), 14) / 0x1_0000_0000)
  return {
    keyOf: (index) => draw(key, index),
    customers: Customers.make(draw(key, 0)),
    variantOf: (index) => draw(draw(key, index), 16) % variants,
    documentOf: (customer) => smallestDocument + permute(15, documentKey, customer),
    customerWithDocument: (document) => {
      const number = /^\d{10}$/.test(document) ? Number(document) - smallestDocument : -1
      return number >= 0 && number < mostCustomers ? unpermute(15, documentKey, number) : undefined
    },
    createdMs: created,
    paymentOf: (index, story) => {
      const of = draw(key, index)
      const paidMs = story.appearedMs === undefined && !oneIn(5, of, 15)
        ? created(index, story) + delay(of)
        : Infinity
      const waits = paidMs > beganMs || paidMs === Infinity
      if (waits && story.changes === 0) return undefined
      return {
        paidMs: waits ? story.firstChangeMs : paidMs,
        settledMs: story.changes === 0 ? paidMs : story.lastChangeMs
      }
    }
  }
}

/** Most are paid within a day, a few after a week. */
const delay = (of: number): number => {
  const share = draw(of, 17) / 0x1_0000_0000
  return Math.floor(share * share * share * longestDelayDays * dayMs)
}
