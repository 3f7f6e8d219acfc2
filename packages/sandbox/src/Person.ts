/** The customers embedded in payout requests and payin sources (§2.1). */
import { draw, pick } from "./Draw.ts"
import { type Facts, oneIn } from "./Facts.ts"

/** The details of a customer, for the record with the key `of`. `unusual` replaces the customer's name. */
export type RenderPerson = (of: number, customer: number, unusual: string | undefined) => string

/** Customers drawn from `key`, which is the same for every list. */
export const make = (key: number, facts: Facts): RenderPerson => (of, customer, unusual) => {
  const person = draw(key, customer)
  const name = pick(names, draw(person, 2))
  const phone = oneIn(9, person, 6) ? "null" : `"+57300${1_000_000 + draw(person, 7) % 9_000_000}"`
  return `{"reference":"customer-${customer}","name":"${unusual ?? (oneIn(1000, of, 2) ? name.raw : name.escaped)}"` +
    `,"documentType":"${pick(documentTypes, draw(person, 4))}","documentNumber":"${facts.documentOf(customer)}"` +
    `,"email":"customer.${customer}@example.com","phoneNumber":${phone}` +
    `${oneIn(40, person, 8) ? `,"segment":{"tier":1.0,"since":null}` : ""}}`
}

const documentTypes = ["cc", "cc", "cc", "ce", "nit"]

/**
 * The two spellings that a server may use: the characters themselves, or escapes for all beyond Latin-1. A page takes
 * longer to encode if it contains one character beyond Latin-1, so few records do.
 */
const spellings = (texts: ReadonlyArray<string>) =>
  texts.map((raw) => ({
    raw,
    escaped: raw.replaceAll(/[\u0100-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
  }))

const names = spellings(
  [
    "María",
    "José",
    "Łucja",
    "Søren",
    "Zoë",
    "Nguyễn",
    "Αθηνά",
    "Олена",
    "美咲",
    "يوسف",
    "Siân",
    "O'Neil"
  ].flatMap((first) =>
    [
      "García Ñáñez",
      "da Conceição",
      "Żółkiewska",
      "Ångström",
      "d’Arc",
      "Thị Hương",
      "Παππά",
      "Шевчук",
      "山田",
      "حداد",
      "Núñez-Ríos",
      `de la \\"Roca\\"`
    ].map((last) => `${first} ${last}`)
  )
)
