/** Sources for a worker that runs in the process of the test. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Destination, keepAll, Sink } from "@payments/copy"
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Metrics } from "@payments/program"
import type { LoadedSource, LoadedSources } from "@payments/program/sources"
import { Duration, Effect, Layer, Logger, Redacted, type Scope } from "effect"
import type { Placement } from "../../src/loop/Placement.ts"
import { type Reload, runForever, type WorkerOptions } from "../../src/loop/Worker.ts"
import { Status } from "../../src/state/Status.ts"
import { type ListSnapshot, type Snapshot, type SourceSnapshot } from "../../src/state/StatusSnapshot.ts"

/** Returns a source that writes into an SQLite file and is scanned every second. */
export const makeSource = (
  name: string,
  url: string,
  file: string,
  more: Partial<LoadedSource> = {}
): LoadedSource => ({
  name,
  service: PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("sandbox_test") }),
  to: { _tag: "Sqlite", file },
  lists: Lists.all.map((list) => list.name),
  full: { _tag: "Every", every: Duration.seconds(1) },
  window: undefined,
  head: undefined,
  order: "unknown",
  maxAge: undefined,
  rateLimitStore: undefined,
  personal: Effect.succeed(keepAll),
  boundTo: Effect.succeed(PaymentsConfig.sourceOf({ PAYMENTS_BASE_URL: url })),
  runner: undefined,
  scan: {},
  keepChanges: undefined,
  keepScans: undefined,
  keepMissing: undefined,
  settings: [],
  revision: "",
  ...more
})

/** Runs sources as those of a file, with the Node client and real destinations, until the scope closes. */
export const startSources = Effect.fnUntraced(function*(
  sources: ReadonlyArray<LoadedSource>,
  options: Pick<Partial<WorkerOptions<never>>, "stallAfter"> & { readonly concurrency?: number } = {},
  reload?: Reload,
  joining?: Effect.Effect<Placement, never, Status | Metrics | Scope.Scope>
) {
  const set: LoadedSources = {
    file: "/payments.toml",
    concurrency: options.concurrency ?? 32,
    cluster: undefined,
    sources
  }
  const fiber = yield* runForever(
    set,
    {
      api: ({ service }) =>
        PaymentsApi.layer.pipe(
          Layer.provide(Layer.effect(PaymentsConfig, service)),
          Layer.provide(Layer.fresh(layerHttpClient))
        ),
      open: ({ to }) =>
        to === undefined ? Layer.effect(Sink, Effect.die("every source has a destination")) : Destination.layer(to),
      ...options,
      reload,
      joining
    }
  ).pipe(Effect.forkScoped)
  const status = yield* Status
  const until = (matches: (snapshot: Snapshot) => boolean) =>
    Effect.repeat(Effect.andThen(Effect.sleep("20 millis"), status.current), {
      until: (snapshot) => fiber.pollUnsafe() !== undefined || matches(snapshot)
    }).pipe(
      Effect.timeoutOrElse({
        duration: "2 minutes",
        orElse: () =>
          Effect.flatMap(status.current, (snapshot) => Effect.die(new Error(`timed out: ${JSON.stringify(snapshot)}`)))
      })
    )
  return { status, until, fiber }
})

/** The state of a worker, without its log. */
export const testStatus = Layer.mergeAll(
  Status.layer("0.0.0"),
  Metrics.layer("0.0.0"),
  Logger.layer([]),
  NodeServices.layer
)

/** Returns the state of a source. */
export const sourceIn = ({ sources }: Snapshot, name: string): SourceSnapshot | undefined =>
  sources.find((source) => source.name === name)

/** Returns whether every list of a source matches. */
export const everyList = (source: SourceSnapshot | undefined, matches: (list: ListSnapshot) => boolean): boolean =>
  source !== undefined && source.lists.every(matches)
