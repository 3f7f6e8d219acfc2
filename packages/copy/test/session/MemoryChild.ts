/** Scans lists of a service into a destination, and prints the exit codes and the peak memory of this process. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Effect, Layer, Redacted } from "effect"
import { outcomeExitCode } from "../../../program/src/outcome/ErrorTable.ts"
import { Destination, scanAll } from "../../src/index.ts"

const [, , url = "", to = "", ...names] = process.argv

const lists = Lists.all.map(({ name }) => name).filter((name) => names.includes(name))
const outcomes = await Effect.gen(function*() {
  const destination = yield* Destination.parse(to, "argument")
  return yield* Effect.provide(scanAll(lists), Destination.layer(destination))
}).pipe(
  Effect.provide(PaymentsApi.layer.pipe(
    Layer.provide(layerHttpClient),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("key") })
    ))
  )),
  Effect.provide(NodeServices.layer),
  Effect.runPromise
)
const codes = outcomes.map(outcomeExitCode)
process.stdout.write(JSON.stringify({ codes, megabytes: Math.round(process.resourceUsage().maxRSS / 1024) }))
