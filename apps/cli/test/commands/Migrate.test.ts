import { assert, describe, it } from "@effect/vitest"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readdirSync } from "node:fs"

describe("payments migrate", () => {
  it.live("creates the tables of a folder's copy once, without its files, and a dry run creates nothing", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const run = (...more: ReadonlyArray<string>) =>
        Effect.map(
          payments(["migrate", "--to", "file:./copy?format=csv", ...more], { cwd }),
          ({ code, stderr, stdout }) => [code, stderr, stdout.replace(/version \d+/, "version N")]
        )
      assert.deepStrictEqual(yield* run("--dry-run"), [0, "", "file:./copy: tables of version N would be created\n"])
      assert.deepStrictEqual(readdirSync(cwd), [])
      assert.deepStrictEqual(yield* run(), [0, "", "file:./copy: tables of version N created\n"])
      assert.deepStrictEqual(yield* run(), [0, "", "file:./copy: the tables have version N, which needs no change\n"])
      assert.notInclude(readdirSync(`${cwd}/copy`).join(), "csv")
    }).pipe(Effect.scoped))
})
