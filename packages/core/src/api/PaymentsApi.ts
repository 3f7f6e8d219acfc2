/**
 * Reads the lists (§4). A listing is a stream of pages. It can start at a saved position, and ends only at a null
 * cursor. It fails if the service repeats cursors or pages, so that it cannot run forever. The error of a failed
 * request contains the position to continue from, if there is one.
 *
 * `layer` reads a service over any `HttpClient`. `layerConfig` reads the address and the key of the service from
 * environment variables. `layerTest` of `@payments/core/testing` reads records in memory with the same semantics.
 */
import { Context, Effect, type FileSystem, Layer } from "effect"
import { HttpClient } from "effect/http"
import { PaymentsConfig, type PaymentsConfigError } from "../config/PaymentsConfig.ts"
import { makeHttpPages } from "../http/HttpPages.ts"
import { makeClient } from "../listing/Client.ts"
import { makeListOperation } from "../listing/ListReader.ts"
import { makePaces } from "../listing/Paces.ts"
import type { EachList, ListOperations } from "../model/ListOperation.ts"
import * as Lists from "../model/Lists.ts"

/** The lists of the payments service. */
export class PaymentsApi extends Context.Service<PaymentsApi, ListOperations>()("@payments/core/PaymentsApi") {
  /**
   * Reads the service at the addresses in `PaymentsConfig`, over any `HttpClient`. With a `RateLimiterStore` of
   * `effect/persistence` in its context, all clients that use the same key and store share one request rate.
   */
  static readonly layer: Layer.Layer<PaymentsApi, never, HttpClient.HttpClient | PaymentsConfig> = Layer.effect(
    PaymentsApi,
    Effect.gen(function*() {
      const config = yield* PaymentsConfig
      const send = makeHttpPages(config, yield* HttpClient.HttpClient)
      const client = makeClient(config, send, yield* makePaces(config))
      const operations = Lists.map((list) => makeListOperation<unknown, object>(list, client, config))
      // The cast is sound: `Lists.map` keeps the names, but its type does not relate each list to its own records.
      const { maxRequestsPerSecond, source } = config
      return { ...operations as EachList, source, maxRequestsPerSecond, isSecret: client.secrets.areIn }
    })
  )

  /**
   * {@link PaymentsApi.layer} with the settings in environment variables (`PAYMENTS_BASE_URL`, `PAYMENTS_API_KEY`, …).
   */
  static readonly layerConfig: Layer.Layer<
    PaymentsApi,
    PaymentsConfigError,
    HttpClient.HttpClient | FileSystem.FileSystem
  > = PaymentsApi.layer.pipe(Layer.provide(PaymentsConfig.layerConfig))
}
