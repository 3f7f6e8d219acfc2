/**
 * The lists for code without Effect: a page is a `Promise`, a listing an `AsyncIterable`. The guarantees of
 * `ListOperation` apply, and three more. Leaving a loop (`break`, `return`, a throw) or aborting a signal cancels the
 * running request at once. Errors are thrown as the `PaymentsError` itself. `close` releases all connections.
 *
 * The methods, their queries and their results derive from `ListOperations`, so a new list or option needs no change
 * here.
 */
import { Cause, Effect, Exit, Layer, ManagedRuntime, Redacted } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { PaymentsConfig, PaymentsConfigError, type Settings } from "../config/PaymentsConfig.ts"
import type { ListOperations } from "../model/ListOperation.ts"
import type { InvoiceParameters } from "../model/Lists.ts"
import { PaymentsApi } from "./PaymentsApi.ts"
import { makeRunner, type PromiseApiOf, toPromises } from "./PromiseAdapter.ts"

/** A client of one service. Close it when it is no longer needed; `await using` closes it automatically. */
export interface Payments extends PromiseApiOf<ListOperations>, AsyncDisposable {
  /** Cancels and rejects the calls that still run, and closes the connections. It may be called more than once. */
  readonly close: () => Promise<void>
}

/** The options of a client. Most are also environment variables: `baseUrl` is `PAYMENTS_BASE_URL`. */
export interface ConnectOptions {
  /** The address of payout requests and payin sources, without `/v0`: `https://`, or `http://` to this machine. */
  readonly baseUrl: string
  /** The address of invoices, without `/v1`. Default: `baseUrl`. */
  readonly invoicesBaseUrl?: string | undefined
  /** The API key (§5). */
  readonly apiKey: string
  /** The key for invoices. Default: `apiKey`. */
  readonly invoicesApiKey?: string | undefined
  /** The name of the account that the data belongs to. */
  readonly account?: string | undefined
  /** The names of the invoice list's query parameters, by field. Default: the name of the field (§4.3). */
  readonly invoiceParameters?: Partial<InvoiceParameters> | undefined
  /** The most requests per second, for all lists together. Default: no limit. */
  readonly maxRequestsPerSecond?: number | undefined
  /**
   * Filters whose effect the client does not check, such as `invoices.paymentDate`. For all others, it checks that each
   * record matches the filter value.
   */
  readonly uncheckedFilters?: ReadonlyArray<string> | undefined
  /** Whether `traceparent` is sent to the service; default false. */
  readonly traceHeaders?: boolean | undefined
  /** Other settings that replace defaults, such as `retry`, `deadlines` or `slowDown`. */
  readonly config?: Partial<PaymentsConfig["Service"]> | undefined
  /**
   * The HTTP client. Default: the platform's `fetch`. On Node, use `layerHttpClient` of `@payments/core/node`.
   */
  readonly httpClient?: Layer.Layer<HttpClient.HttpClient> | undefined
}

/**
 * Returns a client of the service at `baseUrl`. Sends no request, so a wrong key or address fails the first page.
 *
 * @throws `PaymentsConfigError` with all options that are missing or wrong.
 */
export const connect = (options: ConnectOptions): Promise<Payments> =>
  connectWith(PaymentsApi.layer.pipe(
    Layer.provide(options.httpClient ?? FetchHttpClient.layer),
    Layer.provide(Layer.effect(PaymentsConfig, configOf(options)))
  ))

/**
 * Returns a client over any implementation of `PaymentsApi`, such as `layerTest`. Rejects with the error of the layer.
 */
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

/** The environment variables, by option. */
const variables = {
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

/** Checks the options like environment variables, but reports problems by the names of the options. */
const configOf = (options: ConnectOptions): Effect.Effect<PaymentsConfig["Service"], PaymentsConfigError> => {
  const secret = (key: string | undefined) => key === undefined ? undefined : Redacted.make(key)
  return PaymentsConfig.fromSettings({
    [variables.baseUrl]: options.baseUrl,
    [variables.invoicesBaseUrl]: options.invoicesBaseUrl,
    [variables.apiKey]: secret(options.apiKey),
    [variables.invoicesApiKey]: secret(options.invoicesApiKey),
    [variables.account]: options.account,
    [variables.invoiceParameters]: Object.entries(options.invoiceParameters ?? {})
      .filter(([, name]) => name !== undefined).map(([field, name]) => `${field}=${name}`).join(","),
    [variables.maxRequestsPerSecond]: options.maxRequestsPerSecond?.toString(),
    [variables.uncheckedFilters]: options.uncheckedFilters?.join(","),
    [variables.traceHeaders]: options.traceHeaders?.toString()
  }).pipe(
    Effect.map((config) => ({ ...config, ...options.config })),
    Effect.mapError(({ problems }) =>
      new PaymentsConfigError({
        problems: problems.map(({ problem, setting }) => ({
          problem,
          setting: Object.entries(variables).find(([, name]) => name === setting)?.[0] ?? setting
        }))
      })
    )
  )
}
