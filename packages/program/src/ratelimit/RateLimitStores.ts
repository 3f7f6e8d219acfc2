/** The rate limit stores of a process with many sources. Sources with the same store share its connections. */
import { PostgresUrl } from "@payments/copy"
import { Context, Duration, Effect, Layer, RcMap } from "effect"
import type { RateLimiterStore } from "effect/persistence/RateLimiter"

/** The stores of a process. */
export class RateLimitStores extends Context.Service<RateLimitStores, {
  /** Provides the store of a source, if it has one. It connects with the first request. */
  readonly layerOf: (source: { readonly rateLimitStore: PostgresUrl.PostgresUrl | undefined }) => Layer.Layer<never>
}>()("@payments/program/RateLimitStores") {
  static readonly layer: Layer.Layer<RateLimitStores> = Layer.effect(
    RateLimitStores,
    Effect.gen(function*() {
      const urls = new Map<string, PostgresUrl.PostgresUrl>()
      const stores = yield* RcMap.make({
        lookup: (name: string) =>
          Effect.gen(function*() {
            const url = urls.get(name)
            if (url === undefined) return yield* Effect.die(new Error("the store has no URL"))
            // Most workers have no store, so they do not load its code.
            const { layer } = yield* Effect.promise(() => import("./PostgresRateLimiterStore.ts"))
            return yield* Layer.build(Layer.fresh(layer(url)))
          }),
        // A source whose settings have changed starts again at once.
        idleTimeToLive: Duration.seconds(10)
      })
      const layerOf = (url: PostgresUrl.PostgresUrl): Layer.Layer<RateLimiterStore> => {
        const name = PostgresUrl.shown(url)
        urls.set(name, url)
        return Layer.effectContext(RcMap.get(stores, name))
      }
      return { layerOf: ({ rateLimitStore: url }) => url === undefined ? Layer.empty : layerOf(url) }
    })
  )
}
