import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { scan, type ScanOptions, scanParts, verify, verifyAgainstApi } from "../../src/index.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openReader } from "../../src/sqlite/SqliteStore.ts"

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

const comparedWith = (file: string, ...texts: ReadonlyArray<string>) =>
  Effect.flatMap(openReader(file, "here"), (reader) => verifyAgainstApi(reader, Lists.invoices)).pipe(
    Effect.map(({ differences }) => linesOf(differences)),
    Effect.scoped,
    Effect.provide(serving(...texts))
  )

const good = `{"id":"a","amount":1,"contract":"north"}`
const bad = `{"id":"b","amount":"2","contract":"north"}`
const withoutId = `{"amount":5,"contract":"north"}`

describe("the number of records without an id", () => {
  it.live("is stored as `withoutId`, and read under the key of earlier versions too", () =>
    inFile((file) =>
      Effect.gen(function*() {
        yield* run(file, [good, withoutId])
        const texts = () =>
          rowsOf(file, "SELECT certificate || totals AS text FROM scans").map(({ text }) => String(text))
        for (const text of texts()) {
          assert.match(text, /"withoutId":1.*"withoutId":1/)
          assert.notInclude(text, "nameless")
        }
        execute(
          file,
          `UPDATE scans SET certificate = replace(certificate, 'withoutId', 'nameless'), totals = replace(totals, 'withoutId', 'nameless')`
        )
        assert.deepStrictEqual(yield* verified(file), [])
        execute(file, "DELETE FROM quarantine WHERE id IS NULL")
        assert.include(
          yield* verified(file),
          "the list: the number of records without an id differs from the certificate's"
        )
      })
    ))
})

describe("the quarantine of the last complete scan", () => {
  it.live.each(
    [
      ["a record without an id was removed", "DELETE FROM quarantine WHERE id IS NULL", [
        "the list: the number of quarantined records differs from the certificate's",
        "the list: the number of records without an id differs from the certificate's"
      ]],
      ["a record with an id was removed", "DELETE FROM quarantine WHERE id = 'b'", [
        "the list: the number of quarantined records differs from the certificate's"
      ]],
      ["a record without an id was given one", "UPDATE quarantine SET id = 'c' WHERE id IS NULL", [
        "the list: the number of records without an id differs from the certificate's"
      ]]
    ] as const
  )("is reported as different if %s", ([, sql, problems]) =>
    inFile((file) =>
      Effect.gen(function*() {
        yield* run(file, [good, bad, withoutId])
        assert.deepStrictEqual(yield* verified(file), [])
        execute(file, sql)
        assert.deepStrictEqual<ReadonlyArray<string>>(yield* verified(file), problems)
      })
    ))

  it.live("is kept during scans of parts and failed scans, until the next scan is complete", () =>
    inFile((file) =>
      Effect.gen(function*() {
        const texts = [good, bad, withoutId]
        yield* run(file, texts)
        yield* scanParts("invoices", { field: "contract", values: ["north"] }).pipe(
          Effect.provide(Layer.merge(SqliteSink.layer(file), serving(...texts)))
        )
        assert.deepStrictEqual(yield* verified(file), [])
        const failing = layerTest({ invoices: texts, faults: [{ fault: "status", status: 403, nth: 2 }] })
        yield* Effect.flip(
          scan("invoices", { limit: 1, largestBatch: 1 }).pipe(
            Effect.provide(Layer.merge(SqliteSink.layer(file), failing))
          )
        )
        assert.deepStrictEqual(yield* verified(file), [])
        yield* run(file, [good, withoutId], { limit: 1, largestBatch: 1 })
        assert.deepStrictEqual(yield* verified(file), [])
      })
    ))
})

describe("a destination that is verified while full scans end", () => {
  it.live.each(["scans", "seen", "quarantined", "rows"] as const)(
    "has no difference if one ends after its %s are read",
    (call) =>
      inFile((file) =>
        Effect.gen(function*() {
          yield* run(file, [good, bad, withoutId])
          let isFirst = true
          const reader = yield* openReader(file, "here")
          const endFullScan = Effect.suspend(() => {
            if (!isFirst) return Effect.void
            isFirst = false
            return Effect.orDie(run(file, [`{"id":"a","amount":2}`, `{"id":"c","amount":3}`]))
          })
          const scanning = new Proxy(reader, {
            get: (target, name: keyof typeof reader) =>
              name === call
                ? (...given: ReadonlyArray<never>) =>
                  Effect.tap(Reflect.apply(target[call], target, given), () => endFullScan)
                : target[name]
          })
          assert.deepStrictEqual(linesOf((yield* verify(scanning, Lists.invoices)).differences), [])
          assert.isFalse(isFirst)
        }).pipe(Effect.scoped)
      )
  )
})

describe("a destination, compared with the API", () => {
  it.live("does not differ in members that its scans ignore, but differs in others", () =>
    inFile((file) =>
      Effect.gen(function*() {
        const signed = (url: number, amount = 1) => `{"id":"a","authUrl":"u${url}","amount":${amount}}`
        for (const url of [1, 2]) yield* run(file, [signed(url)], { ignoredFields: ["authUrl"] })
        assert.deepStrictEqual(yield* comparedWith(file, signed(3)), [])
        assert.deepStrictEqual(yield* comparedWith(file, signed(3, 2)), ["a: has another text in the destination"])
        yield* run(file, [signed(4)])
        assert.deepStrictEqual(yield* comparedWith(file, signed(5)), ["a: has another text in the destination"])
      })
    ))

  it.live("does not differ in members that only the scans of its parts ignore", () =>
    inFile((file) =>
      Effect.gen(function*() {
        const signed = (url: number) => `{"id":"a","authUrl":"u${url}","contract":"north"}`
        yield* scanParts("invoices", { field: "contract", values: ["north"], ignoredFields: ["authUrl"] }).pipe(
          Effect.provide(Layer.merge(SqliteSink.layer(file), serving(signed(1))))
        )
        assert.deepStrictEqual(yield* comparedWith(file, signed(2)), [])
      })
    ))

  it.live("does not differ in a record whose id cannot be stored", () =>
    inFile((file) =>
      Effect.gen(function*() {
        const texts = [good, `{"id":"b\\u0000","amount":6}`, `{"id":"${"x".repeat(2001)}"}`, `{"id":"\\ud800"}`]
        yield* run(file, texts)
        assert.deepStrictEqual(yield* comparedWith(file, ...texts), [])
      })
    ))

  it.live("is compared with the last occurrence of a record that the list returns twice, on one page or on two", () =>
    inFile((file) =>
      Effect.gen(function*() {
        const [first, second] = [1, 2].map((amount) => `{"id":"a","amount":${amount}}`) as [string, string] // two of two
        const undecodable = `{"id":"a","amount":"1"}`
        const others = Array.from({ length: 100 }, (_, index) => `{"id":"o${index}"}`)
        for (
          const texts of [
            [first, second],
            [undecodable, second],
            [first, undecodable],
            [first, ...others, second],
            [second, ...others, undecodable, first]
          ]
        ) {
          yield* run(file, texts)
          assert.deepStrictEqual(yield* comparedWith(file, ...texts), [])
          assert.deepStrictEqual(yield* comparedWith(file, ...texts.toReversed()), [
            "a: has another text in the destination"
          ])
          execute(file, "DELETE FROM scans; DELETE FROM invoices; DELETE FROM seen; DELETE FROM quarantine")
        }
      })
    ))

  it.live("differs, by id, if the API returns other records", () =>
    inFile((file) =>
      Effect.gen(function*() {
        yield* run(file, [good, bad])
        assert.deepStrictEqual(yield* comparedWith(file, `{"id":"a","amount":7}`, `{"id":"c"}`), [
          "a: has another text in the destination",
          "c: is not in the destination",
          "b: is not in the API's list"
        ])
      })
    ))
})
