import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { assertDurable, type Call, recording } from "@payments/testkit/FileSystemRecorder"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { write } from "../../src/listing/CursorFile.ts"

const saved = {
  version: 1,
  source: "memory",
  list: "invoices",
  limit: 100,
  filters: {},
  cursor: "c",
  printed: [],
  done: false
} as const

describe("the cursor file", () => {
  it.live("is synced before it is renamed into place, its folder after that, also through a symbolic link", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      writeFileSync(join(folder, "position.json"), "")
      symlinkSync("position.json", join(folder, "link.json"))
      for (const file of ["position.json", "link.json", "new.json"]) {
        const calls: Array<Call> = []
        yield* write(join(folder, file), saved).pipe(Effect.provide(recording(calls)))
        assert.deepStrictEqual(calls.map(({ call }) => call), ["open", "write", "sync", "rename", "open", "sync"])
        assertDurable(calls)
      }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})
