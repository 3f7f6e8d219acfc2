/** The scripts of the workspace: `setup.mjs` installs packages, and `programs.mjs` writes the programs in `bin`. */
import { assert, describe, it } from "@effect/vitest"
import { type RunOptions, runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"

const root = join(import.meta.dirname, "../../../..")

const put = (file: string, text: string, mode = 0o644) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  chmodSync(file, mode)
}

/** A workspace of one package, with a fake `npx` that installs it without a network. */
const workspace = Effect.map(temporaryFolder, (folder) => {
  cpSync(join(root, "scripts"), join(folder, "a clone/scripts"), { recursive: true })
  const at = (path: string) => join(folder, "a clone", path)
  put(at("package.json"), JSON.stringify({ packageManager: "pnpm@1.2.3" }))
  put(at("pnpm-lock.yaml"), "lock: 1\n")
  put(at("packages/one/package.json"), "{}")
  mkdirSync(at("apps"))
  const npx = (script: string) => put(join(folder, "programs/npx"), `#!/bin/sh\nset -e\n${script}\n`, 0o755)
  const installing = `echo "$@" >> '${at("installs")}'
mkdir -p node_modules/.pnpm/effect@1/node_modules/effect node_modules/node/bin
ln -sf '${process.execPath}' node_modules/node/bin/node
touch node_modules/.pnpm/effect@1/node_modules/effect/a.js node_modules/.pnpm/effect@1/node_modules/effect/b.js`
  npx(installing)
  const setup = (env: Readonly<Record<string, string>> = {}) =>
    runProgram(process.execPath, [at("scripts/setup.mjs")], {
      cwd: folder,
      env: { ...env, PATH: `${folder}/programs:${process.env["PATH"] ?? ""}` }
    })
  const installs = () => existsSync(at("installs")) ? readFileSync(at("installs"), "utf8").split("\n").length - 1 : 0
  return { folder, at, npx, installing, setup, installs }
})

const silent = { code: 0, signal: null, stdout: "", stderr: "" }
const installed = { ...silent, stdout: "Installing…\n" }

describe("setup", () => {
  it.live("installs after a change of the lockfile or a package file, and otherwise does nothing", () =>
    Effect.gen(function*() {
      const { at, installs, setup } = yield* workspace
      assert.deepStrictEqual(yield* setup(), installed)
      assert.match(readFileSync(at("installs"), "utf8"), /^--yes pnpm@1\.2\.3 install --frozen-lockfile /)
      assert.deepStrictEqual(yield* setup(), silent)
      for (const file of ["pnpm-lock.yaml", "pnpm-workspace.yaml", ".npmrc", "packages/one/package.json"]) {
        put(at(file), "\n\n")
        assert.deepStrictEqual(yield* setup(), installed, file)
        assert.deepStrictEqual(yield* setup(), silent, file)
      }
      assert.strictEqual(installs(), 5)
    }).pipe(Effect.scoped))

  it.live("installs into an empty folder if installed files are missing or the installed Node does not run", () =>
    Effect.gen(function*() {
      const { at, installing, npx, setup } = yield* workspace
      yield* setup()
      npx(`test ! -e node_modules; ${installing}`)
      for (
        const damage of [
          "node_modules/.pnpm/effect@1/node_modules/effect/b.js",
          "node_modules/.pnpm/effect@1",
          "node_modules/.payments-setup.json",
          "node_modules/node/bin/node",
          "node_modules/node"
        ]
      ) {
        rmSync(at(damage), { recursive: true })
        assert.deepStrictEqual(yield* setup(), installed, damage)
        assert.isTrue(existsSync(at("node_modules/.pnpm/effect@1/node_modules/effect/b.js")))
        assert.deepStrictEqual(yield* setup(), silent, damage)
      }
      put(at("node_modules/.payments-setup.json"), "{\"inp")
      assert.deepStrictEqual(yield* setup(), installed)
      assert.isFalse(existsSync(at(".node_modules.old")))
    }).pipe(Effect.scoped))

  it.live("reports in one line that the registry cannot be reached, and keeps the old installation", () =>
    Effect.gen(function*() {
      const { at, installing, npx, setup } = yield* workspace
      yield* setup()
      npx(`${installing}; echo 'npm error code ECONNREFUSED'; echo 'npm error https://registry.example' >&2; exit 1`)
      for (const changed of ["pnpm-lock.yaml", "packages/one/package.json"]) {
        put(at(changed), "{ }")
        const { code, stderr } = yield* setup()
        assert.strictEqual(code, 1)
        assert.match(stderr, /^Packages are missing, and the package registry cannot be reached\. [^\n]+\n$/)
        assert.notInclude(stderr, "registry.example")
        assert.isTrue(existsSync(at("node_modules/.pnpm/effect@1/node_modules/effect/b.js")))
      }
      npx("echo ' ERR_PNPM_OUTDATED_LOCKFILE  The lockfile is not up to date' >&2; exit 1")
      assert.include((yield* setup()).stderr, "ERR_PNPM_OUTDATED_LOCKFILE")
    }).pipe(Effect.scoped))

  it.live("installs again after a killed installation", () =>
    Effect.gen(function*() {
      const { installing, npx, setup } = yield* workspace
      npx(`${installing}; kill -9 $PPID`)
      assert.strictEqual((yield* setup()).signal, "SIGKILL")
      npx(installing)
      assert.deepStrictEqual(yield* setup(), installed)
    }).pipe(Effect.scoped))

  it.live("passes no key and no password to the installer", () =>
    Effect.gen(function*() {
      const { at, installing, npx, setup } = yield* workspace
      npx(`env > '${at("seen")}'; ${installing}`)
      const secret = "canary-5ecret"
      yield* setup({
        PAYMENTS_API_KEY: secret,
        PAYMENTS_INVOICES_API_KEY: secret,
        PAYMENTS_API_KEY_FILE: secret,
        PAYMENTS_TO: secret,
        PGPASSWORD: secret
      })
      assert.include(readFileSync(at("seen"), "utf8"), "PATH=")
      assert.notInclude(readFileSync(at("seen"), "utf8"), secret)
    }).pipe(Effect.scoped))

  it("uses the same version of pnpm as the workspace", () => {
    const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    assert.include(readFileSync(join(root, "pnpm-workspace.yaml"), "utf8"), `  pnpm: ${packageManager.split("@")[1]}\n`)
  })
})

describe("the programs in bin", () => {
  /** Programs that print how they were started. */
  const programs = Effect.gen(function*() {
    const { at, folder, setup } = yield* workspace
    yield* setup()
    const script =
      "console.log(JSON.stringify([process.cwd(), process.execArgv, process.argv.slice(2), process.env.MALLOC_ARENA_MAX]))"
    put(at("apps/cli/dist/payments.js"), script)
    put(at("apps/worker/dist/payments-worker.js"), script)
    yield* runProgram(process.execPath, [at("scripts/programs.mjs")])
    const run = (program: string, options: RunOptions = {}, command = "a b") =>
      runProgram(program, [command, "$HOME", ""], options)
    return { at, folder, run }
  })

  it.live("run from any folder, through links, with the caller's working directory and arguments", () =>
    Effect.gen(function*() {
      const { at, folder, run } = yield* programs
      const elsewhere = join(folder, "else where")
      mkdirSync(join(elsewhere, "links"), { recursive: true })
      symlinkSync("../../a clone/bin/payments", join(elsewhere, "links/first"))
      symlinkSync("first", join(elsewhere, "links/second"))
      symlinkSync(at("bin"), join(elsewhere, "bin"))
      const env = { PATH: `${at("bin")}:${process.env["PATH"] ?? ""}` }
      for (const program of [at("bin/payments"), "./links/first", "links/second", "bin/payments", "payments"]) {
        const { code, stderr, stdout } = yield* run(program, { cwd: elsewhere, env })
        assert.deepStrictEqual([code, stderr], [0, ""], program)
        const [cwd, flags, args] = JSON.parse(stdout)
        assert.deepStrictEqual([cwd, flags, args], [elsewhere, ["--min-semi-space-size=8"], ["a b", "$HOME", ""]])
      }
      for (
        const [program, command] of [
          ["payments", "export"],
          ["payments-worker", "run"]
        ] as const
      ) {
        const { stdout } = yield* run(program, { cwd: folder, env }, command)
        const heap = ["--max-semi-space-size=4", "--heap-growing-percent=60"]
        assert.deepStrictEqual(JSON.parse(stdout), [folder, heap, [command, "$HOME", ""], "1"])
      }
    }).pipe(Effect.scoped))

  it.live("replace themselves by Node, so that signals reach it", () =>
    Effect.gen(function*() {
      const { at } = yield* programs
      const ended = yield* Effect.callback<{ readonly code: number | null; readonly isNode: boolean }>((resume) => {
        put(
          at("apps/worker/dist/payments-worker.js"),
          `setInterval(() => {}, 1000); process.on("SIGTERM", () => process.exit(7)); console.log(process.pid)`
        )
        const child = spawn(at("bin/payments-worker"), { stdio: ["ignore", "pipe", "inherit"] })
        let isNode = false
        child.stdout.on("data", (chunk: Buffer) => {
          isNode = Number(String(chunk)) === child.pid
          child.kill("SIGTERM")
        })
        child.on("close", (code) => resume(Effect.succeed({ code, isNode })))
        return Effect.sync(() => child.kill("SIGKILL"))
      })
      assert.deepStrictEqual(ended, { code: 7, isNode: true })
    }).pipe(Effect.scoped))

  it.live("pass on whether stdout is open, because Node hides it", () =>
    Effect.gen(function*() {
      const { at } = yield* programs
      put(at("apps/cli/dist/payments.js"), "console.error(process.env.PAYMENTS_STDOUT)")
      for (const [redirection, seen] of [["", "open"], ["> /dev/null", "open"], [">&-", "closed"]] as const) {
        const { stderr } = yield* runProgram("sh", ["-c", `"${at("bin/payments")}" ${redirection}`])
        assert.strictEqual(stderr, `${seen}\n`, redirection)
      }
    }).pipe(Effect.scoped))

  it.live("print what to run if nothing is built", () =>
    Effect.gen(function*() {
      const { at, folder, run } = yield* programs
      for (const missing of ["apps/cli/dist", "node_modules"]) {
        rmSync(at(missing), { recursive: true })
        assert.deepStrictEqual(yield* run(at("bin/payments")), {
          code: 3,
          signal: null,
          stdout: "",
          stderr: `payments: not built yet. Run "npm run build" in ${join(folder, "a clone")}\n`
        })
      }
    }).pipe(Effect.scoped))
})
