/** Type-checks every example of the docs and docstrings and runs it against the sandbox. */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "@payments/testkit/TestProcess"
import { Effect, Redacted } from "effect"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { Sandbox, sandboxKey } from "../../../sandbox/src/index.ts"

const core = join(import.meta.dirname, "../..")
const root = join(core, "../..")

const within = (folder: string, ending: string, recursive = false) =>
  readdirSync(folder, { recursive, encoding: "utf8" }).filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name))

const pages = [...within(join(root, "docs"), ".md"), join(core, "README.md")]

const blocks = (text: string) => Array.from(text.matchAll(/^```ts\n(.*?)^```$/gms), ([, body = ""]) => body)

const fromDocstring = (file: string) => blocks(readFileSync(file, "utf8").replaceAll(/^ *\* ?/gm, ""))

const examples = [
  ...pages.flatMap((file) => blocks(readFileSync(file, "utf8")).map((text) => ({ file, text }))),
  ...within(join(core, "src"), ".ts", true).flatMap((file) => fromDocstring(file).map((text) => ({ file, text })))
].map(({ file, text }, index) => ({ name: `${index + 1}-${basename(file).replace(/\.\w+$/, "")}.ts`, file, text }))

const run = (program: string, args: ReadonlyArray<string>, cwd: string, settings: Record<string, string> = {}) =>
  Effect.callback<{ readonly code: number; readonly stdout: string; readonly stderr: string }>((resume) => {
    execFile(
      program,
      args,
      { cwd, env: settings, timeout: 300_000 },
      (error, stdout, stderr) =>
        resume(Effect.succeed({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }))
    )
  })

/** A project with this package and the other packages that examples may import. */
const project = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(join(tmpdir(), "payments-examples-"))
    const link = (target: string, name: string) => {
      mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true })
      symlinkSync(target, join(folder, "node_modules", name))
    }
    link(core, "@payments/core")
    for (const name of ["effect", "@effect/platform-node"]) link(join(core, "node_modules", name), name)
    link(join(root, "node_modules/@types/node"), "@types/node")
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }))
    const { compilerOptions } = JSON.parse(readFileSync(join(root, "tsconfig.base.json"), "utf8"))
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions: { ...compilerOptions, noEmit: true } })
    )
    for (const { name, text } of examples) writeFileSync(join(folder, name), text)
    return folder
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

describe("the examples of the docs and docstrings", () => {
  it.live("compile, run against the sandbox and print no error", () =>
    Effect.gen(function*() {
      assert.isAtLeast(examples.length, 7)
      const folder = yield* project
      const compiled = yield* run(join(core, "node_modules/.bin/tsc"), ["-p", folder], folder)
      assert.deepStrictEqual([compiled.stdout, compiled.code], ["", 0])
      const { url } = yield* Sandbox
      const settings = { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.value(sandboxKey) }
      let printed = ""
      for (const { file, name } of examples) {
        const { code, stderr, stdout } = yield* run(process.execPath, [name], folder, settings)
        assert.deepStrictEqual([code, stderr], [0, ""], `${file}\n${stdout}`)
        printed += stdout
      }
      // The output that the examples promise.
      assert.match(printed, /^paid invoices settled that day: \d+$/m)
      assert.include(printed, `${"100 records\n".repeat(3)}50 records\n`)
      assert.match(printed, /^payin-sources: limit must be .* Can resume: false\.\ncorrect the query: limit must be/m)
      assert.match(printed, /^. pass 2$/m)
      assert.match(printed, /^first of them: \w+$/m)
      assert.match(printed, /^Passed$/m)
    }).pipe(Effect.scoped, Effect.provide(Sandbox.layer({ records: 350 }))), 900_000)
})
