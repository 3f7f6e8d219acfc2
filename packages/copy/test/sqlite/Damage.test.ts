/** Every reader of a database reports damage to its pages, tables and values. None ends with a stack trace. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type Dice, diceOf, seed } from "@payments/testkit/Seed"
import { Effect, Exit, Layer } from "effect"
import { closeSync, copyFileSync, mkdirSync, openSync, readFileSync, rmSync, truncateSync, writeSync } from "node:fs"
import { join } from "node:path"
import { outcomeExitCode } from "../../../program/src/outcome/ErrorTable.ts"
import * as FileSink from "../../src/files/FileSink.ts"
import {
  exportedLists,
  scan,
  scanAll,
  scanParts,
  type Sink,
  type SinkError,
  verify,
  verifyFiles
} from "../../src/index.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openReader } from "../../src/sqlite/SqliteStore.ts"

const names = Lists.all.map(({ name }) => name)

/** Records of every list. Some are longer than a database page, and one does not match the document. */
const listsAt = (time: number) =>
  Object.fromEntries(names.map((name) => [
    name,
    [
      ...Array.from({ length: 40 }, (_, index) => ({
        id: `${name}_${index}`,
        amount: index + (index % 5 === 0 ? time : 0),
        contract: index % 2 === 0 ? "even" : "odd",
        extra: "x".repeat(index === 7 ? 20_000 + time : 200)
      })),
      { id: `${name}_odd`, amount: "many" }
    ]
  ]))

const layersAt = (layer: Layer.Layer<Sink, SinkError>, time: number) => Layer.merge(layer, layerTest(listsAt(time)))

/** Runs three scans of all lists and one of parts, so that every table has rows. */
const fill = Effect.fnUntraced(function*(layer: Layer.Layer<Sink, SinkError>) {
  for (const time of [0, 1, 2]) yield* Effect.provide(scanAll(names), layersAt(layer, time))
  yield* Effect.provide(scanParts("invoices", { field: "contract", values: ["even", "odd"] }), layersAt(layer, 3))
})

/** Returns the exit code of `payments verify`: 0, 9 or 11. */
const verifyCode = (file: string) =>
  Effect.gen(function*() {
    const reader = yield* openReader(file, "here")
    const damage = yield* reader.damage
    const lists = yield* Effect.forEach(yield* exportedLists(reader), (list) => verify(reader, list))
    return damage.length > 0 || lists.some(({ differences }) => differences.length > 0) ? 11 : 0
  }).pipe(Effect.scoped, Effect.catchTag("SinkError", () => Effect.succeed(9)))

const readChanges = Effect.fnUntraced(function*(file: string) {
  const reader = yield* openReader(file, "here")
  for (let after = 0;;) {
    const chunk = yield* reader.changes(after, 50, Lists.all)
    const last = chunk.at(-1)
    if (last === undefined) return
    after = last.seq
  }
}, Effect.scoped)

/** Asserts that the effect succeeds or fails with a typed error, without a defect. */
const assertNoDefect = Effect.fnUntraced(function*<A>(what: string, effect: Effect.Effect<A, unknown>) {
  const exit = yield* Effect.exit(effect)
  const reasons = Exit.isFailure(exit) ? exit.cause.reasons : []
  assert.deepStrictEqual(reasons.filter(({ _tag }) => _tag !== "Fail"), [], what)
})

/** Asserts that no reader or writer of the file ends with a defect. Returns the exit code of `payments verify`. */
const assertHandled = Effect.fnUntraced(function*(file: string, what: string) {
  const code = yield* verifyCode(file)
  yield* assertNoDefect(`changes: ${what}`, readChanges(file))
  const outcomes = yield* Effect.exit(Effect.provide(scanAll(names), layersAt(SqliteSink.layer(file), 4)))
  yield* assertNoDefect(`export: ${what}`, outcomes)
  if (Exit.isSuccess(outcomes)) {
    assert.deepStrictEqual(outcomes.value.filter((outcome) => outcomeExitCode(outcome) === 1), [], what)
  }
  return code
})

const overwrite = (file: string, offset: number, bytes: Uint8Array) => {
  const descriptor = openSync(file, "r+")
  writeSync(descriptor, bytes, 0, bytes.length, offset)
  closeSync(descriptor)
}

const noise = (dice: Dice, length: number) => Uint8Array.from({ length }, () => dice.below(256))

const pageSize = 16_384

/** Returns SQL that adds a running scan of all invoices with the given totals and checkpoint. */
const insertRunningScan = (totals: string, checkpoint: string) =>
  `INSERT INTO scans (list, part, request, state, checkpoint, first_row, pages, totals, started_at)
  SELECT list, part, request, 'running', ${checkpoint}, first_row, 1, ${totals}, started_at FROM scans
  WHERE list = 'invoices' AND part = '' LIMIT 1`

describe("a database", () => {
  it.live(`is reported as damaged if any of its pages is overwritten (seed ${seed})`, () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const whole = join(folder, "whole.db")
      yield* fill(SqliteSink.layer(whole))
      assert.strictEqual(yield* verifyCode(whole), 0)
      const used = rowsOf(whole, "SELECT pageno FROM dbstat").map(({ pageno }) => Number(pageno))
      assert.isAtLeast(used.length, 40)
      const file = join(folder, "x.db")
      for (const page of used) {
        const dice = diceOf(seed, page)
        copyFileSync(whole, file)
        const length = dice.pick([pageSize, pageSize, pageSize / 2])
        overwrite(
          file,
          (page - 1) * pageSize,
          dice.chance(0.8) ? noise(dice, length) : new Uint8Array(pageSize).fill(255)
        )
        const code = yield* assertHandled(file, `page ${page}`)
        assert.include(page === 1 ? [9] : [9, 11], code, `page ${page}`)
        for (const companion of ["-wal", "-shm"]) rmSync(file + companion, { force: true })
      }
    }).pipe(Effect.scoped))

  it.live("that is truncated, or lacks a table or a column, is reported as damaged, with what to do", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const whole = join(folder, "whole.db")
      yield* fill(SqliteSink.layer(whole))
      const tables = rowsOf(whole, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
      const harms: ReadonlyArray<readonly [what: string, harm: (file: string) => void, damage: string]> = [
        [
          "truncated to half",
          (file) => truncateSync(file, readFileSync(whole).length / 2),
          "pages of it cannot be read (SQLite 11)"
        ],
        ...tables.map(({ name }) =>
          [
            `without ${String(name)}`,
            (file: string) => execute(file, `DROP TABLE ${String(name)}`),
            `the table ${String(name)} is missing`
          ] as const
        ),
        ["without a column", (file) => {
          execute(file, "DROP VIEW invoices_seen; ALTER TABLE invoices DROP COLUMN contract")
        }, "the column invoices.contract is missing"]
      ]
      for (const [index, [what, harm, damage]] of harms.entries()) {
        const file = join(folder, `${index}.db`)
        copyFileSync(whole, file)
        harm(file)
        const writing = Effect.asVoid(Effect.provide(scan("invoices"), layersAt(SqliteSink.layer(file), 4)))
        for (const refused of [writing, Effect.asVoid(Effect.scoped(openReader(file, "here")))]) {
          const { message } = yield* Effect.flip(refused)
          assert.include(message, `it is damaged: ${damage}`, what)
          assert.include(message, "Export into a new destination (another --to)", what)
          assert.match(message, /rows can still be read|No list can be read completely/, what)
        }
        assert.strictEqual(yield* assertHandled(file, what), 9, what)
      }
    }).pipe(Effect.scoped))

  it.live("that is damaged: the error names the lists whose rows are still readable", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "x.db")
      yield* fill(SqliteSink.layer(file))
      const [{ pageno } = { pageno: 0 }] = rowsOf(
        file,
        "SELECT pageno FROM dbstat WHERE name = 'invoices' AND pagetype = 'leaf' LIMIT 1"
      )
      overwrite(file, (Number(pageno) - 1) * pageSize, new Uint8Array(pageSize).fill(255))
      const { message } = yield* Effect.flip(Effect.provide(scan("invoices"), layersAt(SqliteSink.layer(file), 4)))
      assert.match(
        message,
        /All rows can still be read of payout-requests \(41\), payin-sources \(41\),.* but not of invoices\./
      )
      assert.include(message, "it is damaged: pages of it cannot be read (SQLite 11).")
      assert.notInclude(message, "What was committed is kept")
    }).pipe(Effect.scoped))

  it.live.each(
    [
      ["an amount beyond 2^53", "UPDATE invoices SET amount = 9007199254740993 WHERE row = 3", [0, 11]],
      ["an amount of 63 bits", "UPDATE invoices SET amount = -9223372036854775807 WHERE row = 3", [0, 11]],
      ["a scan number beyond 2^53", "UPDATE scans SET scan = 9007199254740993 WHERE scan = 5", [9, 11]],
      ["a row number beyond 2^53", "UPDATE invoices SET row = 9007199254740993 WHERE row = 40", [9, 11]],
      ["damaged totals", `UPDATE scans SET totals = '{"counts":'`, [0, 11]],
      ["totals of something else", `UPDATE scans SET totals = '{"counts":{}}'`, [0, 11]],
      ["totals that are empty", `UPDATE scans SET totals = ''`, [0, 11]],
      ["a running scan whose totals are damaged", insertRunningScan("'{\"counts\":'", "NULL"), [9, 11]],
      ["a running scan whose totals are of something else", insertRunningScan("'{}'", "NULL"), [9, 11]],
      ["a running scan whose checkpoint is damaged", insertRunningScan("totals", "'{\"cursor'"), [0, 0]],
      ["a damaged certificate", `UPDATE scans SET certificate = '{"scan"' WHERE certificate IS NOT NULL`, [0, 11]],
      ["a part of something else", `UPDATE scans SET part = 'x' WHERE part <> ''`, [0, 0]],
      ["changes whose fields are no list", "UPDATE changes SET fields = '{'", [0, 0]],
      ["a raw that is no JSON", "UPDATE invoices SET raw = '{' WHERE row = 5", [9, 11]],
      ["bits of another size", "UPDATE seen SET bits = x'ff'", [0, 11]]
    ] as const
  )(
    "with %s: verify reports it, and changes, export and rendering succeed or report it",
    ([what, sql, [exported, code]]) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const [file, copy] = [join(folder, "x.db"), join(folder, "files", "copy.db")]
        yield* fill(SqliteSink.layer(file))
        execute(file, sql)
        assert.strictEqual(yield* assertHandled(file, what), code)
        const outcomes = yield* Effect.provide(scanAll(["invoices"]), layersAt(SqliteSink.layer(file), 5))
        const exitCode = outcomes[0] === undefined ? 1 : outcomeExitCode(outcomes[0])
        // One record of each list is quarantined, which gives code 10.
        assert.strictEqual(exitCode === 10 ? 0 : exitCode, exported)
        for (const format of what.includes("amount") ? (["csv", "parquet"] as const) : (["ndjson"] as const)) {
          rmSync(join(folder, "files"), { recursive: true, force: true })
          mkdirSync(join(folder, "files"))
          const layer = FileSink.layer(join(folder, "files"), { format, compress: "none", formulas: "escape" }).pipe(
            Layer.provide(NodeServices.layer)
          )
          yield* fill(layer)
          execute(copy, sql)
          yield* assertNoDefect(
            `files: ${what}`,
            Effect.provide(verifyFiles(join(folder, "files")), NodeServices.layer)
          )
          const rendered = yield* Effect.exit(Effect.provide(scanAll(names), layersAt(layer, 4)))
          yield* assertNoDefect(`rendering: ${what}`, rendered)
          if (Exit.isSuccess(rendered)) assert.notInclude(rendered.value.map(outcomeExitCode), 1)
        }
      }).pipe(Effect.scoped)
  )
})
