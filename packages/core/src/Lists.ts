/**
 * The lists (§4). Each entry of `definitions` is all that the program knows of one list: where it is served, its record, its
 * filters and how it is shown. Names, types, services, layers, the contract, tables, commands and checks are made from it.
 *
 * To add a list: add its record to `Records.ts`, its filters and its entry here, and how the sandbox generates it.
 */
import { Equal, Option, Record, Result, Schema, String } from "effect"
import {
  Invoice,
  InvoiceWire,
  PayinSource,
  PayinSourceWire,
  PayoutRequest,
  PayoutRequestWire,
  timestamp
} from "./Records.ts"

/** Page sizes that the API accepts (§8), and the one that a listing requests by default: the largest, for fewest requests. */
export const pageLimit = { minimum: 1, maximum: 100, default: 100 } as const

/** A page size the API accepts: an integer from 1 to 100 (§8). */
export const PageLimit = Schema.Int.check(
  Schema.isBetween(pageLimit, { message: `a whole number from ${pageLimit.minimum} to ${pageLimit.maximum}` })
)

/** One filter of a list. It has the name of the field that it compares. */
export interface Filter {
  /** What its values are. A day or a date-time also matches a longer one that begins with it. */
  readonly type: "text" | "day" | "dateTime"
  /** The records that it selects, as the help of the command line says it. */
  readonly description: string
  /** Its flag on the command line; the field name in kebab case by default. */
  readonly flag?: string | undefined
}

/** The values of a list's filters, by field name. An absent field does not filter. Values are sent as given. */
export type FilterValues<Filters> = { readonly [Field in keyof Filters]?: string | undefined }

/** All that is known of a list, except its name. */
export interface ListEntry<Item, Filters> {
  /** The section of the API's document that describes it. */
  readonly section: string
  /** Its path below the base address, version included (§9). */
  readonly path: `/${string}`
  /** Which base address and which key serve it (§1, §5). */
  readonly baseAddress: "payments" | "invoices"
  /** Whether the document shows the names of its query parameters. Assumed ones can be renamed (§4.3). */
  readonly parameterNames: "documented" | "assumed"
  /** The unit to which its timestamps are written (§2). */
  readonly timestampPrecision: "seconds" | "milliseconds"
  /** What the document says of its page sizes, beside the maximum (§8). */
  readonly limits: { readonly default?: number; readonly minimum?: number }
  /** The closed check of one record. */
  readonly record: Schema.Struct<Schema.Struct.Fields> & Schema.Codec<Item>
  /** A record in the contract: undocumented fields are allowed. */
  readonly wire: Schema.Codec<Item & { readonly [field: string]: unknown }>
  /** Its filters, by field name. */
  readonly filters: { readonly [Field in keyof Filters]-?: Filter }
  /** What a table shows of a record, after its id: fields that tell records apart, no personal data. */
  readonly tableFields: ReadonlyArray<string>
  /** The field whose address names the merchant that the record belongs to (§2.4, §5), if there is one. */
  readonly merchantIdIn?: string | undefined
}

/** An entry whose fields are those of its record. */
const define = <Item, Filters>(
  entry: ListEntry<Item, Filters> & {
    readonly tableFields: ReadonlyArray<keyof Item>
    readonly merchantIdIn?: keyof Item
  }
): ListEntry<Item, Filters> => entry

const payoutRequestFilters = {
  /** The reference given on creation. */
  reference: { type: "text", description: "only records with this reference" },
  /** Identifier of the customer. */
  customerId: { type: "text", description: "only records of this customer" },
  /** Identifier of the payout target. */
  payoutTargetId: { type: "text", description: "only payouts to this target" }
} as const

/** Filters of payout requests (§4.1). A field that is absent does not filter. */
export interface PayoutRequestFilters extends FilterValues<typeof payoutRequestFilters> {}

const payinSourceFilters = {
  /** The reference given on creation. */
  reference: { type: "text", description: "only records with this reference" },
  /** Identifier of the customer. */
  customerId: { type: "text", description: "only records of this customer" }
} as const

/** Filters of payin sources (§4.2). A field that is absent does not filter. */
export interface PayinSourceFilters extends FilterValues<typeof payinSourceFilters> {}

const invoiceFilters = {
  /** Reference of the invoice. */
  reference: { type: "text", description: "only records with this reference" },
  /** Document number of the customer. */
  customerDocumentNumber: {
    type: "text",
    description: "only invoices of the customer with this document number",
    flag: "document-number"
  },
  /** Identifier of the contract. */
  contract: { type: "text", description: "only invoices of this contract" },
  /** The exact payment date, a date-time or a prefix of one; which of them the service takes is not shown. */
  paymentDate: {
    type: "dateTime",
    description: "only invoices paid at this date-time, or at one that begins so; sent as typed"
  },
  /** `YYYY-MM-DD`. */
  settlementDate: { type: "day", description: "only invoices settled on this day, YYYY-MM-DD" },
  /** The settlement cycle, a digit string. */
  settlementTime: { type: "text", description: "only invoices of this settlement cycle", flag: "settlement-cycle" }
} as const

/** Filters of invoices (§4.3). A field that is absent does not filter. Values are sent as given. */
export interface InvoiceFilters extends FilterValues<typeof invoiceFilters> {}

const definitions = {
  /** Money going out (§4.1). */
  payoutRequests: define<PayoutRequest, PayoutRequestFilters>({
    section: "§4.1",
    path: "/v0/payoutRequests",
    baseAddress: "payments",
    parameterNames: "documented",
    timestampPrecision: "seconds",
    limits: { default: 20 },
    record: PayoutRequest,
    wire: PayoutRequestWire,
    filters: payoutRequestFilters,
    tableFields: ["amount", "status", "reference", "customerId", "fee", "createdAt", "statusMessage"]
  }),
  /** Authorized origins of money coming in (§4.2). */
  payinSources: define<PayinSource, PayinSourceFilters>({
    section: "§4.2",
    path: "/v0/payinSources",
    baseAddress: "payments",
    parameterNames: "documented",
    timestampPrecision: "seconds",
    limits: { default: 20 },
    record: PayinSource,
    wire: PayinSourceWire,
    filters: payinSourceFilters,
    tableFields: ["status", "reference", "customerId", "createdAt", "type", "description"]
  }),
  /** Bills of the authenticated merchant (§4.3). */
  invoices: define<Invoice, InvoiceFilters>({
    section: "§4.3",
    path: "/v1/invoices",
    baseAddress: "invoices",
    parameterNames: "assumed",
    timestampPrecision: "milliseconds",
    limits: { minimum: 1 },
    record: Invoice,
    wire: InvoiceWire,
    filters: invoiceFilters,
    tableFields: ["amount", "status", "reference", "contract", "settlementDate", "settlementTime", "paymentDate"],
    merchantIdIn: "paymentUrl"
  })
}

type Definitions = typeof definitions

/** The name of a list in code. */
export const ListName = Schema.Literals(Record.keys(definitions))
/** {@inheritDoc ListName} */
export type ListName = keyof Definitions

/** A record of the list of that name. */
export type ItemOf<Name extends ListName> = Definitions[Name] extends ListEntry<infer Item, infer _> ? Item : never

/** The filter values of the list of that name. */
export type FiltersOf<Name extends ListName> = Definitions[Name] extends ListEntry<infer _, infer Filters> ? Filters
  : never

/** A list: its entry and its names. */
export interface ListDefinition<Item, Filters> extends ListEntry<Item, Filters> {
  /** Its name in code. */
  readonly name: ListName
  /** Its name on the command line, in files and in messages: the name in kebab case. */
  readonly label: string
  /** Its name in a sentence, such as `payout requests`. */
  readonly title: string
}

const words = (name: string): ReadonlyArray<string> => String.camelToSnake(name).split("_")

/** The definition of the list of that name. */
export const byName = Record.map(definitions, (entry, name) => ({
  ...entry,
  name,
  label: words(name).join("-"),
  title: words(name).join(" ")
  // Each name keeps its own entry, which the type of the map over all entries does not say.
})) as { readonly [Name in keyof Definitions]: ListDefinition<ItemOf<Name>, FiltersOf<Name>> }

/** Any list, where its record does not matter. */
export type AnyList = (typeof byName)[ListName]

/** All lists, in the document's order. */
export const all: ReadonlyArray<AnyList> = Object.values(byName)

/** Payout requests (§4.1), for code that reads this list alone. */
export const payoutRequests = byName.payoutRequests
/** Payin sources (§4.2), for code that reads this list alone. */
export const payinSources = byName.payinSources
/** Invoices (§4.3), for code that reads this list alone. */
export const invoices = byName.invoices

/** One value for each list, by its name. */
export const map = <A>(make: (list: AnyList) => A): { readonly [Name in ListName]: A } => Record.map(byName, make)

/** The fields of a list's record that hold amounts. */
export const amountFields = (list: AnyList): ReadonlyArray<string> =>
  Object.entries(list.record.fields).filter(([, field]) => Schema.is(field)(0)).map(([name]) => name)

/** The fields of a list's record that hold an instant or a day. */
export const dateFields = (
  { record }: { readonly record: Schema.Struct<Schema.Struct.Fields> }
): { readonly [field: string]: "dateTime" | "day" } =>
  Record.filterMap(record.fields, ({ ast }) => {
    const kinds = ast._tag === "Union" ? ast.types.map(({ annotations }) => annotations?.["temporal"]) : []
    return Result.fromNullishOr((["dateTime", "day"] as const).find((kind) => kinds.includes(kind)), () => undefined)
  })

/**
 * Whether a record's value of the filtered field shows that the filter was applied: it is the wanted text, or, for a day or
 * a date-time, begins with it or is the same instant in another spelling.
 */
export const matches = ({ type }: Filter, value: unknown, wanted: string): boolean =>
  typeof value === "string" && (type === "text"
    ? value === wanted
    : value.startsWith(wanted) ||
      (Option.isSome(timestamp(wanted)) && Equal.equals(timestamp(value), timestamp(wanted))))

/**
 * The names of the query parameters that the document does not show (§4.3), by the filter that they carry. They are the
 * field names by default, and each can be renamed.
 */
export type InvoiceParameters = { readonly [Field in keyof InvoiceFilters | "limit" | "cursor"]-?: string }

/** Field names as parameter names. */
export const defaultInvoiceParameters: InvoiceParameters = {
  ...Record.map(invoiceFilters, (_, field) => field),
  limit: "limit",
  cursor: "cursor"
}

/** The name of the query parameter that carries a filter of the list, `limit` or `cursor`. */
export const parameterName = (list: AnyList, field: string, assumed: { readonly [field: string]: string }): string =>
  list.parameterNames === "assumed" ? assumed[field] ?? field : field

/** The parameter names after the renaming that `FIELD=NAME,…` asks for, or what is wrong with that text. */
export const parseInvoiceParameters = (text: string): Result.Result<InvoiceParameters, string> => {
  const known = Object.keys(defaultInvoiceParameters)
  const renamed: { [field: string]: string } = { ...defaultInvoiceParameters }
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
