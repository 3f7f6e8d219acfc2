/**
 * The lists for code without Effect: a page is a `Promise`, a listing an `AsyncIterable`. The promises of
 * `ListOperation` apply, and three more: leaving a loop (`break`, `return`, a throw) or aborting a signal cancels the
 * running request at once, errors are thrown as the `PaymentsError` itself, and `close` releases all connections.
 *
 * The names, queries and types derive from `ListOperations`, so new lists and options need no change here.
 */
import { Cause, Effect, Exit, Layer, ManagedRuntime, Redacted } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { makeRunner, type PromiseApiOf, toPromises } from "./internal/PromiseAdapter.ts"
import type { ListOperations } from "./ListOperation.ts"
import type { InvoiceParameters } from "./Lists.ts"
import { PaymentsApi } from "./PaymentsApi.ts"
import { PaymentsConfig, PaymentsConfigError, type Settings } from "./PaymentsConfig.ts"

/** A client of one service. Close it when it is no longer needed; `await using` closes it automatically. */
export interface Payments extends PromiseApiOf<ListOperations>, AsyncDisposable {
  /** Cancels and rejects everything that still runs, and closes the connections. It may be called more than once. */
  readonly close: () => Promise<void>
}

/** The configuration of the service: the settings of the environment under other names. */
export interface ConnectOptions {
  /** The address of payout requests and payin sources, without `/v0`: `https://`, or `http://` to this machine. */
  readonly baseUrl: string
  /** The address of invoices, without `/v1`. Default: `baseUrl`. */
  readonly invoicesBaseUrl?: string | undefined
  /** The key of §5. */
  readonly apiKey: string
  /** The key for invoices. Default: `apiKey`. */
  readonly invoicesApiKey?: string | undefined
  /** The name of the account that the data belongs to. */
  readonly account?: string | undefined
  /** The query parameters of the invoice list whose names differ from their fields (§4.3). */
  readonly invoiceParameters?: Partial<InvoiceParameters> | undefined
  /** The most requests per second, for all lists together. Default: no limit. */
  readonly maxRequestsPerSecond?: number | undefined
  /** Filters that are not checked against the records, such as `invoices.paymentDate`. */
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
 * Returns a client of the service that the options name. It sends no request: the first page is the first to use the
 * key.
 *
 * @throws `PaymentsConfigError` with everything that is missing or wrong, by the option's name.
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

/** Checks the options as settings. Reports problems by the names of the options. */
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
