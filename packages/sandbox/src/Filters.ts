/**
 * The filters of §4.1 to §4.3 over generated records: for each the few records that can match, computed from the value,
 * and the test that decides. No record is generated to be looked at.
 */
import {
  type Facts,
  longestDelayDays,
  mostCustomers,
  type Payment,
  settlementCycle,
  settlementDay,
  variants
} from "./Facts.ts"
import type { Life, Story } from "./Life.ts"
import { dayMs, dayOfDate, firstOf } from "./Timeline.ts"

/** What a request asks for. */
export interface Filter {
  /** Those that can match, in any order and perhaps twice; undefined where they are too many to be named one by one. */
  readonly candidates: (now: number) => Array<number> | undefined
  readonly matches: (index: number, story: Story) => boolean
  /** The one customer it can be about. */
  readonly customer?: number | undefined
}

/** What filters are made of. */
export interface Filtered {
  readonly facts: Facts
  readonly life: Life
  /** How many records are of the past. */
  readonly past: number
}

/** Where candidates are more than this, or a 64th of the list, it is quicker to read the list. */
const fewest = 16_384
const share = 64

/** One filter for all given values, or undefined if nothing can match. `makers` has one function for each filter of the list. */
export const make = (
  filters: Readonly<Record<string, string>>,
  makers: Readonly<Record<string, MakeFilter>>,
  of: Filtered
): Filter | undefined => {
  const asked: Array<Filter> = []
  for (const [field, value] of Object.entries(filters)) {
    const filter = makers[field]?.(value, of)
    if (filter === undefined) return undefined
    asked.push(filter)
  }
  const customers = new Set(asked.flatMap(({ customer }) => customer ?? []))
  if (customers.size > 1) return undefined
  return {
    candidates: (now) =>
      asked.map((filter) => filter.candidates(now)).reduce<Array<number> | undefined>(
        (least, found) => least === undefined || (found !== undefined && found.length < least.length) ? found : least,
        undefined
      ),
    matches: (index, story) => asked.every((filter) => filter.matches(index, story))
  }
}

/** Makes the filter for a value, or nothing if no record can have that value. */
export type MakeFilter = (value: string, of: Filtered) => Filter | undefined

/** The number behind the prefix, spelled as the facts spells it. */
const numberIn = (prefix: string, value: string): number | undefined => {
  const digits = value.startsWith(prefix) ? value.slice(prefix.length) : ""
  return /^(0|[1-9]\d{0,14})$/.test(digits) ? Number(digits) : undefined
}

export const byReference = (prefix: string): MakeFilter => (value, { life }) => {
  const wanted = numberIn(prefix, value)
  return wanted === undefined ? undefined : {
    candidates: (now) => wanted < life.length(now) ? [wanted] : [],
    matches: (index) => index === wanted
  }
}

const ofCustomer = (
  customer: number | undefined,
  { facts, life }: Filtered,
  variant?: number
): Filter | undefined =>
  customer === undefined || customer >= mostCustomers ? undefined : {
    customer,
    candidates: (now) => facts.customers.recordsOf(customer, life.length(now)),
    matches: (index) =>
      facts.customers.of(index) === customer && (variant === undefined || facts.variantOf(index) === variant)
  }

export const byCustomerId: MakeFilter = (value, of) => ofCustomer(numberIn("cus_", value), of)

export const byPayoutTarget: MakeFilter = (value, of) => {
  const variant = value.endsWith("_0") ? 0 : value.endsWith("_1") ? 1 : value.endsWith("_2") ? 2 : undefined
  return variant === undefined ? undefined : ofCustomer(numberIn("tgt_", value.slice(0, -2)), of, variant)
}

export const byContract: MakeFilter = (value, of) => {
  const contract = numberIn("con_", value)
  return contract === undefined ? undefined : ofCustomer(Math.floor(contract / variants), of, contract % variants)
}

/**
 * Invoices paid or settled within a stretch of time: those created in the days before, as far as they were paid in the
 * past, and those that have changed in it.
 */
const byPayment = (
  fromMs: number,
  toMs: number,
  { facts, life, past }: Filtered,
  matches: (payment: Payment) => boolean
): Filter => {
  const day = Math.floor(fromMs / dayMs)
  const first = Math.min(past, firstOf(day - longestDelayDays))
  const last = Math.min(past, firstOf(day + 1))
  return {
    candidates: (now) => {
      const length = life.length(now)
      const changed = life.changedWithin(fromMs, toMs, now, share)
      if (changed === undefined || last - first > Math.max(fewest, length / share)) return undefined
      for (let index = first; index < last; index++) changed.push(index)
      return changed
    },
    matches: (index, story) => {
      const payment = facts.paymentOf(index, story)
      return payment !== undefined && matches(payment)
    }
  }
}

export const byPaymentDate: MakeFilter = (value, of) => {
  const day = dayOfDate(value)
  if (day !== undefined) {
    return byPayment(day * dayMs, (day + 1) * dayMs, of, ({ paidMs }) => Math.floor(paidMs / dayMs) === day)
  }
  const ms = Date.parse(value)
  return Number.isNaN(ms) || ms < 0 || new Date(ms).toISOString() !== value
    ? undefined
    : byPayment(ms, ms + 1, of, ({ paidMs }) => paidMs === ms)
}

export const bySettlementDate: MakeFilter = (value, of) => {
  const day = dayOfDate(value)
  return day === undefined
    ? undefined
    : byPayment((day - 1) * dayMs, day * dayMs, of, ({ settledMs }) => settlementDay(settledMs) === day)
}

export const bySettlementTime: MakeFilter = (value, { facts }) =>
  /^[123]$/.test(value)
    ? {
      candidates: () => undefined,
      matches: (index, story) => {
        const payment = facts.paymentOf(index, story)
        return payment !== undefined && String(settlementCycle(payment.settledMs)) === value
      }
    }
    : undefined

export const byDocumentNumber: MakeFilter = (value, of) => ofCustomer(of.facts.customerWithDocument(value), of)
