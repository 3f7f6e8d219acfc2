/** `list --output` and `--patience`. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { binary, payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { appendFileSync, existsSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const invoices = Array.from({ length: 40 }, (_, index) => `{"id":"inv_${index}"}`)
const api = layerTest({ invoices })
const read = (file: string) => readFileSync(file, "utf8")

describe("--output", () => {
  it.live.each(["ndjson", "csv"])(
    "as %s has every record once, although the program is killed again and again",
    (format) =>
      Effect.gen(function*() {
        const cwd = yield* temporaryFolder
        const env = yield* sandboxEnv({ records: 2000, faults: [{ fault: "latency", ms: 20 }] })
        const list = ["invoices", "list", "--all", "--limit", "50", "--format", format]
        const whole = yield* payments(list, { env })
        const args = [...list, "--output", "out", "--cursor-file", "position"]
        let kills = 0
        for (let killAfterMs = 400;; killAfterMs += 200) {
          const { code, signal, stdout } = yield* payments(args, { env, cwd, killAfterMs })
          assert.strictEqual(stdout, "")
          if (signal === null) {
            assert.strictEqual(code, 0)
            break
          }
          kills++
        }
        assert.isAtLeast(kills, 1)
        assert.strictEqual(read(join(cwd, "out")), whole.stdout)
      }).pipe(Effect.scoped)
  )

  it.live("cuts off what was written after the saved position", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, position] = [join(folder, "out"), join(folder, "position")]
      const args = ["invoices", "list", "--limit", "10", "--output", file, "--cursor-file", position]
      const first = yield* runInProcess(api, args)
      assert.deepStrictEqual([first.code, first.out, read(file)], [0, "", `${invoices.slice(0, 10).join("\n")}\n`])
      assert.include(first.err, "Run the same command again to continue.")
      // The program was killed between the records and their position.
      appendFileSync(file, `${invoices[10]}\n{"id":"in`)
      const second = yield* runInProcess(api, [...args, "--all"])
      assert.deepStrictEqual([second.code, read(file)], [0, `${invoices.join("\n")}\n`])
      const third = yield* runInProcess(api, [...args, "--all"])
      assert.deepStrictEqual([third.code, third.out, read(file)], [0, "", `${invoices.join("\n")}\n`])
    }).pipe(Effect.scoped))

  it.live("refuses a file that does not belong to the position, and leaves it unchanged", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, position] = [join(folder, "out"), join(folder, "position")]
      const args = ["invoices", "list", "--limit", "10", "--output", file]
      writeFileSync(file, "mine\n")
      const other = yield* runInProcess(api, [...args, "--cursor-file", position])
      assert.deepStrictEqual([other.code, read(file)], [2, "mine\n"])
      assert.include(other.err, "already has content")
      assert.isFalse(existsSync(position))
      truncateSync(file)
      yield* runInProcess(api, [...args, "--cursor-file", position])
      truncateSync(file, 5)
      const shorter = yield* runInProcess(api, [...args, "--cursor-file", position])
      assert.deepStrictEqual([shorter.code, read(file)], [2, `{"id"`])
      assert.include(shorter.err, "is shorter than at the position")
      for (const more of [["--format", "json"], ["--query", "[].id"]]) {
        assert.strictEqual((yield* runInProcess(api, [...args, ...more])).code, 2)
      }
    }).pipe(Effect.scoped))

  it.live("refuses the position of another output, and leaves both files unchanged", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, other, position] = [join(folder, "out"), join(folder, "other"), join(folder, "position")]
      const list = ["invoices", "list", "--limit", "10", "--cursor-file", position]
      const first = [...list, "--fields", "id", "--where", "id!=a", "--where", "id!=b"]
      yield* runInProcess(api, [...first, "--output", file])
      const [records, saved] = [read(file), read(position)]
      writeFileSync(other, "precious\n".repeat(100))
      for (
        const [args, problem] of [
          [[...first, "--output", other], "belongs to --output "],
          [[...first, "--output", join(folder, "missing")], "belongs to --output "],
          [[...first, "--output", file, "--format", "csv"], "another --format"],
          [[...list, "--output", file, "--where", "id!=a", "--where", "id!=b"], "another --fields"],
          [
            [...list, "--output", file, "--fields", "id,amount", "--where", "id!=a", "--where", "id!=b"],
            "another --fields"
          ],
          [[...list, "--output", file, "--fields", "id", "--where", "id!=a"], "another --where"]
        ] as const
      ) {
        const { code, err } = yield* runInProcess(api, args)
        assert.deepStrictEqual([code, read(file), read(position)], [2, records, saved], err)
        assert.include(err, problem)
      }
      assert.deepStrictEqual([read(other), existsSync(join(folder, "missing"))], ["precious\n".repeat(100), false])
      // Another name of the same file, and the conditions in another order, continue it.
      symlinkSync(file, join(folder, "link"))
      const reordered = ["--fields", "id", "--where", "id!=b", "--where", "id!=a"]
      const again = yield* runInProcess(api, [...list, ...reordered, "--all", "--output", join(folder, "link")])
      assert.deepStrictEqual([again.code, read(file)], [0, `${invoices.join("\n")}\n`], again.err)
      const done = yield* runInProcess(api, [...first, "--output", join(folder, "missing")])
      assert.strictEqual(done.code, 2)
    }).pipe(Effect.scoped))

  it.live("continues with the position of an earlier version, and adds what it lacks", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, position] = [join(folder, "out"), join(folder, "position")]
      const args = ["invoices", "list", "--limit", "10", "--output", file, "--cursor-file", position]
      yield* runInProcess(api, args)
      const { output, ...earlier } = JSON.parse(read(position))
      assert.strictEqual(output.format, "ndjson")
      writeFileSync(position, JSON.stringify(earlier))
      assert.strictEqual((yield* runInProcess(api, args)).code, 0)
      assert.strictEqual(read(file), `${invoices.slice(0, 20).join("\n")}\n`)
      assert.deepStrictEqual(JSON.parse(read(position)).output, output)
    }).pipe(Effect.scoped))

  it.live("refuses the cursor file as its file, also by another name, before it creates it", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, link] = [join(folder, "out"), join(folder, "link")]
      symlinkSync("out", link)
      for (const position of [file, join(folder, ".", "..", folder.split("/").at(-1) ?? "", "out"), link]) {
        const { code, err } = yield* runInProcess(api, [
          "invoices",
          "list",
          "--output",
          file,
          "--cursor-file",
          position
        ])
        assert.deepStrictEqual([code, existsSync(file)], [2, false], err)
        assert.include(err, "is also the file of --output")
      }
    }).pipe(Effect.scoped))

  it.live("refuses a named pipe without waiting for its reader", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      execFileSync("mkfifo", [join(cwd, "pipe")])
      const env = yield* sandboxEnv({ records: 5 })
      const { code, signal, stderr } = yield* payments(["invoices", "list", "--output", "pipe"], {
        env,
        cwd,
        killAfterMs: 60_000
      })
      assert.deepStrictEqual([code, signal], [2, null], stderr)
      assert.include(stderr, "is not a regular file")
    }).pipe(Effect.scoped))

  it.live("has whole records only after the system refuses to write more", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = { ...yield* sandboxEnv({ records: 200 }), NODE: process.execPath, BINARY: binary }
      const script = `ulimit -f 8; "$NODE" "$BINARY" invoices list --all --limit 3 --output out`
      const { code, stderr } = yield* runProgram("bash", ["-c", script], { env, cwd })
      assert.strictEqual(code, 9, stderr)
      const lines = read(join(cwd, "out")).split("\n")
      assert.strictEqual(lines.pop(), "")
      assert.isAtLeast(lines.length, 3)
      for (const line of lines) JSON.parse(line)
    }).pipe(Effect.scoped))

  it.live("is not needed for a file of the shell: the advice names >>, which keeps its records", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = { ...yield* sandboxEnv({ records: 50 }), NODE: process.execPath, BINARY: binary }
      const list = `"$NODE" "$BINARY" invoices list --limit 10 --cursor-file p`
      const run = (script: string) => runProgram("bash", ["-c", script], { env, cwd })
      const toFile = yield* run(`${list} > out`)
      assert.include(toFile.stderr, "Run the same command again, with >> in place of >, to continue.")
      assert.include((yield* run(`${list} | cat`)).stderr, "Run the same command again to continue.")
    }).pipe(Effect.scoped))

  it.live("is not needed for a CSV file of the shell: a run that continues does not print the header again", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = { ...yield* sandboxEnv({ records: 50 }), NODE: process.execPath, BINARY: binary }
      const list = `"$NODE" "$BINARY" invoices list --limit 10 --format csv`
      const run = (script: string) => runProgram("bash", ["-c", script], { env, cwd })
      yield* run(`${list} --all > whole`)
      yield* run(`${list} --cursor-file p > out; ${list} --all --cursor-file p >> out; ${list} --cursor-file p >> out`)
      assert.strictEqual(read(join(cwd, "out")), read(join(cwd, "whole")))
      // Another file gets a header of its own, and so does a pipe.
      yield* run(
        `${list} --cursor-file q > first; ${list} --cursor-file q > second; ${list} --cursor-file q | cat > third`
      )
      for (const name of ["first", "second", "third"]) assert.match(read(join(cwd, name)), /^id,/, name)
    }).pipe(Effect.scoped))

  it.live("says without a cursor file how to be able to continue", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { err } = yield* runInProcess(api, ["invoices", "list", "--limit", "10", "--output", join(folder, "out")])
      assert.include(err, "To be able to continue, start again with --cursor-file FILE and another --output.")
    }).pipe(Effect.scoped))

  it.live("shows its progress on a terminal, also on one that reports no width", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { columns } = process.stderr
      process.stderr.columns = 0
      const args = ["invoices", "list", "--all", "--limit", "10", "--output", join(folder, "out")]
      const { code, err } = yield* Effect.ensuring(
        runInProcess(api, args, true),
        Effect.sync(() => process.stderr.columns = columns)
      )
      assert.strictEqual(code, 0, err)
      assert.include(err, "invoices 30")
      assert.strictEqual(read(join(folder, "out")), `${invoices.join("\n")}\n`)
    }).pipe(Effect.scoped))
})

describe("--patience", () => {
  const limited = (from: number, to: number) =>
    layerTest({
      invoices,
      faults: Array.from({ length: to - from + 1 }, (_, index) => ({
        fault: "status" as const,
        status: 429,
        retryAfter: 0,
        nth: from + index
      }))
    })
  const args = ["invoices", "list", "--all", "--limit", "10"]

  it.live("waits while the service limits the rate, and then reads every record once", () =>
    Effect.gen(function*() {
      // Each page is requested three times before the listing waits.
      const { code, err, out } = yield* runInProcess(limited(2, 5), args)
      assert.deepStrictEqual([code, out], [0, `${invoices.join("\n")}\n`], err)
      const first = yield* runInProcess(limited(1, 4), args)
      assert.deepStrictEqual([first.code, first.out], [6, ""])
      const patient = yield* runInProcess(limited(1, 4), [...args, "--patience", "1m"])
      assert.deepStrictEqual([patient.code, patient.out], [0, `${invoices.join("\n")}\n`], patient.err)
      const none = yield* runInProcess(limited(2, 5), [...args, "--patience", "10ms"])
      assert.deepStrictEqual([none.code, none.out], [6, `${invoices.slice(0, 10).join("\n")}\n`])
    }))
})
