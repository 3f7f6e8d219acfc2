/** The part of a {@link Store} that writes. Each function is one transaction of the program with the list's lock. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import type { KnownChange } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { PassCommit, Reader, Store } from "../store/Store.ts"
import { readNumber, type Row } from "../store/StoredRows.ts"
import type { Bound } from "./SqlBinding.ts"
import {
  type Counted,
  fill,
  passOf,
  resultOf,
  runningScan,
  type Start,
  startAtOnce,
  startScan,
  write,
  writePass
} from "./SqlCommit.ts"
import { changeFactsIn } from "./SqlFacts.ts"
import { ensureGeneration, type Numbering } from "./SqlGenerations.ts"
import { schema, type Sql, sql, type Statement, time } from "./SqlStatement.ts"

/** The last change that this program has written. Later transactions compare it with the destination's numbers. */
export interface Memory {
  known: KnownChange | undefined
}

/** How a database locks lists and commits for the program that has the lock. */
export interface Locks extends Pick<Store, "lock" | "takeOver"> {
  readonly memory: Memory
  /**
   * Runs a statement as a transaction of a locked list. The statement may read {@link boundColumns} as `locked`. It runs once or
   * not at all. Undefined in SQLite, where a transaction of several statements costs no more.
   */
  readonly statement?: (list: Lists.AnyList, statement: Statement) => Effect.Effect<ReadonlyArray<Row>, SinkError>
  /**
   * Runs a transaction of a locked list. If an earlier run of it was committed, although the response was lost, it
   * returns the result of `readResult`.
   */
  readonly transaction: <A>(
    list: Lists.AnyList,
    body: (db: Sql, bound: Bound, numbering: Numbering) => Effect.Effect<A, SinkError>,
    readResult: (db: Sql) => Effect.Effect<A, SinkError>
  ) => Effect.Effect<A, SinkError>
}

export const writerOver = ({ lock, memory, statement, takeOver, transaction }: Locks): Omit<Store, keyof Reader> => {
  /** Commits in the current generation, and remembers the number of the last change. */
  const numbered = <A>(
    { list, now }: Pick<PassCommit, "list" | "now">,
    body: (db: Sql, start: Start) => Effect.Effect<Counted<A>, SinkError>,
    readResult: (db: Sql) => Effect.Effect<A, SinkError>
  ) =>
    Effect.suspend(() => {
      let written: KnownChange | undefined
      return Effect.tap(
        transaction(
          list,
          Effect.fnUntraced(function*(db, bound, numbering) {
            const before = yield* ensureGeneration(db, numbering, now)
            const { changes, result } = yield* body(db, { bound, generation: before.generation })
            // Other transactions may have taken numbers meanwhile, so the last number may be higher.
            written = { ...before, seq: before.seq + changes }
            return result
          }),
          readResult
        ),
        () => Effect.sync(() => remember(memory, written))
      )
    })
  const nothing = () => Effect.void
  return {
    lockAndTakeOver: (label, onLocked) => Effect.andThen(lock(label, onLocked), takeOver(label)),
    lock,
    takeOver,
    rebind: (list, source) =>
      transaction(list, (db) => db.run(sql`UPDATE ${schema}.destination SET source = ${source}`), nothing),
    start: (scan) =>
      Effect.flatMap(
        statement?.(scan.list, startAtOnce(scan)) ?? Effect.succeed([]),
        ([started]) =>
          started === undefined
            ? transaction(scan.list, (db, bound) => startScan(db, { bound }, scan), (db) => runningScan(db, scan))
            : Effect.succeed(readNumber(started, "scan"))
      ),
    fillRows: (filled) => transaction(filled.list, (db, bound) => fill(db, { bound }, filled), nothing),
    commit: (commit) => numbered(commit, (db, start) => write(db, start, commit), (db) => resultOf(db, commit)),
    commitPass: (commit) => numbered(commit, (db, start) => writePass(db, start, commit), (db) => passOf(db, commit)),
    changeFacts: (list, service, change) =>
      transaction(list, (db) => changeFactsIn(db, list, service, change), nothing),
    setHeadProblem: (list, problem, now) =>
      transaction(
        list,
        Effect.fnUntraced(function*(db) {
          yield* db.run(sql`DELETE FROM ${schema}.head_passes WHERE list = ${list.label}`)
          if (problem === undefined) return
          yield* db.run(
            sql`INSERT INTO ${schema}.head_passes (list, stopped_at, problem) VALUES (${list.label}, ${
              time(now)
            }, ${problem})`
          )
        }),
        nothing
      )
  }
}

const remember = (memory: Memory, written: KnownChange | undefined): void => {
  if (written === undefined) return
  const { known } = memory
  if (known?.generation !== written.generation || known.seq <= written.seq) memory.known = written
}
