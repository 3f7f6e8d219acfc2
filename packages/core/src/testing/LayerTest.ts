/** `PaymentsApi` over records that a test gives, with the real client on top: no socket, no server, and the fiber's clock. */
import { Effect, Layer } from "effect"
import { noKey } from "../internal/KeyFingerprint.ts"
import * as Lists from "../Lists.ts"
import { type MemoryListOptions, recordsOf, serve } from "../MemoryList.ts"
import { PaymentsApi } from "../PaymentsApi.ts"
import { PaymentsConfig } from "../PaymentsConfig.ts"
import type { Fault } from "./Fault.ts"
import { makeListService } from "./ListService.ts"
import { layerClient } from "./ServiceClient.ts"

/** A record, with any undocumented fields, or its JSON text where exact spelling matters. */
type Given<Record> = Record | { readonly [field: string]: unknown } | string

/** The records of each list, in the list's order. A list that is not given is empty. */
export type TestRecords = {
  readonly [Name in keyof typeof Lists.byName]?: ReadonlyArray<Given<Lists.ItemOf<Name>>> | undefined
}

/** What the lists hold and how they behave. */
export interface TestLists extends TestRecords, MemoryListOptions {
  /** What goes wrong, for which requests. */
  readonly faults?: ReadonlyArray<Fault> | undefined
  /** Draws the faults that come at a rate; 1 unless given. */
  readonly seed?: number | undefined
  /** Settings in the place of the defaults, such as another retry policy. */
  readonly config?: Partial<PaymentsConfig["Service"]> | undefined
}

/**
 * Answers from these records by the rules of §4: the same filters, limits, cursors, checks, retries and errors as over
 * HTTP. Waits pass on the fiber's clock, so `TestClock` moves them.
 */
export const layerTest = (lists: TestLists = {}): Layer.Layer<PaymentsApi> =>
  PaymentsApi.layer.pipe(
    Layer.provide(layerClient((now) =>
      makeListService({
        servers: Lists.map((list) => serve(list, recordsOf(lists[list.name]), lists)),
        accepts: () => true,
        faults: lists.faults,
        seed: lists.seed
      }, now)
    )),
    Layer.provide(Layer.effect(PaymentsConfig, Effect.map(config, (settings) => ({ ...settings, ...lists.config }))))
  )

const config = PaymentsConfig.fromSettings({
  PAYMENTS_BASE_URL: "https://memory.localhost",
  PAYMENTS_API_KEY: noKey
}).pipe(Effect.orDie, Effect.map((settings) => ({ ...settings, source: "memory" })))
