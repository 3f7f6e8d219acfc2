/** Several workers over one destination, one after the other or at the same time. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { rowsOf, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { isUpToDate, startWorker } from "./RunningWorker.ts"

const scansOf = (file: string) => Number(rowsOf(file, "SELECT count(*) AS n FROM scans")[0]?.["n"])
type Worker = Effect.Success<ReturnType<typeof startWorker>>
const untilState = (worker: Worker, state: string) =>
  worker.until(worker.readiness, ({ body }) => body.sources[0]?.state === state)

describe("a second worker over the same destination", () => {
  it.live.each(
    [["sqlite", (folder: string) => [`sqlite:${folder}/p.db`, "p.db"]], [
      "file",
      (folder: string) => [`file:${folder}/files`, "files/copy.db"]
    ]] as const
  )(
    "%s is a standby that is ready, shows how fresh the lists are, and takes over",
    ([, placeOf]) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const [to = "", path = ""] = placeOf(folder)
        const file = join(folder, path)
        const env = yield* sandboxEnv({ records: 20 })
        const start = startWorker(["--to", to, "--every", "1s"], env)
        const first = yield* start
        yield* first.untilUpToDate
        const second = yield* start
        yield* untilState(second, "standby")
        const [waits] = yield* second.untilLogged("standby: waits for the locks", 1)
        assert.include(String(waits?.annotations["holder"]), String(first.child.pid))
        const { body, status } = yield* second.readiness
        assert.deepStrictEqual([status, body.ready, isUpToDate(body)], [200, true, true])
        for (const { ageSeconds, holder, holdsLock, rows } of body.sources[0]?.lists ?? []) {
          assert.deepStrictEqual([holdsLock, rows], [false, 20])
          assert.include(holder, String(first.child.pid))
          assert.isNumber(ageSeconds)
        }
        assert.deepStrictEqual(second.log("scan begun"), [])
        assert.deepStrictEqual(yield* first.end("SIGKILL"), [null, "SIGKILL"])
        yield* untilState(second, "running")
        const scans = scansOf(file)
        yield* second.until(Effect.sync(() => scansOf(file)), (now) => now >= scans + Lists.all.length)
        const third = yield* start
        yield* untilState(third, "standby")
        assert.deepStrictEqual(yield* second.end("SIGTERM"), [0, null])
        yield* untilState(third, "running")
        yield* third.untilLogged("scan complete", Lists.all.length)
        assert.deepStrictEqual(yield* third.end("SIGTERM"), [0, null])
      }).pipe(Effect.scoped)
  )

  it.live("is refused with --on-locked refuse, and tries again", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const env = yield* sandboxEnv({ records: 20 })
      const first = yield* startWorker(["--to", to, "--every", "1h"], env)
      yield* first.untilUpToDate
      const second = yield* startWorker(["--to", to, "--on-locked", "refuse"], env)
      yield* second.untilLogged("destination failed", 1)
      const { body, status } = yield* second.readiness
      assert.deepStrictEqual([status, body.sources[0]?.problem?.reason], [503, "Locked"])
      yield* first.end("SIGTERM")
      yield* untilState(second, "running")
    }).pipe(Effect.scoped))
})

describe("a worker that starts again", () => {
  it.live("knows the age of the lists, and scans only when the interval has passed", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      const env = yield* sandboxEnv({ records: 20 })
      const args = (every: string) => ["--to", `sqlite:${file}`, "--every", every]
      const first = yield* startWorker(args("1h"), env)
      yield* first.untilUpToDate
      const before = yield* first.readiness
      yield* first.end("SIGKILL")
      yield* Effect.sleep("1 second")
      const again = yield* startWorker(args("1h"), env)
      const { body } = yield* again.until(
        again.readiness,
        (now) => now.body.sources[0]?.lists.every(({ next }) => next.full !== null) === true
      )
      assert.deepStrictEqual(
        body.sources[0]?.lists.map(({ completeScan }) => completeScan),
        before.body.sources[0]?.lists.map(({ completeScan }) => completeScan)
      )
      for (const { ageSeconds, next } of body.sources[0]?.lists ?? []) {
        assert.isAbove(ageSeconds ?? 0, 1)
        assert.isAbove(Date.parse(next.full ?? ""), Date.now())
      }
      assert.deepStrictEqual([again.log("scan begun"), scansOf(file)], [[], Lists.all.length])
      const [started] = again.log("started")
      assert.deepInclude(started?.annotations, { version: manifest.version, concurrency: 32 })
      yield* again.end("SIGTERM")
      const sooner = yield* startWorker(args("2s"), env)
      yield* sooner.untilLogged("scan complete", Lists.all.length)
    }).pipe(Effect.scoped))
})
