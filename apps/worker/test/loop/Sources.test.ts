/** A worker with many sources: what happens to one of them does not reach the others. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsConfigError } from "@payments/core"
import type { LoadedSource, LoadedSources } from "@payments/program/sources"
import { overPatientClock } from "@payments/testkit/Clocks"
import { page } from "@payments/testkit/PageBody"
import { rowsOf, sandboxEnv, tables, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { scriptedServer } from "@payments/testkit/ScriptedServer"
import { Duration, Effect, Latch, Layer, Queue } from "effect"
import { join } from "node:path"
import { Status } from "../../src/state/Status.ts"
import type { ListSnapshot } from "../../src/state/StatusSnapshot.ts"
import { everyList, makeSource, sourceIn, startSources, testStatus } from "./TestSources.ts"

const countOf = (file: string) => tables.map((table) => rowsOf(file, `SELECT count(*) AS n FROM ${table}`)[0]?.["n"])
const scansOf = (file: string) =>
  Number(rowsOf(file, "SELECT count(*) AS n FROM scans WHERE state = 'complete'")[0]?.["n"])

const sandboxUrl = (records: number, seed = 1) =>
  Effect.map(sandboxEnv({ records, seed, hostileText: 0 }), ({ PAYMENTS_BASE_URL }) => PAYMENTS_BASE_URL)

describe("a worker with sources that fail", () => {
  it.live("keeps the other sources fresh, and writes no row into a wrong destination", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = (name: string) => join(folder, `${name}.db`)
      const good = yield* sandboxUrl(20)
      const names = ["a", "b", "c", "d", "e", "f"]
      const refused = yield* scriptedServer((_, response) => void response.writeHead(401).end())
      const silent = yield* scriptedServer(() => {})
      const limited = yield* scriptedServer((_, response) =>
        void response.writeHead(429, { "retry-after": "3600" }).end()
      )
      // Another source has filled this destination.
      yield* Effect.scoped(Effect.gen(function*() {
        const { until } = yield* startSources([makeSource("owner", yield* sandboxUrl(5, 2), file("foreign"))])
        yield* until((now) => everyList(sourceIn(now, "owner"), ({ completeScan }) => completeScan !== null))
      }))
      const owned = [countOf(file("foreign")), scansOf(file("foreign"))]
      const { until } = yield* startSources([
        makeSource("refused", refused.url, file("refused")),
        makeSource("silent", silent.url, file("silent")),
        makeSource("limited", limited.url, file("limited")),
        makeSource("foreign", good, file("foreign")),
        makeSource("keyless", good, file("keyless"), {
          service: new PaymentsConfigError({ problems: [{ setting: "api_key_file", problem: "does not exist" }] })
        }),
        ...names.map((name) => makeSource(name, good, file(name)))
      ], { concurrency: 2 })
      const snapshot = yield* until((now) =>
        names.every((name) => everyList(sourceIn(now, name), ({ completeScan }) => (completeScan?.scan ?? 0) > 6)) &&
        sourceIn(now, "foreign")?.state === "stopped" && sourceIn(now, "keyless")?.problem !== null &&
        everyList(sourceIn(now, "silent"), ({ holdsLock }) => holdsLock) &&
        everyList(sourceIn(now, "refused"), ({ failure }) => failure !== null) &&
        everyList(sourceIn(now, "limited"), ({ failure, progress }) => (failure ?? progress?.waiting) !== null)
      )
      const stateOf = (name: string) => {
        const source = sourceIn(snapshot, name)
        return [source?.state, source?.problem?.reason ?? null]
      }
      assert.deepStrictEqual(stateOf("foreign"), ["stopped", "OtherSource"])
      assert.deepStrictEqual(stateOf("keyless"), ["starting", "PaymentsConfigError"])
      assert.deepStrictEqual(stateOf("refused"), ["running", null])
      assert.isTrue(everyList(sourceIn(snapshot, "refused"), ({ failure }) => failure?.reason === "Unauthorized"))
      assert.deepStrictEqual(names.map(stateOf), names.map(() => ["running", null]))
      for (const name of names) assert.deepStrictEqual(countOf(file(name)), Lists.all.map(() => 20), name)
      assert.deepStrictEqual([countOf(file("foreign")), scansOf(file("foreign"))], owned)
      assert.deepStrictEqual(countOf(file("silent")), Lists.all.map(() => 0))
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))

  it.live("ends a full scan that commits no page and begins it again once, and then reports the stall", () =>
    overPatientClock(() =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        let isSilent = true
        let requests = 0
        let requestsBeforeStall: number | undefined
        const status = yield* Status
        const watched: typeof status = {
          ...status,
          update: (name, change) =>
            status.update(name, (before, now) => {
              const after = change(before, now)
              if (after.lists.some(({ stall }) => stall !== null)) requestsBeforeStall ??= requests
              return after
            })
        }
        const service = yield* scriptedServer((_, response) => {
          requests++
          if (!isSilent) response.end(page([{ id: "a" }]))
        })
        const { until } = yield* startSources(
          [
            makeSource("stalling", service.url, join(folder, "p.db"), {
              lists: ["invoices"],
              full: { _tag: "Every", every: Duration.seconds(5) }
            })
          ],
          {
            stallAfter: Duration.millis(1500)
          }
        ).pipe(Effect.provideService(Status, watched))
        const stalled = yield* until((now) => everyList(sourceIn(now, "stalling"), ({ stall }) => stall !== null))
        assert.deepInclude(sourceIn(stalled, "stalling")?.lists[0]?.stall, {
          reason: "NoPage",
          message: "no page was committed for 1s 500ms"
        })
        assert.strictEqual(requestsBeforeStall, 2)
        isSilent = false
        const fresh = yield* until((now) =>
          everyList(sourceIn(now, "stalling"), ({ completeScan }) => completeScan !== null)
        )
        assert.isNull(sourceIn(fresh, "stalling")?.lists[0]?.stall)
      })
    ).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})

describe("a full scan that waits for a long pass", () => {
  it.live("does not stall while the pass commits pages", () =>
    overPatientClock(() =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const service = yield* scriptedServer(({ url = "" }, response) => {
          const { searchParams } = new URL(url, "http://localhost")
          const settlementDate = searchParams.get("settlementDate")
          const number = Number(searchParams.get("cursor") ?? 1)
          if (settlementDate === null) return void response.end(page([{ id: "a" }]))
          const items = [{ id: `w${number}`, settlementDate }]
          const cursor = number < 10 ? String(number + 1) : null
          setTimeout(() => response.end(page(items, cursor)), 400)
        })
        const every = (millis: number) => ({ _tag: "Every", every: Duration.millis(millis) }) as const
        const { until } = yield* startSources([
          makeSource("paused", service.url, join(folder, "p.db"), {
            lists: ["invoices"],
            full: every(500),
            window: { days: 1, schedule: every(2500) }
          })
        ], { stallAfter: Duration.millis(1500) })
        const hasStalled = ({ stall }: ListSnapshot) => stall !== null
        const isPaused = ({ rows }: ListSnapshot) => rows === 11
        const ended = yield* until((now) =>
          everyList(sourceIn(now, "paused"), (list) => hasStalled(list) || isPaused(list))
        )
        assert.isFalse(everyList(sourceIn(ended, "paused"), hasStalled))
      })
    ).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})

describe("passes that take longer than their interval", () => {
  it.live("leave half of the time to the full scan", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      /** When the service got the first request of each pass, and when it answered the last one. */
      const passes: Array<{ readonly begunAt: number; endedAt: number }> = []
      const service = yield* scriptedServer(({ url = "" }, response) => {
        const { searchParams } = new URL(url, "http://localhost")
        const settlementDate = searchParams.get("settlementDate")
        const number = Number(searchParams.get("cursor") ?? 1)
        if (settlementDate !== null && number === 1) passes.push({ begunAt: performance.now(), endedAt: Infinity })
        const [pages, delay] = settlementDate === null ? [20, 0] : [3, 100]
        const items = [settlementDate === null ? { id: `a${number}` } : { id: `w${number}`, settlementDate }]
        const cursor = number < pages ? String(number + 1) : null
        setTimeout(() => {
          const pass = passes.at(-1)
          if (settlementDate !== null && cursor === null && pass !== undefined) pass.endedAt = performance.now()
          response.end(page(items, cursor))
        }, delay)
      })
      const every = (millis: number) => ({ _tag: "Every", every: Duration.millis(millis) }) as const
      const { until } = yield* startSources([
        makeSource("busy", service.url, join(folder, "p.db"), {
          lists: ["invoices"],
          full: every(1000),
          window: { days: 1, schedule: every(10) }
        })
      ])
      const completeScans = "SELECT 1 FROM scans WHERE kind = 'full' AND state = 'complete'"
      // A pass reads only after the first full scan, so the file exists.
      const fullScans = (count: number) =>
        until(() => passes.length > 3 && rowsOf(join(folder, "p.db"), completeScans).length >= count)
      yield* fullScans(3)
      for (const [index, { begunAt, endedAt }] of passes.entries()) {
        const next = passes[index + 1]
        // A timer may fire a bit early.
        if (next !== undefined) {
          assert.isAbove(next.begunAt - endedAt, 0.95 * (endedAt - begunAt), `after pass ${index}`)
        }
      }
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})

describe("a worker whose file is read again", () => {
  it.live("starts and ends only the sources that changed, and changes nothing if the file has a mistake", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const url = yield* sandboxUrl(20)
      const source = (name: string, more: Partial<LoadedSource> = {}) =>
        makeSource(name, url, join(folder, `${name}.db`), {
          full: { _tag: "Every", every: Duration.hours(1) },
          ...more
        })
      const kept = source("kept")
      const requests = yield* Queue.sliding<void>(1)
      let next: Effect.Effect<LoadedSources, PaymentsConfigError> = Effect.never
      const { status, until } = yield* startSources(
        [kept, source("changed"), source("removed")],
        {},
        { requests, sources: Effect.suspend(() => next) }
      )
      const isComplete = (name: string) => (now: Parameters<typeof sourceIn>[0]) =>
        everyList(
          sourceIn(now, name),
          ({ completeScan, holdsLock, next: runs }) => holdsLock && completeScan !== null && runs.full !== null
        )
      const before = yield* until((now) => ["kept", "changed", "removed"].every((name) => isComplete(name)(now)))
      next = Effect.fail(new PaymentsConfigError({ problems: [{ setting: "to", problem: "is wrong" }] }))
      yield* Queue.offer(requests, undefined)
      yield* Effect.sleep("200 millis")
      const unchanged = yield* status.current
      assert.deepStrictEqual(
        unchanged.sources.map(({ lists, name, state }) => [name, state, lists.map(({ next: runs }) => runs)]),
        before.sources.map(({ lists, name, state }) => [name, state, lists.map(({ next: runs }) => runs)])
      )
      next = Effect.succeed({
        file: "/payments.toml",
        concurrency: 3,
        sources: [kept, source("changed", { maxAge: Duration.hours(2), revision: "2" }), source("added")]
      })
      yield* Queue.offer(requests, undefined)
      const after = yield* until((now) =>
        sourceIn(now, "removed") === undefined && isComplete("added")(now) && isComplete("changed")(now) &&
        everyList(sourceIn(now, "changed"), ({ maxAgeSeconds }) => maxAgeSeconds === 7200)
      )
      assert.deepStrictEqual(after.sources.map(({ name }) => name).toSorted(), ["added", "changed", "kept"])
      assert.deepStrictEqual(
        sourceIn(after, "kept")?.lists.map(({ next: runs }) => runs),
        sourceIn(before, "kept")?.lists.map(({ next: runs }) => runs)
      )
      assert.strictEqual(scansOf(join(folder, "changed.db")), 3, "the lists are still fresh")
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})

describe("a source that does not end", () => {
  it.live("does not delay the sources that are added when the file is read again", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const url = yield* sandboxUrl(20)
      const source = (name: string, more?: Partial<LoadedSource>) =>
        makeSource(name, url, join(folder, `${name}.db`), more)
      const mayEnd = yield* Latch.make()
      const hanging = source("hanging", { service: Effect.onInterrupt(Effect.never, () => mayEnd.await) })
      const requests = yield* Queue.sliding<void>(1)
      const sources = Effect.succeed({ file: "/payments.toml", concurrency: 3, sources: [source("added")] })
      const { until } = yield* startSources([hanging], {}, { requests, sources })
      yield* until((now) => sourceIn(now, "hanging")?.state === "starting")
      yield* Queue.offer(requests, undefined)
      const now = yield* until((status) =>
        everyList(sourceIn(status, "added"), ({ completeScan }) => completeScan !== null)
      )
      assert.deepStrictEqual(now.sources.map(({ name }) => name), ["hanging", "added"])
      yield* mayEnd.open
      yield* until((status) => sourceIn(status, "hanging") === undefined)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})
