/**
 * The contract of §4 as one `HttpApi`: three lists behind a bearer key (§5). OpenAPI is derived from it, and the sandbox
 * serves it. Error answers are not in it, since the document does not show them (§7).
 */
import { Record, Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import { invoices, PageLimit, payinSources, payoutRequests } from "./Lists.ts"
import { InvoiceWire, PayinSourceWire, PayoutRequestWire } from "./Records.ts"

/** The page envelope (§2.5). */
const page = <Item extends Schema.Top>(record: Item) =>
  Schema.StructWithRest(
    Schema.Struct({
      items: Schema.Array(record),
      cursor: Schema.NullOr(Schema.String),
      count: Schema.optionalKey(Schema.Int)
    }),
    [Schema.Record(Schema.String, Schema.Unknown)]
  )

/** `Authorization: Bearer <API_KEY>`, on all three operations (§5). */
export class BearerKey extends HttpApiMiddleware.Service<BearerKey>()("@payments/core/BearerKey", {
  security: { bearer: HttpApiSecurity.bearer }
}) {}

const paging = {
  limit: Schema.optionalKey(PageLimit),
  cursor: Schema.optionalKey(Schema.String)
}

/** A list's filters as query parameters, by their field names. */
const filtersOf = <Field extends string>(list: { readonly filters: { readonly [Name in Field]: unknown } }) =>
  Record.map(list.filters, () => Schema.optionalKey(Schema.String))

/** The group of the lists that live below `{base_url}` (§1). */
export const payments = HttpApiGroup.make("payments").add(
  HttpApiEndpoint.get("payoutRequests", "/v0/payoutRequests", {
    query: { ...filtersOf(payoutRequests), ...paging },
    success: page(PayoutRequestWire)
  }),
  HttpApiEndpoint.get("payinSources", "/v0/payinSources", {
    query: { ...filtersOf(payinSources), ...paging },
    success: page(PayinSourceWire)
  })
)

/** The group of the list that lives below `{invoices_base_url}` (§1). */
export const invoiceList = HttpApiGroup.make("invoices").add(
  HttpApiEndpoint.get("invoices", "/v1/invoices", {
    query: { ...filtersOf(invoices), ...paging },
    success: page(InvoiceWire)
  })
)

/** The whole contract. */
export class PaymentsContract extends HttpApi.make("payments")
  .add(payments)
  .add(invoiceList)
  .middleware(BearerKey)
  .annotateMerge(OpenApi.annotations({ title: "Payments Service Read API", version: "1" }))
{}
