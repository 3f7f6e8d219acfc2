/** A test suite for every kind of destination: a later version of the program adds fields and lists. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { startChild } from "@payments/testkit/ChildProcess"
import { isLongRun, seed } from "@payments/testkit/Seed"
import { without } from "@payments/testkit/SmallerLists"
import { Deferred, Effect, Fiber, FileSystem, Layer, Random, Result, Schema, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { exitCodeOf } from "../../../program/src/outcome/ErrorTable.ts"
import {
  exportedLists,
  scan,
  scanAll,
  type ScanEvent,
  type Sink,
  type SinkError,
  unfilledColumns,
  verify
} from "../../src/index.ts"
import { layoutOf } from "../../src/plan/Columns.ts"
import type { FullRow, Reader } from "../../src/store/Store.ts"

type AllLists = ReadonlyArray<Lists.AnyList>

/** A kind of destination. Each test has its own folder, or a schema with the folder's name. */
export interface EvolvingDestination {
  readonly layer: (folder: string, lists: AllLists) => Layer.Layer<Sink, SinkError, NodeServices.NodeServices>
  readonly reader: (folder: string, lists?: AllLists) => Effect.Effect<Reader, SinkError, Scope.Scope>
  /** Returns the columns of its tables and views, by name. */
  readonly relations: (folder: string) => Effect.Effect<ReadonlyMap<string, ReadonlyArray<string>>>
  /** Runs a statement in the database, where the tables have this prefix. */
  readonly execute: (folder: string, statement: (prefix: string) => string) => Effect.Effect<void>
  /** Returns digests of the stored data. With `exact`, files that a reader may leave are included. */
  readonly content: (folder: string, exact?: "exact") => Effect.Effect<unknown>
  /** The layer as an expression of a script, with its imports. */
  readonly script: (folder: string) => string
  /** Whether the test that kills the filling runs for this destination. */
  readonly isKilled: boolean
  /** Waits until a server has ended what a killed program had begun. */
  readonly settled?: Effect.Effect<void>
  /** Further assertions about a complete destination. */
  readonly check?: (folder: string) => Effect.Effect<void, SinkError, NodeServices.NodeServices>
}

/** Makes a record with a value for each column of its list. */
export const recordOf = (list: Lists.AnyList, index: number): string => {
  const record: Record<string, unknown> = {}
  for (const { kind, name, path: [field, inner] } of layoutOf(list).columns) {
    const value = kind === "text" ? `${name} ${index}` : kind === "integer" ? index * 7 + name.length : index % 2 === 0
    // Each field is absent from some records and null in others.
    const shown = (index + name.length) % 11 === 0 ? undefined : (index + name.length) % 13 === 0 ? null : value
    if (inner === undefined) record[field] = shown
    else record[field] = { ...(record[field] as object | undefined), [inner]: shown } // what is made here
  }
  return JSON.stringify({ ...record, id: `${list.label}-${index}`, undocumented: 1 })
}

/** Records with an id that do not decode, and records with texts that a column cannot store exactly. */
const oddRecords = [
  `{"id":"odd-1","amount":"12","reference":"kept"}`,
  `{"id":"odd-2","amount":9007199254740990.6,"reference":"a\\u0000b\\ud800"}`,
  `{"id":"odd-3","customerDetails":"none","createdAt":5}`,
  `{"amount":1}`
]

const recordsOf = (count: number) =>
  Object.fromEntries(
    Lists.all.map((list) => [
      list.name,
      [...Array.from({ length: count }, (_, index) => recordOf(list, index)), ...oddRecords]
    ])
  )

/** The paths of the fields of each list that a smaller list may lack. */
const paths = Lists.all.flatMap((list) =>
  layoutOf(list).columns.filter(({ name }) => name !== "id").map(({ path }) => ({ list, path: path.join(".") }))
)

/** Returns the lists without the fields with these indexes in {@link paths}. */
const withoutAll = (places: Iterable<number>): AllLists =>
  Lists.all.map((list) => {
    const dropped = [...new Set(places)].flatMap((place) => {
      const found = paths[place % paths.length]
      return found?.list === list ? [found.path] : []
    })
    // Keep the last field of an embedded object: without any field, the object would not be in the list.
    return without(list, ...dropped)
  })

/** The lists of an earlier version: without a text, an amount, a field of an embedded object, and payin sources. */
export const smallerLists: AllLists = [
  without(Lists.payoutRequests, "reference", "fee", "customerDetails.email"),
  without(Lists.invoices, "contract", "paymentAmount")
]

const limit = 10

/** Runs the suite over a destination. */
export const evolutionSuite = (name: string, destination: EvolvingDestination) => {
  const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices | Scope.Scope>) =>
    FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped()).pipe(
      Effect.flatMap(use),
      Effect.scoped,
      Effect.provide(NodeServices.layer)
    )

  const events: Array<ScanEvent> = []

  /** Exports all lists that the program knows. */
  const run = (folder: string, lists: AllLists, records: Parameters<typeof layerTest>[0]) =>
    Effect.gen(function*() {
      events.length = 0
      const onEvent = (event: ScanEvent) => Effect.sync(() => void events.push(event))
      const outcomes = yield* scanAll(lists.map((list) => list.name), { limit, largestBatch: 50, lists, onEvent })
      for (const { result } of outcomes) if (Result.isFailure(result)) return yield* result.failure
      return outcomes
    }).pipe(Effect.provide(Layer.merge(destination.layer(folder, lists), layerTest(records))))

  /** Opens the destination for writing and closes it again. */
  const open = (folder: string, lists: AllLists) =>
    Effect.scoped(Effect.asVoid(Layer.build(destination.layer(folder, lists))))

  const rowsOf = (reader: Reader, list: Lists.AnyList) =>
    Effect.gen(function*() {
      const found: Array<FullRow> = []
      for (;;) {
        const rows = yield* reader.rows(list, found.at(-1)?.row ?? -1, 1000)
        if (rows.length === 0) return found
        found.push(...rows)
      }
    })

  /** Returns the rows of all lists with their typed cells, and the columns of all tables and views. */
  const stateOf = (folder: string) =>
    Effect.scoped(Effect.gen(function*() {
      const reader = yield* destination.reader(folder)
      const rows = yield* Effect.forEach(Lists.all, (list) =>
        Effect.map(rowsOf(reader, list), (found) =>
          found.map(({ cells, hash, id, raw, row }) => ({
            row,
            id,
            raw,
            hash,
            cells: layoutOf(list).columns.map((column) => [column.name, cells[column.name] ?? null])
          }))))
      const relations = [...(yield* destination.relations(folder))].map(([relation, columns]) => [
        relation,
        columns.toSorted()
      ])
      return { rows, relations: relations.toSorted() }
    }))

  const changedAtOf = (folder: string, lists: AllLists) =>
    Effect.scoped(Effect.gen(function*() {
      const reader = yield* destination.reader(folder)
      return yield* Effect.forEach(lists, (list) =>
        Effect.map(rowsOf(reader, list), (rows) =>
          rows.map(({ changedAt, firstSeenAt }) => [changedAt, firstSeenAt])))
    }))

  const changesOf = (folder: string) =>
    Effect.scoped(Effect.flatMap(destination.reader(folder), (reader) => reader.changes(0, 10_000, Lists.all)))

  const verified = (folder: string) =>
    Effect.scoped(Effect.gen(function*() {
      const reader = yield* destination.reader(folder)
      return yield* Effect.forEach(yield* exportedLists(reader), (list) => verify(reader, list))
    }))

  /** Asserts that the destination equals one into which only this version exported the records. */
  const assertFresh = (folder: string, records: Parameters<typeof layerTest>[0]) =>
    Effect.gen(function*() {
      const fresh = yield* inFolder((other) => Effect.andThen(run(other, Lists.all, records), stateOf(other)))
      assert.deepStrictEqual(yield* stateOf(folder), fresh)
      for (const { differences, skipped } of yield* verified(folder)) {
        assert.deepStrictEqual([differences, skipped], [[], []])
      }
      yield* destination.check?.(folder) ?? Effect.void
    })

  describe(`${name} of an earlier version`, () => {
    it.live("gets the missing columns and lists, filled, and is then equal to a new destination", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = recordsOf(35)
          yield* run(folder, smallerLists, records)
          const kept = smallerLists.map((list) => Lists.byName[list.name])
          const before = yield* changedAtOf(folder, kept)
          yield* run(folder, Lists.all, records)
          const filling = events.flatMap((event) => event._tag === "Filling" ? [[event.list, event.filling]] : [])
          assert.deepStrictEqual(Object.fromEntries(filling), {
            payoutRequests: { columns: ["reference", "customer_details_email", "fee"], filled: 0, rows: 38 },
            invoices: { columns: ["contract", "payment_amount"], filled: 0, rows: 38 }
          })
          assert.strictEqual(filling.length, 2)
          assert.deepStrictEqual(yield* changedAtOf(folder, kept), before)
          assert.deepStrictEqual(yield* changesOf(folder), [])
          yield* assertFresh(folder, records)
          yield* run(folder, Lists.all, records)
          assert.isFalse(events.some(({ _tag }) => _tag === "Filling"), "it is filled once")
        })
      ))

    const place = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: paths.length - 1 }))
    it.effect.prop("is equal to a new one after any fields were added in any two steps", {
      first: Schema.Array(place).check(Schema.isMaxLength(12)),
      second: Schema.Array(place).check(Schema.isMaxLength(12)),
      fillsBetween: Schema.Boolean
    }, ({ fillsBetween, first, second }) =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = recordsOf(15)
          yield* run(folder, withoutAll([...first, ...second]), records)
          yield* fillsBetween ? run(folder, withoutAll(second), records) : open(folder, withoutAll(second))
          yield* run(folder, Lists.all, records)
          assert.deepStrictEqual(yield* changesOf(folder), [])
          yield* assertFresh(folder, records)
        })
      ).pipe(TestClock.withLive), { arbitrary: { runs: isLongRun ? 100 : 4 } })

    it.live("resumes an interrupted scan, and certifies no sum of a column that was added during the scan", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = recordsOf(46)
          const reached = yield* Deferred.make<void>()
          const interrupted = yield* Effect.forkChild(
            scan("invoices", {
              limit,
              largestBatch: limit,
              lists: smallerLists,
              onEvent: (event) =>
                event._tag === "Committed" && event.progress.pages === 3
                  ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
                  : Effect.void
            }).pipe(Effect.provide(Layer.merge(destination.layer(folder, smallerLists), layerTest(records))))
          )
          yield* Deferred.await(reached)
          yield* Fiber.interrupt(interrupted)
          const resumed = scan("invoices", { limit, largestBatch: limit }).pipe(
            Effect.provide(Layer.merge(destination.layer(folder, Lists.all), layerTest(records)))
          )
          assert.deepInclude(yield* resumed, { start: "resumed", pages: 5, records: 50, inserted: 49 })
          const sumsOf = Effect.map(verified(folder), (all) => {
            assert.deepStrictEqual(all.flatMap(({ differences }) => differences), [])
            return Object.keys(all.find(({ list }) => list === "invoices")?.certificate?.sums ?? {})
          })
          assert.deepStrictEqual(yield* sumsOf, ["amount"])
          yield* run(folder, Lists.all, records)
          assert.deepStrictEqual(yield* changesOf(folder), [])
          assert.sameMembers(yield* sumsOf, ["amount", "payment_amount"])
          yield* assertFresh(folder, records)
        })
      ))

    it.live("is readable without a change, and reports which columns the next export fills", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = recordsOf(25)
          yield* run(folder, smallerLists, records)
          const unfilled = [
            { label: "payout-requests", columns: ["reference", "customer_details_email", "fee"] },
            { label: "invoices", columns: ["contract", "payment_amount"] }
          ]
          const assertRead = Effect.gen(function*() {
            const before = yield* destination.content(folder)
            const reader = yield* destination.reader(folder)
            assert.deepStrictEqual(yield* unfilledColumns(reader, Lists.all), unfilled)
            for (const { differences, skipped } of yield* verified(folder)) {
              assert.deepStrictEqual(differences, [])
              assert.isTrue(unfilled.some(({ columns }) => columns.join() === skipped.join()))
            }
            assert.deepStrictEqual(yield* reader.changes(0, 10, Lists.all), [])
            assert.strictEqual((yield* reader.quarantine(undefined, 100, Lists.all)).length, 8)
            yield* destination.check?.(folder) ?? Effect.void
            assert.deepStrictEqual(yield* destination.content(folder), before)
          }).pipe(Effect.scoped)
          yield* assertRead
          yield* open(folder, Lists.all)
          yield* assertRead
        })
      ))

    it.live("reports differences in the compared columns, before and after new columns are filled", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, smallerLists, recordsOf(5))
          const problems = Effect.map(verified(folder), (all) =>
            all.flatMap(({ differences }) => differences.map(({ problem }) => problem)))
          yield* destination.execute(folder, (prefix) =>
            `UPDATE ${prefix}invoices SET description = 'x' WHERE id = 'invoices-3'`)
          assert.deepStrictEqual(yield* problems, ["description differs from raw"])
          yield* run(folder, Lists.all, recordsOf(5))
          yield* destination.execute(folder, (prefix) =>
            `UPDATE ${prefix}invoices SET contract = 'x' WHERE id = 'invoices-3'`)
          assert.deepStrictEqual(yield* problems, ["description differs from raw", "contract differs from raw"])
        })
      ))
  })

  describe(`${name} of a later version`, () => {
    it.live("is refused with the version to use, without changing a byte", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = recordsOf(15)
          yield* run(folder, Lists.all, records)
          yield* destination.execute(folder, (prefix) => `UPDATE ${prefix}program_version SET version = '7.8.9'`)
          const before = yield* destination.content(folder, "exact")
          for (
            const older of [
              smallerLists,
              Lists.all.with(2, without(Lists.invoices, "contract")),
              Lists.all.slice(0, 2)
            ]
          ) {
            const read = Effect.asVoid(Effect.scoped(destination.reader(folder, older)))
            for (const attempt of [Effect.asVoid(run(folder, older, records)), open(folder, older), read]) {
              const error = yield* Effect.flip(attempt)
              assert.strictEqual(exitCodeOf(error), 9)
              assert.include(
                error.message,
                "it was written by a later version of this program (7.8.9). Use that version."
              )
            }
          }
          assert.deepStrictEqual(yield* destination.content(folder, "exact"), before)
        })
      ))

    it.live("is refused by an earlier program that opened it before it was extended", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = recordsOf(15)
          yield* run(folder, smallerLists, records)
          const older = yield* Layer.build(destination.layer(folder, smallerLists))
          yield* run(folder, Lists.all, records)
          const before = yield* stateOf(folder)
          const attempt = scan("invoices", { lists: smallerLists }).pipe(
            Effect.provide(layerTest({ invoices: [recordOf(Lists.invoices, 99)] })),
            Effect.provide(older)
          )
          assert.include((yield* Effect.flip(attempt)).message, "it was written by a later version of this program")
          assert.deepStrictEqual(yield* stateOf(folder), before)
        })
      ))

    it.live("is refused if a column has another type, with what to do", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, Lists.all, recordsOf(3))
          const { fields } = Lists.invoices.record
          const record = Schema.Struct({ ...fields, amount: fields["reference"] ?? Schema.String })
          // Destinations use only a list's name, label and fields.
          const other = { ...Lists.invoices, record } as unknown as Lists.AnyList
          const error = yield* Effect.flip(open(folder, Lists.all.with(2, other)))
          assert.strictEqual(exitCodeOf(error), 9)
          assert.include(
            error.message,
            "its column invoices.amount has the type integer, but this version of the program needs text. Export into a new destination (another --to)."
          )
        })
      ))
  })

  if (!destination.isKilled) return
  const size = isLongRun ? 100_000 : 4000
  const kills = isLongRun ? 20 : 3
  describe(`${name} that is killed ${kills} times while the columns of ${size} rows are filled (seed ${seed})`, () => {
    it.live(
      "loses one batch at most by each kill, and ends equal to a new one",
      () =>
        inFolder((folder) =>
          Effect.gen(function*() {
            const invoices = Array.from({ length: size }, (_, index) => recordOf(Lists.invoices, index))
            const load = (into: string, lists: AllLists) =>
              scan("invoices", {
                lists,
                onLocked: "wait",
                onEvent: (event) => Effect.sync(() => void events.push(event))
              })
                .pipe(
                  Effect.provide(Layer.merge(destination.layer(into, lists), layerTest({ invoices })))
                )
            yield* load(folder, smallerLists)
            const before = yield* changedAtOf(folder, [Lists.invoices])
            yield* open(folder, Lists.all)
            const script = `
            import { Lists } from "@payments/core"
            import * as NodeServices from "@effect/platform-node/NodeServices"
            import { Effect } from "effect"
            import { Sink } from ${JSON.stringify(new URL("../../src/index.ts", import.meta.url).href)}
            ${destination.script(folder)}
            const request = { source: "memory", limit: 100, parameters: {} }
            await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
              const sink = yield* Sink
              yield* sink.lock(Lists.invoices, "wait")
              console.log("fills")
              yield* sink.begin(Lists.invoices, request)
            })).pipe(Effect.provide(layer), Effect.provide(NodeServices.layer)))`
            const filledUpTo = Effect.scoped(
              Effect.flatMap(destination.reader(folder), (reader) => reader.columns(Lists.invoices))
            ).pipe(Effect.map((columns) => columns.find(({ name: column }) => column === "contract")?.unfilledFrom))
            const reset = destination.execute(
              folder,
              (prefix) => `UPDATE ${prefix}invoices SET contract = NULL, payment_amount = NULL`
            ).pipe(
              Effect.andThen(
                destination.execute(
                  folder,
                  (prefix) =>
                    `UPDATE ${prefix}list_columns SET unfilled_from = 0 WHERE name IN ('contract', 'payment_amount')`
                )
              )
            )
            // Measure an uninterrupted filling first.
            const started = performance.now()
            const undisturbed = yield* startChild(script)
            const begun = performance.now()
            while ((yield* filledUpTo) !== undefined) {
              yield* Effect.sleep("5 millis")
            }
            const takesMs = performance.now() - begun
            yield* undisturbed.kill("SIGKILL")
            yield* reset
            // How long a filling takes varies on a busy machine.
            let longestMs = takesMs / (isLongRun ? 10 : 2)
            const filledAtKills: Array<number> = []
            let last = 0
            const isEnough = () => filledAtKills.length >= kills && filledAtKills.some((row) => row > 0)
            for (let runs = 0; !isEnough() && runs < kills * 20; runs++) {
              const child = yield* startChild(script)
              yield* Effect.sleep((yield* Random.next) * longestMs)
              yield* child.kill("SIGKILL")
              yield* destination.settled ?? Effect.void
              const now = yield* filledUpTo
              if (now === undefined) {
                longestMs *= 0.7
                yield* reset
                last = 0
                continue
              }
              if (now === last) longestMs *= 1.3
              assert.isAtLeast(now, last, "what was filled stays filled")
              assert.strictEqual(now % 1000, 0, "a batch is whole")
              last = now
              filledAtKills.push(now)
            }
            assert.isTrue(isEnough(), "too few kills hit the filling")
            events.length = 0
            yield* load(folder, Lists.all)
            const filling = events.find((event) => event._tag === "Filling")
            assert.strictEqual(filling?.filling.filled, last)
            console.log(
              `${name}: filling ${size} rows takes ${Math.round(takesMs)} ms (a process starts in ${
                Math.round(begun - started)
              } ms); killed after row ${filledAtKills.join(" ")}`
            )
            assert.deepStrictEqual(yield* changesOf(folder), [])
            assert.deepStrictEqual(yield* changedAtOf(folder, [Lists.invoices]), before)
            const fresh = yield* inFolder((other) => Effect.andThen(load(other, Lists.all), stateOf(other)))
            const found = yield* stateOf(folder)
            assert.deepStrictEqual(found.relations, fresh.relations)
            const [, , expected = []] = fresh.rows
            const [, , rows = []] = found.rows
            assert.strictEqual(rows.length, size)
            const differing = rows.findIndex((row, index) => JSON.stringify(row) !== JSON.stringify(expected[index]))
            assert.strictEqual(differing, -1, `row ${differing}`)
            for (const { differences, skipped } of yield* verified(folder)) {
              assert.deepStrictEqual([differences, skipped], [[], []])
            }
            yield* destination.check?.(folder) ?? Effect.void
          })
        ).pipe(Random.withSeed(seed)),
      isLongRun ? 1_800_000 : 600_000
    )
  })
}
