/** The merchant that an invoice belongs to (§2.4). */
import type { Invoice } from "./Records.ts"

/** The longest merchant id that is accepted. */
const longest = 200

/**
 * Returns the merchant id in an invoice's `paymentUrl`, whose shape is
 * `<payment_page_url>/pay/<merchant_id>/<invoice_id>` (§2.4). Allows a query, a fragment, a slash at the end and
 * percent-encoding. Returns undefined for every other address. If the last segment is not the id of the invoice, no
 * other segment is certain to be the merchant id.
 */
export const merchantIdOf = ({ id, paymentUrl }: Pick<Invoice, "id" | "paymentUrl">): string | undefined => {
  if (typeof paymentUrl !== "string" || id === "") return undefined
  const path = paymentUrl.replace(/[?#].*$/s, "").replace(/\/$/, "")
  const address = [paymentUrl, path].flatMap((text) => spellingsOf(id).map((last) => withoutLast(text, last)))
    .find((text) => text !== undefined)
  const [, encoded = ""] = /\/pay\/([^/]+)$/.exec(address ?? "") ?? []
  const merchant = decoded(encoded)
  return merchant !== undefined && isIdentifier(merchant) ? merchant : undefined
}

/** Returns the id, and the id percent-encoded as a segment of an address. */
const spellingsOf = (id: string): ReadonlyArray<string> => id.isWellFormed() ? [id, encodeURIComponent(id)] : [id]

const withoutLast = (text: string, last: string): string | undefined =>
  text.endsWith(`/${last}`) ? text.slice(0, -last.length - 1) : undefined

const decoded = (segment: string): string | undefined => {
  if (!segment.includes("%")) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    // The segment contains a `%` but is not percent-encoded.
    return undefined
  }
}

/**
 * Excludes `.` and `..`, which are not names in a path, and control characters and lone surrogates, which some stores
 * refuse.
 */
const isIdentifier = (text: string): boolean =>
  text !== "" && text.length <= longest && !/^\.{1,2}$/.test(text) && !/[\p{Cc}\p{Cs}]/u.test(text)
