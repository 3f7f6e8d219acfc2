/**
 * `PaymentsApi` over the records of a test. It uses the real client over an in-process service, without a socket, and
 * the clock of the fiber.
 */
import { Effect, Layer } from "effect"
import { PaymentsApi } from "../api/PaymentsApi.ts"
import { PaymentsConfig } from "../config/PaymentsConfig.ts"
import * as Lists from "../model/Lists.ts"
import { noKey } from "../pace/KeyFingerprint.ts"
import type { Fault } from "./Fault.ts"
import { makeListService } from "./ListService.ts"
import { type MemoryListOptions, recordsOf, serve } from "./MemoryList.ts"
import { layerClient } from "./ServiceClient.ts"

/** A record, which may have undocumented fields, or its JSON text if the exact spelling matters. */
type Given<Record> = Record | { readonly [field: string]: unknown } | string

/** The records of each list, in order. Lists that are not given are empty. */
export type TestRecords = {
  readonly [Name in keyof typeof Lists.byName]?: ReadonlyArray<Given<Lists.ItemOf<Name>>> | undefined
}

/** The records of the lists, and how the lists behave. */
export interface TestLists extends TestRecords, MemoryListOptions {
  /** The faults. */
  readonly faults?: ReadonlyArray<Fault> | undefined
  /** The seed of faults with a `rate`. Default: 1. */
  readonly seed?: number | undefined
  /** Settings that replace defaults, such as another retry policy. */
  readonly config?: Partial<PaymentsConfig["Service"]> | undefined
}

/**
 * Provides `PaymentsApi` over these records, as §4 describes: with the same filters, limits, cursors, checks, retries
 * and errors as over HTTP. Waits use the clock of the fiber, so `TestClock` controls them.
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
