/** What the built programs leave behind: files that only their owner may read, and connections to the service only. */
import { assert, describe, it } from "@effect/vitest"
import { recordConnections } from "@payments/testkit/programs/RunProgram"
import { binary, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join } from "node:path"

const worker = join(import.meta.dirname, "../../../worker/dist")

describe("the programs", () => {
  it.live("create only files of their owner, also with the umask 000, and connect to the service only", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      // The build has filled the folders of compiled code. These copies have none.
      for (const [name, dist] of [["cli", dirname(binary)], ["worker", worker]] as const) {
        cpSync(dist, join(folder, name), { recursive: true, filter: (path) => !path.endsWith("compile-cache") })
      }
      mkdirSync(join(folder, "work"), { mode: 0o700 })
      mkdirSync(join(folder, "tmp"), { mode: 0o700 })
      const service = yield* sandboxEnv({ records: 5 })
      const connections = join(folder, "connections.txt")
      const env = {
        ...service,
        KEY: "sandbox_key",
        TMPDIR: join(folder, "tmp"),
        NODE_OPTIONS: `--require "${recordConnections}"`,
        CONNECTIONS: connections
      }
      const script = `umask 000; set -e
        payments() { "${process.execPath}" ../cli/payments.js "$@"; }
        payments export --to 'file:new/folder?format=csv&compress=gzip' &
        payments invoices list --max 3 --cursor-file position.json &
        payments source add north --base-url "$PAYMENTS_BASE_URL" --key-env KEY --to sqlite:north.db --config new/payments.toml &
        "${process.execPath}" ../worker/payments-worker.js run --to sqlite:copy.db --once
        payments query settled-by-day --html page.html --from sqlite:copy.db
        wait`
      const { code, stderr } = yield* runProgram("sh", ["-c", script], { cwd: join(folder, "work"), env })
      assert.strictEqual(code, 0, stderr)
      // Each export uses one connection or more, and the listing one. Nothing else is connected or looked up.
      const connected = readFileSync(connections, "utf8").trimEnd().split("\n")
      assert.isAtLeast(connected.length, 3)
      assert.deepStrictEqual([...new Set(connected)], [new URL(service.PAYMENTS_BASE_URL).host])

      const created = ["work", "tmp", "cli/compile-cache", "worker/compile-cache"].flatMap((place) => {
        const paths = readdirSync(join(folder, place), { recursive: true, encoding: "utf8" })
        return [place, ...paths.map((path) => join(place, path))]
      })
      for (
        const path of [
          "work/new/folder/manifest.json",
          "work/new/folder/copy.db",
          "work/new/folder/copy.db.invoices.lock",
          "work/position.json",
          "work/page.html",
          "work/new/payments.toml",
          "work/copy.db"
        ]
      ) {
        assert.include(created, path)
      }
      assert.isAbove(created.filter((path) => path.includes("compile-cache/")).length, 2)
      const modes = created.map((path) => {
        const stats = statSync(join(folder, path))
        return `${path} ${stats.isDirectory() ? "folder" : "file"} ${(stats.mode & 0o777).toString(8)}`
      })
      assert.deepStrictEqual(modes.filter((mode) => !/ (file 600|folder 700)$/.test(mode)), [])
    }).pipe(Effect.scoped))
})
