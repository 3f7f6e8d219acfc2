/** The customer details that payout requests and payin sources contain (§2.1). */
import type { RecordModel } from "./RecordModel.ts"
import { draw, oneIn, pick } from "./RecordRandom.ts"

/** Renders the details of a customer in the record with the key `recordKey`. `unusual` replaces the customer's name. */
export type RenderCustomer = (recordKey: number, customer: number, unusual: string | undefined) => string

/** Makes the renderer. All lists have the same `key`, so a customer has the same details in each. */
export const make = (key: number, model: RecordModel): RenderCustomer => (recordKey, customer, unusual) => {
  const customerKey = draw(key, customer)
  const name = pick(names, draw(customerKey, 2))
  const phone = oneIn(9, customerKey, 6) ? "null" : `"+57300${1_000_000 + draw(customerKey, 7) % 9_000_000}"`
  return `{"reference":"customer-${customer}","name":"${
    unusual ?? (oneIn(1000, recordKey, 2) ? name.raw : name.escaped)
  }"` +
    `,"documentType":"${pick(documentTypes, draw(customerKey, 4))}","documentNumber":"${model.documentOf(customer)}"` +
    `,"email":"customer.${customer}@example.com","phoneNumber":${phone}` +
    `${oneIn(40, customerKey, 8) ? `,"segment":{"tier":1.0,"since":null}` : ""}}`
}

const documentTypes = ["cc", "cc", "cc", "ce", "nit"]

/**
 * Two spellings of a text, as servers use them: the characters themselves, or escapes for characters beyond Latin-1. One
 * character beyond Latin-1 makes the encoding of a whole page slower, so few records contain one.
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
