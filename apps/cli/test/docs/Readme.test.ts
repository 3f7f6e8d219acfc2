/**
 * Runs every command of the README and of docs/sandbox.md in order, in one shell, in a clean copy of this workspace with nothing
 * installed. Also checks the tables of the docs against the code.
 */
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsError, Reason, RetryPolicy } from "@payments/core"
import { ExitCode, exitCodeOf } from "@payments/program"
import { freePort } from "@payments/testkit/FreePort"
import { rowsOf, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"

const root = join(import.meta.dirname, "../../../..")
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
    encoding: "utf8",
    env: machineEnv()
  })
  for (const file of files.split("\0").filter((name) => name !== "" && existsSync(join(root, name)))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    cpSync(join(root, file), join(folder, file))
  }
  return folder
})

/** Returns the files that git would add: all files that it does not ignore, in a repository without commits. */
const untrackedIn = (folder: string): ReadonlyArray<string> =>
  execFileSync("git", ["ls-files", "-z", "--others", "--exclude-standard"], {
    cwd: folder,
    encoding: "utf8",
    env: machineEnv()
  }).split("\0").toSorted()

const blocks = (language: string, file = "README.md"): ReadonlyArray<string> =>
  Array.from(
    text(file).matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms")),
    ([, body = ""]) => body
  )

/** Interrupts commands that do not end by themselves: a sandbox in the foreground when it listens, a reader after some seconds. */
const withEnd = (line: string): string =>
  line.endsWith("&")
    ? line
    : line.startsWith("payments sandbox")
    ? `${line} > sandbox.env & until [ -s sandbox.env ]; do sleep 0.1; done; kill -INT $!; wait $! || test $? = 130; rm sandbox.env`
    : /^payments changes .*--follow/.test(line)
    ? `timeout --signal=INT 3 ${line} || test $? = 124`
    // A worker is killed after it has started, and the next lines may use the same ports.
    : line.startsWith("kill ")
    ? `until grep -qs '"started"' worker.log; do sleep 0.1; done; ${line}; wait`
    : line

/**
 * Runs the line of docs/scheduling.md as cron does, then the blocks of docs/installation.md: upgrades the clone in the folder, lists
 * what is copied, and removes everything. A link stands for the clone, because the tests after this one need it.
 */
const installationPage = Effect.fnUntraced(function*(folder: string, service: Record<string, string>) {
  const home = yield* temporaryFolder
  const config = join(home, ".config/payments")
  mkdirSync(config, { recursive: true })
  writeFileSync(join(config, "north.key"), service["PAYMENTS_API_KEY"] ?? "", { mode: 0o600 })
  writeFileSync(
    join(config, "payments.toml"),
    `[sources.north]
base_url = "${service["PAYMENTS_BASE_URL"]}"
api_key_file = "north.key"
to = "sqlite:${home}/north.db"
`
  )
  symlinkSync(folder, join(home, "payments-read-toolkit"))
  const [crontab = ""] = blocks("crontab", "docs/scheduling.md")
  const cron = { HOME: home, LOGNAME: "me", SHELL: "/bin/sh", PATH: "/usr/bin:/bin" }
  const line = crontab.trim().replace(/^(?:[*\d,/-]+ ){5}/, "")
  const scheduled = yield* runProgram("/bin/sh", ["-c", line], { cwd: home, env: cron })
  const log = readFileSync(join(home, "payments-north.log"), "utf8")
  assert.deepStrictEqual([scheduled.code, scheduled.stdout, scheduled.stderr], [0, "", ""], log)
  assert.include(log, `Rows: sqlite:${home}/north.db`)

  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], {
      cwd: folder,
      stdio: "pipe"
    })
  git("add", "--all")
  git("commit", "--quiet", "--message", "The clone")
  git("clone", "--quiet", "--bare", ".", join(home, "origin.git"))
  git("remote", "add", "origin", join(home, "origin.git"))
  git("push", "--quiet", "--set-upstream", "origin", "HEAD")
  const [upgrade = "", list = "", remove = "", ...more] = blocks("sh", "docs/installation.md")
  assert.deepStrictEqual(more, [])
  const upgraded = yield* runProgram("bash", ["-ec", upgrade], { cwd: folder, env: machineEnv(unreachable) })
  assert.strictEqual(upgraded.code, 0, upgraded.stdout + upgraded.stderr)
  const env = { ...cron, PATH: `${folder}/bin:${cron.PATH}` }
  const listed = yield* runProgram("bash", ["-ec", list], { cwd: home, env })
  assert.strictEqual(listed.code, 0, listed.stderr)
  assert.include(listed.stdout, `sqlite:${home}/north.db`)
  const removed = yield* runProgram("bash", ["-ec", remove], { cwd: home, env })
  assert.deepStrictEqual([removed.code, removed.stderr], [0, ""])
  const left = readdirSync(home).filter((name) => !/^north\.db|^origin\.git$/.test(name))
  assert.deepStrictEqual([left.toSorted(), readdirSync(join(home, ".config"))], [[".config", "payments-north.log"], []])
})

describe("the README", () => {
  it.live("has commands that all work in a clean copy", () =>
    Effect.gen(function*() {
      const folder = yield* cleanCopy
      const env = yield* sandboxEnv({ records: 400 })
      const keyFile = join(folder, "key")
      writeFileSync(keyFile, `${env.PAYMENTS_API_KEY}\n`)
      const ports = new Map<string, number>()
      for (const port of ["8787", "8788", "9464"]) ports.set(port, yield* Effect.promise(freePort))
      const lines = [...blocks("sh"), ...blocks("sh", "docs/sandbox.md")].join("").trimEnd().split("\n")
      const commands = lines.map((line) =>
        withEnd(
          line.replace("https://payments.example.com", env.PAYMENTS_BASE_URL).replace("$HOME/.payments-key", keyFile)
            .replace(/^payments sandbox (?!.*--port)/, "$&--port 8787 ")
            .replaceAll(/\b(?:8787|8788|9464)\b/g, (port) => String(ports.get(port)))
        )
      )
      const script = [
        "set -e",
        ...commands.flatMap((line) => [`echo ${quoted(`$ ${line}`)}`, line])
      ]
      execFileSync("git", ["init", "--quiet"], { cwd: folder, env: machineEnv() })
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
      assert.strictEqual(count("payments-copy.db", "invoices"), 1000)
      assert.include(readFileSync(join(folder, "worker.log"), "utf8"), "\"message\":\"stopped\"")
      assert.match(stdout, /\n2024-01-06 +368,368,000 +█+\n/)
      assert.strictEqual(
        stdout.match(/^\{"list":"(?:payout-requests|payin-sources|invoices)",.*1000012183/gm)?.length,
        9
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
      assert.match(ran.stdout, /^\d+ invoices are not settled yet\n$/)

      yield* installationPage(folder, env)

      const again = yield* runProgram("npm", ["start"], { cwd: folder, env: machineEnv(unreachable) })
      assert.strictEqual(again.code, 0, again.stderr)
      assert.notInclude(again.stdout, "Installing")
      assert.strictEqual(count("payments-sandbox.db", "invoices"), 10_000)
    }).pipe(Effect.scoped), 300_000)

  it("is one page of at most 150 lines", () => {
    assert.isAtMost(text("README.md").trimEnd().split("\n").length, 150)
  })

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

/** The pages of the folder `docs`. */
const pages = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`)

describe("the docs", () => {
  it("have an entrance of at most 40 lines, which leads to every page and to the words that people look for", () => {
    const entrance = text("docs/README.md")
    assert.isAtMost(entrance.trimEnd().split("\n").length, 40)
    const links = Array.from(
      entrance.matchAll(/\[([^\]]+)\]\(([^)#]+)/g),
      ([, label = "", path = ""]) => ({ label, path })
    )
    const linked = new Set(links.map(({ path }) => join("docs", path)))
    assert.deepStrictEqual(pages.filter((page) => page !== "docs/README.md" && !linked.has(page)), [])
    const labels = links.map(({ label }) => label).join(" ").toLowerCase()
    const words = [
      "uninstall",
      "upgrade",
      "timezone",
      "time zone",
      "crontab",
      "systemd",
      "docker",
      "kubernetes",
      "helm"
    ]
    const more = [
      "bigquery",
      "snowflake",
      "excel",
      "parquet",
      "csv",
      "glossary",
      "backup",
      "encryption",
      "proxy",
      "grafana"
    ]
    assert.deepStrictEqual([...words, ...more].filter((word) => !labels.includes(word)), [])
    // Words of the inside, which nobody needs at first.
    assert.notMatch(entrance, /\b(?:pass(?:es)?|parts?|epochs?)\b/i)
  })

  it("have no block that blocks when it is pasted: only its last command may run until Ctrl-C", () => {
    const commands = ["README.md", ...pages].flatMap((file) =>
      [...blocks("sh", file), ...blocks("bash", file)].flatMap((block) => block.trimEnd().split("\n").slice(0, -1))
    )
    const endless = /^(payments sandbox|payments mcp|payments-worker run(?!.*--once)|payments changes .*--follow)/
    assert.deepStrictEqual(commands.filter((line) => endless.test(line) && !/[&\\]$/.test(line)), [])
  })

  it("list every exit code and every setting, and no others", () => {
    const page = text("docs/exit-codes.md")
    const [, table = ""] = page.split("## What does an exit code mean?\n")
    const rows = table.slice(0, table.search(/^#/m)).matchAll(/^\| (\d+) \|/gm)
    const codes = Array.from(rows, ([, code]) => Number(code))
    assert.deepStrictEqual(codes, Object.values(ExitCode))
    const documented = text("docs/settings.md").matchAll(/^\| `(PAYMENTS_[A-Z_]+)` \|/gm)
    const folder = "packages/program/src/sources"
    const files = [
      "packages/core/src/config/PaymentsConfig.ts",
      "apps/worker/src/cli.ts",
      "packages/program/src/settings/SettingTable.ts",
      ...readdirSync(join(root, folder)).map((name) => join(folder, name))
    ]
    const used = new Set(
      Array.from(files.map(text).join("\n").matchAll(/\bPAYMENTS_[A-Z_]+\b/g), ([name]) => name)
    )
    assert.deepStrictEqual(Array.from(documented, ([, name]) => name).toSorted(), [...used].toSorted())
  })

  it("list every reason of an error, its exit code and whether it is retried", () => {
    const [, statuses] = /its\s+status is one of ([\d, ]+)\./.exec(text("docs/exit-codes.md")) ?? []
    assert.strictEqual(statuses, RetryPolicy.retriedStatuses.join(", "))
    const rows = text("docs/exit-codes.md").matchAll(/^\| `([A-Z][A-Za-z]+)` \| .* \| ([^|]+) \| (\d+) \| [^|]+ \|$/gm)
    const documented = Array.from(
      rows,
      (
        [, tag, retried = "", code]
      ) => [tag, retried === "by its status" ? retried : retried.startsWith("yes"), Number(code)]
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
        reason._tag === "InvalidRequest" || reason._tag === "ServerFailure"
          ? "by its status"
          : RetryPolicy.isRetryable(reason),
        exitCodeOf(new PaymentsError({ list: "invoices", reason, ...context }))
      ])
    )
  })

  it("name only files and headings that exist", () => {
    for (const file of ["README.md", "AGENTS.md", ...pages]) {
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
