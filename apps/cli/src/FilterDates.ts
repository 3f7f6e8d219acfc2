/**
 * What a date filter takes. The document names no format for the filter, only that of the records (§2.4), so that every
 * beginning of an ISO 8601 date-time is let through as typed; what cannot be a date is refused before any request.
 */
import { Days } from "@payments/core"

const extended =
  /^(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[Tt ](\d{2})(?::(\d{2})(?::(\d{2})(?:[.,]\d*)?)?)?:?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?)?)?-?$/
const basic =
  /^(\d{4})(\d{2})(\d{2})(?:[Tt](\d{2})(?:(\d{2})(?:(\d{2})(?:[.,]\d*)?)?)?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$/

/** A date-time of ISO 8601, or the beginning of one: `2024`, `2024-05`, `2024-05-31`, `2024-05-31T14:03:07.123Z`. */
export const isDateTimePrefix = (text: string): boolean => {
  const parts = extended.exec(text) ?? basic.exec(text)
  if (parts === null) return false
  const [, year = "", month = "01", day = "01", hour = "00", minute = "00", second = "00"] = parts
  // 24:00 and the 60th second are ISO 8601's own.
  return Days.isDay(`${year}-${month}-${day}`) && Number(hour) <= 24 && Number(minute) <= 59 && Number(second) <= 60
}
