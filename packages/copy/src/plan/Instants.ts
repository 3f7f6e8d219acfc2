/** Compares the instants in records. Pure. */
import { timestamp } from "@payments/core"
import { Option } from "effect"

/** Whether the text has the form of the document's examples (§2), such as `2024-05-01T12:00:00.000Z`. */
const isPlain = (text: string): boolean =>
  text.charCodeAt(10) === letterT && text.charCodeAt(text.length - 1) === letterZ

const letterT = 0x54, letterZ = 0x5a

/** Returns a positive number if the second instant is later, or undefined if one is none. Texts of one form compare as they are. */
export const stepBetween = (one: string, other: string): number | undefined => {
  if (one.length === other.length && isPlain(one) && isPlain(other)) {
    return one === other ? 0 : one < other ? 1 : -1
  }
  return millisBetween(one, other)
}

/** Returns the milliseconds from one instant to the other, or undefined if one is none. */
export const millisBetween = (one: string, other: string): number | undefined => {
  const [before, after] = [timestamp(one), timestamp(other)]
  return Option.isSome(before) && Option.isSome(after)
    ? after.value.epochMilliseconds - before.value.epochMilliseconds
    : undefined
}
