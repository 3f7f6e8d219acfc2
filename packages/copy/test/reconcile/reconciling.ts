/** Reconciles small copies with small statements, for tests. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, Layer, Stream } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Destination, entryClasses, reconcile, type ReconcileOptions, scan, type ScanOptions } from "../../src/index.ts"

/** Exports invoices, given as JSON, into the destination. */
export const fill = (
  destination: Destination.StoredDestination,
  invoices: ReadonlyArray<string>,
  options: ScanOptions = {}
) =>
  scan("invoices", { missingLimit: 1, ...options }).pipe(
    Effect.provide(Layer.merge(Destination.layerInThisThread(destination), layerTest({ invoices }))),
    Effect.provide(NodeServices.layer)
  )

export const sqliteIn = (folder: string): Destination.StoredDestination => ({
  _tag: "Sqlite",
  file: join(folder, "payments.db")
})

/** Writes a statement into the folder. */
export const written = (folder: string, content: string | Uint8Array, name = "statement.csv"): string => {
  const file = join(folder, name)
  writeFileSync(file, content)
  return file
}

export const defaults = {
  list: Lists.invoices,
  on: ["reference", "amount"],
  group: undefined,
  withinDays: 0,
  where: [],
  through: undefined,
  personalKey: undefined,
  keepsMatched: true,
  map: {},
  decimals: undefined,
  decimal: undefined,
  dates: undefined,
  separator: undefined,
  encoding: undefined,
  hasParentheses: false
} satisfies Omit<ReconcileOptions, "from" | "file">

/** Returns the whole result. */
export const reconciled = (options: Partial<ReconcileOptions> & Pick<ReconcileOptions, "from" | "file">) =>
  Effect.scoped(Effect.gen(function*() {
    const found = yield* reconcile({ ...defaults, ...options })
    return {
      ...found,
      rows: (yield* Stream.runCollect(found.rows(entryClasses))).flat(),
      entries: (yield* Stream.runCollect(found.entries(entryClasses))).flat()
    }
  }))
