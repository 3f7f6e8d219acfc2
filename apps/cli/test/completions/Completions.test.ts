/** Completions: the candidates, and the scripts in the shells that are installed. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { scenarios } from "@payments/sandbox"
import { binary, runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn, spawnSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { Completions } from "effect/cli"
import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { payments as commandLine } from "../../src/cli.ts"
import { shellWords } from "../../src/completions/ShellWords.ts"
import { scenarioNames, valueKinds } from "../../src/completions/Values.ts"
import { runInProcess } from "../program/InProcess.ts"
import { everyCommand, testServices } from "../program/Tree.ts"

const candidatesOf = (line: string) =>
  Effect.map(
    runInProcess(layerTest({}), ["completions", "candidates", "--", line]),
    ({ code, err, out }) => {
      assert.deepStrictEqual([code, err], [0, ""], line)
      return out.split("\n").filter((candidate) => candidate !== "")
    }
  )

const valuesOf = (line: string) =>
  Effect.map(
    candidatesOf(line),
    (lines) => lines.filter((candidate) => !candidate.startsWith(":")).map((candidate) => candidate.split("\t")[0])
  )

describe("a completion", () => {
  it.effect("has commands, flags and values", () =>
    Effect.gen(function*() {
      const labels = Lists.all.map(({ label }) => label)
      for (
        const [line, expected] of [
          ["payments pay", ["payout-requests", "payin-sources"]],
          ["payments  invoices ", ["list"]],
          ["payments --config x.toml invoices ", ["list"]],
          ["payments invoices list --settlement-", ["--settlement-date", "--settlement-time"]],
          ["payments invoices list --settlement-date 2024-05-01 --settlement-", ["--settlement-time"]],
          ["payments invoices list --log-level=d", ["--log-level=debug"]],
          ["payments invoices list --reference 'a b' --log-l", ["--log-level"]],
          ["payments invoices list --reference --all --al", ["--all"]],
          ["payments export ", labels],
          ["payments export invoices p", ["payout-requests", "payin-sources"]],
          ["payments status --resource invoices --resource ", labels],
          ["payments status --resource invoices --reso", ["--resource"]],
          ["payments export --ignore-field customerDetails.n", ["customerDetails.name"]],
          ["payments export --ignore-field=authUrl,customerDetails.n", [
            "--ignore-field=authUrl,customerDetails.name"
          ]],
          ["payments export --ignore-field authUrl,auth", []],
          ["payments payin-sources list --fields id,customerDetails.na", ["id,customerDetails.name"]],
          ["payments invoices list --fields customerD", ["customerDocumentNumber"]],
          ["payments invoices list --where=payment", [
            "--where=paymentDate",
            "--where=paymentMethod",
            "--where=paymentSource",
            "--where=paymentAmount",
            "--where=paymentId",
            "--where=paymentUrl"
          ]],
          ["payments export --to ", ["sqlite:", "file:", "postgres://"]],
          ["payments sandbox --faults fl", ["flaky"]],
          ["payments changes cons", ["consumers"]],
          ["payments query settled-by-d", ["settled-by-day"]],
          ["payments completions ", ["bash", "zsh", "fish"]],
          ["payments invoices list -- --", []],
          ["payments zzz ", []],
          ["payments invoices list --limit ", []]
        ] as const
      ) {
        assert.deepStrictEqual(yield* valuesOf(line), [...expected], line)
      }
      assert.include(yield* valuesOf("payments invoices list "), "--document-number")
    }))

  it.effect("asks the shell for files, also after the kind of a destination", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* candidatesOf("payments --config "), [":files "])
      assert.deepStrictEqual(yield* candidatesOf("payments export --to sqlite:./p"), [":files sqlite:"])
      assert.deepStrictEqual(yield* candidatesOf("payments export --to=file:"), [":files --to=file:"])
    }))

  it.live("has the names in the sources file, also of a file with mistakes, and runs no command of it", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.toml")
      const line = `payments --config ${file} --source `
      assert.deepStrictEqual(yield* valuesOf(line), [])
      writeFileSync(
        file,
        `[sources.north]\napi_key_command = "touch ${folder}/ran"\n[sources.south]\nnonsense = 1\n[sources."b ad"]\n`
      )
      assert.deepStrictEqual(yield* valuesOf(line), ["north", "south"])
      assert.deepStrictEqual(yield* valuesOf(`${line}n`), ["north"])
      assert.deepStrictEqual(yield* valuesOf(`payments --config ${file} source remove s`), ["south"])
      assert.isFalse(existsSync(join(folder, "ran")))
      writeFileSync(file, "[sources.north")
      assert.deepStrictEqual(yield* valuesOf(line), [])
      assert.deepStrictEqual(yield* valuesOf("payments --config /dev/zero --source "), [])
    }).pipe(Effect.scoped))

  it.effect("knows only flags and arguments that exist, and the sandbox's scenarios", () =>
    Effect.gen(function*() {
      const root = yield* Effect.promise(() => commandLine(testServices, []))
      const known = new Set(["--source", "--config"])
      for (const { command, path } of everyCommand(Completions.fromCommand(root))) {
        for (const { name } of command.flags) known.add(`--${name}`)
        for (const { name } of command.arguments) known.add([...path.slice(1), name].join(" "))
      }
      assert.deepStrictEqual(Object.keys(valueKinds).filter((name) => !known.has(name)), [])
      assert.deepStrictEqual(scenarioNames, Object.keys(scenarios))
    }))
})

describe("the script of a shell", () => {
  it.live("is an error if stdout is closed, so that no empty file is sourced", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* runProgram(process.execPath, [binary, "completions", "bash"], {
        env: { PAYMENTS_STDOUT: "closed" }
      })
      assert.strictEqual(code, 9)
      assert.include(stderr, "standard output is closed (EBADF)")
    }))
})

describe("the words of an unfinished command", () => {
  it("have no quotes", () => {
    for (
      const [line, words] of [
        ["payments ", ["payments", ""]],
        ["payments a", ["payments", "a"]],
        [`payments 'a b' "c \\" d" e\\ f`, ["payments", "a b", `c " d`, "e f"]],
        [`payments --x="a b`, ["payments", "--x=a b"]],
        [`payments '\\' x\\`, ["payments", "\\", "x"]],
        ["", [""]]
      ] as const
    ) {
      assert.deepStrictEqual(shellWords(line), words, line)
    }
  })
})

/** A folder with a program `payments` that completes, and otherwise prints its words, and files with difficult names. */
const workplace = Effect.map(temporaryFolder, (folder) => {
  mkdirSync(join(folder, "bin"))
  mkdirSync(join(folder, "payments"))
  writeFileSync(
    join(folder, "bin/payments"),
    `#!/bin/sh
[ "$1" = completions ] && exec "${process.execPath}" "${binary}" "$@"
printf '<%s>' "$@"; echo END
`,
    { mode: 0o755 }
  )
  for (const name of ["payments.db", "other file.db"]) writeFileSync(join(folder, name), "")
  writeFileSync(join(folder, "payments/payments.toml"), "[sources.north]\n[sources.south]\n")
  return folder
})

const environmentOf = (folder: string) => ({
  PATH: `${join(folder, "bin")}:${process.env["PATH"] ?? ""}`,
  HOME: folder,
  XDG_CONFIG_HOME: folder,
  TERM: "dumb"
})

const isInstalled = (program: string) => spawnSync(program, ["--version"]).status === 0

/** What a person types, with Tab, and the words that the program gets. */
const typed: ReadonlyArray<readonly [string, string]> = [
  ["payments invo\tli\t--log-l\tde\t", "<invoices><list><--log-level><debug>"],
  ["payments --source no\t statu\t", "<--source><north><status>"],
  ["payments status --log-level=de\t", "<status><--log-level=debug>"],
  [
    "payments export --ignore-field createdAt,customerDetails.n\t",
    "<export><--ignore-field><createdAt,customerDetails.name>"
  ],
  ["payments export --to=sqlite:./oth\t", "<export><--to=sqlite:./other file.db>"],
  ["payments --config oth\t", "<--config><other file.db>"],
  [
    "payments invoices list --reference '$(touch ran)' --log-l\tde\t",
    "<invoices><list><--reference><$(touch ran)><--log-level><debug>"
  ]
]

/** Types lines in an interactive shell on a terminal. Returns what the program printed for each. */
const typeInShell = (folder: string, shell: string, setup: string) =>
  Effect.callback<ReadonlyArray<string>>((resume) => {
    // `script` runs the shell on a pseudo-terminal.
    const child = spawn("script", ["-qec", shell, "/dev/null"], { cwd: folder, env: environmentOf(folder) })
    let output = ""
    let next = 0
    let seen = 0
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk
      if (next === 0 ? !output.includes("is-ready") : (output.match(/END\r/g) ?? []).length === seen) return
      seen = (output.match(/END\r/g) ?? []).length
      const line = typed[next++]
      child.stdin.write(line === undefined ? "exit\r" : `${line[0]}\r`)
    })
    child.on("close", () => resume(Effect.succeed(output.match(/<.*(?=END\r)/g) ?? [])))
    child.stdin.write(`${setup}; echo is-"ready"\r`)
    return Effect.sync(() => child.kill("SIGKILL"))
  })

describe("the script", () => {
  for (
    const [shell, start, setup] of [
      ["bash", "bash --norc --noprofile -i", "source <(payments completions bash)"],
      ["zsh", "zsh -f -i", "autoload -Uz compinit; compinit -u -D; source <(payments completions zsh)"]
    ] as const
  ) {
    const missing = ["script", shell].filter((program) => !isInstalled(program))
    it.live.skipIf(missing.length > 0)(
      `completes on a terminal in ${shell}${
        missing.length === 0 ? "" : ` (not tested: no ${missing.join(", ")} here)`
      }`,
      () =>
        Effect.gen(function*() {
          const folder = yield* workplace
          const printed = yield* typeInShell(folder, start, setup)
          assert.deepStrictEqual(printed, typed.map(([, words]) => words))
          assert.isFalse(existsSync(join(folder, "ran")))
        }).pipe(Effect.scoped)
    )
  }

  it.live.skipIf(!isInstalled("fish"))(
    `completes in fish${isInstalled("fish") ? "" : " (not tested: no fish here)"}`,
    () =>
      Effect.gen(function*() {
        const folder = yield* workplace
        const lines = typed.map(([line]) => line.slice(0, line.indexOf("\t")))
        const script = [
          "payments completions fish | source",
          ...lines.map((line) =>
            `echo -- (complete -C ${JSON.stringify(line).replaceAll("$", "\\$")} | string replace -r '\\t.*' '')`
          )
        ].join("\n")
        const { stdout } = spawnSync("fish", ["--no-config", "-c", script], {
          cwd: folder,
          env: environmentOf(folder),
          encoding: "utf8"
        })
        assert.deepStrictEqual(stdout.trimEnd().split("\n"), [
          "invoices",
          "north",
          "--log-level=debug",
          "createdAt,customerDetails.name",
          "--to=sqlite:./other file.db",
          "other file.db",
          "--log-level"
        ])
        assert.isFalse(existsSync(join(folder, "ran")))
      }).pipe(Effect.scoped)
  )
})
