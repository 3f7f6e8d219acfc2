import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { scan, type ScanOptions, scanParts, verify } from "../src/index.ts"
import * as SqliteSink from "../src/SqliteSink.ts"
import { openReader } from "../src/SqliteStore.ts"
import { execute, temporaryFolder } from "./Folder.ts"

const inFile = <A, E>(use: (file: string) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.flatMap(temporaryFolder, (folder) => use(join(folder, "payments.db"))))

const serving = (...invoices: ReadonlyArray<string>) => layerTest({ invoices })

const run = (file: string, texts: ReadonlyArray<string>, options: ScanOptions = {}) =>
  scan("invoices", options).pipe(Effect.provide(Layer.merge(SqliteSink.layer(file), serving(...texts))))

const linesOf = (
  differences: ReadonlyArray<{ readonly id: string | undefined; readonly problem: string }>
) => differences.map(({ id = "the list", problem }) => `${id}: ${problem}`)

const verified = (file: string) =>
  Effect.flatMap(openReader(file, "here"), (reader) => verify(reader, Lists.invoices)).pipe(
    Effect.map(({ differences }) => linesOf(differences)),
    Effect.scoped
  )

const good = `{"id":"a","amount":1,"contract":"north"}`
const bad = `{"id":"b","amount":"2","contract":"north"}`
const nameless = `{"amount":5,"contract":"north"}`

describe("the quarantine of the last complete scan", () => {
  it.live.each(
    [
      ["a record without an id", "DELETE FROM quarantine WHERE id IS NULL", [
        "the list: the number of quarantined records differs from the certificate's",
        "the list: the number of records without an id differs from the certificate's"
      ]],
      ["a record with an id", "DELETE FROM quarantine WHERE id = 'b'", [
        "the list: the number of quarantined records differs from the certificate's"
      ]],
      ["the id of one", "UPDATE quarantine SET id = 'c' WHERE id IS NULL", [
        "the list: the number of records without an id differs from the certificate's"
      ]]
    ] as const
  )("shows that %s was lost from it", ([, sql, problems]) =>
    inFile((file) =>
      Effect.gen(function*() {
        yield* run(file, [good, bad, nameless])
        assert.deepStrictEqual(yield* verified(file), [])
        execute(file, sql)
        assert.deepStrictEqual<ReadonlyArray<string>>(yield* verified(file), problems)
      })
    ))

  it.live("is still there after parts, a given-up scan, and until the next one is complete", () =>
    inFile((file) =>
      Effect.gen(function*() {
        const texts = [good, bad, nameless]
        yield* run(file, texts)
        yield* scanParts("invoices", { field: "contract", values: ["north"] }).pipe(
          Effect.provide(Layer.merge(SqliteSink.layer(file), serving(...texts)))
        )
        assert.deepStrictEqual(yield* verified(file), [])
        const cut = layerTest({ invoices: texts, faults: [{ fault: "status", status: 403, nth: 2 }] })
        yield* Effect.flip(
          scan("invoices", { limit: 1, largestBatch: 1 }).pipe(
            Effect.provide(Layer.merge(SqliteSink.layer(file), cut))
          )
        )
        assert.deepStrictEqual(yield* verified(file), [])
        yield* run(file, [good, nameless], { limit: 1, largestBatch: 1 })
        assert.deepStrictEqual(yield* verified(file), [])
      })
    ))
})
