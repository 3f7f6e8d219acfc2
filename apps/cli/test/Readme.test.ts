/**
 * Runs every command of the README in order, in one shell, in a clean copy of this workspace with nothing installed. Also
 * checks the tables of the docs against the code.
 */
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsError, Reason, RetryPolicy } from "@payments/core"
import { ExitCode, exitCodeOf } from "@payments/export"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { freePort } from "../../../packages/export/test/FreePort.ts"
import { rowsOf, runProgram, sandboxEnv, temporaryFolder } from "./Program.ts"

const root = join(import.meta.dirname, "../../..")
const text = (file: string) => readFileSync(join(root, file), "utf8")

/** The PATH without the programs that this workspace has installed. */
const machinePath = (process.env["PATH"] ?? "").split(":").filter((folder) => !folder.includes("node_modules")).join(
  ":"
)
const machineEnv = (more: Record<string, string> = {}) => ({
  PATH: machinePath,
  HOME: process.env["HOME"] ?? "/",
  ...more
})

/** Settings of npm with an unreachable package registry. */
const unreachable = { npm_config_registry: "http://127.0.0.1:9" }

const cleanCopy = Effect.map(temporaryFolder, (folder) => {
  const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8"
  })
  for (const file of files.split("\0").filter((name) => name !== "" && existsSync(join(root, name)))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    cpSync(join(root, file), join(folder, file))
  }
  return folder
})

/** Returns the files that git would add: all files that it does not ignore, in a repository without commits. */
const untrackedIn = (folder: string): ReadonlyArray<string> =>
  execFileSync("git", ["ls-files", "-z", "--others", "--exclude-standard"], { cwd: folder, encoding: "utf8" }).split(
    "\0"
  )
    .toSorted()

const blocks = (language: string): ReadonlyArray<string> =>
  Array.from(
    text("README.md").matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms")),
    ([, body = ""]) => body
  )

/** Interrupts commands that do not end by themselves: a sandbox when it listens, the others after some seconds. */
const withEnd = (line: string): string =>
  line.startsWith("payments sandbox")
    ? `${line} > sandbox.log & for _ in {1..300}; do ! grep -q PAYMENTS_API_KEY sandbox.log || break; sleep 0.1; done
kill -INT $!; wait $! || test $? = 130; cat sandbox.log; rm sandbox.log`
    : /^(payments-worker run .*--every|payments changes .*--follow)/.test(line) && !line.endsWith("&")
    ? `timeout --signal=INT 3 ${line} || test $? = 124`
    : line

describe("the README", () => {
  it.live("has commands that all work in a clean copy", () =>
    Effect.gen(function*() {
      const folder = yield* cleanCopy
      const env = yield* sandboxEnv({ records: 400 })
      const keyFile = join(folder, "key")
      writeFileSync(keyFile, `${env.PAYMENTS_API_KEY}\n`)
      const ports = { "8787": yield* Effect.promise(freePort), "9464": yield* Effect.promise(freePort) }
      const commands = blocks("sh").join("").split("\n").map((line) =>
        withEnd(
          line.replace(/^npm test.*/, ":")
            .replace(/--port (8787|9464)/, (_, port: keyof typeof ports) => `--port ${ports[port]}`)
            .replace("https://payments.example.com", env.PAYMENTS_BASE_URL)
            .replace("$HOME/.payments-key", keyFile)
        )
      )
      const script = [
        "set -e",
        ...commands.flatMap((line) => [`echo ${quoted(`$ ${line}`)}`, line])
      ]
      execFileSync("git", ["init", "--quiet"], { cwd: folder })
      const before = untrackedIn(folder)
      const { code, stderr, stdout } = yield* runProgram("bash", ["-c", script.join("\n")], {
        cwd: folder,
        env: machineEnv()
      })
      assert.strictEqual(code, 0, `${stdout}\n${stderr}`)
      assert.deepStrictEqual(untrackedIn(folder), before, "git ignores every file that the commands write")

      const count = (file: string, table: string) =>
        rowsOf(join(folder, file), `SELECT count(*) AS n FROM ${table}`)[0]?.["n"]
      for (const { label } of Lists.all) {
        assert.strictEqual(count("payments-sandbox.db", label.replaceAll("-", "_")), 10_000, label)
      }
      assert.strictEqual(count("payments.db", "invoices"), 400)
      assert.include(stdout, `export PAYMENTS_BASE_URL=http://127.0.0.1:${ports["8787"]}\n`)
      assert.strictEqual(JSON.parse(readFileSync(join(folder, "payin-sources.json"), "utf8")).count, 400)
      assert.isTrue(existsSync(join(folder, "payments/manifest.json")))
      assert.match(stdout, /\n2024-01-06 +368,368,000 +█+\n/)
      assert.include(readFileSync(join(folder, "settled.html"), "utf8"), "368,368,000")
      assert.strictEqual(
        stdout.match(/^\{"list":"(?:payout-requests|payin-sources|invoices)",.*1000012183/gm)?.length,
        9
      )
      assert.strictEqual(readdirSync(join(folder, "payments-csv")).filter((name) => name.endsWith(".csv.gz")).length, 1)
      assert.strictEqual(
        readdirSync(join(folder, "payments-parquet")).filter((name) => name.endsWith(".parquet")).length,
        1
      )
      assert.notInclude(stdout + stderr, env.PAYMENTS_API_KEY)

      const [example = ""] = blocks("ts")
      writeFileSync(join(folder, "apps/cli/readme.ts"), example)
      const node = join(folder, "node_modules/.bin/node")
      writeFileSync(
        join(folder, "apps/cli/tsconfig.readme.json"),
        JSON.stringify({ extends: "./tsconfig.json", include: ["readme.ts"] })
      )
      const compiled = yield* runProgram(
        join(folder, "node_modules/.bin/tsc"),
        ["-p", "apps/cli/tsconfig.readme.json"],
        { cwd: folder }
      )
      assert.deepStrictEqual([compiled.code, compiled.stdout], [0, ""])
      const ran = yield* runProgram(node, ["apps/cli/readme.ts"], { cwd: folder, env: { ...machineEnv(), ...env } })
      assert.deepStrictEqual([ran.code, ran.stderr], [0, ""])
      assert.match(ran.stdout, /^\d+ invoices are not settled yet\n2 2 false\n$/)

      const again = yield* runProgram("npm", ["start"], { cwd: folder, env: machineEnv(unreachable) })
      assert.strictEqual(again.code, 0, again.stderr)
      assert.notInclude(again.stdout, "Installing")
      assert.strictEqual(count("payments-sandbox.db", "invoices"), 10_000)
    }).pipe(Effect.scoped), 300_000)

  it.live("needs the registry to install, and one line reports that it cannot be reached", () =>
    Effect.gen(function*() {
      const folder = yield* cleanCopy
      const home = yield* temporaryFolder
      const { code, stderr } = yield* runProgram("npm", ["start", "--silent"], {
        cwd: folder,
        env: machineEnv({ ...unreachable, HOME: home })
      })
      assert.notStrictEqual(code, 0)
      assert.match(stderr, /^Packages are missing, and the package registry cannot be reached\. [^\n]+\n$/)
    }).pipe(Effect.scoped))

  it.live("builds without secrets in the environment", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      cpSync(join(root, "package.json"), join(folder, "package.json"))
      // Workspace.test.ts checks the environment of the installers.
      mkdirSync(join(folder, "scripts"))
      writeFileSync(join(folder, "scripts/setup.mjs"), "")
      mkdirSync(join(folder, "node_modules/.bin"), { recursive: true })
      writeFileSync(join(folder, "node_modules/.bin/turbo"), `#!/bin/sh\nenv > "${folder}/seen"\n`)
      chmodSync(join(folder, "node_modules/.bin/turbo"), 0o755)
      const secrets = {
        PAYMENTS_API_KEY: "canary-5ecret",
        PAYMENTS_INVOICES_API_KEY: "canary-5ecret",
        PAYMENTS_API_KEY_FILE: "canary-5ecret",
        PAYMENTS_INVOICES_API_KEY_FILE: "canary-5ecret",
        PAYMENTS_TO: "canary-5ecret",
        PGPASSWORD: "canary-5ecret"
      }
      yield* runProgram("npm", ["run", "turbo"], { cwd: folder, env: machineEnv(secrets) })
      const seen = readFileSync(join(folder, "seen"), "utf8")
      assert.include(seen, "PATH=")
      assert.notInclude(seen, "canary-5ecret")
    }).pipe(Effect.scoped))
})

const quoted = (line: string) => `'${line.replaceAll("'", `'\\''`)}'`

/** The headings of a page, as links name them. */
const headingsOf = (file: string): ReadonlyArray<string> =>
  Array.from(
    text(file).matchAll(/^#+ (.*)$/gm),
    ([, heading = ""]) => heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
  )

describe("the docs", () => {
  it("list every exit code and every setting, and no others", () => {
    const operating = text("docs/operating.md")
    const [, table = ""] = operating.split("## What does an exit code mean?\n")
    const rows = table.slice(0, table.search(/^#/m)).matchAll(/^\| (\d+) \|/gm)
    const codes = Array.from(rows, ([, code]) => Number(code))
    assert.deepStrictEqual(codes, Object.values(ExitCode))
    const documented = text("docs/settings.md").matchAll(/^\| `(PAYMENTS_[A-Z_]+)` \|/gm)
    const folder = "packages/export/src/sources"
    const files = [
      "packages/core/src/PaymentsConfig.ts",
      "apps/worker/src/cli.ts",
      "packages/export/src/Program.ts",
      ...readdirSync(join(root, folder)).map((name) => join(folder, name))
    ]
    const used = new Set(
      Array.from(files.map(text).join("\n").matchAll(/\bPAYMENTS_[A-Z_]+\b/g), ([name]) => name)
    )
    assert.deepStrictEqual(Array.from(documented, ([, name]) => name).toSorted(), [...used].toSorted())
  })

  it("list every reason of an error, its exit code and whether it is retried", () => {
    const rows = text("docs/operating.md").matchAll(/^\| `([A-Z][A-Za-z]+)` \| .* \| ([^|]+) \| (\d+) \| [^|]+ \|$/gm)
    const documented = Array.from(
      rows,
      ([, tag, retried = "", code]) => [tag, /^(yes|500)/.test(retried), Number(code)]
    )
    const retryAfter = undefined
    const reasons = [
      new Reason.Unauthorized(),
      new Reason.Forbidden(),
      new Reason.NotFound(),
      new Reason.InvalidRequest({ status: 400 }),
      new Reason.RateLimited({ retryAfter }),
      new Reason.ServerFailure({ status: 503, retryAfter }),
      new Reason.Transport({ kind: "reset" }),
      new Reason.Timeout({ phase: "headers" }),
      new Reason.MalformedResponse({ kind: "notJson", path: "", detail: "" }),
      new Reason.PaginationFault({ kind: "missingCursor" }),
      new Reason.FilterNotApplied({ field: "contract" }),
      new Reason.RedirectRefused({ status: 302 }),
      new Reason.UnexpectedStatus({ status: 600 })
    ]
    const context = { attempts: 1, status: undefined, requestId: undefined, body: undefined, position: undefined }
    assert.deepStrictEqual(
      documented,
      reasons.map((reason) => [
        reason._tag,
        RetryPolicy.isRetryable(reason),
        exitCodeOf(new PaymentsError({ list: "invoices", reason, ...context }))
      ])
    )
  })

  it("name only files and headings that exist", () => {
    for (
      const file of [
        "README.md",
        "AGENTS.md",
        "docs/agents.md",
        "docs/architecture.md",
        "docs/erasure.md",
        "docs/export.md",
        "docs/library.md",
        "docs/operating.md",
        "docs/personal-data.md",
        "docs/postgres-roles.md",
        "docs/releasing.md",
        "docs/sandbox.md",
        "docs/security-review.md",
        "docs/settings.md"
      ]
    ) {
      const named = Array.from(text(file).matchAll(/`((?:packages|apps)\/[^`*]+\.ts)`/g), ([, path = ""]) => path)
      const links = Array.from(
        text(file).matchAll(/\]\((?!https?:)([^)#]*)#?([^)]*)\)/g),
        ([, path = "", heading = ""]) => ({ path: path === "" ? file : join(dirname(file), path), heading })
      )
      for (const path of [...named, ...links.map((link) => link.path)]) {
        assert.isTrue(existsSync(join(root, path)), `${file}: ${path}`)
      }
      for (const { heading, path } of links) {
        if (heading !== "") assert.include(headingsOf(path), heading, `${file}: ${path}`)
      }
    }
  })
})
