/**
 * The three lists (§4): for each its path, record, filters and the names that those have elsewhere. Everything that
 * treats the lists alike (the contract, the client, the command line, destinations) walks these definitions.
 */
import { Result, Schema } from "effect"
import { Invoice, PayinSource, PayoutRequest } from "./Records.ts"

/** The name of a list in code. */
export const ListName = Schema.Literals(["payoutRequests", "payinSources", "invoices"])
/** {@inheritDoc ListName} */
export type ListName = typeof ListName.Type

/** Page sizes the API accepts (§8), and the one a listing asks for unless told otherwise: the largest, fewest requests. */
export const pageLimit = { minimum: 1, maximum: 100, default: 100 } as const

/** A page size the API accepts: an integer from 1 to 100 (§8). */
export const PageLimit = Schema.Int.check(
  Schema.isBetween(pageLimit, { message: `a whole number from ${pageLimit.minimum} to ${pageLimit.maximum}` })
)

/** Filters of payout requests (§4.1). A field that is absent does not filter. */
export interface PayoutRequestFilters {
  /** The reference given on creation. */
  readonly reference?: string | undefined
  /** Identifier of the customer. */
  readonly customerId?: string | undefined
  /** Identifier of the payout target. */
  readonly payoutTargetId?: string | undefined
}

/** Filters of payin sources (§4.2). A field that is absent does not filter. */
export interface PayinSourceFilters {
  /** The reference given on creation. */
  readonly reference?: string | undefined
  /** Identifier of the customer. */
  readonly customerId?: string | undefined
}

/** Filters of invoices (§4.3). A field that is absent does not filter. Values are sent as given. */
export interface InvoiceFilters {
  /** Reference of the invoice. */
  readonly reference?: string | undefined
  /** Document number of the customer. */
  readonly customerDocumentNumber?: string | undefined
  /** Identifier of the contract. */
  readonly contract?: string | undefined
  /** The exact payment date, a date-time or a prefix of one; which of them the service takes is not shown. */
  readonly paymentDate?: string | undefined
  /** `YYYY-MM-DD`. */
  readonly settlementDate?: string | undefined
  /** The settlement cycle, a digit string. */
  readonly settlementTime?: string | undefined
}

/** What one list is: the part of the API it comes from, its path below the base address, its record and filters. */
export interface ListDefinition<Record, Filters> {
  /** Its name in code. */
  readonly name: ListName
  /** Its name on the command line, in files and in messages. */
  readonly label: string
  /** Which base address serves it (§1). */
  readonly service: "payments" | "invoices"
  /** Its path below the base address, version included (§9). */
  readonly path: string
  /** The closed check of one record. */
  readonly record: Schema.Struct<Schema.Struct.Fields> & Schema.Codec<Record>
  /** How a record shows that a filter was applied: it carries the value, or, for a date, begins with it. */
  readonly filters: { readonly [Field in keyof Required<Filters>]: "equals" | "prefix" }
}

/** Payout requests: money going out (§4.1). */
export const payoutRequests: ListDefinition<PayoutRequest, PayoutRequestFilters> = {
  name: "payoutRequests",
  label: "payout-requests",
  service: "payments",
  path: "/v0/payoutRequests",
  record: PayoutRequest,
  filters: { reference: "equals", customerId: "equals", payoutTargetId: "equals" }
}

/** Payin sources: authorized origins of money coming in (§4.2). */
export const payinSources: ListDefinition<PayinSource, PayinSourceFilters> = {
  name: "payinSources",
  label: "payin-sources",
  service: "payments",
  path: "/v0/payinSources",
  record: PayinSource,
  filters: { reference: "equals", customerId: "equals" }
}

/** Invoices of the authenticated merchant (§4.3). */
export const invoices: ListDefinition<Invoice, InvoiceFilters> = {
  name: "invoices",
  label: "invoices",
  service: "invoices",
  path: "/v1/invoices",
  record: Invoice,
  filters: {
    reference: "equals",
    customerDocumentNumber: "equals",
    contract: "equals",
    paymentDate: "prefix",
    settlementDate: "prefix",
    settlementTime: "equals"
  }
}

/** Any of the three lists, where its record does not matter. */
export type AnyList = typeof payoutRequests | typeof payinSources | typeof invoices

/** The three lists, in the document's order. */
export const all: readonly [typeof payoutRequests, typeof payinSources, typeof invoices] = [
  payoutRequests,
  payinSources,
  invoices
]

/** The definition of the list of that name. */
export const byName = { payoutRequests, payinSources, invoices } as const

/**
 * The query parameters of the invoice list, by the filter they carry. The document does not show their names (§4.3), so
 * they default to the field names and each can be renamed.
 */
export type InvoiceParameters = { readonly [Field in keyof Required<InvoiceFilters> | "limit" | "cursor"]: string }

/** Field names as parameter names. */
export const defaultInvoiceParameters: InvoiceParameters = {
  reference: "reference",
  customerDocumentNumber: "customerDocumentNumber",
  contract: "contract",
  paymentDate: "paymentDate",
  settlementDate: "settlementDate",
  settlementTime: "settlementTime",
  limit: "limit",
  cursor: "cursor"
}

/** The parameters that `FIELD=NAME,…` renames, and the others as they are; or what is wrong with the text. */
export const parseInvoiceParameters = (text: string): Result.Result<InvoiceParameters, string> => {
  const known = Object.keys(defaultInvoiceParameters)
  const renamed: Record<string, string> = { ...defaultInvoiceParameters }
  for (const pair of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const [, field = "", name = ""] = /^([^=]*)=([^=]*)$/.exec(pair)?.map((part) => part.trim()) ?? []
    if (!known.includes(field)) return Result.fail(`must be FIELD=NAME,… with fields out of ${known.join(", ")}`)
    if (name === "") return Result.fail(`gives ${field} no name`)
    renamed[field] = name
  }
  return new Set(Object.values(renamed)).size === known.length
    ? Result.succeed({ ...defaultInvoiceParameters, ...renamed })
    : Result.fail("gives two fields the same name")
}
