/** Formats the changed fields of a row for people: `amount 2.0 → 3, status pending → paid`. */
import { type ChangeRow, recheckWords } from "@payments/copy"
import { membersOf } from "@payments/core"
import type { firstNames } from "./Table.ts"

/** Returns each changed field with its values before and after; of a missing record, how it was looked for. */
export const changedFields = ({ after, before, fields, rechecked }: ChangeRow): string => {
  if (rechecked !== undefined) return recheckWords(rechecked) ?? ""
  if (before === undefined || after === undefined) return fields.join(", ")
  const [oldMembers, newMembers] = [membersOf(before), membersOf(after)]
  return fields.map((field) => {
    const [from, to] = [oldMembers.get(field), newMembers.get(field)]
    // The texts of two records can differ although no member differs.
    return from === to ? field : `${field} ${valueOf(from)} → ${valueOf(to)}`
  }).join(", ")
}

/** Returns a string without its quotes, unless it would then look like another value or like the end of a value. */
const valueOf = (text: string | undefined): string => {
  if (text === undefined) return "(absent)"
  const value: unknown = text.startsWith(`"`) ? JSON.parse(text) : undefined
  return typeof value === "string" && /^[\p{L}\p{N}][^,"→]*$/u.test(value) &&
      !/^(\d+([.e][^ ]*)?|true|false|null)$/.test(value)
    ? value
    : text
}

/** Matches a field with its values. A comma followed by a space ends the field, except between quotes. */
const field = /(?:"(?:[^"\\]|\\.)*"|(?!, )[^])+/g

/** Splits the text of {@link changedFields} into fields with their values. */
export const fieldsIn = (text: string): ReadonlyArray<string> =>
  (text.match(field) ?? []).map((match) => match.trimStart())

/** Returns the names of the fields without values: as many as fit, and the number of the rest. */
export const namesIn = (first: typeof firstNames) => (text: string, room: number): string =>
  first(fieldsIn(text).map((match) => match.replace(/ [^]*/, "")).join(", "), room)
