/** Values that a file or stdin gives. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { binary, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect, Layer, Stdio, Stream } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { valueText } from "../../src/output/ValueText.ts"
import { runInProcess } from "../program/InProcess.ts"

/** Reads the value, with this content in stdin. Returns the value, or the message of the error. */
const valueOf = (text: string, stdin: string | Uint8Array = "") =>
  valueText("--reference", text).pipe(
    Effect.catch(({ message }) => Effect.succeed(message)),
    Effect.provide(
      Layer.provideMerge(
        Stdio.layerTest({ stdin: Stream.make(Buffer.from(stdin)) }),
        NodeServices.layer
      )
    )
  )

describe("the value of a flag", () => {
  it.effect("is its text, the content of a file or that of stdin", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "value.txt")
      const expected = " José @ 12 "
      for (const content of [expected, `${expected}\n`, `${expected}\r\n`, `\ufeff${expected}\n`]) {
        writeFileSync(file, content)
        assert.strictEqual(yield* valueOf(`@${file}`), expected)
        assert.strictEqual(yield* valueOf("@-", content), expected)
      }
      for (const [text, value] of [["", ""], ["a@b.c", "a@b.c"], ["@@x", "@x"], ["@@-", "@-"], ["@@", "@"]] as const) {
        assert.strictEqual(yield* valueOf(text, "not read"), value)
      }
    }))

  it.effect("is refused without its content if the file or stdin does not contain one line of text", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "value.txt")
      for (
        const [content, problem] of [
          ["", "is empty"],
          ["\n", "is empty"],
          ["secret\nsecret\n", "has more than one line"],
          [Buffer.from([0x73, 0xff]), "is not UTF-8 text"],
          ["secret".repeat(5000), "contains more than 16 KiB"]
        ] as const
      ) {
        writeFileSync(file, content)
        for (const message of [yield* valueOf(`@${file}`), yield* valueOf("@-", content)]) {
          assert.match(message, /^--reference: /)
          assert.include(message, problem)
          assert.notInclude(message, "secret")
        }
      }
      mkdirSync(join(folder, "sub"))
      execFileSync("mkfifo", [join(folder, "pipe")])
      assert.include(yield* valueOf(`@${join(folder, "sub")}`), "is a folder, not a plain file")
      assert.include(yield* valueOf(`@${join(folder, "pipe")}`), "is a pipe, not a plain file")
      assert.include(yield* valueOf(`@${join(folder, "none\u001b[31m")}`), "none\\u001b[31m does not exist")
      assert.include(yield* valueOf("@"), "needs a file name")
    }))

  it.effect("can come from stdin for one filter only", () =>
    Effect.gen(function*() {
      const { code, err } = yield* runInProcess(layerTest({}), [
        "payout-requests",
        "list",
        "--reference=@-",
        "--customer-id=@-"
      ])
      assert.deepStrictEqual([code, err], [2, "payments: Only one value can come from standard input (@-).\n"])
    }))

  it.live("filters a listing of the built program through a pipe and from a file", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 50 })
      const run = (script: string) =>
        runProgram("bash", ["-c", script], { env: { ...env, NODE: process.execPath, BINARY: binary }, cwd: folder })
      writeFileSync(join(folder, "reference"), "invoice-7\n")
      const list = `"$NODE" "$BINARY" invoices list --format ndjson`
      const typed = yield* run(`${list} --reference invoice-7`)
      assert.match(typed.stdout, /"reference":"invoice-7"/)
      for (const script of [`echo invoice-7 | ${list} --reference @-`, `${list} --reference @reference`]) {
        assert.deepStrictEqual(yield* run(script), typed)
      }
      const closed = yield* run(`${list} --reference @- <&-`)
      assert.deepStrictEqual([closed.code, closed.stdout], [2, ""])
      assert.match(closed.stderr, /--reference: standard input (is empty|cannot be read)/)
    }).pipe(Effect.scoped))
})
