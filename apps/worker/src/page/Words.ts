/** Numbers, times and terms as the page shows them. */
import { durationWords } from "@payments/program"
import { type Html, html } from "@payments/program/html"
import { Record } from "effect"
import { kindWords, type ListSnapshot, type RunKind } from "../state/StatusSnapshot.ts"

/** The duration of a setting, exact below 1 min. */
export const limitWords = (seconds: number): string => seconds < 60 ? `${seconds} s` : durationWords(seconds)

/** Both times are ISO 8601. The result is at least 0. */
export const secondsBetween = (earlier: string, later: string): number =>
  Math.max(0, (Date.parse(later) - Date.parse(earlier)) / 1000)

/** Shows an ISO 8601 time in UTC: the time of the day, and the date if it is another day than that of `at`. */
export const time = (iso: string, at: string): Html => {
  const [day = "", clock = ""] = iso.split("T")
  const text = at.startsWith(`${day}T`) ? clock.slice(0, 8) : `${dayWords(day)}, ${clock.slice(0, 5)}`
  return html`<time datetime="${iso}">${text} UTC</time>`
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** `22 Nov` for `2026-11-22`. */
export const dayWords = (day: string): string => {
  const [, month, date] = day.split("-")
  return `${Number(date)} ${months[Number(month) - 1] ?? ""}`
}

/** `Payout requests` for `payout-requests`. */
export const listTitle = (list: string): string => {
  const words = list.replaceAll("-", " ")
  return words.charAt(0).toUpperCase() + words.slice(1)
}

export const kindTitle: { readonly [kind in RunKind]: string } = Record.map(kindWords, listTitle)

/** The next runs that are scheduled. */
export const scheduled = ({ next }: ListSnapshot) =>
  Record.keys(kindWords).flatMap((kind) => next[kind] === null ? [] : [{ kind, iso: next[kind] }])
