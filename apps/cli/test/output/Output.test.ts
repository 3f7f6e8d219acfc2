/** Output that cannot be written, and the progress line. */
import { assert, describe, it } from "@effect/vitest"
import { binary, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { once } from "node:events"
import { dirname, join } from "node:path"

const worker = join(import.meta.dirname, "../../../worker/dist/payments-worker.js")

const shell = (script: string, env: Readonly<Record<string, string>>, cwd?: string) =>
  runProgram("bash", ["-c", `set -o pipefail; ${script}`], {
    env: {
      PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
      ...env,
      NODE: process.execPath,
      BINARY: binary
    },
    cwd
  })

describe("an output that cannot be written", () => {
  it.live("ends a listing with code 9 if stdout is closed, full or read-only", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 300 })
      for (const list of ["invoices list --all", "invoices list --format json", "export invoices --to -"]) {
        for (
          const [redirection, words] of [
            [">&-", "standard output is closed (EBADF)"],
            ["1</dev/null", "(EBADF)"],
            ["> /dev/full", "(ENOSPC)"]
          ] as const
        ) {
          const { code, stderr } = yield* shell(`"$BINARY" ${list} ${redirection}`, env)
          assert.strictEqual(code, 9, `${list} ${redirection}: ${stderr}`)
          assert.include(stderr, words, list)
        }
      }
      const closed = yield* shell(`PAYMENTS_STDOUT=closed "$NODE" "$BINARY" invoices list`, env)
      assert.deepStrictEqual([closed.code, closed.stdout], [9, ""])
    }).pipe(Effect.scoped))

  it.live("ends a command that prints a result with code 9 before its work", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5 })
      yield* shell(`"$NODE" "$BINARY" export --to sqlite:x.db`, env, cwd)
      const commands = ["verify --from sqlite:x.db", "prune --from sqlite:x.db --keep-changes 1d", "conformance"]
      for (const command of commands) {
        const { code, stderr } = yield* shell(`"$BINARY" ${command} >&-`, env, cwd)
        assert.strictEqual(code, 9, `${command}: ${stderr}`)
        assert.match(stderr, /^payments: the output cannot be written: standard output is closed \(EBADF\)[^\n]*\n$/)
      }
    }).pipe(Effect.scoped))

  it.live("is no error if stdout is /dev/null or its reader closes the pipe", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 5000 })
      for (const end of ["> /dev/null", "| head -n 3", "<> /dev/null", "1<> /dev/null"]) {
        for (const program of [`"$NODE" "$BINARY"`, `"$BINARY"`]) {
          const { code, stderr } = yield* shell(`${program} invoices list --all ${end}`, env)
          assert.deepStrictEqual([code, stderr], [0, ""], end)
        }
      }
    }).pipe(Effect.scoped))

  it.live("is no error if the parent process discards the output", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 5 })
      const discarded = (program: string, args: ReadonlyArray<string>) =>
        Effect.promise(async () => {
          const child = spawn(process.execPath, [program, ...args], { env, stdio: "ignore" })
          const [code] = await once(child, "exit")
          return code
        })
      for (const args of [["--version"], ["export", "--help"], ["invoices", "list"], ["config"]]) {
        // Node opens /dev/null for reading and writing here, as it does for a closed stdout.
        assert.strictEqual(yield* discarded(binary, args), 0, args.join(" "))
      }
      for (const args of [["--version"], ["run", "--help"]]) {
        assert.strictEqual(yield* discarded(worker, args), 0, args.join(" "))
      }
    }).pipe(Effect.scoped))

  it.live("does not matter to an export into a database", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5 })
      const { code, stderr } = yield* shell(`"$NODE" "$BINARY" export --to sqlite:x.db >&-`, env, cwd)
      assert.deepStrictEqual([code, stderr], [0, ""])
    }).pipe(Effect.scoped))
})

describe("the progress line", () => {
  /** Makes a program treat its stderr as a terminal. */
  const terminal = `--import "data:text/javascript,process.stderr.isTTY=true"`

  it.live("is erased before an error, also before one that ends the process at once", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5000 })
      // No file may grow beyond 1 MiB: the output fails as on a full disk, after progress was drawn.
      const script = `ulimit -f 1024; exec "$NODE" ${terminal} "$BINARY" export invoices --to - > ./out`
      const { code, stderr } = yield* shell(script, { ...env, TERM: "xterm" }, cwd)
      assert.strictEqual(code, 9, stderr)
      // After a second the line has a rate.
      const erased =
        // oxlint-disable-next-line no-control-regex -- the sequence that clears a line of a terminal
        /\r\u001b\[Kinvoices +[\d,]+( +[\d,]+\/s)?\r\u001b\[Kpayments: the output cannot be written: the file would be larger than this user's limit \(EFBIG\)\.\n$/
      assert.match(stderr, erased)
    }).pipe(Effect.scoped))

  it.live("is not drawn on a dumb terminal", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 500 })
      const script = `exec "$NODE" ${terminal} "$BINARY" export invoices --to sqlite:x.db`
      const dumb = yield* shell(script, { ...env, TERM: "dumb" }, cwd)
      assert.deepStrictEqual([dumb.code, dumb.stderr], [0, ""])
      const other = yield* shell(script, { ...env, TERM: "xterm" }, join(cwd))
      assert.include(other.stderr, "\u001b[K")
    }).pipe(Effect.scoped))
})
