import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Fault, layerFailing } from "@payments/testkit/FailingFileSystem"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { textsOf } from "@payments/testkit/RenderedFiles"
import { isLongRun } from "@payments/testkit/Seed"
import { Cause, Effect, Exit, FileSystem, Layer } from "effect"
import { cpSync, readdirSync } from "node:fs"
import { join } from "node:path"
import * as FileSink from "../../src/files/FileSink.ts"
import type { Format } from "../../src/files/render/Format.ts"
import { scan, scanAll, SinkError, verifyFiles } from "../../src/index.ts"

/** Tests every third call; `npm run test:crash` tests every call. */
const step = isLongRun ? 1 : 3

const old = {
  payoutRequests: Array.from({ length: 10 }, (_, index) => ({ id: `a${index}` })),
  payinSources: Array.from({ length: 20 }, (_, index) => ({ id: `b${index}` })),
  // More rows than are rendered at once.
  invoices: Array.from({ length: 1100 }, (_, index) => ({ id: `c${index}`, amount: index }))
}
const changedInvoices = [...old.invoices.map((invoice) => ({ ...invoice, amount: invoice.amount + 1 })), {
  id: "new",
  amount: 0
}]

const before: Format = { format: "csv", compress: "gzip", formulas: "escape" }
/** A different format, so that the run must render every list before it reads a page. */
const after: Format = { format: "ndjson", compress: "zstd", formulas: "escape" }

const texts = (records: ReadonlyArray<object>) => records.map((record) => JSON.stringify(record))

const isSame = (rendered: ReadonlyArray<string>, records: ReadonlyArray<object>) =>
  rendered.join("\n") === texts(records).join("\n")

const query = (folder: string, sql: string) => rowsOf(join(folder, FileSink.copyFile), sql)

/** Exports the changed invoices into the folder. */
const run = (folder: string) =>
  scan("invoices").pipe(
    Effect.provide(Layer.merge(FileSink.layer(folder, after), layerTest({ invoices: changedInvoices })))
  )

/** Asserts that the copy and the files are consistent, after a successful or a failed run. */
const assertConsistent = Effect.fnUntraced(function*(folder: string, what: string) {
  const complete = query(folder, "SELECT scan FROM scans WHERE list = 'invoices' AND state = 'complete'").length
  const rows = query(folder, "SELECT raw FROM invoices ORDER BY row").map(({ raw }) => String(raw))
  // The checkpoint is never ahead of the rows.
  assert.isTrue(isSame(rows, complete > 1 ? changedInvoices : old.invoices), what)
  const rendered = yield* textsOf(folder, Lists.invoices)
  assert.isTrue(isSame(rendered, old.invoices) || isSame(rendered, changedInvoices), what)
  assert.isTrue(isSame(yield* textsOf(folder, Lists.payoutRequests), old.payoutRequests), what)
  assert.isTrue(isSame(yield* textsOf(folder, Lists.payinSources), old.payinSources), what)
})

describe.each(
  [
    ["a failing call of the file system", false, "EIO"],
    ["a disk that becomes full", true, "ENOSPC"]
  ] as const
)("%s", (_, lasting, code) => {
  it.live(
    "ends the export with an error and leaves whole snapshots; the next run completes and cleans up",
    () =>
      Effect.flatMap(temporaryFolder, (root) =>
        Effect.gen(function*() {
          const template = join(root, "seed")
          yield* scanAll(Lists.all.map(({ name }) => name)).pipe(
            Effect.provide(Layer.merge(FileSink.layer(template, before), layerTest(old)))
          )
          let failed = 0
          for (let call = 1; call <= 200; call += step) {
            const folder = join(root, `${call}`)
            cpSync(template, folder, { recursive: true })
            const fault = new Fault(call, lasting, code)
            const exit = yield* Effect.exit(Effect.provide(run(folder), layerFailing(fault)))
            const what = `call ${call} of ${fault.calls}`
            assert.strictEqual(Exit.isFailure(exit), fault.reached, what)
            if (Exit.isFailure(exit)) {
              failed++
              const error = Cause.squash(exit.cause)
              assert.isTrue(
                error instanceof SinkError && ["Failed", "Full"].includes(error.reason._tag),
                `${what} ${error}`
              )
            }
            yield* assertConsistent(folder, what)

            yield* run(folder)
            yield* assertConsistent(folder, `after ${what}`)
            assert.strictEqual((yield* textsOf(folder, Lists.invoices)).length, changedInvoices.length, what)
            assert.deepStrictEqual(yield* verifyFiles(folder), [], what)
            const known = query(folder, "SELECT file FROM rendered WHERE sha256 IS NOT NULL").map(({ file }) =>
              String(file)
            )
            const there = readdirSync(folder).filter((name) => !/^(copy\.db.*|manifest\.json)$/.test(name))
            assert.deepStrictEqual(there.toSorted(), known.toSorted(), what)
            yield* FileSystem.FileSystem.use((fs) => fs.remove(folder, { recursive: true }))
            // The run made fewer calls, so this fault and all later ones are never reached.
            if (!fault.reached) break
          }
          assert.isAbove(failed, 40 / step)
        })).pipe(Effect.scoped, Effect.provide(NodeServices.layer)),
    600_000
  )
})
