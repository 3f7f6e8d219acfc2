/**
 * The lists (§4). Each entry of `definitions` defines one list: its address, its record, its filters and its table on a
 * terminal. Names, types, services, layers, the contract, tables, commands and checks are derived from the entry.
 *
 * To add a list: add its record to `Records.ts`, its filters and its entry here, and how the sandbox generates it.
 */
import { Equal, Option, Record, Result, Schema, type SchemaAST, String } from "effect"
import {
  type DescribedField,
  type Identifier,
  type Identifies,
  Invoice,
  InvoiceWire,
  PayinSource,
  PayinSourceWire,
  PayoutRequest,
  PayoutRequestWire,
  timestamp
} from "./Records.ts"

/**
 * The page sizes that the API accepts (§8). The default is the largest, so that a listing needs the fewest requests.
 */
export const pageLimit = { minimum: 1, maximum: 100, default: 100 } as const

/** The schema of a page size: an integer from 1 to 100 (§8). */
export const PageLimit = Schema.Int.check(
  Schema.isBetween(pageLimit, { message: `a whole number from ${pageLimit.minimum} to ${pageLimit.maximum}` })
)

/** A filter of a list. Its name is the name of the field that it compares. */
export interface Filter {
  /** The type of its values. A day or date-time also matches field values that start with it. */
  readonly type: "text" | "day" | "dateTime"
  /** The records that it selects, for the help of the command line. */
  readonly description: string
  /** Its flag on the command line. Default: the field name in kebab case. */
  readonly flag?: string | undefined
}

/** The values of a list's filters, by field name. An absent field does not filter. Values are sent unchanged. */
export type FilterValues<Filters> = { readonly [Field in keyof Filters]?: string | undefined }

/** Where an answer has the records of a page and the cursor of the next page. */
export interface PageLayout {
  /** The member of the body with the records. */
  readonly items: string
  /** The member of the body, or the response header in lower case, with the cursor. */
  readonly cursor: { readonly in: "body" | "header"; readonly name: string }
  /** What the last page has instead of a cursor. Undefined: the member or header is absent. */
  readonly end: string | null | undefined
}

/** The layout that the document specifies for all lists (§2.5). */
export const documentedPage: PageLayout = { items: "items", cursor: { in: "body", name: "cursor" }, end: null }

/** Returns the cursor of an answer: null at the end of the list, undefined if it is missing, else the value found. */
export const cursorOf = (
  { cursor, end }: PageLayout,
  body: { readonly [name: string]: unknown },
  headers: { readonly [name: string]: string | undefined }
): unknown => {
  const found = cursor.in === "body" ? body[cursor.name] : headers[cursor.name]
  return found === end ? null : found
}

/** The definition of a list, without its name. */
export interface ListEntry<Item, Filters> {
  /** The section of the API's document that describes the list. */
  readonly section: string
  /** The path after the base address, with the version (§9). */
  readonly path: `/${string}`
  /** The base address and the key of the list (§1, §5). */
  readonly baseAddress: "payments" | "invoices"
  /**
   * Whether the document specifies the names of the query parameters. Assumed names can be changed by a setting (§4.3).
   */
  readonly parameterNames: "documented" | "assumed"
  /** Where its answers have records and cursor. */
  readonly page: PageLayout
  /** The precision of its timestamps (§2). */
  readonly timestampPrecision: "seconds" | "milliseconds"
  /** The default and the minimum of the page size, if the document specifies them (§8). */
  readonly limits: { readonly default?: number; readonly minimum?: number }
  /** The closed schema of a record. It checks records. */
  readonly record: Schema.Struct<{ readonly [field: PropertyKey]: DescribedField }> & Schema.Codec<Item>
  /** The open schema of a record, for the contract. It allows undocumented fields. */
  readonly wire: Schema.Codec<Item & { readonly [field: string]: unknown }>
  /** Its filters, by field name. */
  readonly filters: { readonly [Field in keyof Filters]-?: Filter }
  /** The fields that a table on a terminal shows after the id. None has a name, an address or a document number. */
  readonly tableFields: ReadonlyArray<string>
  /** The field with an address that contains the merchant id (§2.4, §5), if there is one. */
  readonly merchantIdIn?: string | undefined
  /** The filter by days that selects the records of a window pass. Undefined: the list has no window passes. */
  readonly windowFilter?: string | undefined
}

/** Returns the entry. Its type requires that the named fields are fields of the record. */
const define = <Item, Filters>(
  entry: ListEntry<Item, Filters> & {
    readonly tableFields: ReadonlyArray<keyof Item>
    readonly merchantIdIn?: keyof Item
    readonly windowFilter?: keyof Filters
  }
): ListEntry<Item, Filters> => entry

const payinSourceFilters = {
  /** The reference given on creation. */
  reference: { type: "text", description: "only records with this reference" },
  /** Identifier of the customer. */
  customerId: { type: "text", description: "only records of this customer" }
} as const

/** Filters of payin sources (§4.2). An absent field does not filter. */
export interface PayinSourceFilters extends FilterValues<typeof payinSourceFilters> {}

const payoutRequestFilters = {
  ...payinSourceFilters,
  /** Identifier of the payout target. */
  payoutTargetId: { type: "text", description: "only payouts to this target" }
} as const

/** Filters of payout requests (§4.1). An absent field does not filter. */
export interface PayoutRequestFilters extends FilterValues<typeof payoutRequestFilters> {}

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
  /** The exact payment date, a date-time or a prefix of one. The document does not specify which. */
  paymentDate: {
    type: "dateTime",
    description: "only invoices paid at this date-time, or at one that starts with it; sent unchanged"
  },
  /** `YYYY-MM-DD`. */
  settlementDate: { type: "day", description: "only invoices settled on this day, YYYY-MM-DD" },
  /** The settlement cycle, a digit string. */
  settlementTime: { type: "text", description: "only invoices with this settlement time" }
} as const

/** Filters of invoices (§4.3). An absent field does not filter. Values are sent unchanged. */
export interface InvoiceFilters extends FilterValues<typeof invoiceFilters> {}

const definitions = {
  /** Money going out (§4.1). */
  payoutRequests: define<PayoutRequest, PayoutRequestFilters>({
    section: "§4.1",
    path: "/v0/payoutRequests",
    baseAddress: "payments",
    parameterNames: "documented",
    page: documentedPage,
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
    page: documentedPage,
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
    page: documentedPage,
    timestampPrecision: "milliseconds",
    limits: { minimum: 1 },
    record: Invoice,
    wire: InvoiceWire,
    filters: invoiceFilters,
    tableFields: ["amount", "status", "reference", "contract", "settlementDate", "settlementTime", "paymentDate"],
    merchantIdIn: "paymentUrl",
    windowFilter: "settlementDate"
  })
}

type Definitions = typeof definitions

/** The schema of list names in code. */
export const ListName = Schema.Literals(Record.keys(definitions))
/** {@inheritDoc ListName} */
export type ListName = keyof Definitions

/** The type of the records of a list. */
export type ItemOf<Name extends ListName> = Definitions[Name] extends ListEntry<infer Item, infer _> ? Item : never

/** The type of the filter values of a list. */
export type FiltersOf<Name extends ListName> = Definitions[Name] extends ListEntry<infer _, infer Filters> ? Filters
  : never

/** A list with its names. */
export interface ListDefinition<Item, Filters> extends ListEntry<Item, Filters> {
  /** The name in code. */
  readonly name: ListName
  /** The name in kebab case, for the command line, files and messages. */
  readonly label: string
  /** The name in a sentence, such as `payout requests`. */
  readonly title: string
}

const words = (name: string): ReadonlyArray<string> => String.camelToSnake(name).split("_")

/** All lists, by name. */
export const byName = Record.map(definitions, (entry, name) => ({
  ...entry,
  name,
  label: words(name).join("-"),
  title: words(name).join(" ")
  // The cast is sound: `Record.map` keeps the names, but its type does not relate each name to its own entry.
})) as { readonly [Name in keyof Definitions]: ListDefinition<ItemOf<Name>, FiltersOf<Name>> }

/** Any list. */
export type AnyList = (typeof byName)[ListName]

/** All lists, in the document's order. */
export const all: ReadonlyArray<AnyList> = Object.values(byName)

/** Payout requests (§4.1). */
export const payoutRequests = byName.payoutRequests
/** Payin sources (§4.2). */
export const payinSources = byName.payinSources
/** Invoices (§4.3). */
export const invoices = byName.invoices

/** Returns the result of `make` for each list, by name. */
export const map = <A>(make: (list: AnyList) => A): { readonly [Name in ListName]: A } => Record.map(byName, make)

/** Returns the fields of a list's record that are amounts. */
export const amountFields = (list: AnyList): ReadonlyArray<string> =>
  Object.entries(list.record.fields).filter(([, field]) => Schema.is(field)(0)).map(([name]) => name)

/** Returns the fields of a list's record that are an instant or a day. */
export const dateFields = (
  { record }: { readonly record: Schema.Struct<Schema.Struct.Fields> }
): { readonly [field: string]: "dateTime" | "day" } =>
  Record.filterMap(record.fields, ({ ast }) => {
    const kinds = ast._tag === "Union" ? ast.types.map(({ annotations }) => annotations?.["temporal"]) : []
    return Result.fromNullishOr((["dateTime", "day"] as const).find((kind) => kinds.includes(kind)), () => undefined)
  })

/** A documented field, and whom or what its value identifies. */
export interface FieldMeaning {
  /** The field, and for an embedded object the field inside it. */
  readonly path: readonly [string] | readonly [string, string]
  /** The type of its value. */
  readonly kind: "text" | "integer" | "boolean"
  /** Whom or what its value identifies. */
  readonly identifies: Identifies
  /** The kind of value, if the records of a person are found by it. */
  readonly identifier: Identifier | undefined
  /** Whether the document names some of its values: it is a kind or a state. */
  readonly isKind: boolean
  /** What the field means, for people, without a full stop. */
  readonly meaning: string
}

/**
 * Returns the documented fields of a list's record, in the document's order. An embedded object is returned as its fields:
 * each of them says for itself what it identifies.
 */
export const fieldMeanings = (list: AnyList): ReadonlyArray<FieldMeaning> =>
  propertiesOf(list.record.ast).flatMap(([field, ast]): ReadonlyArray<FieldMeaning> =>
    ast._tag === "Objects"
      ? propertiesOf(ast).map(([inner, innerAst]) => meaningOf([field, inner], innerAst))
      : [meaningOf([field], ast)]
  )

/**
 * Returns the paths of a list's documented fields in the document's order, such as `customerDetails.name`. The path of an
 * embedded object precedes those of its fields.
 */
export const fieldPaths = (list: AnyList): ReadonlyArray<string> => [
  ...new Set(fieldMeanings(list).flatMap(({ path }) => [path[0], path.join(".")]))
]

/** Returns the paths of a list's fields that identify a person, such as `customerId` and `customerDetails.name`. */
export const personalFields = (list: AnyList): ReadonlyArray<string> =>
  fieldMeanings(list).filter(({ identifies }) => identifies === "person").map(({ path }) => path.join("."))

const propertiesOf = (ast: SchemaAST.AST): ReadonlyArray<readonly [string, SchemaAST.AST]> =>
  ast._tag === "Objects"
    ? ast.propertySignatures.map(({ name, type }) => [
      globalThis.String(name),
      type._tag === "Union" ? type.types.find(({ _tag }) => _tag !== "Null") ?? type : type
    ])
    : []

const meaningOf = (path: FieldMeaning["path"], ast: SchemaAST.AST): FieldMeaning => ({
  path,
  kind: ast._tag === "Number" ? "integer" : ast._tag === "Boolean" ? "boolean" : "text",
  // A field without this annotation, which does not compile, counts as personal.
  identifies: (["payment", "nobody"] as const).find((kind) => kind === annotationOf(ast, "identifies")) ?? "person",
  identifier: (["customer-id", "document-number"] as const).find((kind) => kind === annotationOf(ast, "identifier")),
  isKind: ast._tag === "Union",
  meaning: globalThis.String(annotationOf(ast, "meaning") ?? "")
})

/** Returns an annotation of a type. If the type has checks, Effect has added it to the last check. */
const annotationOf = ({ annotations, checks }: SchemaAST.AST, name: string): unknown =>
  annotations?.[name] ?? checks?.at(-1)?.annotations?.[name]

/**
 * Whether the value of a record's field matches the filter. Text matches if it is equal. A day or date-time also
 * matches if it starts with the wanted text, or is the same instant in another spelling.
 */
export const matches = ({ type }: Filter, value: unknown, wanted: string): boolean =>
  typeof value === "string" && (type === "text"
    ? value === wanted
    : value.startsWith(wanted) ||
      (Option.isSome(timestamp(wanted)) && Equal.equals(timestamp(value), timestamp(wanted))))

/**
 * The names of the invoice list's query parameters, by filter, `limit` and `cursor`. The document does not specify them
 * (§4.3). The default is the field name, and each can be renamed.
 */
export type InvoiceParameters = { readonly [Field in keyof InvoiceFilters | "limit" | "cursor"]-?: string }

/** The default parameter names: the field names. */
export const defaultInvoiceParameters: InvoiceParameters = {
  ...Record.map(invoiceFilters, (_, field) => field),
  limit: "limit",
  cursor: "cursor"
}

/** Returns the name of the query parameter for a filter of the list, `limit` or `cursor`. */
export const parameterName = (list: AnyList, field: string, assumed: { readonly [field: string]: string }): string =>
  list.parameterNames === "assumed" ? assumed[field] ?? field : field

/** Parses `FIELD=NAME,…`. Returns all parameter names with these renamed, or what is wrong with the text. */
export const parseInvoiceParameters = (text: string): Result.Result<InvoiceParameters, string> => {
  const known = Object.keys(defaultInvoiceParameters)
  const renamed: { [field: string]: string } = { ...defaultInvoiceParameters }
  for (const pair of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const [, field = "", name = ""] = /^([^=]*)=([^=]*)$/.exec(pair)?.map((part) => part.trim()) ?? []
    if (!known.includes(field)) return Result.fail(`must be FIELD=NAME,… where FIELD is one of ${known.join(", ")}`)
    if (name === "") return Result.fail(`has no name for ${field}`)
    renamed[field] = name
  }
  return new Set(Object.values(renamed)).size === known.length
    ? Result.succeed({ ...defaultInvoiceParameters, ...renamed })
    : Result.fail("has the same name for two fields")
}
