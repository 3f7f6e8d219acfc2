import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assertDurable, type Call, recording } from "../../../packages/export/test/Recorder.ts"
import { write } from "../src/CursorFile.ts"
import { temporaryFolder } from "./Program.ts"

const standing = {
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
  it.live("is on disk before it takes its name, and its name when it is written, also where it is a link", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      writeFileSync(join(folder, "position.json"), "")
      symlinkSync("position.json", join(folder, "link.json"))
      for (const file of ["position.json", "link.json", "new.json"]) {
        const calls: Array<Call> = []
        yield* write(join(folder, file), standing).pipe(Effect.provide(recording(calls)))
        assert.deepStrictEqual(calls.map(({ call }) => call), ["open", "write", "sync", "rename", "open", "sync"])
        assertDurable(calls)
      }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})
