import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type CommitFaultProxy, startProxy } from "@payments/testkit/postgres/CommitFaultProxy"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Console, Deferred, Duration, Effect, Fiber, Layer, type Scope } from "effect"
import { copyFileSync, existsSync } from "node:fs"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import { prune } from "../../src/ask/Retention.ts"
import { verify } from "../../src/ask/Verify.ts"
import { type ScanProgress, type Session, Sink, type SinkError } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { openScanner, type ScanEvent } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import type { Maintenance, Reader } from "../../src/store/Store.ts"
import { ChangeReplay, rowsIn } from "./ChangeReplay.ts"
import { ChangingList, layerOver } from "./ChangingList.ts"
import { idOf } from "./ReferenceModel.ts"

const days = ["2024-05-01", "2024-05-02", "2024-05-03"]
const orders = ["newest", "newest", "oldest", "shuffled"] as const

/** A kind of destination. Each history has its own folder, or a schema with the folder's name. */
interface DestinationCase {
  readonly name: string
  readonly histories: number
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
  /** Copies the destination as a killed process would leave it, if that is possible. */
  readonly copy?: (from: string, to: string) => void
}

/** Counts of events over all histories. */
interface Figures {
  fullScans: number
  resumed: number
  restarts: number
  passes: number
  /** Passes that ended between two commits of a full scan, and changed rows. */
  duringFullScan: number
  interruptions: number
  kills: number
  missing: number
  /** Changes and scans that were removed. */
  removed: number
  /** Missing rows that were removed, most of them during full scans and passes. */
  removedRows: number
}

/** The expected content of a destination, from what was committed in which order. */
class Model {
  /** The number of the version of each record that is stored. An interrupted commit may have written another one. */
  readonly #versions = new Map<string, ReadonlySet<number>>()
  /** The records that were certainly committed. */
  readonly #stored = new Set<string>()
  readonly #running = new Set<ReadonlyArray<string>>()
  /** When each record was last committed, by a full scan or a pass, as the number of commits before. */
  readonly #byFullScan = new Map<string, number>()
  readonly #byPass = new Map<string, number>()
  #commits = 0
  #missing: ReadonlySet<string> = new Set()
  /** The last full scan that was opened. */
  #last: { readonly scan: number; began: number; isComplete: boolean } | undefined
  /** When the last complete full scan began. */
  #completeBegan = Number.POSITIVE_INFINITY

  /** Notes that a full scan was opened. After a kill, another scan may get the same number. */
  begin(scan: number, isResumed: boolean): void {
    if (!isResumed || this.#last?.scan !== scan) this.#last = { scan, began: this.#commits, isComplete: false }
  }

  /** Notes that the last full scan was restarted or killed. */
  restart(): void {
    if (this.#last?.isComplete !== false) return
    this.#forgetFullScan()
    this.#last.began = this.#commits
  }

  /** Notes that the last full scan may have forgotten what it has read. If it is resumed, it may read those pages again. */
  #forgetFullScan(): void {
    const began = this.#last?.began ?? 0
    for (const [id, at] of this.#byFullScan) if (at > began) this.#byFullScan.delete(id)
  }

  /** Records a commit, which may be interrupted. */
  record<E, R>(kind: "full" | "pass", texts: ReadonlyArray<string>, commit: Effect.Effect<ScanProgress, E, R>) {
    return Effect.suspend(() => {
      this.#running.add(texts)
      return Effect.onExit(commit, (exit) =>
        Effect.sync(() => {
          if (!this.#running.delete(texts)) return
          // The batch waits for look-ups, and is committed again with what they find.
          if (exit._tag === "Success" && exit.value.unseen > 0) return
          this.#commits++
          // An interrupted commit also loses the batches before it that changed nothing and were not written yet.
          if (kind === "full" && exit._tag === "Failure") this.#forgetFullScan()
          for (const [id, version] of versionsIn(texts)) {
            if (exit._tag === "Failure") {
              this.#versions.set(id, new Set([...this.#versions.get(id) ?? [], version]))
            } else {
              assert.isAtLeast(
                version,
                Math.min(...this.#versions.get(id) ?? [0]),
                `${id} is overwritten by an older version`
              )
              this.#versions.set(id, new Set([version]))
              this.#stored.add(id)
              ;(kind === "full" ? this.#byFullScan : this.#byPass).set(id, this.#commits)
            }
          }
        }))
    })
  }

  /** Notes that a missing row was removed. */
  remove(id: string): void {
    this.#stored.delete(id)
  }

  /** Ends a process. Running commits may have been written, and the next process does not know what passes have read. */
  endProcess(): void {
    for (const texts of this.#running) {
      for (const [id, version] of versionsIn(texts)) {
        this.#versions.set(id, new Set([...this.#versions.get(id) ?? [], version]))
      }
    }
    this.#running.clear()
    this.#byPass.clear()
  }

  /** Compares the destination with the model while nothing runs. Returns the number of rows that were marked missing. */
  readonly check = Effect.fnUntraced(function*(this: Model, reader: Reader): Effect.fn.Return<number, SinkError> {
    const rows = yield* rowsIn(reader)
    const stored = new Map(rows.map(({ id, raw }) => [id, raw]))
    for (const [id, versions] of this.#versions) {
      const raw = stored.get(id)
      // Only an interrupted first commit may be absent.
      if (raw === undefined) assert.isFalse(this.#stored.has(id), `${id} is lost`)
      else assert.include([...versions], versionsIn([raw])[0]?.[1], id)
    }
    this.#versions.clear()
    for (const [id, version] of versionsIn([...stored.values()])) this.#versions.set(id, new Set([version]))
    const missing = rows.filter(({ missingSince }) => missingSince !== undefined).map(({ id }) => id)
    const newlyMissing = missing.filter((id) => !this.#missing.has(id))
    this.#missing = new Set(missing)
    for (const id of newlyMissing) {
      const read = Math.max(this.#byFullScan.get(id) ?? 0, this.#byPass.get(id) ?? 0)
      assert.isAtMost(read, this.#completeBegan, `${id} was returned since the previous full scan began`)
    }
    const last = this.#last
    const isComplete = last !== undefined && !last.isComplete &&
      (yield* reader.scansFrom(Lists.invoices, last.scan)).some(({ scan, state }) =>
        scan === last.scan && state === "complete"
      )
    if (isComplete) {
      last.isComplete = true
      this.#completeBegan = last.began
    } else assert.deepStrictEqual(newlyMissing, [], "only a complete full scan marks rows missing")
    return newlyMissing.length
  })
}

/** Returns the id and the version of each record of {@link ChangingList}: its amount, which may be quarantined text. */
const versionsIn = (texts: ReadonlyArray<string>): ReadonlyArray<readonly [id: string, version: number]> =>
  texts.map((text) => [idOf(text) ?? "", Number(/"amount":"?(\d+)/.exec(text)?.[1])])

/** Records the commits of a sink in the model. */
const recorded = (model: Model, sink: Layer.Layer<Sink, SinkError>): Layer.Layer<Sink, SinkError> => {
  const recordedSession = (kind: "full" | "pass", session: Session): Session => ({
    ...session,
    commit: (batch) => model.record(kind, batch.records.map(({ text }) => text), session.commit(batch))
  })
  return Layer.effect(
    Sink,
    Effect.map(Sink, ({ begin, passes, ...inner }) =>
      Sink.of({
        ...inner,
        begin: (list, request) =>
          Effect.map(begin(list, request), (session) => {
            model.begin(session.scan, session.start === "resumed")
            const restart = Effect.tap(session.restart, () => Effect.sync(() => model.restart()))
            return recordedSession("full", { ...session, restart })
          }),
        ...(passes === undefined ? {} : {
          passes: {
            ...passes,
            begin: (list, kind, request) =>
              Effect.map(passes.begin(list, kind, request), (session) => recordedSession("pass", session))
          }
        })
      }))
  ).pipe(Layer.provide(sink))
}

/** Plays one history: several processes, each with full scans and passes at any moment, which may be interrupted or killed. */
const play = (destination: DestinationCase, number: number, figures: Figures) =>
  Effect.gen(function*() {
    const dice = diceOf(seed, "passes", destination.name, number)
    const list = new ChangingList(dice, { order: dice.pick(orders), cursors: "keyset" }, 10 + dice.below(50), days)
    const model = new Model()
    const changes = new ChangeReplay()
    let folder = yield* temporaryFolder

    /** Removes all missing rows at any moment. */
    const removeMissing = Effect.scoped(Effect.gen(function*() {
      const opened = yield* destination.open(folder)
      // The number of a row is never used again.
      const ids = new Map((yield* rowsIn(opened)).map(({ id, row }) => [row, id]))
      const { rows } = yield* prune(
        {
          ...opened,
          pruneRows: (batch, choose) =>
            opened.pruneRows(batch, (old, needs) => {
              // The process may be killed after the commit.
              const chosen = choose(old.filter(({ row }) => ids.has(row)), needs)
              for (const { row } of chosen.rows) {
                const id = ids.get(row) ?? ""
                model.remove(id)
                changes.removed.add(id)
              }
              return chosen
            })
        },
        { keepMissing: Duration.zero },
        [Lists.invoices]
      )
      figures.removedRows += rows.removed
    }))

    const check = Effect.scoped(Effect.gen(function*() {
      const opened = yield* destination.open(folder)
      figures.missing += yield* model.check(opened)
      yield* changes.replay(opened)
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
      if (dice.chance(0.8)) return
      yield* moveConsumer(opened, { name: "replay", position: changes.position, when: "forward" })
      const pruned = yield* prune(opened, { keepChanges: Duration.zero, keepScans: Duration.zero })
      figures.removed += pruned.changes.removed + pruned.scans.removed
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
    }))

    /** Runs one process. Returns the folder in which the next one continues: `copy` if the process is killed. */
    const runProcess = Effect.fnUntraced(function*(copy: string) {
      let commits = 0
      let interruption: { readonly commits: number; readonly reached: Deferred.Deferred<void> } | undefined
      const passes: Array<Fiber.Fiber<void>> = []
      const onEvent = (event: ScanEvent): Effect.Effect<void> => {
        if (event._tag === "Begun" && event.start === "resumed") figures.resumed++
        if (event._tag === "Restarted") figures.restarts++
        if (event._tag !== "Committed" || event.kind !== "full") return Effect.void
        commits++
        if (interruption?.commits === commits) Deferred.doneUnsafe(interruption.reached, Effect.void)
        if (dice.chance(0.1)) return startRemoval
        return dice.chance(0.2) ? startPass : Effect.void
      }
      const context = yield* Layer.build(
        Layer.merge(layerOver(list), recorded(model, destination.layer(folder)))
      )
      const scanner = yield* openScanner("invoices", {
        limit: dice.pick([3, 5, 8]),
        largestBatch: dice.pick([1, 20]),
        missingLimit: 1,
        onEvent
      }).pipe(Effect.provide(context))
      const yields = (most: number) =>
        Effect.forEach(Array.from({ length: dice.below(most) }), () => Effect.yieldNow, { discard: true })
      const startPass = Effect.suspend(() => {
        const pass = dice.chance(0.6)
          ? scanner.head(1 + dice.below(3))
          : scanner.window(dice.pick([days, days.slice(1)]))
        const before = commits
        return Effect.map(
          Effect.forkDetach(
            Effect.andThen(yields(30), pass).pipe(
              Effect.map(({ inserted, pages, returned, updated }) => {
                if (pages > 0) figures.passes++
                if (commits > before && inserted + returned + updated > 0) figures.duringFullScan++
              }),
              // A refused cursor fails a pass.
              Effect.catchTag("PaymentsError", () => Effect.void),
              Effect.orDie
            )
          ),
          (fiber) => void passes.push(fiber)
        )
      })
      const startRemoval = Effect.map(
        Effect.forkDetach(Effect.andThen(yields(30), Effect.orDie(removeMissing))),
        (fiber) => void passes.push(fiber)
      )
      const joinPasses = Effect.suspend(() => Effect.forEach(passes.splice(0), (fiber) => Fiber.join(fiber)))
      for (let step = dice.below(5); step >= 0; step--) {
        list.pace = dice.pick([0, 1, 3])
        list.refusesCursor = dice.chance(0.1)
        if (dice.chance(0.3)) list.restoreRemoved()
        if (dice.chance(0.4)) yield* startPass
        if (dice.chance(0.2)) yield* joinPasses
        const reached = Deferred.makeUnsafe<void>()
        interruption = dice.chance(0.5) ? { commits: commits + 1 + dice.below(6), reached } : undefined
        const full = yield* Effect.forkChild(
          // If rows were removed at its end, a scan has no certificate, and the next run reads the list again.
          Effect.retry(scanner.full, {
            while: (error) => error._tag === "SinkError" && error.reason._tag === "RowsRemoved"
          })
        )
        yield* Effect.raceFirst(Deferred.await(reached), Effect.exit(Fiber.join(full)))
        if (!Deferred.isDoneUnsafe(reached)) {
          yield* Fiber.join(full)
          figures.fullScans++
          yield* joinPasses
        } else {
          yield* yields(20)
          const isKilled = destination.copy !== undefined && dice.chance(0.5)
          if (isKilled) {
            destination.copy?.(folder, copy)
            model.restart()
            model.endProcess()
            figures.kills++
            yield* Fiber.interruptAll([full, ...passes])
            return copy
          }
          if (dice.chance(0.5)) yield* Fiber.interruptAll(passes.splice(0))
          yield* Fiber.interrupt(full)
          figures.interruptions++
          yield* joinPasses
        }
        yield* check
      }
      model.endProcess()
      return folder
    })
    for (let processes = 2 + dice.below(4); processes > 0; processes--) {
      folder = yield* Effect.scoped(runProcess(yield* temporaryFolder))
      yield* check
    }
    // Without further changes, the copy becomes equal to the list.
    list.pace = 0
    list.refusesCursor = false
    yield* Effect.gen(function*() {
      const scanner = yield* openScanner("invoices", { limit: 5, missingLimit: 1 }).pipe(
        Effect.provide(yield* Layer.build(Layer.merge(layerOver(list), recorded(model, destination.layer(folder)))))
      )
      for (let scans = 0; scans < 3; scans++) {
        yield* scanner.full
        yield* check
      }
    }).pipe(Effect.scoped)
    const rows = yield* Effect.scoped(Effect.flatMap(destination.open(folder), rowsIn))
    const present = rows.filter(({ missingSince }) => missingSince === undefined).map(({ id, raw }) =>
      [id, raw] as const
    )
    assert.deepStrictEqual(new Map(present.toSorted()), new Map([...list.texts()].toSorted()))
  }).pipe(
    Effect.scoped,
    Effect.onError(() => Console.error(`history ${number} of ${destination.name}, seed ${seed}`))
  )

let server: PostgresServer
/** Breaks the connection around one COMMIT in five, so that its result is unknown. */
let proxy: CommitFaultProxy
beforeAll(async () => {
  server = await startServer()
  const dice = diceOf(seed, "commit faults")
  let hasFailed = false
  proxy = await startProxy(server.port, () => {
    hasFailed = !hasFailed && dice.chance(0.2)
    return hasFailed ? dice.pick(["disconnectBefore", "disconnectAfter", "race"]) : "pass"
  })
})
afterAll(async () => {
  await proxy.close()
  await server.stop()
})

const databaseIn = (folder: string) => join(folder, "payments.db")

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    histories: isLongRun ? 1000 : 20,
    layer: (folder) => SqliteSink.layer(databaseIn(folder)),
    open: (folder) => openMaintenance(databaseIn(folder), "here"),
    copy: (from, to) => {
      for (const suffix of ["", "-wal"]) {
        if (existsSync(databaseIn(from) + suffix)) copyFileSync(databaseIn(from) + suffix, databaseIn(to) + suffix)
      }
    }
  },
  {
    name: "postgres://HOST",
    histories: isLongRun ? 100 : 2,
    layer: (folder) => PostgresSink.layer(urlOf(proxy, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder)))
  }
]

describe(`a list that changes during full scans and passes, which are interrupted and killed (seed ${seed})`, () => {
  it.live.each(destinations)(
    "is stored with its last texts, certified by every full scan, and recorded in changes, and no row is wrongly missing: " +
      "$histories histories in $name",
    (destination) =>
      Effect.gen(function*() {
        const figures: Figures = {
          fullScans: 0,
          resumed: 0,
          restarts: 0,
          passes: 0,
          duringFullScan: 0,
          interruptions: 0,
          kills: 0,
          missing: 0,
          removed: 0,
          removedRows: 0
        }
        for (let number = 1; number <= destination.histories; number++) yield* play(destination, number, figures)
        yield* Console.log(`passes: ${JSON.stringify(figures)}`)
        // A few histories need not contain every kind of event, and only files can be copied at any moment.
        if (destination.histories < 20 || destination.copy === undefined) return
        for (const count of Object.values(figures)) {
          assert.isAbove(count, 0, "the histories contain every kind of event")
        }
      }),
    1_200_000
  )
})
