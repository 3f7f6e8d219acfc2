import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it, vi } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { Console, Effect, Layer } from "effect"
import { createHash } from "node:crypto"
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { copyFile } from "../../src/files/FileSink.ts"
import { Destination, type SinkError } from "../../src/index.ts"
import { scan, type ScanOptions } from "../../src/scan/Scan.ts"

const rounds = isLongRun ? 40 : 5

const size = 2000
const texts = Array.from(
  { length: size },
  (_, index) => `{"id":"inv_${index}","amount":${index},"description":"é${index}"}`
)

/** Runs an export in this thread, because the page limit and the changed user apply only to this thread. */
const run = (to: string, invoices = texts, onEvent?: ScanOptions["onEvent"]) =>
  Effect.flatMap(
    Destination.parse(to),
    (destination) =>
      destination._tag === "Stdout" ?
        Effect.die("stdout stores nothing") :
        scan("invoices", { limit: 50, largestBatch: 50, onEvent }).pipe(
          Effect.provide(
            Layer.merge(Destination.layerInThisThread(destination), layerTest({ invoices })).pipe(
              Layer.provide(NodeServices.layer)
            )
          )
        )
  )

const reasonOf = (error: { readonly reason: { readonly _tag: string } } | { readonly _tag: string }) =>
  "reason" in error ? error.reason._tag : error._tag

/** Asserts that the rows are exactly those of the pages that the scan counts. Returns their number. */
const assertWhole = (file: string): number => {
  const rows = rowsOf(file, "SELECT raw FROM invoices ORDER BY row").map(({ raw }) => String(raw))
  const [scanned] = rowsOf(file, "SELECT pages, records, checkpoint FROM scans")
  assert.deepStrictEqual(rows, texts.slice(0, rows.length))
  assert.strictEqual(rows.length, Number(scanned?.["records"] ?? 0))
  assert.strictEqual(rows.length, 50 * Number(scanned?.["pages"] ?? 0))
  return rows.length
}

const assertComplete = (file: string): void => {
  assert.deepStrictEqual(rowsOf(file, "SELECT raw FROM invoices ORDER BY row").map(({ raw }) => raw), texts)
  assert.deepStrictEqual(rowsOf(file, "SELECT DISTINCT state, records FROM scans WHERE pages > 0"), [
    { state: "complete", records: size }
  ])
}

/** Limits the pages of each database that the effect opens. The limit is a property of the connection. */
const withPageLimit = (pages: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const exec = DatabaseSync.prototype.exec
      return vi.spyOn(DatabaseSync.prototype, "exec").mockImplementation(function(this: DatabaseSync, sql) {
        exec.call(this, sql)
        if (sql.includes("journal_mode")) exec.call(this, `PRAGMA max_page_count = ${pages}`)
      })
    }),
    () => effect,
    (spy) => Effect.sync(() => spy.mockRestore())
  )

describe(`a destination without space (seed ${seed})`, () => {
  it.live("ends the scan if SQLite has no more pages, with the checkpoint not ahead of the rows, and resumes later", () =>
    Effect.gen(function*() {
      const dice = diceOf(seed, "pages")
      const fullAt: Array<number> = []
      for (let round = 0; round < rounds; round++) {
        const file = join(yield* temporaryFolder, "payments.db")
        const pages = 51 + dice.below(26)
        const error = yield* Effect.flip(withPageLimit(pages)(run(`sqlite:${file}`)))
        assert.strictEqual(reasonOf(error), "Full", error.message)
        fullAt.push(assertWhole(file))
        const summary = yield* run(`sqlite:${file}`)
        assert.strictEqual(summary.start, (fullAt.at(-1) ?? 0) > 0 ? "resumed" : "first")
        assertComplete(file)
      }
      yield* Console.log(`full at record ${fullAt.join(" ")}`)
      assert.isTrue(fullAt.some((records) => records > 0 && records < size))
    }).pipe(Effect.scoped))

  it.live("ends the scan if the file system is full, and resumes when it has space again", () =>
    Effect.gen(function*() {
      const dice = diceOf(seed, "space")
      const fullAt: Array<number> = []
      for (let round = 0; round < rounds; round++) {
        const kibibytes = 1_000 + dice.below(2_000)
        const small = yield* smallFileSystem(kibibytes)
        if (small === undefined) {
          // This machine cannot mount a small file system, so limit the pages instead.
          const file = join(yield* temporaryFolder, "payments.db")
          assert.strictEqual(reasonOf(yield* Effect.flip(withPageLimit(65)(run(`sqlite:${file}`)))), "Full")
          assertWhole(file)
          return
        }
        const file = join(small.folder, "payments.db")
        const error = yield* Effect.flip(run(`sqlite:${file}`))
        assert.strictEqual(reasonOf(error), "Full", `${kibibytes} KiB: ${error.message}`)
        yield* small.grow
        fullAt.push(assertWhole(file))
        yield* run(`sqlite:${file}`)
        assertComplete(file)
      }
      yield* Console.log(`full at record ${fullAt.join(" ")}`)
      assert.isTrue(fullAt.some((records) => records > 0 && records < size))
    }).pipe(Effect.scoped))

  it.live("keeps the files of the last snapshot if there is no space for the next one", () =>
    Effect.gen(function*() {
      const dice = diceOf(seed, "files")
      for (let round = 0; round < rounds; round++) {
        const small = yield* smallFileSystem(16 * 1024)
        const folder = join(small?.folder ?? (yield* temporaryFolder), "files")
        const before = texts.slice(0, 400 + dice.below(200))
        yield* run(`file:${folder}`, before)
        const manifest = readFileSync(join(folder, "manifest.json"))
        const assertUnchanged = (state: "running" | "complete") => {
          assert.deepStrictEqual(readFileSync(join(folder, "manifest.json")), manifest)
          assertFiles(folder, before)
          const [last] = rowsOf(join(folder, copyFile), "SELECT state FROM scans ORDER BY scan DESC")
          assert.strictEqual(last?.["state"], state)
        }
        // First there is no space for the rows in the copy. Then all rows are committed, but there is no space for the files.
        const failing = small === undefined
          ? withPageLimit(65)(run(`file:${folder}`))
          : Effect.andThen(small.fill(150 + dice.below(500)), run(`file:${folder}`))
        assert.strictEqual(reasonOf(yield* Effect.flip(failing)), "Full")
        assertUnchanged("running")
        if (small !== undefined) {
          yield* small.free
          const error = yield* Effect.flip(
            run(
              `file:${folder}`,
              texts,
              (event) => event._tag === "Committed" && event.progress.records === size ? small.fill(8) : Effect.void
            )
          )
          assert.strictEqual(reasonOf(error), "Full")
          assertUnchanged("complete")
          yield* small.free
        }
        yield* run(`file:${folder}`)
        assertFiles(folder, texts)
      }
    }).pipe(Effect.scoped))
})

const assertFiles = (folder: string, expected: ReadonlyArray<string>): void => {
  const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as {
    readonly lists: { readonly invoices: { readonly files: ReadonlyArray<{ file: string; sha256: string }> } }
  } // other tests check the manifest against its schema
  const lines = manifest.lists.invoices.files.flatMap(({ file, sha256 }) => {
    const content = readFileSync(join(folder, file))
    assert.strictEqual(createHash("sha256").update(content).digest("hex"), sha256)
    return content.toString("utf8").split("\n").slice(0, -1)
  })
  assert.deepStrictEqual(lines, expected)
}

/** Runs as an ordinary user, because root ignores the permissions of files. */
const asOrdinaryUser = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
  if (process.getuid?.() !== 0) return effect
  return Effect.acquireUseRelease(
    Effect.sync(() => process.seteuid?.(nobody)),
    () => effect,
    () => Effect.sync(() => process.seteuid?.(0))
  )
}
const nobody = 65_534

describe("a destination that cannot be written", () => {
  it.live("fails with an error about its permissions and stays unchanged", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.db")
      yield* run(`sqlite:${file}`)
      const before = readFileSync(file)
      chmodSync(file, 0o444)
      if (process.getuid?.() === 0) {
        for (const name of ["", ...readdirSync(folder)]) chownSync(join(folder, name), nobody, nobody)
      }
      const error = yield* Effect.flip(asOrdinaryUser(run(`sqlite:${file}`)))
      assert.include(error.message, "it is read-only (SQLite 8).")
      assert.deepStrictEqual(readFileSync(file), before)
      // The folder is not writable either, so no lock file can be created.
      chmodSync(folder, 0o555)
      const closed = yield* Effect.flip(asOrdinaryUser(run(`sqlite:${join(folder, "other.db")}`)))
      assert.include(closed.message, "there is no permission to write there (EACCES).")
      chmodSync(folder, 0o755)
    }).pipe(Effect.scoped))

  it.live("fails with a clear error if a folder exists instead of a file, or a file instead of a folder", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      mkdirSync(join(folder, "payments.db"))
      writeFileSync(join(folder, "files"), "mine")
      const errors: ReadonlyArray<SinkError["message"]> = [
        (yield* Effect.flip(run(`sqlite:${folder}/payments.db`))).message,
        (yield* Effect.flip(run(`file:${folder}/files`))).message,
        (yield* Effect.flip(run(`sqlite:${folder}/files/payments.db`))).message
      ]
      assert.include(errors[0], "it is a folder, not a plain file. Name a file.")
      assert.include(errors[1], "it is a file. Name a folder (EEXIST).")
      assert.include(errors[2], "a part of its path is a file, not a folder (ENOTDIR).")
      assert.strictEqual(readFileSync(join(folder, "files"), "utf8"), "mine")
    }).pipe(Effect.scoped))
})
