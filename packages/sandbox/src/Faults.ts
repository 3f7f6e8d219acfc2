/**
 * What may go wrong with a request, at given rates. Whether it does is a pure function of the seed, the request and how
 * often it has come: the same on every run, whatever else is asked at the same time.
 */
import { Hash } from "effect"
import { fraction } from "./Generator.ts"

/** Shares of all requests, each from 0 to 1, that are answered so. */
export interface FaultRates {
  /** 429 with `Retry-After: 1`. */
  readonly rateLimited?: number | undefined
  /** 500. */
  readonly serverError?: number | undefined
  /** The connection is cut before an answer. */
  readonly reset?: number | undefined
}

/** What happens to a request in the place of its answer. */
export type Fault = keyof FaultRates

/** Draws the fault, if any, of each request in turn. */
export const makeFaults = (rates: FaultRates, seed: number): (url: string) => Fault | undefined => {
  const shares = [["rateLimited", rates.rateLimited], ["serverError", rates.serverError], [
    "reset",
    rates.reset
  ]] as const
  const visits = new Map<number, number>()
  return (url) => {
    if (shares.every(([, rate]) => rate === undefined || rate === 0)) return undefined
    const page = Hash.string(url)
    const visit = visits.get(page) ?? 0
    visits.set(page, visit + 1)
    let left = fraction(seed, page, visit)
    for (const [fault, rate = 0] of shares) {
      if (left < rate) return fault
      left -= rate
    }
    return undefined
  }
}
