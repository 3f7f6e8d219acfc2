/**
 * Measures head passes: how old a new record is when it reaches the destination, and how many requests that takes. A full scan
 * of the same list runs meanwhile.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Destination, openScanner } from "@payments/copy"
import { Monotonic, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { Effect, FileSystem, Layer, Schedule, Stream } from "effect"
import { DatabaseSync } from "node:sqlite"
import type { Figure } from "../harness/Report.ts"

/** The sizes of the measurement. */
export interface HeadSizes {
  readonly records: number
  /** How long records are inserted. */
  readonly seconds: number
  /** The time from one head pass to the next. */
  readonly everySeconds: number
}

/** The sizes for which the targets are defined. */
export const fullHeadSizes: HeadSizes = { records: 1_000_000, seconds: 240, everySeconds: 15 }

const quietPages = 3
const insertsPerSecond = 2
const pageSize = 100
const latency = [{ fault: "latency", ms: 50 }] as const

type Log = (line: string) => void

/** Measures all figures. `log` receives a line after each step. */
export const measureHead = ({ everySeconds, records, seconds }: HeadSizes, log: Log): Promise<ReadonlyArray<Figure>> =>
  Effect.gen(function*() {
    const folder = yield* FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped())
    const file = `${folder}/payments.db`
    const context = yield* Layer.build(Sandbox.layer({
      records,
      order: "newest",
      live: { speed: 1, appearPerHour: insertsPerSecond * 3600, changePerHour: 0, vanishPerHour: 0 }
    }))
    const sandbox = yield* Effect.provide(Sandbox, context)
    const service = PaymentsApi.layer.pipe(
      Layer.provide(layerHttpClient),
      Layer.provide(Layer.effect(PaymentsConfig, Sandbox.config(sandbox.url)))
    )
    const built = yield* Layer.build(
      Layer.merge(service, Destination.layer(yield* Destination.parse(`sqlite:${file}`)))
    )
    const scanner = yield* Effect.provide(openScanner("payinSources", { limit: pageSize }), built)
    yield* scanner.full
    log(`loaded ${records} records`)
    yield* sandbox.setFaults(latency)

    /** When each record was first returned by the service. */
    const appeared = new Map<string, number>()
    const watch = Effect.gen(function*() {
      const { payinSources } = yield* PaymentsApi
      const start = performance.now()
      // The records of 10 s.
      const ids = yield* Stream.runCollect(payinSources.stream({ limit: 20, maxRecords: insertsPerSecond * 10 }))
      for (const { id } of ids) if (!appeared.has(id)) appeared.set(id, start)
    }).pipe(Effect.provide(built))
    yield* watch
    const atStart = new Set(appeared.keys())
    yield* Effect.forkScoped(Effect.repeat(watch, Schedule.spaced("200 millis")))
    yield* Effect.forkScoped(Effect.forever(scanner.full))

    const db = new DatabaseSync(file, { readOnly: true })
    yield* Effect.addFinalizer(() => Effect.sync(() => db.close()))
    const stored = db.prepare("SELECT 1 FROM payin_sources WHERE id = ?")
    const waiting = new Set<string>()
    const ages: Array<number> = []
    let requests = 0
    let passes = 0
    let pauseMs = 0
    const pass = Effect.gen(function*() {
      const start = performance.now()
      const { elapsed, inserted, pages, retries } = yield* scanner.head(quietPages)
      const end = performance.now()
      requests += pages + retries
      passes++
      pauseMs += end - start
      for (const id of appeared.keys()) if (!atStart.has(id)) waiting.add(id)
      for (const id of waiting) {
        if (stored.get(id) === undefined) continue
        ages.push(end - (appeared.get(id) ?? end))
        waiting.delete(id)
        atStart.add(id)
      }
      log(`pass ${passes}: ${pages} pages, ${inserted} new records, ${String(elapsed)}`)
    })
    yield* Effect.repeat(pass, Monotonic.fixed(`${everySeconds} seconds`).pipe(Monotonic.upTo(`${seconds} seconds`)))
    const requestsOfFullScans = (records / pageSize) * (passes * everySeconds) / 30
    const sorted = ages.toSorted((a, b) => a - b)
    log(`${ages.length} inserts, ${waiting.size} not stored yet, ${requests} requests of ${passes} passes`)
    return [
      {
        name: "age of an insert when it is stored, 95th percentile",
        value: (sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN) / 1000,
        unit: "s",
        atMost: 30
      },
      {
        name: "requests of head passes ÷ requests of full scans every 30 s",
        value: requests / requestsOfFullScans,
        unit: "×",
        atMost: 0.01
      },
      { name: "duration of a head pass, mean", value: pauseMs / passes / 1000, unit: "s" }
    ] satisfies ReadonlyArray<Figure>
  }).pipe(Effect.scoped, Effect.provide(NodeServices.layer), Effect.runPromise)
