/**
 * The filters of §4.1 to §4.3 over generated records. A filter decides for each record whether it matches. If few
 * records can match, it also computes them from its value. Neither renders a record.
 */
import type { Lifecycle, RecordHistory } from "./Lifecycle.ts"
import {
  longestDelayDays,
  maxCustomers,
  type Payment,
  type RecordModel,
  settlementDay,
  settlementTimeOf,
  variants
} from "./RecordModel.ts"
import { dayMs, dayOfDate, firstIndexOn } from "./Timeline.ts"

export interface Filter {
  /** Returns the records that can match, in any order and perhaps twice. Returns undefined if they are too many. */
  readonly candidates: (now: number) => Array<number> | undefined
  readonly matches: (index: number, history: RecordHistory) => boolean
  /** The customer of all matching records, if the filter selects one. */
  readonly customer?: number | undefined
}

/** The list that a filter applies to. */
export interface FilteredList {
  readonly model: RecordModel
  readonly lifecycle: Lifecycle
  /** The number of records at the start. */
  readonly initialCount: number
}

/** Makes the filter for a value. Returns undefined if no record can have that value. */
export type MakeFilter = (value: string, list: FilteredList) => Filter | undefined

/**
 * Many initial invoices may match: more than `maxCandidates` and than the `listDivisor`-th part of the list. Then it is
 * faster to read the whole list than to sort them as candidates.
 */
const maxCandidates = 16_384
const listDivisor = 64

/**
 * Combines the filters of a request into one. Returns undefined if no record can match. `makers` has one function for each
 * filter of the list.
 */
export const make = (
  filters: Readonly<Record<string, string>>,
  makers: Readonly<Record<string, MakeFilter>>,
  list: FilteredList
): Filter | undefined => {
  const requested: Array<Filter> = []
  for (const [field, value] of Object.entries(filters)) {
    const filter = makers[field]?.(value, list)
    if (filter === undefined) return undefined
    requested.push(filter)
  }
  const customers = new Set(requested.flatMap(({ customer }) => customer ?? []))
  if (customers.size > 1) return undefined
  return {
    candidates: (now) =>
      requested.map((filter) => filter.candidates(now)).reduce<Array<number> | undefined>(
        (fewest, next) => fewest === undefined || (next !== undefined && next.length < fewest.length) ? next : fewest,
        undefined
      ),
    matches: (index, history) => requested.every((filter) => filter.matches(index, history))
  }
}

/** Returns the number after the prefix, or undefined if the value is not spelled like a generated one. */
const numberAfter = (prefix: string, value: string): number | undefined => {
  const digits = value.startsWith(prefix) ? value.slice(prefix.length) : ""
  return /^(0|[1-9]\d{0,14})$/.test(digits) ? Number(digits) : undefined
}

export const byReference = (prefix: string): MakeFilter => (value, { lifecycle }) => {
  const wanted = numberAfter(prefix, value)
  return wanted === undefined ? undefined : {
    candidates: (now) => wanted < lifecycle.lengthAt(now) ? [wanted] : [],
    matches: (index) => index === wanted
  }
}

const byCustomer = (
  customer: number | undefined,
  { lifecycle, model }: FilteredList,
  variant?: number
): Filter | undefined =>
  customer === undefined || customer >= maxCustomers ? undefined : {
    customer,
    candidates: (now) => model.customers.recordsOf(customer, lifecycle.lengthAt(now)),
    matches: (index) =>
      model.customers.customerOf(index) === customer && (variant === undefined || model.variantOf(index) === variant)
  }

export const byCustomerId: MakeFilter = (value, list) => byCustomer(numberAfter("cus_", value), list)

export const byPayoutTarget: MakeFilter = (value, list) => {
  const variant = /_[012]$/.test(value) ? Number(value.at(-1)) : undefined
  return variant === undefined ? undefined : byCustomer(numberAfter("tgt_", value.slice(0, -2)), list, variant)
}

export const byContract: MakeFilter = (value, list) => {
  const contract = numberAfter("con_", value)
  return contract === undefined ? undefined : byCustomer(Math.floor(contract / variants), list, contract % variants)
}

export const byDocumentNumber: MakeFilter = (value, list) => byCustomer(list.model.customerWithDocument(value), list)

/**
 * Selects the invoices with a payment that `matches`, which was paid or entered its settlement cycle on a day. The
 * candidates were created on that day or at most {@link longestDelayDays} days before. In a live list, any change pays an
 * invoice, so every invoice is a candidate.
 */
const byPayment = (
  day: number,
  { initialCount, lifecycle, model }: FilteredList,
  matches: (payment: Payment) => boolean
): Filter => {
  const first = Math.min(initialCount, firstIndexOn(day - longestDelayDays))
  const last = Math.min(initialCount, firstIndexOn(day + 1))
  const areTooMany = !lifecycle.isFixed || last - first > Math.max(maxCandidates, initialCount / listDivisor)
  return {
    candidates: () => areTooMany ? undefined : Array.from({ length: last - first }, (_, offset) => first + offset),
    matches: (index, history) => {
      const payment = model.paymentOf(index, history)
      return payment !== undefined && matches(payment)
    }
  }
}

export const byPaymentDate: MakeFilter = (value, list) => {
  const day = dayOfDate(value)
  if (day !== undefined) {
    return byPayment(day, list, ({ paidMs }) => Math.floor(paidMs / dayMs) === day)
  }
  const ms = Date.parse(value)
  return Number.isNaN(ms) || ms < 0 || new Date(ms).toISOString() !== value
    ? undefined
    : byPayment(Math.floor(ms / dayMs), list, ({ paidMs }) => paidMs === ms)
}

export const bySettlementDate: MakeFilter = (value, list) => {
  const day = dayOfDate(value)
  return day === undefined
    ? undefined
    : byPayment(day - 1, list, ({ settledMs }) => settlementDay(settledMs) === day)
}

export const bySettlementTime: MakeFilter = (value, { model }) =>
  /^[123]$/.test(value)
    ? {
      candidates: () => undefined,
      matches: (index, history) => {
        const payment = model.paymentOf(index, history)
        return payment !== undefined && String(settlementTimeOf(payment.settledMs)) === value
      }
    }
    : undefined
