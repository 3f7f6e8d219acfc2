/** How many pages are read ahead of a destination that is slower than the service. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { PaymentsApi } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, FileSystem, Layer, Stream } from "effect"
import { join } from "node:path"
import { outcomeExitCode } from "../../../program/src/outcome/ErrorTable.ts"
import { scanAll, Sink } from "../../src/index.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"

const pages = 8

/** Scans lists of records with so many characters, with slow commits. Returns the maximum number of uncommitted pages. */
const maxReadAhead = Effect.fnUntraced(
  function*(characters: number, lists: ReadonlyArray<"invoices" | "payinSources">) {
    const fs = yield* FileSystem.FileSystem
    const file = join(yield* fs.makeTempDirectoryScoped(), "payments.db")
    let read = 0
    let written = 0
    let most = 0
    const records = Array.from({ length: pages }, (_, index) => ({ id: `${index}`, x: "x".repeat(characters) }))
    const onPage = () =>
      Effect.sync(() => {
        read++
        most = Math.max(most, read - written)
      })
    const api = Layer.effect(
      PaymentsApi,
      Effect.map(PaymentsApi, (inner): PaymentsApi["Service"] => ({
        ...inner,
        invoices: { ...inner.invoices, pages: (query) => Stream.tap(inner.invoices.pages(query), onPage) },
        payinSources: { ...inner.payinSources, pages: (query) => Stream.tap(inner.payinSources.pages(query), onPage) }
      }))
    ).pipe(Layer.provide(layerTest({ invoices: records, payinSources: records })))
    const sink = Layer.effect(
      Sink,
      Effect.map(Sink, (inner) =>
        Sink.of({
          ...inner,
          begin: (list, request) =>
            Effect.map(inner.begin(list, request), (session) => ({
              ...session,
              commit: (batch) =>
                Effect.sleep("30 millis").pipe(
                  Effect.andThen(session.commit(batch)),
                  Effect.tap(() => Effect.sync(() => void (written += batch.pages)))
                )
            }))
        }))
    ).pipe(Layer.provide(SqliteSink.layer(file)))
    const outcomes = yield* scanAll(lists, { limit: 1, largestBatch: pages }).pipe(
      Effect.provide(Layer.merge(sink, api))
    )
    assert.deepStrictEqual(outcomes.map(outcomeExitCode), lists.map(() => 0))
    assert.deepStrictEqual([read, written], [pages * lists.length, pages * lists.length])
    return most
  },
  Effect.scoped,
  Effect.provide(NodeServices.layer)
)

describe("a scan", () => {
  it.live("reads few large pages ahead of its destination", () =>
    Effect.gen(function*() {
      // The limit is 8 Mi characters, plus the page that exceeds it.
      assert.isAtMost(yield* maxReadAhead(3 * 1024 * 1024, ["invoices"]), 3)
      assert.isAtMost(yield* maxReadAhead(9 * 1024 * 1024, ["invoices"]), 1)
    }))

  it.live("shares this limit with the scans of other lists", () =>
    Effect.gen(function*() {
      assert.isAtMost(yield* maxReadAhead(3 * 1024 * 1024, ["invoices", "payinSources"]), 4)
    }))
})
