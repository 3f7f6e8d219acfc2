import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Destination, freshnessOf, scan } from "@payments/export"
import { Effect, Layer } from "effect"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryFolder } from "../../cli/test/Program.ts"
import { makeRestoreWatch } from "../src/Restores.ts"

describe("a worker", () => {
  it.live("begins a generation when its destination shows a lower number of changes than before", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, backup] = [join(folder, "p.db"), join(folder, "backup.db")]
      const to = { _tag: "Sqlite", file } as const
      const exporting = (amount: number) =>
        scan("invoices").pipe(
          Effect.provide(Layer.merge(
            Destination.layerInThisThread(to),
            layerTest({ invoices: [1, 2, 3].map((id) => ({ id: `inv_${id}`, amount })) })
          ))
        )
      const freshness = Effect.scoped(
        Effect.flatMap(Destination.reader(to), (reader) => freshnessOf(reader, [Lists.invoices]))
      )
      const lineage = Effect.scoped(Effect.flatMap(Destination.reader(to), (reader) => reader.lineage))
      const watch = makeRestoreWatch({ to })
      const notice = Effect.flatMap(freshness, watch)

      for (const amount of [1, 2]) yield* exporting(amount)
      copyFileSync(file, backup)
      assert.isFalse(yield* notice)
      yield* exporting(3)
      const before = yield* freshness
      assert.isFalse(yield* notice)
      copyFileSync(backup, file)
      assert.isTrue(yield* notice)
      assert.deepInclude((yield* lineage).at(-1), { beganAfter: 3, reason: "writer" })
      assert.isFalse(yield* notice, "one loss begins one generation")

      // Two readings may arrive in another order than they were made.
      yield* exporting(4)
      const late = yield* freshness
      yield* exporting(5)
      assert.isFalse(yield* notice)
      assert.isFalse(yield* watch(late))
      assert.isFalse(yield* watch(before))
      assert.lengthOf(yield* lineage, 2)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})
