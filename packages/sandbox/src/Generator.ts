/**
 * Records as a pure function of (seed, list, index): the same on every machine, at any size. They look like a merchant's
 * data and hold what the document allows or leaves open: names in many scripts, nulls, missing and undocumented fields,
 * states nobody has listed, numbers that parsing would change.
 */
import type { Lists } from "@payments/core"
import type { MemoryList } from "@payments/core/testing"

/** The records of one list. */
export const records = (list: Lists.ListName, length: number, seed: number): MemoryList.MemoryRecords => ({
  length,
  textAt: (index) => generators[list](index, seed)
})

const firstNames = [
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
]
const lastNames = [
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
  "de la \"Roca\""
]

/** 32 bits drawn from the seed and any parts, evenly spread (the finalizer of MurmurHash3, a public-domain function). */
const draw = (...parts: ReadonlyArray<number>): number => {
  let state = 0x9e3779b9
  for (const part of parts) {
    state = Math.imul(state ^ part ^ (part / 0x1_0000_0000), 0x85ebca6b)
    state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35)
    state ^= state >>> 16
  }
  return state >>> 0
}

/** An even draw from [0, 1). */
export const fraction = (...parts: ReadonlyArray<number>): number => draw(...parts) / 0x1_0000_0000

const pick = <A>(values: readonly [A, ...ReadonlyArray<A>] | ReadonlyArray<A>, random: number): A =>
  values[random % values.length] as A // an index below the length of a list that is never empty

/** Ids are unique by their index; the rest makes them look drawn. */
const identify = (prefix: string, index: number, seed: number): string =>
  `${prefix}_${index.toString(36).padStart(6, "0")}${draw(seed, index, 1).toString(36).padStart(7, "0")}`

const epochMs = Date.UTC(2024, 0, 1)
/** A record every 137 s on average, by index. */
const instantMs = (index: number, random: number): number => epochMs + index * 137_000 + random % 137_000
const seconds = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`
const milliseconds = (ms: number): string => new Date(ms).toISOString()

/** One in `n` records, and which. */
const oneIn = (n: number, ...parts: ReadonlyArray<number>): boolean => draw(...parts) % n === 0

const customer = (number: number, seed: number) => ({
  reference: `customer-${number}`,
  name: `${pick(firstNames, draw(seed, number, 2))} ${pick(lastNames, draw(seed, number, 3))}`,
  documentType: pick(["cc", "cc", "cc", "ce", "nit"], draw(seed, number, 4)),
  documentNumber: String(1_000_000_000 + draw(seed, number, 5) % 900_000_000),
  email: `customer.${number}@example.com`,
  phoneNumber: oneIn(9, seed, number, 6) ? null : `+57300${String(draw(seed, number, 7) % 10_000_000).padStart(7, "0")}`
})

/** A few customers have many records, most have a handful. */
const customerNumber = (index: number, seed: number): number => {
  const random = fraction(seed, index, 8)
  return Math.floor(random * random * (10 + index / 4))
}

/** Undocumented fields, spelled so that only the exact text keeps them. */
const undocumented = `"risk":{"10":1.10,"b":{"score":1e400,"serial":9007199254740993},"flags":[]}`

const finish = (record: object, index: number, seed: number): string => {
  const text = JSON.stringify(record)
  return oneIn(20, seed, index, 9) ? `${text.slice(0, -1)},${undocumented}}` : text
}

const status = (usual: ReadonlyArray<string>, index: number, seed: number) =>
  oneIn(200, seed, index, 10) ? "on_hold_by_review" : pick(usual, draw(seed, index, 11))

/** Whole thousands mostly, as people pay; now and then an odd or very large sum. */
const amount = (index: number, seed: number): number =>
  oneIn(50, seed, index, 12) ? draw(seed, index, 13) * 1000 + 7 : (1 + draw(seed, index, 13) % 900) * 1000

const generators: { readonly [Name in Lists.ListName]: (index: number, seed: number) => string } = {
  payoutRequests: (index, seed) => {
    const number = customerNumber(index, seed)
    const created = instantMs(index, draw(seed, index, 14))
    const sum = amount(index, seed)
    const state = status(["processing", "processing", "completed", "failed"], index, seed)
    return finish(
      {
        id: identify("por", index, seed),
        reference: `payout-${index}`,
        customerId: `cus_${number}`,
        customerDetails: oneIn(40, seed, index, 15) ? null : customer(number, seed),
        payoutTargetId: `tgt_${number}_${draw(seed, index, 16) % 3}`,
        payoutTargetDetails: {
          reference: `target-${number}`,
          description: "Cuenta de ahorros – nómina",
          type: "bankAccount"
        },
        status: state,
        ...(state === "failed" ? { statusMessage: "AUTHENTICATION_FAILED" } : {}),
        amount: sum,
        amountSent: state === "completed" ? sum - 900 : 0,
        fee: oneIn(30, seed, index, 17) ? null : 900,
        sourceMerchantAccountId: `acc_${draw(seed, index, 18) % 4}`,
        createdAt: seconds(created),
        updatedAt: seconds(created + draw(seed, index, 19) % 86_400_000)
      },
      index,
      seed
    )
  },
  payinSources: (index, seed) => {
    const number = customerNumber(index, seed)
    const created = instantMs(index, draw(seed, index, 14))
    const id = identify("pis", index, seed)
    return finish(
      {
        id,
        reference: `source-${index}`,
        description: oneIn(12, seed, index, 15) ? null : "Débito automático: suscripción anual ☂",
        customerId: `cus_${number}`,
        customerDetails: customer(number, seed),
        status: status(["pending", "authorized", "authorized", "rejected"], index, seed),
        ...(oneIn(8, seed, index, 16) ? { statusMessage: "AUTHENTICATION_FAILED" } : {}),
        authUrl: `https://auth.example.com/authorize/${id}?next=%2Fdone`,
        redirectUrl: "https://merchant.example.com/back",
        partialPayinsEnabled: oneIn(2, seed, index, 17),
        type: "bankAccount",
        createdAt: seconds(created),
        updatedAt: seconds(created + draw(seed, index, 18) % 86_400_000)
      },
      index,
      seed
    )
  },
  invoices: (index, seed) => {
    const number = customerNumber(index, seed)
    const created = instantMs(index, draw(seed, index, 14))
    const paid = !oneIn(5, seed, index, 15)
    const paidAt = created + draw(seed, index, 16) % 604_800_000
    const id = identify("inv", index, seed)
    const sum = amount(index, seed)
    return finish(
      {
        id,
        reference: `invoice-${index}`,
        status: paid ? status(["paid"], index, seed) : "pending",
        amount: sum,
        description: oneIn(15, seed, index, 17) ? null : `Factura N.º ${index} — "servicio"`,
        contract: `con_${number % 500}`,
        customerDocumentNumber: customer(number, seed).documentNumber,
        createdAt: milliseconds(created),
        ...(paid
          ? {
            paymentDate: milliseconds(paidAt),
            paymentMethod: pick(["pse", "pse", "card"], draw(seed, index, 18)),
            paymentSource: "link",
            paymentAmount: sum,
            settlementDate: milliseconds(paidAt + 86_400_000).slice(0, 10),
            settlementTime: pick(["1", "2", "3"], draw(seed, index, 19)),
            paymentId: `pay_${index}`
          }
          : { paymentDate: null }),
        paymentUrl: `https://pay.example.com/pay/mer_1/${id}`
      },
      index,
      seed
    )
  }
}
