import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Destination, scan } from "@payments/copy"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Duration, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { pruning } from "../../src/loop/SourceLoop.ts"

const missing = "inv_missing"

describe("a worker", () => {
  it.effect.each([true, false])(
    "removes rows that have been missing for long from a folder and its files every day, if it has a lock: %s",
    (isActive) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const to = {
          _tag: "Files",
          folder,
          format: { format: "ndjson", compress: "none", formulas: "escape" },
          keepSnapshots: 0
        } as const
        for (const ids of [["inv_1", missing, "inv_2"], ["inv_1", "inv_2"], ["inv_1", "inv_2"]]) {
          const invoices = ids.map((id) => ({ id }))
          yield* scan("invoices", { missingLimit: 1 }).pipe(
            Effect.provide(Layer.merge(Destination.layerInThisThread(to), layerTest({ invoices })))
          )
        }
        // Its change keeps the id, but not this text.
        const isStored = () =>
          readdirSync(folder).filter((name) => name.startsWith("copy.db") || name.endsWith(".ndjson"))
            .some((name) => readFileSync(join(folder, name), "latin1").includes(`{"id":"${missing}"`))
        assert.isTrue(isStored())
        const source = { to, keepMissing: Duration.days(3), keepChanges: undefined, keepScans: undefined }
        yield* Effect.forkScoped(pruning(source, Effect.succeed(isActive)))
        let days = 0
        for (; days < (isActive ? 20 : 4) && isStored(); days++) {
          yield* TestClock.adjust(Duration.days(1))
          // Pruning takes real time. A day in which it has not ended is not pruned.
          const realMs = isActive && days >= 3 ? 4000 : 150
          for (let waited = 0; waited < realMs && isStored(); waited += 50) {
            yield* Effect.promise(() => setTimeout(50))
          }
        }
        if (isActive) assert.isAtLeast(days, 3)
        assert.strictEqual(isStored(), !isActive)
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
