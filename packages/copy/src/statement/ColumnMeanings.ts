/** What the columns of the lists mean, for people who write a statement. A test compares this with the docstrings of the records. */
import type { Lists } from "@payments/core"

/** A sentence for each field of a record, and for each field of an object in it. A field without one does not compile. */
type Meanings<Item> = {
  readonly [Field in keyof Item]-?: NonNullable<Item[Field]> extends string | number | boolean ? string
    : Meanings<NonNullable<Item[Field]>>
}

const customerDetails = {
  reference: "reference of the customer",
  name: "name of the customer",
  documentType: "type of the identity document; observed: cc",
  documentNumber: "number of the identity document",
  email: "e-mail address",
  phoneNumber: "telephone number"
} as const

const payoutTargetDetails = {
  reference: "reference of the target",
  description: "description of the target",
  type: "kind of target; observed: bankAccount"
} as const

const meanings: { readonly [Name in Lists.ListName]: Meanings<Lists.ItemOf<Name>> } = {
  payoutRequests: {
    id: "identifier of the payout request",
    reference: "reference given on creation",
    customerId: "identifier of the customer",
    customerDetails,
    payoutTargetId: "identifier of the payout target",
    payoutTargetDetails,
    status: "state of the request; observed: processing",
    statusMessage: "reason or code for the status; observed: AUTHENTICATION_FAILED",
    amount: "amount of the request; the document does not specify currency and unit",
    amountSent: "amount that was sent; the document does not specify currency and unit",
    fee: "fee charged; the document does not specify currency and unit",
    sourceMerchantAccountId: "identifier of the merchant account that the money is paid from",
    createdAt: "time of creation: ISO 8601 in UTC, to the second, such as 2024-05-01T10:00:00Z",
    updatedAt: "time of the last update: ISO 8601 in UTC, to the second"
  },
  payinSources: {
    id: "identifier of the payin source",
    reference: "reference given on creation",
    description: "description",
    customerId: "identifier of the customer",
    customerDetails,
    status: "state; observed: pending",
    statusMessage: "reason or code for the status; observed: AUTHENTICATION_FAILED",
    authUrl: "address where the customer authorizes the source",
    redirectUrl: "address that the customer returns to",
    partialPayinsEnabled: "whether partial payins are enabled",
    type: "kind of source; observed: bankAccount",
    createdAt: "time of creation: ISO 8601 in UTC, to the second, such as 2024-05-01T10:00:00Z",
    updatedAt: "time of the last update: ISO 8601 in UTC, to the second"
  },
  invoices: {
    id: "identifier of the invoice",
    reference: "reference of the invoice",
    status: "state; observed: paid",
    amount: "amount of the invoice; the document does not specify currency and unit",
    description: "free text",
    contract: "identifier of the contract",
    customerDocumentNumber: "document number of the customer",
    createdAt: "time of creation: ISO 8601 in UTC, to the millisecond, such as 2024-05-01T10:00:00.000Z",
    paymentDate: "time of the payment: ISO 8601 in UTC, to the millisecond",
    paymentMethod: "how it was paid; observed: pse",
    paymentSource: "where it was paid from; observed: link",
    paymentAmount: "amount paid; the document does not specify currency and unit",
    settlementDate: "day of the settlement: a date, YYYY-MM-DD, without a time zone",
    settlementTime: "the settlement cycle; observed: a digit string",
    paymentId: "identifier of the payment",
    paymentUrl: "address of the payment page"
  }
}

export const meaningOf = (list: Lists.AnyList, [field, inner]: Lists.FieldMeaning["path"]): string => {
  const ofList: { readonly [field: string]: string | { readonly [inner: string]: string } } = meanings[list.name]
  const found = ofList[field] ?? ""
  return typeof found === "string" ? found : found[inner ?? ""] ?? ""
}
