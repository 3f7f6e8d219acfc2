/**
 * The lists of the API's document (§4) as one `HttpApi`. All of them require a bearer key (§5). OpenAPI is derived from
 * this contract, and the sandbox serves it. The contract declares no error responses, because the document does not
 * specify their form (§7).
 */
import { Record, Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import {
  all,
  byName,
  type Filter,
  type FiltersOf,
  type ItemOf,
  type ListDefinition,
  type ListName,
  type PageLayout,
  PageLimit
} from "../model/Lists.ts"

/** The page envelope (§2.5). */
const page = <Item extends Schema.Top>(record: Item, { cursor, items }: PageLayout) => {
  const members = {
    [items]: Schema.Array(record),
    ...(cursor.in === "body" ? { [cursor.name]: Schema.NullOr(Schema.String) } : {}),
    count: Schema.optionalKey(Schema.Int)
  }
  // The cast states the layout that the document specifies. A name from a list's entry has no static type.
  const envelope = Schema.Struct(members) as unknown as Schema.Struct<{
    readonly items: Schema.$Array<Item>
    readonly cursor: Schema.NullOr<Schema.String>
    readonly count: Schema.optionalKey<Schema.Int>
  }>
  return Schema.StructWithRest(envelope, [Schema.Record(Schema.String, Schema.Unknown)])
}

/** `Authorization: Bearer <API_KEY>`, on all operations (§5). */
export class BearerKey extends HttpApiMiddleware.Service<BearerKey>()("@payments/core/BearerKey", {
  security: { bearer: HttpApiSecurity.bearer }
}) {}

const paging = {
  limit: Schema.optionalKey(PageLimit),
  cursor: Schema.optionalKey(Schema.String)
}

/** Returns the endpoint of one list. Its query has the list's filters by field name, a limit and a cursor. */
const endpointOf = <Name extends ListName>(name: Name) => {
  const list: ListDefinition<ItemOf<Name>, FiltersOf<Name>> = byName[name]
  const filters = Record.map<keyof FiltersOf<Name> & string, Filter, Schema.optionalKey<Schema.String>>(
    list.filters,
    () => Schema.optionalKey(Schema.String)
  )
  return HttpApiEndpoint.get(name, list.path, { query: { ...filters, ...paging }, success: page(list.wire, list.page) })
    .middleware(BearerKey)
}

type Endpoint = { readonly [Name in ListName]: ReturnType<typeof endpointOf<Name>> }[ListName]

// The cast is sound: there is at least one list, and each endpoint returns the records of its own list.
const endpoints = all.map(({ name }) => endpointOf(name)) as unknown as readonly [Endpoint, ...Array<Endpoint>]

// The declaration of this type has the name `Endpoint`. The compiler would write the endpoints in another order in each build.
const lists: HttpApiGroup.HttpApiGroup<"lists", Endpoint> = HttpApiGroup.make("lists").add(...endpoints)

/** The whole contract. */
export class PaymentsContract extends HttpApi.make("payments")
  .add(lists)
  .annotateMerge(OpenApi.annotations({ title: "Payments Service Read API", version: "1" }))
{}
