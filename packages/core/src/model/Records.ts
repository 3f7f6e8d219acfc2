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

/**
 * Adds what the value identifies: as an annotation for programs, and in the type for {@link fields}. The meaning is for
 * people who write a statement: the column's. An object has none.
 */
const identifying = (identifies: Identifies) => <S extends Schema.Top>(schema: S, meaning?: string) =>
  Object.assign(maybe(schema.annotate({ identifies, meaning })), { identifies })

const person = identifying("person")
const payment = identifying("payment")
const nobody = identifying("nobody")

/** A field by whose value the records of a person are found. */
const identifier = (kind: Identifier, meaning: string) => person(Schema.String.annotate({ identifier: kind }), meaning)

/** The identifier of a record. It is the only required field. */
const recordId = (meaning: string) =>
  Object.assign(Schema.String.annotate({ identifies: "payment", meaning }), { identifies: "payment" as const })

/** Returns the fields. Their type requires that each one says what it identifies. */
const fields = <const Fields extends { readonly [name: string]: DescribedField }>(described: Fields): Fields =>
  described

/**
 * A field with the text of an instant or a day (§2). The check accepts any text, so that a malformed date does not lose
 * the record. The annotation says which fields are dates.
 */
const dateText = (temporal: "dateTime" | "day", meaning: string) =>
  nobody(Schema.String.annotate({ temporal }), meaning)

/** Accepts any string; editors suggest the observed values. The document does not list all values (§2, §3). */
const observed = <const Values extends ReadonlyArray<string>>(values: Values) =>
  Schema.Union([Schema.StringForLiteralAutocomplete, Schema.Literals(values)])

/** Returns a struct that allows other keys than its fields. */
const open = <const Fields extends Schema.Struct.Fields>(known: Fields) =>
  Schema.StructWithRest(Schema.Struct(known), [Schema.Record(Schema.String, Schema.Unknown)])

const customerDetails = fields({
  /** Reference of the customer. */
  reference: person(Schema.String, "reference of the customer"),
  /** Name of the customer. */
  name: person(Schema.String, "name of the customer"),
  /** Type of the identity document; observed: `cc`. */
  documentType: nobody(observed(["cc"]), "type of the identity document; observed: cc"),
  /** Number of the identity document. */
  documentNumber: identifier("document-number", "number of the identity document"),
  /** E-mail address. */
  email: person(Schema.String, "e-mail address"),
  /** Telephone number. */
  phoneNumber: person(Schema.String, "telephone number")
})

const payoutTargetDetails = fields({
  /** Reference of the target. */
  reference: person(Schema.String, "reference of the target"),
  /** Description of the target. */
  description: person(Schema.String, "description of the target"),
  /** Kind of target; observed: `bankAccount`. */
  type: nobody(observed(["bankAccount"]), "kind of target; observed: bankAccount")
})

const payoutRequest = <Customer extends Schema.Top, Target extends Schema.Top>(customer: Customer, target: Target) =>
  fields({
    /** Identifier of the payout request. */
    id: recordId("identifier of the payout request"),
    /** Reference given on creation. Can be filtered by. */
    reference: payment(Schema.String, "reference given on creation"),
    /** Identifier of the customer. Can be filtered by. */
    customerId: identifier("customer-id", "identifier of the customer"),
    /** The customer (§2.1). */
    customerDetails: person(customer),
    /** Identifier of the payout target. Can be filtered by. */
    payoutTargetId: person(Schema.String, "identifier of the payout target"),
    /** The payout target. */
    payoutTargetDetails: person(target),
    /** State of the request; observed: `processing`. */
    status: nobody(observed(["processing"]), "state of the request; observed: processing"),
    /** Reason or code for the status; observed: `AUTHENTICATION_FAILED`. */
    statusMessage: nobody(
      observed(["AUTHENTICATION_FAILED"]),
      "reason or code for the status; observed: AUTHENTICATION_FAILED"
    ),
    /** Amount of the request; the document does not specify currency and unit. */
    amount: nobody(Schema.Int, "amount of the request; the document does not specify currency and unit"),
    /** Amount that was sent; the document does not specify currency and unit. */
    amountSent: nobody(Schema.Int, "amount that was sent; the document does not specify currency and unit"),
    /** Fee charged; the document does not specify currency and unit. */
    fee: nobody(Schema.Int, "fee charged; the document does not specify currency and unit"),
    /** Identifier of the merchant account that the money is paid from. */
    sourceMerchantAccountId: nobody(Schema.String, "identifier of the merchant account that the money is paid from"),
    /** ISO 8601 in UTC, to the second, such as `2024-05-01T10:00:00Z`. */
    createdAt: dateText("dateTime", "time of creation: ISO 8601 in UTC, to the second, such as 2024-05-01T10:00:00Z"),
    /** ISO 8601 in UTC, to the second. */
    updatedAt: dateText("dateTime", "time of the last update: ISO 8601 in UTC, to the second")
  })

const payinSource = <Customer extends Schema.Top>(customer: Customer) =>
  fields({
    /** Identifier of the payin source. */
    id: recordId("identifier of the payin source"),
    /** Reference given on creation. Can be filtered by. */
    reference: payment(Schema.String, "reference given on creation"),
    /** Description. */
    description: person(Schema.String, "description"),
    /** Identifier of the customer. Can be filtered by. */
    customerId: identifier("customer-id", "identifier of the customer"),
    /** The customer (§2.1). */
    customerDetails: person(customer),
    /** State; observed: `pending`. */
    status: nobody(observed(["pending"]), "state; observed: pending"),
    /** Reason or code for the status; observed: `AUTHENTICATION_FAILED`. */
    statusMessage: nobody(
      observed(["AUTHENTICATION_FAILED"]),
      "reason or code for the status; observed: AUTHENTICATION_FAILED"
    ),
    /** Address where the customer authorizes the source. */
    authUrl: person(Schema.String, "address where the customer authorizes the source"),
    /** Address that the customer returns to. */
    redirectUrl: person(Schema.String, "address that the customer returns to"),
    /** Whether partial payins are enabled. */
    partialPayinsEnabled: nobody(Schema.Boolean, "whether partial payins are enabled"),
    /** Kind of source; observed: `bankAccount`. */
    type: nobody(observed(["bankAccount"]), "kind of source; observed: bankAccount"),
    /** ISO 8601 in UTC, to the second, such as `2024-05-01T10:00:00Z`. */
    createdAt: dateText("dateTime", "time of creation: ISO 8601 in UTC, to the second, such as 2024-05-01T10:00:00Z"),
    /** ISO 8601 in UTC, to the second. */
    updatedAt: dateText("dateTime", "time of the last update: ISO 8601 in UTC, to the second")
  })

const invoice = fields({
  /** Identifier of the invoice. */
  id: recordId("identifier of the invoice"),
  /** Reference of the invoice. Can be filtered by. */
  reference: payment(Schema.String, "reference of the invoice"),
  /** State; observed: `paid`. */
  status: nobody(observed(["paid"]), "state; observed: paid"),
  /** Amount of the invoice; the document does not specify currency and unit. */
  amount: nobody(Schema.Int, "amount of the invoice; the document does not specify currency and unit"),
  /** Free text. */
  description: person(Schema.String, "free text"),
  /** Identifier of the contract. Can be filtered by. */
  contract: person(Schema.String, "identifier of the contract"),
  /** Document number of the customer. Can be filtered by. */
  customerDocumentNumber: identifier("document-number", "document number of the customer"),
  /** ISO 8601 in UTC, to the millisecond, such as `2024-05-01T10:00:00.000Z`. */
  createdAt: dateText(
    "dateTime",
    "time of creation: ISO 8601 in UTC, to the millisecond, such as 2024-05-01T10:00:00.000Z"
  ),
  /** ISO 8601 in UTC, to the millisecond. Can be filtered by. */
  paymentDate: dateText("dateTime", "time of the payment: ISO 8601 in UTC, to the millisecond"),
  /** How it was paid; observed: `pse`. */
  paymentMethod: nobody(observed(["pse"]), "how it was paid; observed: pse"),
  /** Where it was paid from; observed: `link`. */
  paymentSource: nobody(observed(["link"]), "where it was paid from; observed: link"),
  /** Amount paid; the document does not specify currency and unit. */
  paymentAmount: nobody(Schema.Int, "amount paid; the document does not specify currency and unit"),
  /** A date, `YYYY-MM-DD`, without a time zone. Can be filtered by. */
  settlementDate: dateText("day", "day of the settlement: a date, YYYY-MM-DD, without a time zone"),
  /** The settlement cycle; observed: a digit string. Can be filtered by. */
  settlementTime: nobody(Schema.String, "the settlement cycle; observed: a digit string"),
  /** Identifier of the payment. */
  paymentId: payment(Schema.String, "identifier of the payment"),
  /** Address of the payment page. */
  paymentUrl: payment(Schema.String, "address of the payment page")
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
