import { assert, describe, it } from "@effect/vitest"
import { globSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { promisify } from "node:util"
import { environment, execFile, execFileSync, removeMachineVariables, spawnSync } from "../src/TestProcess.ts"

const root = join(import.meta.dirname, "../../..")

const printed = `process.stdout.write(JSON.stringify(process.env))`

const names = (text: string) => Object.keys(JSON.parse(text)).filter((name) => name !== "NODE_COMPILE_CACHE").toSorted()

describe("a process of a test", () => {
  it("gets PATH, a home folder without settings and the variables of the test, and nothing of the machine", async () => {
    process.env["CANARY"] = "of the machine"
    try {
      const node = process.execPath
      const own = ["HOME", "PATH"]
      assert.deepStrictEqual(names(execFileSync(node, ["-e", printed], { encoding: "utf8" })), own)
      assert.deepStrictEqual(names(String(spawnSync(node, ["-e", printed]).stdout)), own)
      const { stdout } = await promisify(execFile)(node, ["-e", printed], { env: { A: "1" } })
      assert.deepStrictEqual(names(stdout), ["A", ...own])
      const called = await new Promise<string>((resolve) => {
        execFile(node, ["-e", printed], (_, out) => resolve(out))
      })
      assert.deepStrictEqual(names(called), own)
      assert.strictEqual(environment({ HOME: "/x" })["HOME"], "/x")
    } finally {
      delete process.env["CANARY"]
    }
  })

  it("is started only with these functions", () => {
    const files = globSync(["{packages,apps}/*/test/**/*.{ts,cjs}", "packages/testkit/src/**/*.{ts,cjs}"], {
      cwd: root
    })
    assert.isAbove(files.length, 200)
    const others = files.filter((file) =>
      !/^TestProcess\b/.test(basename(file)) &&
      // A type starts nothing.
      /^import (?!type ).*["'](node:)?child_process["']|(import|require)\(["'](node:)?child_process["']\)/m.test(
        readFileSync(join(root, file), "utf8")
      )
    )
    assert.deepStrictEqual(others, [])
  })
})

describe("the process that runs the tests", () => {
  it("has no variable of the machine that changes what the programs do", () => {
    process.env["TERM"] = "dumb"
    process.env["PAYMENTS_BASE_URL"] = "https://example.com"
    const before = process.env["PAYMENTS_SEED"]
    process.env["PAYMENTS_SEED"] = "1"
    removeMachineVariables()
    assert.deepStrictEqual(
      [process.env["TERM"], process.env["PAYMENTS_BASE_URL"], process.env["PAYMENTS_SEED"]],
      [undefined, undefined, "1"]
    )
    if (before === undefined) delete process.env["PAYMENTS_SEED"]
    else process.env["PAYMENTS_SEED"] = before
  })
})
