/**
 * The records of the API, field by field (§2).
 *
 * The document does not say which fields are required or nullable. So only `id` is required; any other field may be
 * absent or null, and absent and null are distinct. The static types contain only documented fields. A value can have
 * more fields, at every depth: a record that passes the check is the parsed object itself.
 *
 * Each record has two schemas with the same fields. The closed one checks and types a record. The open one (`…Wire`)
 * describes the record in the contract, and allows undocumented fields.
 *
 * Each field says whom or what its value identifies: a person, a payment or nobody. A field without this does not compile.
 * Erasures find a person's records by the fields that are an {@link Identifier}.
 */
import { DateTime, Option, Schema } from "effect"

/**
 * Whom or what the value of a field identifies. `person`: a customer or their account, alone or with other data, or text that
 * may name one. `payment`: a payment, an invoice or an object of the service. `nobody`: amounts, states, dates and kinds.
 */
export type Identifies = "person" | "payment" | "nobody"

/** By which kind of value the records of one person are found. */
export type Identifier = "customer-id" | "document-number"

/** A field's schema with what its value identifies. */
export interface DescribedField extends Schema.Top {
  /** Whom or what the value of the field identifies. */
  readonly identifies: Identifies
}

/** A field that may be absent or null. These are distinct, and possible for every field except `id` (§2.5). */
const maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** Adds what the value identifies: as an annotation for programs, and in the type for {@link fields}. */
const identifying = (identifies: Identifies) => <S extends Schema.Top>(schema: S) =>
  Object.assign(maybe(schema.annotate({ identifies })), { identifies })

const person = identifying("person")
const payment = identifying("payment")
const nobody = identifying("nobody")

/** A field by whose value the records of a person are found. */
const identifier = (kind: Identifier) => person(Schema.String.annotate({ identifier: kind }))

/** The identifier of a record. It is the only required field. */
const recordId = Object.assign(Schema.String.annotate({ identifies: "payment" }), { identifies: "payment" as const })

/** Returns the fields. Their type requires that each one says what it identifies. */
const fields = <const Fields extends { readonly [name: string]: DescribedField }>(described: Fields): Fields =>
  described

/**
 * A field with the text of an instant or a day (§2). The check accepts any text, so that a malformed date does not lose
 * the record. The annotation says which fields are dates.
 */
const dateText = (temporal: "dateTime" | "day") => nobody(Schema.String.annotate({ temporal }))

/** Accepts any string; editors suggest the observed values. The document does not list all values (§2, §3). */
const observed = <const Values extends ReadonlyArray<string>>(values: Values) =>
  Schema.Union([Schema.StringForLiteralAutocomplete, Schema.Literals(values)])

/** Returns a struct that allows other keys than its fields. */
const open = <const Fields extends Schema.Struct.Fields>(known: Fields) =>
  Schema.StructWithRest(Schema.Struct(known), [Schema.Record(Schema.String, Schema.Unknown)])

const customerDetails = fields({
  /** Reference of the customer. */
  reference: person(Schema.String),
  /** Name of the customer. */
  name: person(Schema.String),
  /** Type of the identity document; observed: `cc`. */
  documentType: nobody(observed(["cc"])),
  /** Number of the identity document. */
  documentNumber: identifier("document-number"),
  /** E-mail address. */
  email: person(Schema.String),
  /** Telephone number. */
  phoneNumber: person(Schema.String)
})

const payoutTargetDetails = fields({
  /** Reference of the target. */
  reference: person(Schema.String),
  /** Description of the target. */
  description: person(Schema.String),
  /** Kind of target; observed: `bankAccount`. */
  type: nobody(observed(["bankAccount"]))
})

const payoutRequest = <Customer extends Schema.Top, Target extends Schema.Top>(customer: Customer, target: Target) =>
  fields({
    /** Identifier of the payout request. */
    id: recordId,
    /** Reference given on creation. Can be filtered by. */
    reference: payment(Schema.String),
    /** Identifier of the customer. Can be filtered by. */
    customerId: identifier("customer-id"),
    /** The customer (§2.1). */
    customerDetails: person(customer),
    /** Identifier of the payout target. Can be filtered by. */
    payoutTargetId: person(Schema.String),
    /** The payout target. */
    payoutTargetDetails: person(target),
    /** State of the request; observed: `processing`. */
    status: nobody(observed(["processing"])),
    /** Reason or code for the status; observed: `AUTHENTICATION_FAILED`. */
    statusMessage: nobody(observed(["AUTHENTICATION_FAILED"])),
    /** Amount of the request; the document does not specify currency and unit. */
    amount: nobody(Schema.Int),
    /** Amount that was sent; the document does not specify currency and unit. */
    amountSent: nobody(Schema.Int),
    /** Fee charged; the document does not specify currency and unit. */
    fee: nobody(Schema.Int),
    /** Identifier of the merchant account that the money is paid from. */
    sourceMerchantAccountId: nobody(Schema.String),
    /** ISO 8601 in UTC, to the second, such as `2024-05-01T10:00:00Z`. */
    createdAt: dateText("dateTime"),
    /** ISO 8601 in UTC, to the second. */
    updatedAt: dateText("dateTime")
  })

const payinSource = <Customer extends Schema.Top>(customer: Customer) =>
  fields({
    /** Identifier of the payin source. */
    id: recordId,
    /** Reference given on creation. Can be filtered by. */
    reference: payment(Schema.String),
    /** Description. */
    description: person(Schema.String),
    /** Identifier of the customer. Can be filtered by. */
    customerId: identifier("customer-id"),
    /** The customer (§2.1). */
    customerDetails: person(customer),
    /** State; observed: `pending`. */
    status: nobody(observed(["pending"])),
    /** Reason or code for the status; observed: `AUTHENTICATION_FAILED`. */
    statusMessage: nobody(observed(["AUTHENTICATION_FAILED"])),
    /** Address where the customer authorizes the source. */
    authUrl: person(Schema.String),
    /** Address that the customer returns to. */
    redirectUrl: person(Schema.String),
    /** Whether partial payins are enabled. */
    partialPayinsEnabled: nobody(Schema.Boolean),
    /** Kind of source; observed: `bankAccount`. */
    type: nobody(observed(["bankAccount"])),
    /** ISO 8601 in UTC, to the second, such as `2024-05-01T10:00:00Z`. */
    createdAt: dateText("dateTime"),
    /** ISO 8601 in UTC, to the second. */
    updatedAt: dateText("dateTime")
  })

const invoice = fields({
  /** Identifier of the invoice. */
  id: recordId,
  /** Reference of the invoice. Can be filtered by. */
  reference: payment(Schema.String),
  /** State; observed: `paid`. */
  status: nobody(observed(["paid"])),
  /** Amount of the invoice; the document does not specify currency and unit. */
  amount: nobody(Schema.Int),
  /** Free text. */
  description: person(Schema.String),
  /** Identifier of the contract. Can be filtered by. */
  contract: person(Schema.String),
  /** Document number of the customer. Can be filtered by. */
  customerDocumentNumber: identifier("document-number"),
  /** ISO 8601 in UTC, to the millisecond, such as `2024-05-01T10:00:00.000Z`. */
  createdAt: dateText("dateTime"),
  /** ISO 8601 in UTC, to the millisecond. Can be filtered by. */
  paymentDate: dateText("dateTime"),
  /** How it was paid; observed: `pse`. */
  paymentMethod: nobody(observed(["pse"])),
  /** Where it was paid from; observed: `link`. */
  paymentSource: nobody(observed(["link"])),
  /** Amount paid; the document does not specify currency and unit. */
  paymentAmount: nobody(Schema.Int),
  /** A date, `YYYY-MM-DD`, without a time zone. Can be filtered by. */
  settlementDate: dateText("day"),
  /** The settlement cycle; observed: a digit string. Can be filtered by. */
  settlementTime: nobody(Schema.String),
  /** Identifier of the payment. */
  paymentId: payment(Schema.String),
  /** Address of the payment page. */
  paymentUrl: payment(Schema.String)
})

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
