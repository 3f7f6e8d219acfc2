/**
 * How the sandbox generates each list: the fields of its records, and its filters. The type requires every list and every
 * filter of `Lists`, so a list without an entry here does not compile.
 */
import type { Lists } from "@payments/core"
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
  amountOf,
  amountText,
  idOf,
  isoDate,
  isoMilliseconds,
  isoSeconds,
  onHold,
  type RenderFields,
  statusFields,
  statusOf,
  unusualText,
  updatedMs
} from "./RecordFields.ts"
import { settlementDay, settlementTimeOf, variants } from "./RecordModel.ts"
import { draw, oneIn, pick } from "./RecordRandom.ts"

interface GeneratedRecords<Filters> {
  /** Renders the documented fields of a record. */
  readonly renderFields: RenderFields
  readonly filters: { readonly [Field in keyof Filters]-?: MakeFilter }
}

const payoutStatuses = ["processing", ...Array<string>(7).fill("completed"), "failed", "failed", "reversed"]
const payinStatuses = ["pending", ...Array<string>(6).fill("authorized"), "rejected", "expired"]
const paymentMethods = ["pse", "pse", "card"]

/** How each list is generated, by its name. */
export const generatedRecords: { readonly [Name in Lists.ListName]: GeneratedRecords<Lists.FiltersOf<Name>> } = {
  payoutRequests: {
    filters: {
      reference: byReference("payout-"),
      customerId: byCustomerId,
      payoutTargetId: byPayoutTarget
    },
    renderFields: (key, index, history, context) => {
      const customer = context.model.customers.customerOf(index)
      const target = `${customer}_${context.model.variantOf(index)}`
      const unusual = unusualText(key, context)
      const createdAt = context.model.createdMs(index, history)
      const amount = amountOf(key, context)
      const status = statusOf(payoutStatuses, key, history)
      const details = oneIn(40, key, 15) ? "null" : context.customerDetails(key, customer, unusual)
      return `"id":"por_${idOf(index, key)}","reference":"payout-${index}"` +
        `,"customerId":"cus_${customer}","customerDetails":${details}` +
        `,"payoutTargetId":"tgt_${target}","payoutTargetDetails":{"reference":"target-${target}"` +
        `,"description":"${unusual ?? "Cuenta de ahorros (nómina)"}","type":"bankAccount"},` +
        statusFields(status, "failed") +
        `,"amount":${amountText(key, amount)},"amountSent":${status === "completed" ? amount - 900 : 0}` +
        `,"fee":${oneIn(30, key, 18) ? "null" : "900"},"sourceMerchantAccountId":"acc_${draw(key, 25) % 4}"` +
        `,"createdAt":"${isoSeconds(createdAt)}","updatedAt":"${
          isoSeconds(updatedMs(key, createdAt, history, context))
        }"`
    }
  },
  payinSources: {
    filters: { reference: byReference("source-"), customerId: byCustomerId },
    renderFields: (key, index, history, context) => {
      const customer = context.model.customers.customerOf(index)
      const unusual = unusualText(key, context)
      const createdAt = context.model.createdMs(index, history)
      const id = idOf(index, key)
      const description = oneIn(12, key, 15) ? "null" : `"${unusual ?? "Débito automático: suscripción anual"}"`
      return `"id":"pis_${id}","reference":"source-${index}","description":${description}` +
        `,"customerId":"cus_${customer}","customerDetails":${context.customerDetails(key, customer, unusual)},` +
        statusFields(statusOf(payinStatuses, key, history), "rejected") +
        `,"authUrl":"https://auth.example.com/authorize/pis_${id}?next=%2Fdone"` +
        `,"redirectUrl":"https://merchant.example.com/back","partialPayinsEnabled":${oneIn(2, key, 16)}` +
        `,"type":"bankAccount","createdAt":"${isoSeconds(createdAt)}"` +
        `,"updatedAt":"${isoSeconds(updatedMs(key, createdAt, history, context))}"`
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
    renderFields: (key, index, history, context) => {
      const customer = context.model.customers.customerOf(index)
      const amount = amountOf(key, context)
      const payment = context.model.paymentOf(index, history)
      const unusual = unusualText(key, context)
      const id = idOf(index, key)
      const status = payment === undefined ? "pending" : oneIn(200, key, 10) ? onHold : "paid"
      const description = oneIn(15, key, 18) ? "null" : `"${unusual ?? `Factura N.º ${index}: \\"servicio\\"`}"`
      const paymentFields = payment === undefined
        ? `"paymentDate":null`
        : `"paymentDate":"${isoMilliseconds(payment.paidMs)}","paymentMethod":"${
          pick(paymentMethods, draw(key, 26))
        }"` +
          `,"paymentSource":"link","paymentAmount":${amount},"settlementDate":"${
            isoDate(settlementDay(payment.settledMs))
          }"` +
          `,"settlementTime":"${settlementTimeOf(payment.settledMs)}","paymentId":"pay_${index}"`
      return `"id":"inv_${id}","reference":"invoice-${index}","status":"${status}","amount":${
        amountText(key, amount)
      }` +
        `,"description":${description},"contract":"con_${customer * variants + context.model.variantOf(index)}"` +
        `,"customerDocumentNumber":"${context.model.documentOf(customer)}"` +
        `,"createdAt":"${isoMilliseconds(context.model.createdMs(index, history))}",${paymentFields}` +
        `,"paymentUrl":"https://pay.example.com/pay/mer_${context.merchant}/inv_${id}"`
    }
  }
}
