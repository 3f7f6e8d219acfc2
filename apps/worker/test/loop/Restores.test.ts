import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Destination, freshnessOf, scan } from "@payments/copy"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect, Layer } from "effect"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { makeRestoreWatch } from "../../src/loop/Restores.ts"
import { binary, logOf, startWorker } from "./RunningWorker.ts"

const warning = "the destination was restored: consumers of its changes have to say where they stand"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

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

  it.live("says once that a generation began because its server is another one, also if it scans only once", () =>
    Effect.gen(function*() {
      const to = `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=moved`
      const env = yield* sandboxEnv({ records: 3 })
      const failOver = Effect.promise(() => query(server, "UPDATE moved.generations SET origin = 'earlier/00000001'"))
      const scanOnce = Effect.gen(function*() {
        const { code, stdout } = yield* runProgram(process.execPath, [binary, "run", "--once", "--to", to], { env })
        assert.strictEqual(code, 0)
        return logOf(stdout).filter(({ message }) => message === warning)
      })
      assert.deepStrictEqual(yield* scanOnce, [])
      yield* failOver
      const [logged, ...others] = yield* scanOnce
      assert.deepStrictEqual(others, [])
      assert.strictEqual(logged?.level, "WARN")
      assert.deepInclude(logged?.annotations, { source: "default", beganAfter: 0, reason: "server" })

      yield* failOver
      const running = yield* startWorker(["--to", to, "--every", "1s"], env)
      // Each of the three lists is read after its scan.
      yield* running.untilLogged("scan complete", 9)
      assert.lengthOf(running.log(warning), 1)
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))
})
