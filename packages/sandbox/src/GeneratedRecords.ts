/**
 * How the sandbox generates each list: the fields of its records, and the filters over them. The type asks for every list
 * and every filter of `Lists`, so a list without an entry here does not compile.
 */
import type { Lists } from "@payments/core"
import { draw, pick } from "./Draw.ts"
import { oneIn, settlementCycle, settlementDay, variants } from "./Facts.ts"
import {
  byContract,
  byCustomerId,
  byDocumentNumber,
  byPaymentDate,
  byPayoutTarget,
  byReference,
  bySettlementDate,
  bySettlementTime,
  type MakeFilter
} from "./Filters.ts"
import {
  amount,
  amountText,
  type Body,
  date,
  idOf,
  milliseconds,
  onHold,
  seconds,
  stateOf,
  statusFields,
  unusualText,
  updatedMs
} from "./RecordText.ts"

/** How one list is generated. */
interface GeneratedRecords<Filters> {
  /** Renders the documented fields of a record. */
  readonly body: Body
  /** Makes each filter of the list. */
  readonly filters: { readonly [Field in keyof Filters]-?: MakeFilter }
}

const payoutStates = ["processing", ...Array<string>(7).fill("completed"), "failed", "failed", "reversed"]
const payinStates = ["pending", ...Array<string>(6).fill("authorized"), "rejected", "expired"]
const paymentMethods = ["pse", "pse", "card"]

/** How each list is generated, by its name. */
export const generatedRecords: { readonly [Name in Lists.ListName]: GeneratedRecords<Lists.FiltersOf<Name>> } = {
  payoutRequests: {
    filters: {
      reference: byReference("payout-"),
      customerId: byCustomerId,
      payoutTargetId: byPayoutTarget
    },
    body: (of, index, story, shape) => {
      const customer = shape.facts.customers.of(index)
      const target = `${customer}_${shape.facts.variantOf(index)}`
      const unusual = unusualText(of, shape)
      const createdAt = shape.facts.createdMs(index, story)
      const sum = amount(of)
      const status = stateOf(payoutStates, of, story)
      const details = oneIn(40, of, 15) ? "null" : shape.person(of, customer, unusual)
      return `"id":"por_${idOf(index, of)}","reference":"payout-${index}"` +
        `,"customerId":"cus_${customer}","customerDetails":${details}` +
        `,"payoutTargetId":"tgt_${target}","payoutTargetDetails":{"reference":"target-${target}"` +
        `,"description":"${unusual ?? "Cuenta de ahorros (nómina)"}","type":"bankAccount"},` +
        statusFields(status, "failed") +
        `,"amount":${amountText(of, sum)},"amountSent":${status === "completed" ? sum - 900 : 0}` +
        `,"fee":${oneIn(30, of, 18) ? "null" : "900"},"sourceMerchantAccountId":"acc_${draw(of, 25) % 4}"` +
        `,"createdAt":"${seconds(createdAt)}","updatedAt":"${seconds(updatedMs(of, createdAt, story, shape))}"`
    }
  },
  payinSources: {
    filters: { reference: byReference("source-"), customerId: byCustomerId },
    body: (of, index, story, shape) => {
      const customer = shape.facts.customers.of(index)
      const unusual = unusualText(of, shape)
      const createdAt = shape.facts.createdMs(index, story)
      const id = idOf(index, of)
      const description = oneIn(12, of, 15) ? "null" : `"${unusual ?? "Débito automático: suscripción anual"}"`
      return `"id":"pis_${id}","reference":"source-${index}","description":${description}` +
        `,"customerId":"cus_${customer}","customerDetails":${shape.person(of, customer, unusual)},` +
        statusFields(stateOf(payinStates, of, story), "rejected") +
        `,"authUrl":"https://auth.example.com/authorize/pis_${id}?next=%2Fdone"` +
        `,"redirectUrl":"https://merchant.example.com/back","partialPayinsEnabled":${oneIn(2, of, 16)}` +
        `,"type":"bankAccount","createdAt":"${seconds(createdAt)}"` +
        `,"updatedAt":"${seconds(updatedMs(of, createdAt, story, shape))}"`
    }
  },
  invoices: {
    filters: {
      reference: byReference("invoice-"),
      customerDocumentNumber: byDocumentNumber,
      contract: byContract,
      paymentDate: byPaymentDate,
      settlementDate: bySettlementDate,
      settlementTime: bySettlementTime
    },
    body: (of, index, story, shape) => {
      const customer = shape.facts.customers.of(index)
      const sum = amount(of)
      const payment = shape.facts.paymentOf(index, story)
      const unusual = unusualText(of, shape)
      const id = idOf(index, of)
      const status = payment === undefined ? "pending" : oneIn(200, of, 10) ? onHold : "paid"
      const description = oneIn(15, of, 18) ? "null" : `"${unusual ?? `Factura N.º ${index}: \\"servicio\\"`}"`
      const paid = payment === undefined
        ? `"paymentDate":null`
        : `"paymentDate":"${milliseconds(payment.paidMs)}","paymentMethod":"${pick(paymentMethods, draw(of, 26))}"` +
          `,"paymentSource":"link","paymentAmount":${sum},"settlementDate":"${
            date(settlementDay(payment.settledMs))
          }"` +
          `,"settlementTime":"${settlementCycle(payment.settledMs)}","paymentId":"pay_${index}"`
      return `"id":"inv_${id}","reference":"invoice-${index}","status":"${status}","amount":${amountText(of, sum)}` +
        `,"description":${description},"contract":"con_${customer * variants + shape.facts.variantOf(index)}"` +
        `,"customerDocumentNumber":"${shape.facts.documentOf(customer)}"` +
        `,"createdAt":"${milliseconds(shape.facts.createdMs(index, story))}",${paid}` +
        `,"paymentUrl":"https://pay.example.com/pay/mer_${shape.merchant}/inv_${id}"`
    }
  }
}
