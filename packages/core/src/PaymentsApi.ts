/**
 * Reads the lists (§4). Pages are the primitive: a listing is a stream of them, can start at a saved position, ends
 * only at a null cursor, never goes round, and fails with an error that says from where to go on.
 *
 * `layer` asks a service over any `HttpClient`, `layerConfig` takes the service from the environment, and
 * `layerTest` of `@payments/core/testing` answers from memory with the same semantics.
 */
import { Context, Effect, type FileSystem, Layer } from "effect"
import { HttpClient } from "effect/http"
import { makeClient } from "./internal/Client.ts"
import { makeHttpPages } from "./internal/HttpPages.ts"
import { makeListOperation } from "./internal/ListReader.ts"
import type { EachList, ListOperations } from "./ListOperation.ts"
import * as Lists from "./Lists.ts"
import { PaymentsConfig, type PaymentsConfigError } from "./PaymentsConfig.ts"

/** The payments service, as its lists. */
export class PaymentsApi extends Context.Service<PaymentsApi, ListOperations>()("@payments/core/PaymentsApi") {
  /** Asks the service that `PaymentsConfig` names, over any `HttpClient`. */
  static readonly layer: Layer.Layer<PaymentsApi, never, HttpClient.HttpClient | PaymentsConfig> = Layer.effect(
    PaymentsApi,
    Effect.gen(function*() {
      const config = yield* PaymentsConfig
      const client = makeClient(config, makeHttpPages(config, yield* HttpClient.HttpClient))
      const operations = Lists.map((list) => makeListOperation<unknown, object>(list, client, config))
      // Each operation reads the records of its own list, which the type of the map over all lists does not say.
      return { ...operations as EachList, source: config.source, isSecret: client.secrets.areIn }
    })
  )

  /** {@link PaymentsApi.layer} with the settings of the environment (`PAYMENTS_BASE_URL`, `PAYMENTS_API_KEY`, …). */
  static readonly layerConfig: Layer.Layer<
    PaymentsApi,
    PaymentsConfigError,
    HttpClient.HttpClient | FileSystem.FileSystem
  > = PaymentsApi.layer.pipe(Layer.provide(PaymentsConfig.layerConfig))
}
