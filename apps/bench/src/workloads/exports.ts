/** The export engine with its destinations, as the programs run it. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Destination, scan } from "@payments/copy"
import { layerHttpClient } from "@payments/core/node"
import { Deferred, Effect, Layer } from "effect"
import type { WorkloadResult } from "../harness/WorkloadResult.ts"
import { serviceAt } from "./service.ts"

export interface ExportOptions {
  readonly url: string
  /** A destination, as on the command line. */
  readonly to: string
  /** Kills the process when this number of pages is committed. */
  readonly killAt?: number | undefined
  /** Ends the export when the first page is committed. */
  readonly firstPageOnly?: boolean | undefined
  /** Whether the sink runs in the thread that reads. */
  readonly isInThisThread?: boolean | undefined
}

/** Exports the payout requests of the base address. */
export const exportTo = (
  { firstPageOnly = false, isInThisThread = false, killAt = Infinity, to, url }: ExportOptions
): Promise<WorkloadResult> =>
  Effect.runPromise(
    Effect.gen(function*() {
      const destination = yield* Destination.parse(to)
      const sink = isInThisThread && destination._tag !== "Stdout"
        ? Destination.layerInThisThread(destination)
        : Destination.layer(destination)
      const committed = yield* Deferred.make<number>()
      const whole = scan("payoutRequests", {
        onEvent: (event) =>
          Effect.suspend(() => {
            if (event._tag !== "Committed") return Effect.void
            if (event.progress.pages >= killAt) process.kill(process.pid, "SIGKILL")
            return firstPageOnly ? Deferred.succeed(committed, event.progress.records) : Effect.void
          })
      }).pipe(Effect.map(({ records }) => records), Effect.provide(Layer.merge(sink, serviceAt(url, layerHttpClient))))
      const records = yield* Effect.raceFirst(whole, Deferred.await(committed))
      return { records, sum: 0, characters: 0 }
    }).pipe(Effect.provide(NodeServices.layer))
  )
