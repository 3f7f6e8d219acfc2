/**
 * The records of the API, field by field (§2).
 *
 * The document does not say which fields are required or nullable. So only `id` is required; any other field may be
 * absent or null, and absent and null are distinct. The static types contain only documented fields. A value can have
 * more fields, at every depth: a record that passes the check is the parsed object itself.
 *
 * Each record has two schemas with the same fields. The closed one checks and types a record. The open one (`…Wire`)
 * describes the record in the contract, and allows undocumented fields.
 */
import { DateTime, Option, Schema } from "effect"

/** A field that may be absent or null. These are distinct, and possible for every field except `id` (§2.5). */
const maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/**
 * A field with the text of an instant or a day (§2). The check accepts any text, so that a malformed date does not lose
 * the record. The annotation says which fields are dates.
 */
const dateText = (temporal: "dateTime" | "day") => maybe(Schema.String.annotate({ temporal }))

/** Accepts any string; editors suggest the observed values. The document does not list all values (§2, §3). */
const observed = <const Values extends ReadonlyArray<string>>(values: Values) =>
  Schema.Union([Schema.StringForLiteralAutocomplete, Schema.Literals(values)])

/** Returns a struct that allows other keys than its fields. */
const open = <const Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.StructWithRest(Schema.Struct(fields), [Schema.Record(Schema.String, Schema.Unknown)])

const customerDetails = {
  /** Reference of the customer. */
  reference: maybe(Schema.String),
  /** Name of the customer. */
  name: maybe(Schema.String),
  /** Type of the identity document; observed: `cc`. */
  documentType: maybe(observed(["cc"])),
  /** Number of the identity document. */
  documentNumber: maybe(Schema.String),
  /** E-mail address. */
  email: maybe(Schema.String),
  /** Telephone number. */
  phoneNumber: maybe(Schema.String)
}

const payoutTargetDetails = {
  /** Reference of the target. */
  reference: maybe(Schema.String),
  /** Description of the target. */
  description: maybe(Schema.String),
  /** Kind of target; observed: `bankAccount`. */
  type: maybe(observed(["bankAccount"]))
}

const payoutRequest = <Customer extends Schema.Top, Target extends Schema.Top>(customer: Customer, target: Target) => ({
  /** Identifier of the payout request. */
  id: Schema.String,
  /** Reference given on creation. Can be filtered by. */
  reference: maybe(Schema.String),
  /** Identifier of the customer. Can be filtered by. */
  customerId: maybe(Schema.String),
  /** The customer (§2.1). */
  customerDetails: maybe(customer),
  /** Identifier of the payout target. Can be filtered by. */
  payoutTargetId: maybe(Schema.String),
  /** The payout target. */
  payoutTargetDetails: maybe(target),
  /** State of the request; observed: `processing`. */
  status: maybe(observed(["processing"])),
  /** Reason or code for the status; observed: `AUTHENTICATION_FAILED`. */
  statusMessage: maybe(observed(["AUTHENTICATION_FAILED"])),
  /** Amount of the request; the document does not specify currency and unit. */
  amount: maybe(Schema.Int),
  /** Amount that was sent; the document does not specify currency and unit. */
  amountSent: maybe(Schema.Int),
  /** Fee charged; the document does not specify currency and unit. */
  fee: maybe(Schema.Int),
  /** Identifier of the merchant account that the money is paid from. */
  sourceMerchantAccountId: maybe(Schema.String),
  /** ISO 8601 in UTC, to the second, such as `2024-05-01T10:00:00Z`. */
  createdAt: dateText("dateTime"),
  /** ISO 8601 in UTC, to the second. */
  updatedAt: dateText("dateTime")
})

const payinSource = <Customer extends Schema.Top>(customer: Customer) => ({
  /** Identifier of the payin source. */
  id: Schema.String,
  /** Reference given on creation. Can be filtered by. */
  reference: maybe(Schema.String),
  /** Description. */
  description: maybe(Schema.String),
  /** Identifier of the customer. Can be filtered by. */
  customerId: maybe(Schema.String),
  /** The customer (§2.1). */
  customerDetails: maybe(customer),
  /** State; observed: `pending`. */
  status: maybe(observed(["pending"])),
  /** Reason or code for the status; observed: `AUTHENTICATION_FAILED`. */
  statusMessage: maybe(observed(["AUTHENTICATION_FAILED"])),
  /** Address where the customer authorizes the source. */
  authUrl: maybe(Schema.String),
  /** Address that the customer returns to. */
  redirectUrl: maybe(Schema.String),
  /** Whether partial payins are enabled. */
  partialPayinsEnabled: maybe(Schema.Boolean),
  /** Kind of source; observed: `bankAccount`. */
  type: maybe(observed(["bankAccount"])),
  /** ISO 8601 in UTC, to the second, such as `2024-05-01T10:00:00Z`. */
  createdAt: dateText("dateTime"),
  /** ISO 8601 in UTC, to the second. */
  updatedAt: dateText("dateTime")
})

const invoice = {
  /** Identifier of the invoice. */
  id: Schema.String,
  /** Reference of the invoice. Can be filtered by. */
  reference: maybe(Schema.String),
  /** State; observed: `paid`. */
  status: maybe(observed(["paid"])),
  /** Amount of the invoice; the document does not specify currency and unit. */
  amount: maybe(Schema.Int),
  /** Free text. */
  description: maybe(Schema.String),
  /** Identifier of the contract. Can be filtered by. */
  contract: maybe(Schema.String),
  /** Document number of the customer. Can be filtered by. */
  customerDocumentNumber: maybe(Schema.String),
  /** ISO 8601 in UTC, to the millisecond, such as `2024-05-01T10:00:00.000Z`. */
  createdAt: dateText("dateTime"),
  /** ISO 8601 in UTC, to the millisecond. Can be filtered by. */
  paymentDate: dateText("dateTime"),
  /** How it was paid; observed: `pse`. */
  paymentMethod: maybe(observed(["pse"])),
  /** Where it was paid from; observed: `link`. */
  paymentSource: maybe(observed(["link"])),
  /** Amount paid; the document does not specify currency and unit. */
  paymentAmount: maybe(Schema.Int),
  /** A date, `YYYY-MM-DD`, without a time zone. Can be filtered by. */
  settlementDate: dateText("day"),
  /** The settlement cycle; observed: a digit string. Can be filtered by. */
  settlementTime: maybe(Schema.String),
  /** Identifier of the payment. */
  paymentId: maybe(Schema.String),
  /** Address of the payment page. */
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
 * Money going out (§2.2). `amount`, `amountSent` and `fee` are integers; the document does not specify their currency
 * and unit. `createdAt` and `updatedAt` are strings as the API sent them, see {@link timestamp}.
 */
export const PayoutRequest = Schema.Struct(payoutRequest(CustomerDetails, PayoutTargetDetails))
/** {@inheritDoc PayoutRequest} */
export interface PayoutRequest extends Schema.Schema.Type<typeof PayoutRequest> {}

/** A customer's authorized origin of money coming in (§2.3). */
export const PayinSource = Schema.Struct(payinSource(CustomerDetails))
/** {@inheritDoc PayinSource} */
export interface PayinSource extends Schema.Schema.Type<typeof PayinSource> {}

/**
 * A payable bill of the merchant (§2.4). `amount` and `paymentAmount` are integers; the document does not specify their
 * currency and unit. `settlementDate` is a date without a time zone.
 */
export const Invoice = Schema.Struct(invoice)
/** {@inheritDoc Invoice} */
export interface Invoice extends Schema.Schema.Type<typeof Invoice> {}

/** A payout request in the contract, which allows undocumented fields at every depth. */
export const PayoutRequestWire = open(payoutRequest(open(customerDetails), open(payoutTargetDetails)))
  .annotate({ identifier: "PayoutRequest" })

/** A payin source in the contract, which allows undocumented fields at every depth. */
export const PayinSourceWire = open(payinSource(open(customerDetails))).annotate({ identifier: "PayinSource" })

/** An invoice in the contract, which allows undocumented fields. */
export const InvoiceWire = open(invoice).annotate({ identifier: "Invoice" })

/**
 * Parses a timestamp (§2: ISO 8601 in UTC with the suffix `Z`). Returns none if the field is absent, null or malformed,
 * or a date without a time such as `settlementDate`.
 */
export const timestamp = (value: string | null | undefined): Option.Option<DateTime.Utc> =>
  typeof value === "string" && /^\d{4}-\d{2}-\d{2}T.*Z$/.test(value)
    // Parsing accepts a day that does not exist, such as 02-30, as a day of the next month.
    ? Option.filter(DateTime.make(value), (instant) => DateTime.formatIso(instant).startsWith(value.slice(0, 10)))
    : Option.none()
