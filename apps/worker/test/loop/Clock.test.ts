import { assert, describe, it } from "@effect/vitest"
import { sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { startWorker } from "./RunningWorker.ts"

const day = 86_400_000
const preload = pathToFileURL(join(import.meta.dirname, "SetClock.ts")).href

describe("a worker whose wall clock is changed while it runs", () => {
  it.live.each(
    [["back", -day, {}], ["back, with a ceiling of requests per second", -day, {
      PAYMENTS_MAX_REQUESTS_PER_SECOND: "20"
    }], [
      "forward, with a ceiling of requests per second",
      day,
      { PAYMENTS_MAX_REQUESTS_PER_SECOND: "20" }
    ]] as const
  )("continues to scan: %s by a day", ([, byMs, more]) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const clock = join(folder, "clock")
      const env = { ...yield* sandboxEnv({ records: 20 }), ...more, CLOCK_SET_BY: clock }
      const running = yield* startWorker(["--to", `sqlite:${folder}/p.db`, "--every", "1s"], env, ["--import", preload])
      yield* running.untilUpToDate
      writeFileSync(`${clock}.new`, String(byMs))
      renameSync(`${clock}.new`, clock)
      // Scans that ended after the change of the clock.
      const isAfterChange = ({ timestamp }: { readonly timestamp: string }) =>
        Math.abs(Date.parse(timestamp) - Date.now() - byMs) < day / 2
      yield* running.until(
        Effect.sync(() => running.log("scan complete").filter(isAfterChange)),
        (lines) => lines.length >= 9
      )
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))
})
