/** Which merchant an invoice belongs to (§2.4). */
import type { Invoice } from "./Records.ts"

/** Longer text is no identifier. */
const longest = 200

/**
 * The merchant id in an invoice's `paymentUrl`, whose shape is `<payment_page_url>/pay/<merchant_id>/<invoice_id>` (§2.4).
 * A query, a fragment, a slash at the end and percent-encoding are tolerated. Undefined for every other address: where the
 * last segment is not the invoice's own id, nothing says which segment is the merchant's.
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

/** An id as it is and as a segment of an address. */
const spellingsOf = (id: string): ReadonlyArray<string> => id.isWellFormed() ? [id, encodeURIComponent(id)] : [id]

const withoutLast = (text: string, last: string): string | undefined =>
  text.endsWith(`/${last}`) ? text.slice(0, -last.length - 1) : undefined

const decoded = (segment: string): string | undefined => {
  if (!segment.includes("%")) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    // Not percent-encoded after all.
    return undefined
  }
}

/** `.` and `..` name no segment; control characters and half a surrogate pair cannot be stored everywhere. */
const isIdentifier = (text: string): boolean =>
  text !== "" && text.length <= longest && !/^\.{1,2}$/.test(text) && !/[\p{Cc}\p{Cs}]/u.test(text)
