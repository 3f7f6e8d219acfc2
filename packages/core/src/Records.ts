/**
 * The records of the API, field by field (§2), written once.
 *
 * The document does not say what is required or nullable, so only `id` is required; any other field may be absent or
 * null, and the two stay distinct. The static types are closed. The values are not: a record that passes the check is
 * the very object that was parsed, with every undocumented field still on it, at every depth.
 *
 * Each record has two schemas made from the same fields: the closed one checks and types a record, the open one (`…Wire`)
 * describes it in the contract, where undocumented fields are allowed.
 */
import { DateTime, Option, Schema } from "effect"

/** Absent or null: two different things, both possible for every field but `id` (§2.5). */
const maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** The observed values autocomplete, any other string is accepted: the lists of values are not shown (§2, §3). */
const observed = <const Values extends ReadonlyArray<string>>(values: Values) =>
  Schema.Union([Schema.StringForLiteralAutocomplete, Schema.Literals(values)])

/** A struct that allows keys beyond its fields. */
const open = <const Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.StructWithRest(Schema.Struct(fields), [Schema.Record(Schema.String, Schema.Unknown)])

const customerDetails = {
  reference: maybe(Schema.String),
  name: maybe(Schema.String),
  documentType: maybe(observed(["cc"])),
  documentNumber: maybe(Schema.String),
  email: maybe(Schema.String),
  phoneNumber: maybe(Schema.String)
}

const payoutTargetDetails = {
  reference: maybe(Schema.String),
  description: maybe(Schema.String),
  type: maybe(observed(["bankAccount"]))
}

const payoutRequest = <Customer extends Schema.Top, Target extends Schema.Top>(customer: Customer, target: Target) => ({
  id: Schema.String,
  reference: maybe(Schema.String),
  customerId: maybe(Schema.String),
  customerDetails: maybe(customer),
  payoutTargetId: maybe(Schema.String),
  payoutTargetDetails: maybe(target),
  status: maybe(observed(["processing"])),
  statusMessage: maybe(observed(["AUTHENTICATION_FAILED"])),
  amount: maybe(Schema.Int),
  amountSent: maybe(Schema.Int),
  fee: maybe(Schema.Int),
  sourceMerchantAccountId: maybe(Schema.String),
  createdAt: maybe(Schema.String),
  updatedAt: maybe(Schema.String)
})

const payinSource = <Customer extends Schema.Top>(customer: Customer) => ({
  id: Schema.String,
  reference: maybe(Schema.String),
  description: maybe(Schema.String),
  customerId: maybe(Schema.String),
  customerDetails: maybe(customer),
  status: maybe(observed(["pending"])),
  statusMessage: maybe(observed(["AUTHENTICATION_FAILED"])),
  authUrl: maybe(Schema.String),
  redirectUrl: maybe(Schema.String),
  partialPayinsEnabled: maybe(Schema.Boolean),
  type: maybe(observed(["bankAccount"])),
  createdAt: maybe(Schema.String),
  updatedAt: maybe(Schema.String)
})

const invoice = {
  id: Schema.String,
  reference: maybe(Schema.String),
  status: maybe(observed(["paid"])),
  amount: maybe(Schema.Int),
  description: maybe(Schema.String),
  contract: maybe(Schema.String),
  customerDocumentNumber: maybe(Schema.String),
  createdAt: maybe(Schema.String),
  paymentDate: maybe(Schema.String),
  paymentMethod: maybe(observed(["pse"])),
  paymentSource: maybe(observed(["link"])),
  paymentAmount: maybe(Schema.Int),
  settlementDate: maybe(Schema.String),
  settlementTime: maybe(Schema.String),
  paymentId: maybe(Schema.String),
  paymentUrl: maybe(Schema.String)
}

/** The customer embedded in payout requests and payin sources (§2.1). */
export const CustomerDetails = Schema.Struct(customerDetails)
/** {@inheritDoc CustomerDetails} */
export interface CustomerDetails extends Schema.Schema.Type<typeof CustomerDetails> {}

/** Where the money of a payout request goes (§2.2). */
export const PayoutTargetDetails = Schema.Struct(payoutTargetDetails)
/** {@inheritDoc PayoutTargetDetails} */
export interface PayoutTargetDetails extends Schema.Schema.Type<typeof PayoutTargetDetails> {}

/**
 * Money going out (§2.2). `amount`, `amountSent` and `fee` are integers whose currency and unit the document does not
 * show; `createdAt` and `updatedAt` are the wire's strings, see {@link timestamp}.
 */
export const PayoutRequest = Schema.Struct(payoutRequest(CustomerDetails, PayoutTargetDetails))
/** {@inheritDoc PayoutRequest} */
export interface PayoutRequest extends Schema.Schema.Type<typeof PayoutRequest> {}

/** A customer's authorized origin of money coming in (§2.3). */
export const PayinSource = Schema.Struct(payinSource(CustomerDetails))
/** {@inheritDoc PayinSource} */
export interface PayinSource extends Schema.Schema.Type<typeof PayinSource> {}

/**
 * A payable bill of the merchant (§2.4). `amount` and `paymentAmount` are integers whose currency and unit the document
 * does not show; `settlementDate` is a date without a time zone, and none is invented.
 */
export const Invoice = Schema.Struct(invoice)
/** {@inheritDoc Invoice} */
export interface Invoice extends Schema.Schema.Type<typeof Invoice> {}

/** A payout request as the contract describes it: undocumented fields allowed at every depth. */
export const PayoutRequestWire = open(payoutRequest(open(customerDetails), open(payoutTargetDetails)))
  .annotate({ identifier: "PayoutRequest" })

/** A payin source as the contract describes it: undocumented fields allowed at every depth. */
export const PayinSourceWire = open(payinSource(open(customerDetails))).annotate({ identifier: "PayinSource" })

/** An invoice as the contract describes it: undocumented fields allowed. */
export const InvoiceWire = open(invoice).annotate({ identifier: "Invoice" })

/**
 * The instant a wire timestamp names (§2: ISO 8601 UTC, suffix `Z`), or none where the field is absent, null or
 * malformed. A date without a time, such as `settlementDate`, names no instant and gives none.
 */
export const timestamp = (value: string | null | undefined): Option.Option<DateTime.Utc> =>
  typeof value === "string" && /^\d{4}-\d{2}-\d{2}T.*Z$/.test(value)
    // Parsing rolls a day that does not exist over into the next month.
    ? Option.filter(DateTime.make(value), (instant) => DateTime.formatIso(instant).startsWith(value.slice(0, 10)))
    : Option.none()
