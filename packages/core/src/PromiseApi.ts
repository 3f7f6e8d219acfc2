/**
 * The three lists for code that doesn't write Effect: a page is a `Promise`, a listing an `AsyncIterable`. It promises
 * what `ListOperation` promises, and three things more: leaving a loop (`break`, `return`, a throw) or aborting a
 * signal cancels the request in flight at once, what is thrown is the `PaymentsError` itself, and `close` leaves
 * nothing behind.
 *
 * The names, queries and types are taken from `ListOperations`, so that a new list or option is here as soon as it is
 * there.
 */
import { Cause, Effect, Exit, Layer, ManagedRuntime, Redacted } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { makeRunner, type PromiseApiOf, toPromises } from "./internal/PromiseAdapter.ts"
import type { ListOperations } from "./ListOperation.ts"
import type { InvoiceParameters } from "./Lists.ts"
import { PaymentsApi } from "./PaymentsApi.ts"
import { PaymentsConfig, PaymentsConfigError, type Settings } from "./PaymentsConfig.ts"

/** A client of one service. Close it when it is no longer needed; `await using` does so by itself. */
export interface Payments extends PromiseApiOf<ListOperations>, AsyncDisposable {
  /** Cancels what still runs, which is then rejected, and closes the connections. Closing twice is no mistake. */
  readonly close: () => Promise<void>
}

/** Where the service is and how to ask it. The same settings, by other names, as those of the environment. */
export interface ConnectOptions {
  /** The address of payout requests and payin sources, without `/v0`: `https://`, or `http://` to this machine. */
  readonly baseUrl: string
  /** The address of invoices, without `/v1`. Default: `baseUrl`. */
  readonly invoicesBaseUrl?: string | undefined
  /** The key of §5. */
  readonly apiKey: string
  /** The key for invoices. Default: `apiKey`. */
  readonly invoicesApiKey?: string | undefined
  /** A name for whose data this is. */
  readonly account?: string | undefined
  /** Query parameters of the invoice list that are not named as their fields are (§4.3). */
  readonly invoiceParameters?: Partial<InvoiceParameters> | undefined
  /** Requests per second, all lists together; no ceiling unless given. */
  readonly maxRequestsPerSecond?: number | undefined
  /** Filters whose records are not checked to carry the value asked for, such as `invoices.paymentDate`. */
  readonly uncheckedFilters?: ReadonlyArray<string> | undefined
  /** Whether `traceparent` is sent to the service; not unless asked for. */
  readonly traceHeaders?: boolean | undefined
  /** Anything else in the place of its default, such as `retry`, `deadlines` or `slowDown`. */
  readonly config?: Partial<PaymentsConfig["Service"]> | undefined
  /**
   * What sends the requests; the platform's `fetch` unless given. On Node, `layerHttpClient` of `@payments/core/node`.
   */
  readonly httpClient?: Layer.Layer<HttpClient.HttpClient> | undefined
}

/**
 * A client of the service that the options name. Nothing is asked yet: the key is first used by the first page.
 *
 * @throws `PaymentsConfigError` with everything that is missing or wrong, by the option's name.
 */
export const connect = (options: ConnectOptions): Promise<Payments> =>
  connectWith(PaymentsApi.layer.pipe(
    Layer.provide(options.httpClient ?? FetchHttpClient.layer),
    Layer.provide(Layer.effect(PaymentsConfig, configOf(options)))
  ))

/** A client over any implementation of `PaymentsApi`, such as `layerTest`. Rejects with the layer's own error. */
export const connectWith = async <E>(layer: Layer.Layer<PaymentsApi, E>): Promise<Payments> => {
  const runtime = ManagedRuntime.make(layer)
  const built = await runtime.runPromiseExit(PaymentsApi)
  if (Exit.isFailure(built)) {
    await runtime.dispose()
    throw Cause.squash(built.cause)
  }
  const runner = makeRunner(await runtime.context())
  const close = async () => {
    await runner.stop()
    await runtime.dispose()
  }
  return { ...toPromises(built.value, runner), close, [Symbol.asyncDispose]: close }
}

const names = {
  baseUrl: "PAYMENTS_BASE_URL",
  invoicesBaseUrl: "PAYMENTS_INVOICES_BASE_URL",
  apiKey: "PAYMENTS_API_KEY",
  invoicesApiKey: "PAYMENTS_INVOICES_API_KEY",
  account: "PAYMENTS_ACCOUNT",
  invoiceParameters: "PAYMENTS_INVOICE_PARAMS",
  maxRequestsPerSecond: "PAYMENTS_MAX_REQUESTS_PER_SECOND",
  uncheckedFilters: "PAYMENTS_UNCHECKED_FILTERS",
  traceHeaders: "PAYMENTS_TRACE_HEADERS"
} as const satisfies { readonly [Option in Exclude<keyof ConnectOptions, "httpClient" | "config">]: keyof Settings }

/** The options are checked as settings are, and reported by their own names. */
const configOf = (options: ConnectOptions): Effect.Effect<PaymentsConfig["Service"], PaymentsConfigError> => {
  const secret = (key: string | undefined) => key === undefined ? undefined : Redacted.make(key)
  return PaymentsConfig.fromSettings({
    [names.baseUrl]: options.baseUrl,
    [names.invoicesBaseUrl]: options.invoicesBaseUrl,
    [names.apiKey]: secret(options.apiKey),
    [names.invoicesApiKey]: secret(options.invoicesApiKey),
    [names.account]: options.account,
    [names.invoiceParameters]: Object.entries(options.invoiceParameters ?? {})
      .filter(([, name]) => name !== undefined).map(([field, name]) => `${field}=${name}`).join(","),
    [names.maxRequestsPerSecond]: options.maxRequestsPerSecond?.toString(),
    [names.uncheckedFilters]: options.uncheckedFilters?.join(","),
    [names.traceHeaders]: options.traceHeaders?.toString()
  }).pipe(
    Effect.map((config) => ({ ...config, ...options.config })),
    Effect.mapError(({ problems }) =>
      new PaymentsConfigError({
        problems: problems.map(({ problem, setting }) => ({
          problem,
          setting: Object.entries(names).find(([, name]) => name === setting)?.[0] ?? setting
        }))
      })
    )
  )
}
