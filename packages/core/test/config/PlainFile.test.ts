import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect, FileSystem } from "effect"
import { bitsOfOthers, readPlainFile } from "../../src/index.ts"

const limit = 1024

const folder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const problemOf = (file: string) =>
  Effect.map(Effect.flip(readPlainFile(file, { maxBytes: limit })), ({ kind, message }) => [kind, message])

describe("a plain file", () => {
  it.live("is read up to the limit, also through a symbolic link, with its permissions", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const [file, link] = [`${yield* folder}/file`, `${yield* folder}/link`]
      yield* fs.writeFileString(file, `\ufeff${"é".repeat(limit / 2 - 2)}\n`, { mode: 0o600 })
      yield* fs.symlink(file, link)
      for (const path of [file, link]) {
        const { mode, text } = yield* readPlainFile(path, { maxBytes: limit })
        assert.deepStrictEqual([mode, text], [0o600, `${"é".repeat(limit / 2 - 2)}\n`])
      }
      yield* fs.writeFileString(file, "x".repeat(limit + 1))
      assert.deepStrictEqual(yield* problemOf(link), ["tooLarge", "contains more than 1 KiB"])
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))

  it("may be readable by its group if it belongs to root, as a secret that Kubernetes mounts", () => {
    const modes = [0o600, 0o400, 0o640, 0o440, 0o660, 0o644, 0o604]
    const others = (owner: number | undefined) => modes.map((mode) => bitsOfOthers({ mode, owner }))
    assert.deepStrictEqual(others(1000), [0, 0, 0o40, 0o40, 0o60, 0o44, 0o4])
    assert.deepStrictEqual(others(undefined), others(1000))
    assert.deepStrictEqual(others(0), [0, 0, 0, 0, 0o20, 0o4, 0o4])
  })

  it.live("is not a pipe, a device or a folder: these are refused without opening them", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const here = yield* folder
      execFileSync("mkfifo", [`${here}/pipe`])
      yield* fs.symlink(`${here}/pipe`, `${here}/link`)
      assert.deepStrictEqual(yield* problemOf(`${here}/pipe`), ["notPlain", "is a pipe, not a plain file"])
      assert.deepStrictEqual(yield* problemOf(`${here}/link`), ["notPlain", "is a pipe, not a plain file"])
      assert.deepStrictEqual(yield* problemOf("/dev/zero"), ["notPlain", "is a device, not a plain file"])
      assert.deepStrictEqual(yield* problemOf(here), ["notPlain", "is a folder, not a plain file"])
      assert.deepStrictEqual(yield* problemOf(`${here}/no`), ["notFound", "does not exist"])
      assert.deepStrictEqual(yield* problemOf("/dev/null/no"), ["notFound", "does not exist"])
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))

  it.live("is refused if it is not UTF-8, with the line number", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = `${yield* folder}/latin1`
      yield* fs.writeFile(file, Uint8Array.of(0x4d, 0xe9))
      assert.deepStrictEqual(yield* problemOf(file), ["notText", "is not UTF-8 text (line 1)"])
      for (const end of ["\n", "\r", "\r\n"]) {
        const bytes = Buffer.concat([Buffer.from(`é${end}${end}`), Buffer.from("Jos\u00e9\n", "latin1")])
        yield* fs.writeFile(file, bytes)
        assert.deepStrictEqual(yield* problemOf(file), ["notText", "is not UTF-8 text (line 3)"])
      }
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))
})
