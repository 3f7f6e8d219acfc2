/** Reads one page of invoices. Prints the outcome and the peak memory of this process. */
import { Duration, Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { existsSync, readFileSync } from "node:fs"
import { PaymentsApi, PaymentsConfig } from "../../src/index.ts"
import { layerHttpClient } from "../../src/node.ts"

const [, , client, url = ""] = process.argv

/** So long that the outcome does not depend on the speed of the machine. */
const deadlines = { headers: Duration.hours(1), stalled: Duration.hours(1), attempt: Duration.hours(1) }

const outcome = await PaymentsApi.use(({ invoices }) => invoices.page({ onBadRecord: "quarantine" })).pipe(
  Effect.match({
    onFailure: ({ reason }) => reason._tag,
    onSuccess: ({ bad, items }) => `${bad.length + items.length} records`
  }),
  Effect.provide(PaymentsApi.layer.pipe(
    Layer.provide(client === "fetch" ? FetchHttpClient.layer : layerHttpClient),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      Effect.map(
        PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("key") }),
        (config) => ({ ...config, deadlines })
      )
    ))
  )),
  Effect.runPromise
)
// On Linux, the maximum that the process itself reports is at least the memory of the process that has started it.
const [, peak] = existsSync("/proc/self/status")
  ? /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8")) ?? []
  : []
const megabytes = Math.round(Number(peak ?? process.resourceUsage().maxRSS) / 1024)
process.stdout.write(JSON.stringify({ outcome, megabytes }))
