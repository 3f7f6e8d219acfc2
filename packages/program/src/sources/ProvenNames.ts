/** The names of the invoice parameters that are certain in a destination. */
import { certainIn, Destination, type SinkError } from "@payments/copy"
import { Lists, PaymentsApi, ProvenParameters } from "@payments/core"
import { Context, Effect, Layer } from "effect"

/**
 * Builds the client of a service. It sends the names that are certain for its source in the destination, unless settings name
 * others. `say` gets a sentence for each name that is not the assumed one.
 */
export const buildWithProvenNames = Effect.fnUntraced(function*<E, R, R2>(
  api: Layer.Layer<PaymentsApi, E, R>,
  { boundTo, to }: { readonly boundTo: string | undefined; readonly to: Destination.Destination | undefined },
  say: (sentence: string) => Effect.Effect<void, never, R2>
) {
  const proven = to === undefined || boundTo === undefined || !Destination.isStored(to)
    ? {}
    : yield* provenIn(to, boundTo)
  const built = yield* Effect.provideService(Layer.build(api), ProvenParameters, proven)
  const sent: { readonly [field: string]: string } = Context.get(built, PaymentsApi).invoices.parameters
  const assumed: { readonly [field: string]: string } = Lists.defaultInvoiceParameters
  yield* Effect.forEach(Object.entries(proven), ([field, name]) =>
    sent[field] === name && assumed[field] !== name
      ? say(`invoices: ${field} is sent as ${name}, because the fact ${prefix}${field} is certain.`)
      : Effect.void)
  return built
})

const prefix = "name-"

/** A destination that does not exist, or that is refused, has none. Opening it for the export says why. */
const provenIn = (
  destination: Destination.StoredDestination,
  source: string
): Effect.Effect<{ readonly [field: string]: string }, SinkError> =>
  Effect.scoped(
    Effect.flatMap(Destination.reader(destination), (reader) => certainIn(reader, Lists.invoices, source))
  ).pipe(
    Effect.map((certain) =>
      Object.fromEntries(
        Object.entries(certain).flatMap(([fact, name]) =>
          fact.startsWith(prefix) ? [[fact.slice(prefix.length), name]] : []
        )
      )
    ),
    Effect.catchIf(({ reason }) => reason._tag !== "Unavailable", () => Effect.succeed({}))
  )
