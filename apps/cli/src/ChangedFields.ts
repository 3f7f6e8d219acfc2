/** The fields of a change as text for people: `amount 2.0 → 3, status pending → paid`. */
import { membersOf } from "@payments/core"
import type { ChangeRow } from "@payments/export"
import type { firstNames } from "./Table.ts"

/** Each changed field with its values before and after. */
export const changedFields = ({ after, before, fields }: ChangeRow): string => {
  if (before === undefined || after === undefined) return fields.join(", ")
  const [old, fresh] = [membersOf(before), membersOf(after)]
  return fields.map((field) => {
    const [from, to] = [old.get(field), fresh.get(field)]
    // A text that differs, but in no member, has no field of its own.
    return from === to ? field : `${field} ${valueOf(from)} → ${valueOf(to)}`
  }).join(", ")
}

/** Text without its quotes, unless it could then be taken for another value, or for the end of one. */
const valueOf = (text: string | undefined): string => {
  if (text === undefined) return "(absent)"
  const value: unknown = text.startsWith(`"`) ? JSON.parse(text) : undefined
  return typeof value === "string" && /^[\p{L}\p{N}][^,"→]*$/u.test(value) &&
      !/^(\d+([.e][^ ]*)?|true|false|null)$/.test(value)
    ? value
    : text
}

/** A field with its values; a comma and a space within it stand between quotes. */
const field = /(?:"(?:[^"\\]|\\.)*"|(?!, )[^])+/g

/** The fields of such a text, each with its values. */
export const fieldsIn = (text: string): ReadonlyArray<string> => (text.match(field) ?? []).map((one) => one.trimStart())

/** The names alone: as many as there is room for, and how many more there are. */
export const namesIn = (first: typeof firstNames) => (text: string, room: number): string =>
  first(fieldsIn(text).map((one) => one.replace(/ [^]*/, "")).join(", "), room)
