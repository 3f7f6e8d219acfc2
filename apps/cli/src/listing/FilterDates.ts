/**
 * The syntax of date filters. The document gives no format for them, only for the dates in records (§2.4). So every prefix of
 * an ISO 8601 date-time is sent as typed. Other text is refused before any request.
 */
import { Days } from "@payments/core"

const extended =
  /^(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[Tt ](\d{2})(?::(\d{2})(?::(\d{2})(?:[.,]\d*)?)?)?:?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?)?)?-?$/
const basic =
  /^(\d{4})(\d{2})(\d{2})(?:[Tt](\d{2})(?:(\d{2})(?:(\d{2})(?:[.,]\d*)?)?)?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$/

/** Whether the text is an ISO 8601 date-time or a prefix: `2024`, `2024-05`, `2024-05-31`, `2024-05-31T14:03:07.123Z`. */
export const isDateTimePrefix = (text: string): boolean => {
  const parts = extended.exec(text) ?? basic.exec(text)
  if (parts === null) return false
  const [, year = "", month = "01", day = "01", hour = "00", minute = "00", second = "00"] = parts
  // ISO 8601 allows 24:00 and second 60.
  return Days.isDay(`${year}-${month}-${day}`) && Number(hour) <= 24 && Number(minute) <= 59 && Number(second) <= 60
}
