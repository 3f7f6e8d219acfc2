/** Destinations with changes, and a consumer of them. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { layerTest } from "@payments/core/testing"
import { Effect, Layer } from "effect"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import type { Sink, SinkError } from "../../src/port/Sink.ts"
import { scan } from "../../src/scan/Scan.ts"
import type { Maintenance } from "../../src/store/Store.ts"

/** Exports invoices with these amounts. The first export records no changes. */
export const exporting = (
  layer: Layer.Layer<Sink, SinkError, NodeServices.NodeServices>,
  amounts: ReadonlyArray<number | string>
) =>
  scan("invoices", { limit: 100, missingLimit: 1 }).pipe(
    Effect.provide(
      Layer.merge(
        layer,
        layerTest({ invoices: amounts.map((amount, index) => `{"id":"inv_${index}","amount":${amount}}`) })
      )
    ),
    Effect.provide(NodeServices.layer)
  )

export const consumer = "ledger"

/** Adds the consumer at the beginning of the changes. */
export const subscribed = (maintenance: Maintenance) =>
  moveConsumer(maintenance, { name: consumer, position: 0, when: "create" })
