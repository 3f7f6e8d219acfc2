/** A database must be a plain file. Anything else is refused before SQLite opens it, and nothing is created next to it. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Effect, Layer } from "effect"
import { once } from "node:events"
import { mkdirSync, readdirSync, symlinkSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { scan } from "../../../copy/src/scan/Scan.ts"
import * as SqliteSink from "../../../copy/src/sqlite/SqliteSink.ts"
import { openReader } from "../../../copy/src/sqlite/SqliteStore.ts"

/** Functions that create something other than a plain file. */
const kinds: ReadonlyArray<readonly [kind: string, make: (path: string) => Effect.Effect<unknown>]> = [
  ["a folder", (path) => Effect.sync(() => mkdirSync(path))],
  ["a device", (path) => Effect.sync(() => symlinkSync("/dev/null", path))],
  ["a named pipe", (path) => Effect.sync(() => assert.strictEqual(spawnSync("mkfifo", [path]).status, 0))],
  ["a socket", (path) => Effect.promise(() => once(createServer().unref().listen(path), "listening"))]
]

describe("a path to", () => {
  it.live.each(kinds)("%s is refused, for writing and for reading", ([kind, make]) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const path = join(folder, "x.db")
      yield* make(path)
      const link = join(folder, "link.db")
      symlinkSync("x.db", link)
      const before = readdirSync(folder)
      for (const name of [path, link]) {
        const writing = Effect.asVoid(
          scan("invoices").pipe(Effect.provide(Layer.merge(SqliteSink.layer(name), layerTest({}))))
        )
        for (const refused of [writing, Effect.asVoid(Effect.scoped(openReader(name, "here")))]) {
          assert.include((yield* Effect.flip(refused)).message, `it is ${kind}, not a plain file. Name a file.`)
        }
      }
      assert.deepStrictEqual(readdirSync(folder), before)
    }).pipe(Effect.scoped))

  it.live("a device is refused without creating files next to it", () =>
    Effect.gen(function*() {
      const before = readdirSync("/dev")
      for (const path of ["/dev/null", "/dev/zero"]) {
        const writing = scan("invoices").pipe(Effect.provide(Layer.merge(SqliteSink.layer(path), layerTest({}))))
        assert.include((yield* Effect.flip(writing)).message, "it is a device")
      }
      assert.deepStrictEqual(readdirSync("/dev").filter((name) => /null|zero/.test(name) && !before.includes(name)), [])
    }))

  it.live("itself, through a cycle of links, is refused", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      symlinkSync("b.db", join(folder, "a.db"))
      symlinkSync("a.db", join(folder, "b.db"))
      const writing = scan("invoices").pipe(
        Effect.provide(Layer.merge(SqliteSink.layer(join(folder, "a.db")), layerTest({})))
      )
      assert.include((yield* Effect.flip(writing)).message, "its symbolic links form a cycle")
    }).pipe(Effect.scoped))
})
