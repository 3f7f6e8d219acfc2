/** Numbers, times and terms as the page shows them. */
import { type Html, html } from "@payments/program/html"
import type { RunKind } from "../state/StatusSnapshot.ts"

/** Groups the digits of an integer of any size: `1234567` becomes `1,234,567`. Other text stays as it is. */
export const grouped = (integer: number | string): string => {
  const [, sign, digits] = /^(-?)(\d+)$/.exec(String(integer)) ?? []
  if (digits === undefined) return String(integer)
  const groups = []
  for (let end = digits.length; end > 0; end -= 3) groups.push(digits.slice(Math.max(0, end - 3), end))
  return `${sign}${groups.toReversed().join(",")}`
}

/** Returns `1 list` or `3 lists`. */
export const counted = (count: number, noun: string, nouns = `${noun}s`): string =>
  `${grouped(count)} ${count === 1 ? noun : nouns}`

/**
 * Returns a duration in the coarse words that a person uses, so that the text of an idle list changes once per minute, not
 * with every snapshot. Below 1 min it has steps of 5 s.
 */
export const durationWords = (seconds: number): string => {
  if (seconds < 5) return "under 5 s"
  if (seconds < 60) return `${Math.floor(seconds / 5) * 5} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return joined(hours, "h", minutes % 60, "min")
  return joined(Math.floor(hours / 24), "d", hours % 24, "h")
}

/** Returns a duration from the settings, exact below 1 min. */
export const limitWords = (seconds: number): string => seconds < 60 ? `${seconds} s` : durationWords(seconds)

const joined = (large: number, largeUnit: string, small: number, smallUnit: string) =>
  small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`

/** Returns the seconds from `earlier` to `later`, two ISO 8601 times; at least 0. */
export const secondsBetween = (earlier: string, later: string): number =>
  Math.max(0, (Date.parse(later) - Date.parse(earlier)) / 1000)

/** Shows an ISO 8601 time in UTC: the time of the day, and the date if it is another day than that of `at`. */
export const time = (iso: string, at: string): Html => {
  const [day = "", clock = ""] = iso.split("T")
  const text = at.startsWith(`${day}T`) ? clock.slice(0, 8) : `${dayWords(day)}, ${clock.slice(0, 5)}`
  return html`<time datetime="${iso}">${text} UTC</time>`
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** Returns `22 Nov` for `2026-11-22`. */
export const dayWords = (day: string): string => {
  const [, month, date] = day.split("-")
  return `${Number(date)} ${months[Number(month) - 1] ?? ""}`
}

/** Returns `Payout requests` for `payout-requests`. */
export const listTitle = (list: string): string => {
  const words = list.replaceAll("-", " ")
  return words.charAt(0).toUpperCase() + words.slice(1)
}

export const kindTitle: { readonly [kind in RunKind]: string } = {
  full: "Full scan",
  window: "Window pass",
  head: "Head pass"
}
