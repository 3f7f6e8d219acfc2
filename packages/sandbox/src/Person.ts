/** The customers embedded in payout requests and payin sources (§2.1). */
import { draw, pick } from "./Draw.ts"
import { type Facts, oneIn } from "./Facts.ts"
import { fixed, type RecordWriter } from "./RecordWriter.ts"

/** Writes the details of a customer, for the record of which `of` is drawn; its name may be an unusual text. */
export type WritePerson = (writer: RecordWriter, of: number, customer: number, unusual: Uint8Array | undefined) => void

/** How many customers' details are held; those of a few customers are written over and over. */
const held = 1024

/** The customers of which `key` is drawn: the same in every list. */
export const make = (key: number, facts: Facts): WritePerson => {
  const customers = new Float64Array(held).fill(-1)
  const texts: Array<Uint8Array> = []
  return (writer, of, customer, unusual) => {
    const raw = oneIn(1000, of, 2)
    const slot = customer % held
    const text = customers[slot] === customer ? texts[slot] : undefined
    if (text !== undefined && !raw && unusual === undefined) return writer.put(text)
    const person = draw(key, customer)
    const name = pick(names, draw(person, 2))
    const start = writer.length
    write(writer, customer, person, unusual ?? (raw ? name.raw : name.escaped), facts.documentOf(customer))
    if (raw || unusual !== undefined) return
    customers[slot] = customer
    texts[slot] = writer.since(start)
  }
}

const write = (writer: RecordWriter, customer: number, person: number, name: Uint8Array, document: number): void => {
  writer.put(parts.personReference)
  writer.number(customer)
  writer.put(parts.name)
  writer.put(name)
  writer.put(parts.documentType)
  writer.put(pick(documentTypes, draw(person, 4)))
  writer.put(parts.documentNumber)
  writer.number(document)
  writer.put(parts.email)
  writer.number(customer)
  if (oneIn(9, person, 6)) writer.put(parts.noPhone)
  else {
    writer.put(parts.phone)
    writer.number(1_000_000 + draw(person, 7) % 9_000_000)
    writer.put(parts.endPhone)
  }
  writer.put(oneIn(40, person, 8) ? parts.endPersonSegment : parts.endPerson)
}
const documentTypes = ["cc", "cc", "cc", "ce", "nit"].map(fixed)

/** What stands between the values. */
const parts = {
  personReference: fixed(`{"reference":"customer-`),
  name: fixed(`","name":"`),
  documentType: fixed(`","documentType":"`),
  documentNumber: fixed(`","documentNumber":"`),
  email: fixed(`","email":"customer.`),
  noPhone: fixed(`@example.com","phoneNumber":null`),
  phone: fixed(`@example.com","phoneNumber":"+57300`),
  endPhone: fixed(`"`),
  endPersonSegment: fixed(`,"segment":{"tier":1.0,"since":null}}`),
  endPerson: fixed(`}`)
}

/**
 * A text as a server may spell it: as it is, or with all beyond Latin-1 escaped. A page that is a string takes longer to
 * send when it holds one character beyond Latin-1, so few records do.
 */
const spellings = (texts: ReadonlyArray<string>) =>
  texts.map((raw) => ({
    raw: fixed(raw),
    escaped: fixed(
      raw.replaceAll(/[\u0100-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    )
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
