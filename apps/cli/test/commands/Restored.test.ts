/** The restore drill of docs/export.md, with other numbers: a destination is restored from a backup, and no reader takes its numbers for others. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect, Schedule, type Scope } from "effect"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { runInProcess } from "../program/InProcess.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

/** A destination with its backup. */
interface Copy {
  readonly to: string
  readonly backUp: Effect.Effect<void>
  readonly restore: Effect.Effect<void>
}

const copies: ReadonlyArray<readonly [kind: string, make: Effect.Effect<Copy, never, Scope.Scope>]> = [
  [
    "an SQLite file",
    Effect.map(temporaryFolder, (folder) => {
      const [file, backup] = [join(folder, "payments.db"), join(folder, "backup.db")]
      return {
        to: `sqlite:${file}`,
        backUp: Effect.sync(() => copyFileSync(file, backup)),
        restore: Effect.sync(() => copyFileSync(backup, file))
      }
    })
  ],
  [
    "a PostgreSQL database",
    Effect.sync(() => {
      const run = (sql: string) => Effect.promise(() => query(server, sql))
      // A process of the server may end later than its connection, and a database in use is no template.
      const isUnused = Effect.repeat(run("SELECT FROM pg_stat_activity WHERE datname = 'finance'"), {
        until: (sessions) => sessions.length === 0,
        schedule: Schedule.spaced("20 millis")
      })
      return {
        to: `postgres://${user}@127.0.0.1:${server.port}/finance`,
        backUp: Effect.asVoid(Effect.andThen(isUnused, run("CREATE DATABASE backup TEMPLATE finance"))),
        restore: Effect.asVoid(
          Effect.andThen(run("DROP DATABASE finance WITH (FORCE)"), run("ALTER DATABASE backup RENAME TO finance"))
        )
      }
    })
  ]
]

describe.each(copies)("%s that was restored from a backup", (_kind, make) => {
  it.live("refuses every position whose changes it may have lost, and says what to do", () =>
    Effect.gen(function*() {
      const { backUp, restore, to } = yield* make
      if (to.startsWith("postgres:")) yield* Effect.promise(() => query(server, "CREATE DATABASE finance"))
      const exporting = (amount: number) =>
        runInProcess(
          layerTest({ invoices: Array.from({ length: 5 }, (_amount, index) => ({ id: `inv_${index}`, amount })) }),
          ["export", "invoices", "--to", to]
        )
      const run = (...args: ReadonlyArray<string>) => runInProcess(layerTest({}), [...args, "--from", to])
      const changes = (...args: ReadonlyArray<string>) =>
        Effect.map(run("changes", ...args), ({ code, err, out }) => ({
          code,
          err,
          rows: out.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))
        }))

      for (const amount of [1, 2]) yield* exporting(amount)
      yield* run("changes", "--consumer", "behind", "--ack")
      yield* run("changes", "--consumer", "ahead", "--ack")
      yield* backUp
      yield* exporting(3)
      const { rows: lost } = yield* changes("--consumer", "ahead", "--ack")
      assert.deepStrictEqual(lost.map(({ seq }) => seq), [6, 7, 8, 9, 10])
      const [{ generation }] = lost
      yield* restore

      const restored = yield* run("restored", "--format", "json")
      assert.strictEqual(restored.code, 0, restored.err)
      const begun = JSON.parse(restored.out)
      assert.deepInclude(begun, { beganAfter: 5, reason: "restored" })
      assert.deepStrictEqual(begun.consumers, [
        { consumer: "ahead", generation, position: 5 },
        { consumer: "behind", generation, position: 5 }
      ])
      yield* exporting(4)

      // The stored positions are those of the backup, so they do not say what was applied.
      for (const name of ["ahead", "behind"]) {
        const refused = yield* changes("--consumer", name, "--ack")
        assert.deepStrictEqual([refused.code, refused.rows], [10, []])
        assert.include(refused.err, `payments changes ack ${name} SEQ --generation GENERATION`)
        assert.strictEqual((yield* run("changes", "ack", name, "7")).code, 10)
      }
      const status = yield* run("status", "--format", "table")
      assert.include(status.out.replaceAll(/\s+/g, " "), `the destination is in generation ${begun.generation}`)
      assert.include(status.out.replaceAll(/\s+/g, " "), "--generation GENERATION: ahead, behind")
      const [consumer] = (yield* run("changes", "consumers")).out.split("\n").map((line) => line && JSON.parse(line))
      assert.deepInclude(consumer, { consumer: "ahead", generation, position: 5, lag: null })

      // A reader that has applied lost changes has to begin again; the others go on.
      const ahead = yield* run("changes", "ack", "ahead", "10", "--generation", generation)
      assert.strictEqual(ahead.code, 10)
      assert.include(ahead.err, "Copy the rows again")
      assert.strictEqual((yield* changes("--after", "10", "--generation", generation)).code, 10)
      assert.strictEqual((yield* run("changes", "ack", "behind", "5", "--generation", generation)).code, 0)
      for (const args of [["--consumer", "behind"], ["--after", "5", "--generation", generation]]) {
        const { code, rows } = yield* changes(...args)
        assert.deepStrictEqual([code, rows.map(({ seq }) => seq)], [0, [6, 7, 8, 9, 10]])
        assert.isTrue(rows.every((row) => row.generation === begun.generation))
        assert.include(JSON.stringify(rows[0].after), `"amount":4`)
      }
    }).pipe(Effect.scoped))
})

describe("an export to a PostgreSQL server that was failed over", () => {
  it.live("says that a generation began, and what consumers have to do", () =>
    Effect.gen(function*() {
      const to = `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=moved`
      const exporting = runInProcess(layerTest({ invoices: [{ id: "inv_1" }] }), ["export", "invoices", "--to", to])
      assert.notInclude((yield* exporting).err, "generation")
      yield* Effect.promise(() => query(server, "UPDATE moved.generations SET origin = 'earlier/00000001'"))
      const { code, err } = yield* exporting
      assert.strictEqual(code, 0)
      assert.match(
        err.replaceAll(/\s+/g, " "),
        /is now in generation [0-9a-f]{12}, which began after change 0 .* Consumers of changes have to say where they stand/
      )
      assert.notInclude((yield* exporting).err, "generation")
    }))
})
