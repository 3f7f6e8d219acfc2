import { assert, describe, it } from "@effect/vitest"
import { layerHttpClient } from "@payments/core/node"
import { layerTest } from "@payments/core/testing"
import { chosenConfig } from "@payments/program"
import {
  binary,
  payments as runPayments,
  runProgram,
  sandboxEnv,
  temporaryFolder
} from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import type { Command } from "effect/cli"
import { TestConsole } from "effect/testing"
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { payments } from "../../src/cli.ts"
import { runInProcess } from "./InProcess.ts"

/** Returns the words that name the command, for it and all commands below it. */
const pathsOf = (
  command: Command.Command.Any,
  path: ReadonlyArray<string> = []
): ReadonlyArray<ReadonlyArray<string>> => [
  path,
  ...command.subcommands.flatMap(({ commands }) => commands.flatMap((child) => pathsOf(child, [...path, child.name])))
]

describe("the built program", () => {
  it.live("runs without node_modules and without a package.json", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      cpSync(join(binary, ".."), folder, { recursive: true })
      const { code, stderr, stdout } = yield* runProgram(process.execPath, [join(folder, "payments.js"), "--version"])
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
      const help = yield* runProgram(process.execPath, [join(folder, "payments.js"), "export", "--help"])
      assert.strictEqual(help.code, 0)
      assert.include(help.stdout, "--to DESTINATION")
    }).pipe(Effect.scoped))

  it.live.each(["20.19.0", "22.19.0", "18.0.0"])(
    "reports in one line that Node %s is too old",
    (version) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const preload = join(folder, "old.cjs")
        writeFileSync(
          preload,
          `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`
        )
        const { code, stderr, stdout } = yield* runProgram(process.execPath, [
          "--require",
          preload,
          binary,
          "--version"
        ])
        assert.deepStrictEqual([code, stdout, stderr], [
          3,
          "",
          `payments: needs Node 22.20 or later; this is Node ${version}.\n`
        ])
      }).pipe(Effect.scoped)
  )

  it.live.each<readonly [variable: string, value: string]>([
    ["NODE_DEBUG", "undici"],
    ["NODE_DEBUG", "fetch"],
    ["NODE_DEBUG", "http"],
    ["NODE_DEBUG", "*"],
    ["NODE_DEBUG_NATIVE", "*"]
  ])(
    "refuses to run with %s=%s, because Node would print request addresses",
    ([variable, value]) =>
      Effect.gen(function*() {
        const env = { ...yield* sandboxEnv({ records: 3 }), [variable]: value }
        const { code, stderr, stdout } = yield* runPayments(["invoices", "list", "--contract", "canary-5ecret"], {
          env
        })
        assert.deepStrictEqual([code, stdout], [3, ""])
        assert.include(
          stderr,
          "payments: NODE_DEBUG or NODE_DEBUG_NATIVE is set: Node would print cursors and filter values. Unset it.\n"
        )
        assert.notInclude(stderr, "canary")
      }).pipe(Effect.scoped)
  )

  it.effect("prints version and help without the library, exactly as the program prints help", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      for (const file of ["payments.js", "payments-answer.cjs", "package.json", "help.txt", "help"]) {
        cpSync(join(binary, "..", file), join(folder, file), { recursive: true })
      }
      const launch = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
        runProgram(process.execPath, [join(folder, "payments.js"), ...args], { env })
      assert.match((yield* launch(["-v"])).stdout, /^\d+\.\d+\.\d+\n$/)

      const helpOf = Effect.fnUntraced(function*(path: ReadonlyArray<string>, terminal: boolean) {
        const before = (yield* TestConsole.logLines).length
        yield* runInProcess(layerTest({}), [...path, "--help"], terminal)
        return `${(yield* TestConsole.logLines).slice(before).join("\n")}\n`
      })
      const services = { api: layerTest({}), config: chosenConfig, http: layerHttpClient, version: "" }
      const paths = pathsOf(yield* Effect.promise(() => payments(services, [])))
      assert.isAbove(paths.length, 15)
      for (const path of paths) {
        const { code, stdout } = yield* launch([...path, "--help"])
        assert.deepStrictEqual([code, stdout], [0, yield* helpOf(path, false)], path.join(" "))
        assert.strictEqual(readFileSync(`${join(folder, "help", ...path)}.txt`, "utf8"), yield* helpOf(path, true))
        for (const flag of stdout.matchAll(/^ {2}(--[a-z-]+.*)$/gm)) {
          assert.match(flag[1] ?? "", /\s{2,}\S/, `${path.join(" ")} ${flag[1]}`)
        }
      }
      const colored = yield* launch(["-h", "export"], { FORCE_COLOR: "1" })
      assert.strictEqual(colored.stdout, yield* helpOf(["export"], true))
      // A dumb terminal does not change what FORCE_COLOR asks for. Without the folder of help, the program itself answers.
      const whole = yield* temporaryFolder
      cpSync(join(binary, ".."), whole, { recursive: true })
      for (const name of ["help", "help.txt"]) rmSync(join(whole, name), { recursive: true })
      const env = { FORCE_COLOR: "1", TERM: "dumb" }
      const program = yield* runProgram(process.execPath, [join(whole, "payments.js"), "export", "--help"], { env })
      assert.deepStrictEqual([program.stdout, (yield* launch(["export", "--help"], env)).stdout], [
        colored.stdout,
        colored.stdout
      ])
      // Anything else is for the program, which is not there.
      for (const args of [["exprot", "--help"], ["../help", "-h"], ["-v", "-h"], ["export", "--to", "x", "-h"]]) {
        assert.include((yield* launch(args)).stderr, "payments-main.cjs", args.join(" "))
      }
    }).pipe(Effect.scoped))

  it.live("ends with the same codes as the program if its help cannot be written", () =>
    Effect.gen(function*() {
      const closed =
        "payments: the output cannot be written: standard output is closed (EBADF). To discard the output, redirect it: > /dev/null\n"
      for (
        const [args, redirection, code, err] of [
          ["--help", "> /dev/full", 9, "payments: the output cannot be written: there is no space left (ENOSPC).\n"],
          ["--version", "> /dev/full", 9, "payments: the output cannot be written: there is no space left (ENOSPC).\n"],
          ["--help", ">&-", 9, closed],
          ["--version", ">&-", 9, closed],
          ["export --help", ">&-", 9, closed],
          ["--version", "1<> /dev/null", 0, ""],
          ["--help", "| true", 0, ""],
          ["--help", "| head -1", 0, ""],
          ["--help", "< /dev/null > /dev/null", 0, ""]
        ] as const
      ) {
        const { stderr, ...ended } = yield* runProgram("bash", [
          "-c",
          `"${binary}" ${args} ${redirection}; exit \${PIPESTATUS[0]}`
        ], { env: { PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` } })
        assert.deepStrictEqual([ended.code, stderr], [code, err], redirection)
      }
    }))
})
