import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import { Destination, openScanner, type ScanEvent } from "@payments/copy"
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { Effect, Fiber, FileSystem, Layer } from "effect"

it.live("a live service that returns the newest records first is believed, until it breaks its order", () =>
  Effect.gen(function*() {
    const folder = yield* FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped())
    const server = yield* Layer.build(Sandbox.layer({
      records: 300,
      order: "newest",
      live: { speed: 0, appearPerHour: 30, changePerHour: 60, vanishPerHour: 20 }
    }))
    const sandbox = yield* Effect.provide(Sandbox, server)
    const api = PaymentsApi.layer.pipe(
      Layer.provide(layerHttpClient),
      Layer.provide(Layer.effect(PaymentsConfig, Sandbox.config(sandbox.url)))
    )
    const destination = Destination.layer(yield* Destination.parse(`sqlite:${folder}/payments.db`))
    const context = yield* Layer.build(Layer.merge(api, destination))
    // Records appear, change and vanish while a full scan or a pass reads.
    const onEvent = ({ _tag }: ScanEvent) =>
      _tag === "Committed" ? Effect.orDie(sandbox.advance(5 * 60_000)) : Effect.void
    const scanner = yield* Effect.provide(
      openScanner("invoices", { limit: 20, largestBatch: 20, onEvent }),
      context
    )
    yield* scanner.full
    for (let round = 0; round < 4; round++) {
      yield* scanner.head(1)
      const full = yield* Effect.forkChild(scanner.full)
      yield* scanner.head(1)
      assert.deepInclude(yield* Fiber.join(full), { behindHead: 0 })
    }
    yield* scanner.head(1)
    yield* sandbox.misplace(1)
    yield* sandbox.advance(3_600_000)
    assert.isAbove((yield* scanner.full).behindHead, 10)
  }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
